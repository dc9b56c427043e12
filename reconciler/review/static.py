"""A plan without a server: the base's tree stands for the stored resources, and the merge is planned against it.

A plan reads the files that the change touches, those that refer to them and those that they refer to. A file can only
concern a resource if it contains the resource's name, so files are searched as bytes, and only files with a name are
parsed. A text may also write a name with escapes or fold it, so a file with either is always read. Reading too many
files only costs time.
"""

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from msgspec import structs

from reconciler.git import file_selection
from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.merging import Merged
from reconciler.git.snapshots import Snapshot
from reconciler.git.trees import TreeChange, TreeFile
from reconciler.model import builtins, desired, documents, positions
from reconciler.model.clock import rfc3339
from reconciler.model.desired import Desired, DocumentRules
from reconciler.model.names import Key
from reconciler.model.plan import PlanEntry
from reconciler.model.repository_rules import RepositoryRules
from reconciler.model.secret_references import DEFAULT_PATTERNS, secrets_elsewhere
from reconciler.planner import heads
from reconciler.store.engines import ScratchStore, open_scratch
from reconciler.store.records import Changes, Record
from reconciler.store.repository_records import RepositoryRow
from reconciler.worker import commits, reviews, trees
from reconciler.worker.commits import CommitReading, PlanMode
from reconciler.worker.messages import CommitJob, Context
from reconciler.worker.trees import Allowance, FileScope

SEED_BYTES = 16
UNBOUNDED = 2**31
NAME = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._-]*")  # at least what `model.names` allows
HIDING = re.compile(rb"\\[xuU\r\n]")  # escapes of YAML and JSON that may stand for a letter, and a folded line
FEW = 64  # names that are faster to search for one by one


class EntrySettings(RepositoryRules, frozen=True, kw_only=True):
    """The settings of a repository that a plan depends on."""

    project: str = "default"
    link: str = ""  # the address of a line at the forge


@dataclass(frozen=True, slots=True)
class StaticOptions:
    """`strict`: a reference to a missing resource is refused. `whole`: every file is read, so that guards of deletions
    are judged too. `refuse_unknown`: the setting `resources.unknownParameters` is `refuse`. `secrets`: `secrets.env`.
    """

    strict: bool = False
    whole: bool = False
    refuse_unknown: bool = False
    secrets: tuple[str, ...] = DEFAULT_PATTERNS


@dataclass(frozen=True, slots=True)
class RelevantFiles:
    """The files to read, by path, None for all.

    `held` are the resources in these files, `missing` are those that they refer to and no file has. `unsought` are
    referenced resources whose files were not searched, because only resources refer to them that do not matter
    themselves.
    """

    only: frozenset[str] | None
    missing: frozenset[Key]
    unsought: frozenset[Key]
    held: frozenset[Key]


def plan_static(
    merged: Merged,
    entries: Sequence[EntrySettings],
    *,
    api_versions: frozenset[str],
    now: datetime,
    options: StaticOptions,
) -> tuple[PlanEntry, ...]:
    """Return the plan of each entry, in order; those of one project are judged together. Raises GitFault, Refused."""
    projects: defaultdict[str, list[EntrySettings]] = defaultdict(list)
    for entry in entries:
        projects[entry.project].append(entry)
    planned: dict[str, PlanEntry] = {}
    with open_scratch() as store:
        rules = DocumentRules(api_versions=api_versions, hmac_key=store.hmac_key)
        for project, together in projects.items():
            context = _context(store, project, rules, now=now, options=options)
            for plan in _plan_project(store, merged, together, context, options=options):
                planned[plan.name] = plan
    return tuple(structs.replace(planned[entry.name], link=entry.link) for entry in entries)


def _plan_project(
    store: ScratchStore,
    merged: Merged,
    entries: Sequence[EntrySettings],
    context: Context,
    *,
    options: StaticOptions,
) -> Iterator[PlanEntry]:
    rules = DocumentRules(api_versions=context.api_versions, hmac_key=context.hmac_key)
    files = [_files(merged.merged, entry, rules) for entry in entries]
    relevant = _relevant(merged, entries, files, rules, is_whole=options.whole)
    # Without a server, a missing resource may exist nevertheless.
    assumed = relevant.unsought if options.strict else relevant.missing | relevant.unsought
    untouched = [
        0 if relevant.only is None else sum(file.readable and file.path not in relevant.only for file in each)
        for each in files
    ]
    modes = [PlanMode(only=relevant.only, assumed=assumed, live=False, elsewhere=number) for number in untouched]
    jobs = [_job(entry, context, merged.base, is_whole=options.whole) for entry in entries]
    _store_base(store, jobs, merged.base, modes)
    for entry, number in zip(reviews.review_together(jobs, merged, store.view, modes=modes), untouched, strict=True):
        yield structs.replace(entry, untouched_files=number)


def _context(
    store: ScratchStore, project: str, rules: DocumentRules, *, now: datetime, options: StaticOptions
) -> Context:
    """Make the project in the store and return the context of its plans."""
    at = rfc3339(now)
    store.create_project(project, at=at)
    return Context(
        store=store.address,
        project=project,
        hmac_key=rules.hmac_key,
        api_versions=rules.api_versions,
        refuse_unknown=options.refuse_unknown,
        secrets=secrets_elsewhere(options.secrets, project),
        at=at,
        milliseconds=int(now.timestamp() * 1000),
        seed=os.urandom(SEED_BYTES),
    )


def _job(entry: EntrySettings, context: Context, commit: Snapshot, *, is_whole: bool) -> CommitJob:
    """Return the job that reads the entry. Guards of deletions need the whole tree."""
    return CommitJob(
        context=structs.replace(context, seed=os.urandom(SEED_BYTES)),
        rules=entry if is_whole else structs.replace(entry, prune_min_count=UNBOUNDED, prune_max_percent=100),
        mirror="",
        commit=commit.commit.id,
        branch="",
        run=entry.name,
        full=True,
        origin="",
        neighbours=(),
    )


def _store_base(store: ScratchStore, jobs: Sequence[CommitJob], base: Snapshot, modes: Sequence[PlanMode]) -> None:
    """Store the base, as if a service had stored it long ago. Raises GitFault, StoreFault."""
    view = store.view
    read = []
    with view.snapshot():
        for job, mode in zip(jobs, modes, strict=True):
            commit = CommitReading(job, base, view, allowance=Allowance(), mode=replace(mode, lenient=True))
            read.append((commit, commit.read(), commit.store_snapshot()))
        snapshot = read[0][2]
        decided = heads.judge_heads([commit.head(reading, snapshot) for commit, reading, snapshot in read], snapshot)
    for (commit, _, snapshot), decision in zip(read, decided, strict=True):
        parts: list[Changes] = []
        # The other documents are stored meanwhile, and it was judged together with them.
        with view.snapshot():
            planned = commits.write_commits([commit], [decision], snapshot, changed_by={}, emit=parts.append)
        row = RepositoryRow(
            name=commit.rules.name,
            project=snapshot.project,
            fingerprint="",
            commit=commit.job.commit,
            tree=planned.tree,
            head=commit.job.commit,
            state=RepositoryState.READY.value,
            message=None,
            since=snapshot.at,
            origin=commit.job.origin,
        )
        store.commit(parts, record=Record(repository=row, forget_files_of=commit.rules.name))


def _relevant(
    merged: Merged,
    entries: Sequence[EntrySettings],
    files: Sequence[Sequence[TreeFile]],
    rules: DocumentRules,
    *,
    is_whole: bool,
) -> RelevantFiles:
    """Return the files that a plan of these entries must read; `files` are those of the merge."""
    changes = {change.path: change for entry in entries for change in merged.changes(entry.path)}
    matter = {file.path: file for each in files for file in each}
    before = {file.path: file for entry in entries for file in _files(merged.base, entry, rules)}
    if is_whole or any(path.rpartition("/")[2] == file_selection.FILE_NAME for path in changes):
        # A change of the rules for considered files may concern every file.
        found = find_relevant(merged.base, merged.merged, (), matter.values(), rules=rules, before=before.values())
        return replace(found, only=None, unsought=frozenset())
    # A file that did not count had no resources.
    counted = [one if path in before else one._replace(old_blob=None) for path, one in sorted(changes.items())]
    return find_relevant(merged.base, merged.merged, counted, matter.values(), rules=rules)


def _files(snapshot: Snapshot, entry: EntrySettings, rules: DocumentRules) -> list[TreeFile]:
    """Return the considered files. Their number is limited as in a commit of the service, because each is searched."""
    scope = FileScope(entry, project=entry.project, documents=rules, allowance=Allowance())
    try:
        found, _ = trees.considered(snapshot, scope=scope)
    except GitFault as fault:
        if fault.state is not RepositoryState.PATH_MISSING:
            raise
        return []
    size = sum(trees.read_size(file.blob, snapshot) for file in found if file.readable)
    scope.allowance.known(size, files=len(found))
    return found


def find_relevant(
    base: Snapshot,
    merged: Snapshot,
    changes: Iterable[TreeChange],
    matter: Iterable[TreeFile],
    *,
    rules: DocumentRules,
    before: Iterable[TreeFile] | None = None,
) -> RelevantFiles:
    """Return the files that a change concerns. `matter` are the considered files of the merge. With `before`, those of
    the base, every file is read, even without a change. Raises GitFault.
    """
    files = {file.path: file.blob for file in matter if file.readable}
    search = _Search(merged, files, rules)
    changed = list(changes)
    for change in changed:
        if change.old_blob is not None:
            search.take(_parsed(base, change.path, change.old_blob, rules), is_touched=True)
        search.read(change.path, is_touched=True)
    if before is None:
        search.spread()
    else:
        for file in before:
            if file.readable and files.get(file.path) != file.blob:
                search.take(_parsed(base, file.path, file.blob, rules))
        for path in files:
            search.read(path)
        search.connect()
        search.sought |= search.named
    known = search.held | builtins.built_in().keys()
    return RelevantFiles(
        only=frozenset(search.included | {change.path for change in changed}),
        missing=frozenset((search.named & search.sought) - known),
        unsought=frozenset(search.named - search.sought - known),
        held=frozenset(search.held),
    )


@dataclass(slots=True)
class _Search:
    """A search in rounds over the files that are not included yet, until there is no new name.

    `touched` are the resources of the change, and those that refer to a touched one: every resource that refers to them
    matters. `needed` are the resources that these refer to: their files matter.
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
    documents: list[Desired] = field(default_factory=list)

    def read(self, path: str, *, is_touched: bool = False) -> None:
        """Read a file of the merge, if it is considered and was not read before."""
        if path in self.files and path not in self.included:
            self.included.add(path)
            self.take(_parsed(self.merged, path, self.files[path], self.rules), is_touched=is_touched)

    def take(self, found: Iterable[Desired], *, is_touched: bool = False) -> None:
        """Add the documents of a file."""
        for one in found:
            if one.key is None:
                continue
            self.held.add(one.key)
            self.documents.append(one)
            if is_touched:
                self.touched.add(one.key)
                if one.proposed_id:
                    self.ids.add(one.proposed_id.encode())

    def spread(self) -> None:
        """Read files until nothing new matters. The first round reads the files whose bytes may hide a name."""
        is_first = True
        while True:
            self.connect()
            fresh = (self.touched | self.needed) - self.sought
            if not fresh and not is_first:
                return
            self.sought |= fresh
            for path in list(self._matching(fresh, with_hiding=is_first)):
                self.read(path)
            is_first = False

    def connect(self) -> None:
        """Add the resources that refer to a touched one to `touched`, and those that these refer to to `needed`."""
        grows = True
        while grows:
            before = len(self.touched) + len(self.needed)
            for one in self.documents:
                assert one.key is not None
                refers = frozenset(one.references)
                self.named |= refers
                if not refers.isdisjoint(self.touched):
                    self.touched.add(one.key)
                if one.key in self.touched or one.key in self.needed:
                    self.needed |= refers - builtins.RESERVED
            grows = len(self.touched) + len(self.needed) > before

    def _matching(self, keys: Iterable[Key], *, with_hiding: bool) -> Iterator[str]:
        """Yield the files that may define one of these resources, or refer to one."""
        users = {key.name.encode() for key in keys if key in self.touched} | self.ids
        holders: defaultdict[bytes, set[bytes]] = defaultdict(set)
        for key in keys:
            if key not in self.touched:
                holders[key.name.encode()].add(key.kind.encode())
        names = users | holders.keys()
        few = list(names) if len(names) <= FEW else None
        for path, blob in self.files.items():
            if path in self.included:
                continue
            data = _content(self.merged, blob)
            if few is None or any(name in data for name in few):
                whole = names.intersection(NAME.findall(data))  # whole words
                if any(name in users or any(kind in data for kind in holders[name]) for name in whole):
                    yield path
                    continue
            if with_hiding and HIDING.search(data):
                yield path


def _parsed(snapshot: Snapshot, path: str, blob: str, rules: DocumentRules) -> tuple[Desired, ...]:
    data = b"" if documents.syntax_of(path) is None else _content(snapshot, blob)
    return desired.read_file(data, path=path, rules=rules) or () if data else ()


def _content(snapshot: Snapshot, blob: str) -> bytes:
    """Return the bytes of a file; empty for one that is too large, which is reported elsewhere."""
    most = positions.FILE_LIMITS.bytes
    return snapshot.read(blob, most) if snapshot.size(blob) <= most else b""
