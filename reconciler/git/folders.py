"""Folders as they are stored, kept for a moment: a plan looks at the same few again and again.

Belongs here: how many bytes are kept, and for how long. Does not: reading them (`snapshots`), what they mean (`trees`).
"""

from collections.abc import Callable

MAX_BYTES = 16 << 20  # 16 MiB, of all that one snapshot keeps
LARGE_BYTES, MAX_LARGE_BYTES = 1 << 20, 8 << 20  # of the one folder that outlives its snapshot: some 160,000 names


class FolderCache:
    """What one snapshot has read, by id."""

    # The large folder that was read last, by any snapshot: most often the next commit is compared with it. Its id says
    # what it is, wherever it came from; another thread may put another one in its place at any moment.
    _last: tuple[str, bytes] = ("", b"")

    def __init__(self) -> None:
        self._known: dict[str, bytes] = {}
        self._bytes = 0

    def get(self, tree: str, read: Callable[[str], bytes]) -> bytes:
        """A folder as it is stored; by `read`, when it is not known. Raises what `read` raises."""
        known = self._known.get(tree)
        if known is None:
            known = _last_or_read(tree, read)
            if self._bytes + len(known) > MAX_BYTES:
                self._known.clear()
                self._bytes = 0
            self._known[tree] = known
            self._bytes += len(known)
        return known


def _last_or_read(tree: str, read: Callable[[str], bytes]) -> bytes:
    last, known = FolderCache._last
    if last == tree:
        return known
    found = read(tree)
    if LARGE_BYTES <= len(found) <= MAX_LARGE_BYTES:
        FolderCache._last = tree, found
    return found
