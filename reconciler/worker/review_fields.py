"""The fields of one resource that a merge changes, and their lines in the head's own file.

A forge attaches comments to lines of the head. The merged file is the same file unless both sides changed it.
"""

import bisect
import re
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from itertools import islice

from msgspec import UNSET, UnsetType

from reconciler.git.merging import Merged
from reconciler.git.snapshots import Snapshot
from reconciler.model import (
    components,
    diffs,
    masking,
    names,
    plan,
    positions,
    resource,
    values,
)
from reconciler.model.desired import Desired
from reconciler.model.names import Key
from reconciler.model.outcomes import Change, Outcome
from reconciler.model.plan import CutText, NamedResource, PlanDifference, PlanField, PlanPlace
from reconciler.model.values import Pointer, Value
from reconciler.planner import stored
from reconciler.planner.decisions import WRITING, Decided
from reconciler.planner.stored import StoreSnapshot
from reconciler.store.contract import Damaged
from reconciler.store.records import StoredDocument
from reconciler.worker.trees import FileLocations

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
    """Return which line of one text is which of another, both counted from 0, in order.

    Lines that occur once in each text are matched, and equal ones beside these, before and behind. The time is linear
    in the number of lines, whatever is in them: strangers write them.
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
    """Match equal lines from the first ones on, and from the last ones back."""
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
    """Match as many as possible of the lines that occur once in each text, in the order of both."""
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
    """Return the lines that occur once, and where, in order."""
    counts = Counter(lines)
    return {line: number for number, line in enumerate(lines) if counts[line] == 1}


def _lines(snapshot: Snapshot, blob: str) -> list[bytes]:
    if snapshot.size(blob) > positions.FILE_LIMITS.bytes:
        return []
    return snapshot.read(blob, positions.FILE_LIMITS.bytes).split(b"\n", MOST_LINES + 1)


BATCH = 250  # stored resources that are in memory at a time


class PlanFields:
    """The fields of all resources that one decision updates; used inside the decision's snapshot.

    `base` are the documents of the base in files that the change touches, and `unchanged` the resources in others: a
    secret in one of these is no guess. Without both, nothing is a guess.
    """

    def __init__(
        self,
        decided: Decided,
        world: StoreSnapshot,
        merged: Merged,
        *,
        locations: FileLocations,
        base: Mapping[Key, Desired] | None,
        unchanged: Set[Key],
    ) -> None:
        self._decided = decided
        self._world = world
        self._locations = locations
        self.lines = HeadLines(merged)
        self._base = base
        self._unchanged = unchanged
        self._waiting = [one.key for one in decided.outcomes if one.change is Change.UPDATE and one.key is not None]
        self._stored: dict[Key, StoredDocument] = {}

    def of(self, outcome: Outcome) -> tuple[tuple[PlanField, ...], int]:
        """Return the fields that differ from the stored version, and how many more do; none of one that is damaged."""
        if outcome.change is not Change.UPDATE:
            return (), 0
        assert outcome.key is not None
        assert outcome.ordinal is not None
        document = self._document(outcome.key)
        if document is None:
            return (), 0
        desired = self._decided.documents[outcome.ordinal]
        with suppress(Damaged):
            found = self._differences(outcome.key, outcome.ordinal, document)
            shown = tuple(self._field(one, desired) for one in islice(found, plan.MOST_FIELDS))
            return shown, sum(1 for _ in found)
        return (), 0

    def unresolved(self, outcome: Outcome, assumed: Set[Key]) -> tuple[NamedResource, ...]:
        """The references of what is stored anew that lead to what is only assumed to be there."""
        if outcome.change not in WRITING or outcome.ordinal is None or not assumed:
            return ()
        desired = self._decided.documents[outcome.ordinal]
        if assumed.isdisjoint(desired.references):
            return ()
        found = [one for one in components.references(desired.document()) if one.key in assumed]
        # The value of a parameter is not repeated: it may be a secret.
        return tuple(
            NamedResource(
                kind=one.kind,
                name=plan.SENSITIVE if one.pointer[-1] == "value" else one.name,
                at=self._place(desired, one.pointer),
            )
            for one in found
        )

    def _place(self, desired: Desired, pointer: Pointer) -> PlanPlace | None:
        locations = self._locations.of(desired)
        if locations is None or desired.place is None:
            return None
        position = locations.of(desired.position, pointer)
        return self.lines.place(PlanPlace(path=desired.place.path, line=position.line, column=position.column))

    def _document(self, key: Key) -> StoredDocument | None:
        """The stored version, which is read together with those that are asked for next."""
        if key not in self._stored and key in self._waiting:
            first = self._waiting.index(key)
            batch, self._waiting = self._waiting[first : first + BATCH], self._waiting[first + BATCH :]
            self._stored = self._world.view.documents(self._world.project, batch)
        return self._stored.pop(key, None)

    def _differences(self, key: Key, ordinal: int, document: StoredDocument) -> Iterator[diffs.Differing]:
        new, new_secrets = self._decided.documents[ordinal].document(), dict(self._decided.fits[key].secrets)
        if self._base is not None and key not in self._unchanged:
            other = _hidden(new_secrets, self._base.get(key))
            new, new_secrets = values.replaced(new, other), new_secrets | other
        return diffs.differences(
            resource.without_absent(
                stored.without_servers(stored.document_in_clear(key, document)),
                names.exact_kind(key.kind),
            ),
            new,
            old_secrets=stored.held_secrets(key, document),
            new_secrets=new_secrets,
        )

    def _field(self, one: diffs.Differing, desired: Desired) -> PlanField:
        return PlanField(
            path=one.path,
            difference=PlanDifference(one.difference.value),
            old=_shown(one.old),
            new=_shown(one.new),
            at=None if one.new_pointer is None else self._place(desired, one.new_pointer),
            sensitive=one.sensitive,
        )


def _hidden(found: Mapping[Pointer, Value], base: Desired | None) -> dict[Pointer, Value]:
    """Replace every secret that the caller cannot have read in the base, so that it counts as changed."""
    before = None if base is None or not base.owned else base.document()
    return {
        pointer: secrets.token_hex()
        for pointer, value in found.items()
        if before is None or not _holds(before, pointer, value)
    }


def _holds(document: dict[str, Value], pointer: Pointer, value: Value) -> bool:
    with suppress(LookupError):
        return masking.is_same_secret(values.value_at(document, pointer), value)
    return False


def _shown(value: Value | UnsetType) -> object:
    if isinstance(value, UnsetType):
        return UNSET
    shown = diffs.cut_value(value, most=plan.MOST_VALUE_BYTES)
    return CutText(begins=shown.begins, bytes=shown.bytes) if isinstance(shown, diffs.CutValue) else shown
