"""Which files a plan without a server must read: what the change touches, and all that hangs together with it.

Belongs here: finding them without parsing the rest. Does not: judging anything.

A file can only concern a resource if it holds the resource's name, letter for letter, so files are searched as bytes,
and only what holds a name is parsed. A text may also write a name with escapes or fold it; a file with either is read
always. What is read too much costs time and changes nothing.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from reconciler.git import file_selection
from reconciler.git.snapshots import Snapshot
from reconciler.git.trees import TreeChange, TreeFile
from reconciler.model import builtins, documents, positions
from reconciler.model.names import Key
from reconciler.planner import candidates
from reconciler.planner.candidates import Candidate, CandidateRules

NAME = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._-]*")  # at least what `resources.names` lets through
HIDING = re.compile(rb"\\[xuU\r\n]")  # escapes of YAML and JSON that may stand for a letter, and a folded line
FEW = 64  # names that are faster looked for one by one
CACHED_BYTES = 64 * 1024 * 1024  # of files kept between two rounds


@dataclass(frozen=True, slots=True)
class RelevantFiles:
    """The files to read, by path, None for all; `untouched` is how many other files count.

    `held` are the resources in these files, `missing` are those that they refer to and nobody has. `unsought` are those
    that only resources refer to which stand beside one that matters: whether somebody has them was not looked for.
    """

    only: frozenset[str] | None
    missing: frozenset[Key]
    unsought: frozenset[Key]
    held: frozenset[Key]
    untouched: int


def touches_rules(changes: Iterable[TreeChange]) -> bool:
    """Whether a file changed that says which others count."""
    return any(change.path.rpartition("/")[2] == file_selection.FILE_NAME for change in changes)


def find_relevant(
    base: Snapshot,
    merged: Snapshot,
    changes: Iterable[TreeChange],
    matter: Iterable[TreeFile],
    *,
    rules: CandidateRules,
) -> RelevantFiles:
    """What a change concerns. `matter` are the files of the merge that count. Raises GitFault."""
    files = {file.path: file.blob for file in matter if file.readable}
    search = _Search(merged, files, rules)
    changed = list(changes)
    for change in changed:
        if change.old_blob is not None:
            search.take(_parsed(base, change.path, change.old_blob, rules), seeds=True)
        search.include(change.path, seeds=True)
    search.spread()
    held = frozenset(search.held)
    known = held | builtins.built_in().keys()
    return RelevantFiles(
        only=frozenset(search.included | {change.path for change in changed}),
        missing=frozenset(search.named & search.sought) - known,
        unsought=frozenset(search.named - search.sought) - known,
        held=held,
        untouched=len(files.keys() - search.included),
    )


def every_file(
    base: Snapshot, before: Iterable[TreeFile], merged: Snapshot, matter: Iterable[TreeFile], *, rules: CandidateRules
) -> RelevantFiles:
    """The same when every file is read."""
    search = _Search(merged, {file.path: file.blob for file in matter if file.readable}, rules)
    old = {file.path: file.blob for file in before if file.readable}
    for path, blob in old.items():
        if search.files.get(path) != blob:
            search.take(_parsed(base, path, blob, rules), seeds=False)
    for path in search.files:
        search.include(path)
    search.connect()
    missing = frozenset(search.named - search.held - builtins.built_in().keys())
    return RelevantFiles(only=None, missing=missing, unsought=frozenset(), held=frozenset(search.held), untouched=0)


@dataclass(slots=True)
class _Search:
    """Rounds over the files that are not included yet, until no new name comes up.

    `touched` are resources that the change touches or that refer to such a one: whoever refers to them matters.
    `needed` are those that these refer to: whoever holds one matters.
    """

    merged: Snapshot
    files: Mapping[str, str]
    rules: CandidateRules
    included: set[str] = field(default_factory=set)
    held: set[Key] = field(default_factory=set)
    named: set[Key] = field(default_factory=set)
    touched: set[Key] = field(default_factory=set)
    needed: set[Key] = field(default_factory=set)
    sought: set[Key] = field(default_factory=set)
    ids: set[bytes] = field(default_factory=set)
    _documents: list[Candidate] = field(default_factory=list)
    _cache: dict[str, bytes] = field(default_factory=dict)
    _cached: int = 0

    def include(self, path: str, *, seeds: bool = False) -> None:
        """Read a file of the merge, if it counts."""
        if path in self.files and path not in self.included:
            self.included.add(path)
            self.take(_parsed(self.merged, path, self.files[path], self.rules), seeds=seeds)

    def take(self, found: Iterable[Candidate], *, seeds: bool) -> None:
        """Documents that were read. Of those that are `seeds` everything matters, of others what leads to these."""
        for one in found:
            if one.key is None:
                continue
            self.held.add(one.key)
            self._documents.append(one)
            if seeds:
                self.touched.add(one.key)
                if one.draft is not None and one.draft.proposed_id:
                    self.ids.add(one.draft.proposed_id.encode())

    def spread(self) -> None:
        """Read on until nothing new matters."""
        first = True
        while True:
            self.connect()
            fresh = (self.touched | self.needed) - self.sought
            if not fresh and not first:
                return
            self.sought |= fresh
            for path in list(self._matching(fresh, hiding=first)):
                self.include(path)
            first = False

    def connect(self) -> None:
        """Who refers to what the change touches is touched itself, and what such a one refers to is needed."""
        grows = True
        while grows:
            grows = False
            for one in self._documents:
                assert one.key is not None
                refers = frozenset() if one.draft is None else frozenset(one.draft.references)
                self.named |= refers
                if one.key not in self.touched and not refers.isdisjoint(self.touched):
                    self.touched.add(one.key)
                    grows = True
                if one.key in self.touched or one.key in self.needed:
                    fresh = refers - self.needed - builtins.RESERVED
                    self.needed |= fresh
                    grows = grows or bool(fresh)

    def _matching(self, keys: Iterable[Key], *, hiding: bool) -> Iterator[str]:
        """The files that may refer to one of these, or hold one; `hiding`: and those of which the bytes do not tell."""
        users = {key.name.encode() for key in keys if key in self.touched} | self.ids
        holders: dict[bytes, set[bytes]] = {}
        for key in keys:
            if key not in self.touched:
                holders.setdefault(key.name.encode(), set()).add(key.kind.encode())
        mentions = _mentioning(users | holders.keys())
        for path, blob in self.files.items():
            if path in self.included:
                continue
            data = self._read(path, blob)
            for name in mentions(data):
                if name in users or any(kind in data for kind in holders[name]):
                    yield path
                    break
            else:
                if hiding and HIDING.search(data):
                    yield path

    def _read(self, path: str, blob: str) -> bytes:
        data = self._cache.get(path)
        if data is None:
            data = _content(self.merged, blob)
            if self._cached + len(data) <= CACHED_BYTES:
                self._cached += len(data)
                self._cache[path] = data
        return data


def _mentioning(names: set[bytes]) -> Callable[[bytes], Iterable[bytes]]:
    """Which of the names a text holds as whole words."""
    few = list(names) if len(names) <= FEW else None

    def mentions(data: bytes) -> Iterable[bytes]:
        if few is not None and not any(name in data for name in few):
            return ()
        return names.intersection(NAME.findall(data))

    return mentions


def _parsed(snapshot: Snapshot, path: str, blob: str, rules: CandidateRules) -> tuple[Candidate, ...]:
    data = b"" if documents.syntax_of(path) is None else _content(snapshot, blob)
    return candidates.candidates_of_file(data, path=path, rules=rules) or () if data else ()


def _content(snapshot: Snapshot, blob: str) -> bytes:
    """A file's bytes; none of one that is too large to be read, which is told elsewhere."""
    return (
        snapshot.read(blob, positions.FILE_LIMITS.bytes) if snapshot.size(blob) <= positions.FILE_LIMITS.bytes else b""
    )
