"""Where a line of a merged file stands in the head's own file, to which a forge attaches what is said of it.

The two are the same file unless both sides changed it. Belongs here: lines of one version in another. Does not: places
of values (`fields`).
"""

import bisect
import re
from collections import Counter
from collections.abc import Sequence

from reconciler.git.merging import Merged
from reconciler.git.snapshots import Snapshot
from reconciler.model import positions
from reconciler.model.plan import PlanPlace

MOST_LINES = 20_000  # of a file; of a longer one places are those of the merge


class HeadLines:
    """The lines of one merge. Keeps those of the last file, since statuses come file by file."""

    def __init__(self, merged: Merged) -> None:
        self._merged = merged
        self._differing: frozenset[str] | None = None  # files that are not the head's
        self._path: str | None = None
        self._lines: dict[int, int] | None = None  # None: the same

    def place(self, place: PlanPlace) -> PlanPlace:
        """The place in the head; a line that only the base has stays as it is."""
        lines = self._of(place.path)
        if lines is None:
            return place
        return PlanPlace(path=place.path, line=lines.get(place.line, place.line), column=place.column)

    def reason(self, text: str, path: str) -> str:
        """The same for the places that begin the lines of a reason."""
        lines = self._of(path)
        if lines is None:
            return text
        return re.sub(
            rf"^({re.escape(path)}:)([0-9]+)(?=:)",
            lambda found: f"{found[1]}{lines.get(int(found[2]), int(found[2]))}",
            text,
            flags=re.MULTILINE,
        )

    def _of(self, path: str) -> dict[int, int] | None:
        if path != self._path:
            self._path, self._lines = path, self._matched(path)
        return self._lines

    def _is_of_head(self, path: str) -> bool:
        if self._differing is None:
            merged, head = self._merged.merged, self._merged.head
            self._differing = frozenset(one.path for one in merged.changes(head.tree(""), merged.tree(""), ""))
        return path not in self._differing

    def _matched(self, path: str) -> dict[int, int] | None:
        if self._is_of_head(path):
            return None
        old, new = self._merged.merged.blob(path), self._merged.head.blob(path)
        if old is None or new is None or old == new:
            return None
        ours, theirs = _lines(self._merged.merged, old), _lines(self._merged.head, new)
        if max(len(ours), len(theirs)) > MOST_LINES:
            return None
        return {one + 1: other + 1 for one, other in matching_lines(ours, theirs).items()}


def matching_lines(ours: Sequence[bytes], theirs: Sequence[bytes]) -> dict[int, int]:
    """Which line of one text is which of another, both counted from 0, in order.

    Lines that occur once in each text are matched, and equal ones beside these, before and behind. It takes time as the
    lines are many, whatever they hold: they are those of whoever proposes.
    """
    found: dict[int, int] = {}
    first = (0, 0)
    for anchor in [*_anchors(ours, theirs), (len(ours), len(theirs))]:
        found |= _equal_between(ours, theirs, first, anchor)
        if anchor[0] < len(ours):
            found[anchor[0]] = anchor[1]
        first = anchor[0] + 1, anchor[1] + 1
    return found


def _equal_between(
    ours: Sequence[bytes], theirs: Sequence[bytes], first: tuple[int, int], end: tuple[int, int]
) -> dict[int, int]:
    """Equal lines from the first ones on, and from the last ones back."""
    found: dict[int, int] = {}
    (one, other), (last, other_last) = first, end
    while one < last and other < other_last and ours[one] == theirs[other]:
        found[one] = other
        one, other = one + 1, other + 1
    while one < last and other < other_last and ours[last - 1] == theirs[other_last - 1]:
        last, other_last = last - 1, other_last - 1
        found[last] = other_last
    return found


def _anchors(ours: Sequence[bytes], theirs: Sequence[bytes]) -> list[tuple[int, int]]:
    """As many as possible of the lines that occur once in each text, in the order of both."""
    where = _once(theirs)
    pairs = [(one, where[line]) for line, one in _once(ours).items() if line in where]
    ends: list[int] = []  # of the best chain of each length, its last line in theirs
    chains: list[tuple[tuple[int, int], int | None]] = []
    latest: list[int] = []  # the chain that `ends` tells of
    for one, other in pairs:
        length = bisect.bisect_left(ends, other)
        chains.append(((one, other), latest[length - 1] if length else None))
        ends[length : length + 1] = [other]
        latest[length : length + 1] = [len(chains) - 1]
    found = []
    at = latest[-1] if latest else None
    while at is not None:
        pair, at = chains[at]
        found.append(pair)
    return found[::-1]


def _once(lines: Sequence[bytes]) -> dict[bytes, int]:
    """The lines that occur once, and where, in order."""
    counts = Counter(lines)
    return {line: number for number, line in enumerate(lines) if counts[line] == 1}


def _lines(snapshot: Snapshot, blob: str) -> list[bytes]:
    if snapshot.size(blob) > positions.FILE_LIMITS.bytes:
        return []
    return snapshot.read(blob, positions.FILE_LIMITS.bytes).split(b"\n", MOST_LINES + 1)
