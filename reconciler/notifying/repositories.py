"""What is wrong with repositories, from what their reconcilers remember and the last runs that told it.

Belongs here: which state is which type, and finding the run that counts. Does not: sentences, git.
"""

from collections.abc import Iterator
from contextlib import aclosing
from typing import Protocol

import msgspec

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.model.errors import ReconcilerError
from reconciler.model.notification_types import NotificationType, Severity
from reconciler.notifications.models import NO_FACTS, Cause, Domain, Facts, Finding, Look
from reconciler.notifications.texts import NAMED, REFUSED
from reconciler.notifying.turns import in_slices
from reconciler.reconcile.reconciler import Reconciler
from reconciler.reconcile.runs import RunOutcome
from reconciler.store.contract import Store

UNREACHABLE = frozenset({RepositoryState.UNREACHABLE, RepositoryState.UNAUTHORIZED})
HELD = frozenset(
    {
        RepositoryState.BRANCH_MISSING,
        RepositoryState.PATH_MISSING,
        RepositoryState.EMPTY,
        RepositoryState.UNRELATED_ROOT,
        RepositoryState.UNSIGNED,
        RepositoryState.UNSUPPORTED_FORMAT,
    }
)
RUNS = 20  # that are looked at for the last one that tells how resources fared
STATUSES = 10_000  # of a run that are looked at for names


class ObservedRepositories(Protocol):
    """What knows the repositories."""

    def reconcilers(self) -> list[Reconciler]:
        """What knows each repository, by name."""


class _Run(msgspec.Struct, frozen=True):
    id: str
    outcome: RunOutcome
    counts: dict[str, int]

    @property
    def tells(self) -> bool:
        """Whether it came to a plan: each such run tells all that is wrong with its head."""
        return self.outcome in (RunOutcome.SUCCEEDED, RunOutcome.PARTIAL) or bool(self.counts)


class _Status(msgspec.Struct, frozen=True):
    kind: str | None
    name: str | None
    status: str
    path: str | None = None
    line: int | None = None
    reason: str = ""


_run = msgspec.json.Decoder(_Run)
_status = msgspec.json.Decoder(_Status)


class RepositoryObserver:
    """Remembers of each repository which run it has read, so that a look at one that did nothing reads nothing."""

    def __init__(self, repositories: ObservedRepositories, store: Store) -> None:
        self._repositories = repositories
        self._store = store
        self._last: dict[str, str] = {}  # the last run that was seen, by repository
        self._refused: dict[str, Facts] = {}  # what that run, or one before it, told

    async def look(self) -> list[Look]:
        """All repositories. Raises StoreFault."""
        findings: list[Finding] = []
        every = self._repositories.reconcilers()
        async for slice_ in in_slices(every):
            for one in slice_:
                if one.why_suspended is None:  # else nobody looks, and it says so itself
                    findings += cause_of_state(one)
                    findings += await self._resources(one)
        self._forget({one.watched.name for one in every})
        return [Look(Domain.REPOSITORIES, tuple(findings))]

    async def _resources(self, one: Reconciler) -> list[Finding]:
        name = one.watched.name
        if one.last_run is not None and self._last.get(name) != one.last_run:
            last = one.last_run
            told = await self._told(name)
            if told is not None:
                self._refused[name] = told
            self._last[name] = last
        cause = Cause(NotificationType.RESOURCES_INVALID, name, one.watched.project)
        if name not in self._refused:
            return [Finding(cause, fading=True)]  # no run has told yet
        facts = self._refused[name]
        if not facts:
            return []
        return [Finding(cause, Severity.ERROR if facts.get("refused") else Severity.WARNING, facts)]

    async def _told(self, name: str) -> Facts | None:
        """What the last run that came to a plan told of resources; empty for nothing, None where no run did."""
        async with aclosing(self._store.runs_pages(repository=name, projects=None, limit=RUNS)) as pages:
            async for page in pages:
                for shown in page:
                    run = _run.decode(shown)
                    if run.tells:
                        return await self._facts(run)
        return None

    async def _facts(self, run: _Run) -> Facts:
        counts = {status: run.counts[status] for status in REFUSED if run.counts.get(status)}
        if not counts:
            return NO_FACTS
        found = await self._first(run.id)
        refused = int(run.outcome is RunOutcome.REFUSED)
        names = tuple(f"{one.kind or 'a document'} {one.name or one.path or ''}".strip() for one in found)
        first = _why(found[0]) if found else ""
        return {**counts, "total": sum(counts.values()), "names": names, "first": first, "refused": refused}

    async def _first(self, run: str) -> list[_Status]:
        """The first resources of a run that are not stored as it wants."""
        found: list[_Status] = []
        looked_at = 0
        async with aclosing(self._store.run_pages(run)) as pages:
            await anext(pages, None)  # the run itself
            async for page in pages:
                found += [one for one in map(_status.decode, page) if one.status in REFUSED]
                looked_at += len(page)
                if len(found) >= NAMED or looked_at >= STATUSES:
                    break
        return found[:NAMED]

    def _forget(self, present: set[str]) -> None:
        for name in self._last.keys() - present:
            del self._last[name]
            self._refused.pop(name, None)


def cause_of_state(one: Reconciler) -> Iterator[Finding]:
    """What is wrong with a repository itself."""
    watched, row, fault = one.watched, one.remembered, one.fault
    state = RepositoryState.NEVER_READ if row is None else RepositoryState(row.state)
    message = "" if row is None else row.message or ""
    if isinstance(fault, GitFault):
        state, message = fault.state, fault.message
    is_other = fault is not None and not isinstance(fault, GitFault)
    found = _type(state)
    if found is not None:
        type_, severity = found
        facts = {"state": state.value, "message": message}
        yield Finding(Cause(type_, watched.name, watched.project), severity, facts, fading=is_other)
    if isinstance(fault, ReconcilerError) and is_other:
        failed = Cause(NotificationType.RECONCILE_FAILED, watched.name, watched.project)
        yield Finding(failed, Severity.ERROR, {"message": fault.message})
    elif fault is None and one.seen is None:
        # No look of this process has ended: whether it still fails is not known.
        yield Finding(Cause(NotificationType.RECONCILE_FAILED, watched.name, watched.project), fading=True)


def _type(state: RepositoryState) -> tuple[NotificationType, Severity] | None:
    if state in UNREACHABLE:
        return NotificationType.REPOSITORY_UNREACHABLE, Severity.ERROR
    if state in HELD:
        return NotificationType.REPOSITORY_HELD, Severity.ERROR
    if state is RepositoryState.PRUNE_HELD:
        return NotificationType.PRUNE_HELD, Severity.WARNING
    return (NotificationType.RECONCILE_FAILED, Severity.ERROR) if state is RepositoryState.MIRROR_CORRUPT else None


def _why(one: _Status) -> str:
    """The first line of the reason of a status, with `path:line` before it where it does not begin so."""
    reason = one.reason.partition("\n")[0]
    if not one.path or reason.startswith(f"{one.path}:"):
        return reason
    return f"{one.path}{'' if one.line is None else f':{one.line}'}: {reason}"
