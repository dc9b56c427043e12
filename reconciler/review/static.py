"""A plan without a server."""

import os
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from msgspec.structs import replace as replace_struct

from reconciler.git import file_selection
from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.file_selection import FileGlobs
from reconciler.git.merging import Merged
from reconciler.git.snapshots import Snapshot
from reconciler.git.trees import TreeChange, TreeFile
from reconciler.model import builtins, desired, documents, positions
from reconciler.model.clock import rfc3339
from reconciler.model.desired import Desired, DocumentRules
from reconciler.model.names import Key
from reconciler.model.plan import PlanEntry
from reconciler.store.records import Changes, Record, RepositoryRow
from reconciler.store.scratch import ScratchStore, open_scratch
from reconciler.worker import commits, reviews, trees
from reconciler.worker.commits import PlanMode
from reconciler.worker.messages import CommitJob, Context
from reconciler.worker.trees import Allowance, FileScope

# The store of one plan, filled from the base.

SEED_BYTES = 16


@dataclass(frozen=True, slots=True)
class BaseStore:
    """A store that holds what the base holds, as if a service had stored it long ago."""

    store: ScratchStore
    rules: DocumentRules
    now: datetime
    refuse_unknown: bool

    def context(self, project: str) -> Context:
        """Return what a plan in this store is told; the project is made."""
        at = rfc3339(self.now)
        self.store.create_project(project, at=at)
        return Context(
            store=self.store.address,
            project=project,
            hmac_key=self.rules.hmac_key,
            api_versions=self.rules.api_versions,
            refuse_unknown=self.refuse_unknown,
            at=at,
            milliseconds=int(self.now.timestamp() * 1000),
            seed=os.urandom(SEED_BYTES),
        )

    def apply(self, job: CommitJob, snapshot: Snapshot, *, terms: PlanMode) -> None:
        """Store what a commit holds. Raises GitFault, StoreFault."""
        parts: list[Changes] = []
        planned = commits.plan_snapshot(
            job,
            snapshot,
            self.store.view,
            number=0,
            emit=parts.append,
            allowance=Allowance(),
            terms=replace(terms, lenient=True),
        )
        row = RepositoryRow(
            name=job.repository,
            project=job.context.project,
            fingerprint="",
            commit=job.commit,
            tree=planned.tree,
            head=job.commit,
            state=RepositoryState.READY.value,
            message=None,
            since=job.context.at,
            origin=job.origin,
        )
        record = Record(repository=row, forget_files_of=job.repository)
        self.store.commit(parts, record=record)


# Which files a plan without a server must read: what the change touches, and all that hangs together with it.
#
# A file can only concern a resource if it holds the resource's name, letter for letter, so files are searched as bytes,
# and only what holds a name is parsed. A text may also write a name with escapes or fold it; a file with either is read
# always. What is read too much costs time and changes nothing.

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
    rules: DocumentRules,
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
    base: Snapshot, before: Iterable[TreeFile], merged: Snapshot, matter: Iterable[TreeFile], *, rules: DocumentRules
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
    rules: DocumentRules
    included: set[str] = field(default_factory=set)
    held: set[Key] = field(default_factory=set)
    named: set[Key] = field(default_factory=set)
    touched: set[Key] = field(default_factory=set)
    needed: set[Key] = field(default_factory=set)
    sought: set[Key] = field(default_factory=set)
    ids: set[bytes] = field(default_factory=set)
    _documents: list[Desired] = field(default_factory=list)
    _cache: dict[str, bytes] = field(default_factory=dict)
    _cached: int = 0

    def include(self, path: str, *, seeds: bool = False) -> None:
        """Read a file of the merge, if it counts."""
        if path in self.files and path not in self.included:
            self.included.add(path)
            self.take(_parsed(self.merged, path, self.files[path], self.rules), seeds=seeds)

    def take(self, found: Iterable[Desired], *, seeds: bool) -> None:
        """Documents that were read. Of those that are `seeds` everything matters, of others what leads to these."""
        for one in found:
            if one.key is None:
                continue
            self.held.add(one.key)
            self._documents.append(one)
            if seeds:
                self.touched.add(one.key)
                if one.proposed_id:
                    self.ids.add(one.proposed_id.encode())

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
                refers = frozenset(one.references)
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


def _parsed(snapshot: Snapshot, path: str, blob: str, rules: DocumentRules) -> tuple[Desired, ...]:
    data = b"" if documents.syntax_of(path) is None else _content(snapshot, blob)
    return desired.read_file(data, path=path, rules=rules) or () if data else ()


def _content(snapshot: Snapshot, blob: str) -> bytes:
    """A file's bytes; none of one that is too large to be read, which is told elsewhere."""
    return (
        snapshot.read(blob, positions.FILE_LIMITS.bytes) if snapshot.size(blob) <= positions.FILE_LIMITS.bytes else b""
    )


# A plan without a server: the base's tree stands for what is stored, and the merge is planned against it.

UNBOUNDED = 2**31
EVERYTHING = ("*",)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntrySettings:
    """One entry of the settings, as far as a plan depends on it."""

    name: str
    project: str = "default"
    path: str = ""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    allowed_kinds: tuple[str, ...] = EVERYTHING
    allowed_names: tuple[str, ...] = EVERYTHING
    prune: bool = True
    prune_min_count: int = 3
    prune_max_percent: int = 25
    atomic: bool = False
    accept_invalid: bool = False


@dataclass(frozen=True, slots=True)
class StaticOptions:
    """`strict`: a reference that leads nowhere is refused. `whole`: every file is read, so that guards of deletions are
    judged too. `refuse_unknown`: the setting `resources.unknownParameters` is `refuse`.
    """

    strict: bool = False
    whole: bool = False
    refuse_unknown: bool = False


def plan_static(
    merged: Merged,
    entries: Sequence[EntrySettings],
    *,
    api_versions: frozenset[str],
    now: datetime,
    options: StaticOptions,
) -> tuple[PlanEntry, ...]:
    """The plan of each entry, in order. Raises GitFault, Refused."""
    with open_scratch() as opened:
        rules = DocumentRules(api_versions=api_versions, hmac_key=opened.hmac_key)
        scratch = BaseStore(opened, rules, now, options.refuse_unknown)
        run = _Run(merged, scratch, options)
        found = [(entry, run.relevant(entry)) for entry in entries]
        held: dict[str, frozenset[Key]] = defaultdict(frozenset)
        for entry, relevant in found:
            held[entry.project] |= relevant.held
        judged = [(entry, relevant, run.terms(relevant, held[entry.project])) for entry, relevant in found]
        for entry, _, terms in judged:
            scratch.apply(run.job(entry, merged.base), merged.base, terms=terms)
        return tuple(run.planned(entry, relevant, terms) for entry, relevant, terms in judged)


@dataclass(frozen=True, slots=True)
class _Run:
    merged: Merged
    scratch: BaseStore
    options: StaticOptions

    def relevant(self, entry: EntrySettings) -> RelevantFiles:
        """What of the repository a plan of this entry must read."""
        rules = self.scratch.rules
        scope = self._scope(entry, rules)
        changes = self.merged.changes(entry.path)
        matter = _files(self.merged.merged, scope)
        before = _files(self.merged.base, scope)
        if self.options.whole or touches_rules(changes):
            return every_file(self.merged.base, before, self.merged.merged, matter, rules=rules)
        # What a file held that did not count, nobody had.
        counted = {file.path for file in before}
        changes = [one if one.path in counted else one._replace(old_blob=None) for one in changes]
        return find_relevant(self.merged.base, self.merged.merged, changes, matter, rules=rules)

    def terms(self, relevant: RelevantFiles, held: Collection[Key]) -> PlanMode:
        """Without a server, what nobody has may be there all the same; what another entry of the project has, is."""
        elsewhere = frozenset(held) - relevant.held
        assumed = relevant.missing & elsewhere if self.options.strict else relevant.missing
        return PlanMode(
            only=relevant.only, assumed=assumed | relevant.unsought, live=False, elsewhere=relevant.untouched
        )

    def job(self, entry: EntrySettings, commit: Snapshot) -> CommitJob:
        """How the entry is read. Guards of deletions need the whole tree."""
        whole = self.options.whole
        return CommitJob(
            context=self.scratch.context(entry.project),
            repository=entry.name,
            mirror="",
            commit=commit.commit.id,
            branch="",
            path=entry.path,
            run=entry.name,
            full=True,
            prune=entry.prune,
            prune_min_count=entry.prune_min_count if whole else UNBOUNDED,
            prune_max_percent=entry.prune_max_percent if whole else 100,
            atomic=entry.atomic,
            allowed_kinds=entry.allowed_kinds,
            allowed_names=entry.allowed_names,
            accept_invalid=entry.accept_invalid,
            include=entry.include,
            exclude=entry.exclude,
            origin="",
            neighbours=(),
        )

    def planned(self, entry: EntrySettings, relevant: RelevantFiles, terms: PlanMode) -> PlanEntry:
        """What merging would do with the entry."""
        job = self.job(entry, self.merged.base)
        reviewed = reviews.review(job, self.merged, self.scratch.store.view, allowance=Allowance(), terms=terms)
        return replace_struct(reviewed.entry, untouched_files=relevant.untouched)

    def _scope(self, entry: EntrySettings, rules: DocumentRules) -> FileScope:
        return FileScope(
            repository=entry.name,
            project=entry.project,
            folder=entry.path,
            rules=rules,
            allowance=Allowance(),
            globs=FileGlobs(include=entry.include, exclude=entry.exclude, root=entry.path),
        )


def _files(snapshot: Snapshot, scope: FileScope) -> list[TreeFile]:
    """The files that count, of which no more may be than the service reads of a commit: each is searched here."""
    try:
        found = trees.considered(snapshot, scope=scope)
    except GitFault as fault:
        if fault.state is not RepositoryState.PATH_MISSING:
            raise
        return []
    scope.allowance.known(sum(trees.file_size(file, snapshot) for file in found), files=len(found))
    return found
