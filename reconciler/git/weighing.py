"""Whether three trees may be merged: libgit2 reads what a merge needs whole, and knows no limits.

Pure but for what it asks a snapshot: folders, and the sizes of files. Sizes, counts and depths are those of whoever
may push. Who merges is `merging`.
"""

from collections.abc import Iterable
from typing import TypeAlias

from reconciler.git import trees
from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.snapshots import Snapshot
from reconciler.git.trees import Raw
from reconciler.model.errors import Refused

MAX_FILE_BYTES = 32 << 20  # 32 MiB, of a file that both sides change; a document may have 5
MAX_FILE_LINES = 2_000_000  # of such a file: merging takes about 100 bytes for a line, however short it is
MAX_BYTES = 256 << 20  # 256 MiB, of all versions of all files that both sides change: what is made of them stays
MAX_RENAMED_BYTES = 64 << 20  # 64 MiB, of a file that may have been renamed: it is read, to be compared with others
MAX_RENAMED_BYTES_IN_ALL = 256 << 20  # 256 MiB, of all of these: libgit2 takes a second for 64 MiB

Files: TypeAlias = dict[bytes, tuple[str, str]]
"""By path the file's id before and after; '' where there is none."""


def check_weight(snapshot: Snapshot, base: str, sides: tuple[str, str]) -> bool:
    """Raise GitFault or Refused unless two trees, which come from `base`, can be merged within limits.

    The answer is whether renamed files may be looked for. All objects are read by way of the snapshot.
    """
    seen: dict[str, tuple[int, int]] = {}
    for tree in (base, *sides):
        _measure(snapshot, tree, seen)
    ours, theirs = (differences(snapshot, base, side) for side in sides)
    _check_both(snapshot, ours, theirs)
    return all(_may_be_renamed(snapshot, side) for side in (ours, theirs))


def differences(snapshot: Snapshot, old: str, new: str, prefix: bytes = b"") -> Files:
    """The files that differ between two trees; equal folders are not entered, and modes alone make no difference."""
    before, after = _folder(snapshot, old), _folder(snapshot, new)
    found: Files = {}
    for name in sorted(before.keys() | after.keys()):
        one, other = before.get(name), after.get(name)
        if one == other:
            continue
        old_file, old_tree = _parts(one)
        new_file, new_tree = _parts(other)
        if old_file != new_file:
            found[prefix + name] = (old_file, new_file)
        if old_tree != new_tree:
            found |= differences(snapshot, old_tree, new_tree, prefix + name + b"/")
    return found


def _folder(snapshot: Snapshot, tree: str) -> dict[bytes, Raw]:
    return {raw[1]: raw for raw in snapshot.raw(tree)} if tree else {}


def _parts(raw: Raw | None) -> tuple[str, str]:
    """The ids of the file and of the folder that an entry is, of which at most one is there; a submodule is neither."""
    kind = _kind(raw)
    named = raw[2].hex() if raw else ""
    return ("" if kind in {trees.FOLDER, trees.SUBMODULE} else named), (named if kind == trees.FOLDER else "")


def _kind(raw: Raw | None) -> int:
    return int(raw[0], 8) & trees.KIND if raw else 0


def _measure(snapshot: Snapshot, tree: str, seen: dict[str, tuple[int, int]], above: int = 0) -> tuple[int, int]:
    """How many entries a tree has, and how many folders deep it is. One that occurs often is counted as often, but
    read once.
    """
    if tree in seen:
        entries, depth = seen[tree]
    else:
        raws = snapshot.raw(tree)
        trees.check_size(len(raws), above)
        _check_names([name for _, name, _ in raws])
        below = [_measure(snapshot, raw[2].hex(), seen, above + 1) for raw in raws if _kind(raw) == trees.FOLDER]
        entries = len(raws) + sum(entries for entries, _ in below)
        depth = 1 + max((depth for _, depth in below), default=0)
        seen[tree] = entries, depth
    trees.check_size(entries, above + depth - 1)
    return entries, depth


def _check_names(names: list[bytes]) -> None:
    """Refuse names that a merge would take for others: a stored name may hold a slash, and occur twice."""
    if len(set(names)) < len(names) or b"/" in b"".join(names):
        raise not_allowed()


def not_allowed() -> GitFault:
    """What to raise when a tree has names that git does not allow; such trees are not made by git."""
    return GitFault(
        RepositoryState.UNSUPPORTED_FORMAT, "a tree holds a name that Git does not allow, or holds one twice; remove it"
    )


def _check_both(snapshot: Snapshot, ours: Files, theirs: Files) -> None:
    left = MAX_BYTES
    for path in sorted(ours.keys() & theirs.keys()):
        if ours[path][1] == theirs[path][1]:
            continue
        for blob in filter(None, (*ours[path], theirs[path][1])):
            size = snapshot.size(blob)
            left -= size
            if size > MAX_FILE_BYTES or left < 0 or _lines(snapshot, blob) > MAX_FILE_LINES:
                raise Refused(
                    f"both sides change {trees.escaped_path(path)}, and it is too large to be merged here; "
                    "merge the base into the head with git"
                )


def _lines(snapshot: Snapshot, blob: str) -> int:
    """The lines of a file; 0 when they cannot be too many."""
    size = snapshot.size(blob)
    return 0 if size <= MAX_FILE_LINES else snapshot.read(blob, size).count(b"\n")


def _may_be_renamed(snapshot: Snapshot, files: Files) -> bool:
    came = [new for old, new in files.values() if not old]
    went = [old for old, new in files.values() if not new]
    return not came or not went or not _are_large(snapshot, (*came, *went))


def _are_large(snapshot: Snapshot, blobs: Iterable[str]) -> bool:
    sizes = [snapshot.size(blob) for blob in blobs]
    return max(sizes) > MAX_RENAMED_BYTES or sum(sizes) > MAX_RENAMED_BYTES_IN_ALL
