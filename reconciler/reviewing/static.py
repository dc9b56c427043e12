"""A plan without a server: the base's tree stands for what is stored, and the merge is planned against it.

Belongs here: entries of the settings, one after another, in a store made for this. Does not: the repository
(`git.checkouts`), deciding (`reading.reviews`), words. What only the service knows is not judged: secrets that are
referred to, what the API stored, other repositories, how much was deleted in 24 hours.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.file_selection import FileGlobs
from reconciler.git.merging import Merged
from reconciler.git.snapshots import Snapshot
from reconciler.git.trees import TreeFile
from reconciler.model.names import Key
from reconciler.model.plan import PlanEntry
from reconciler.planner.candidates import CandidateRules
from reconciler.reviewing import relevance
from reconciler.reviewing.relevance import RelevantFiles
from reconciler.reviewing.scratch import ScratchStore
from reconciler.worker import reviews, trees
from reconciler.worker.limits import Allowance, PlanMode
from reconciler.worker.messages import CommitJob
from reconciler.worker.trees import FileScope

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
    with ScratchStore(api_versions=api_versions, now=now, refuse_unknown=options.refuse_unknown) as scratch:
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
    scratch: ScratchStore
    options: StaticOptions

    def relevant(self, entry: EntrySettings) -> RelevantFiles:
        """What of the repository a plan of this entry must read."""
        rules = self.scratch.rules
        scope = self._scope(entry, rules)
        changes = self.merged.changes(entry.path)
        matter = _files(self.merged.merged, scope)
        before = _files(self.merged.base, scope)
        if self.options.whole or relevance.touches_rules(changes):
            return relevance.every_file(self.merged.base, before, self.merged.merged, matter, rules=rules)
        # What a file held that did not count, nobody had.
        counted = {file.path for file in before}
        changes = [one if one.path in counted else one._replace(old_blob=None) for one in changes]
        return relevance.find_relevant(self.merged.base, self.merged.merged, changes, matter, rules=rules)

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
        reviewed = reviews.review(job, self.merged, self.scratch.view, allowance=Allowance(), terms=terms)
        return replace(reviewed.entry, untouched_files=relevant.untouched)

    def _scope(self, entry: EntrySettings, rules: CandidateRules) -> FileScope:
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
