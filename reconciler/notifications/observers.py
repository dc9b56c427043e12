"""The loop over all observers, and those of repositories, Configurations and delivery."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import NamedTuple, Protocol, TypeAlias

import msgspec

from reconciler.delivery.lanes import Lane
from reconciler.delivery.queue.contract import Depth
from reconciler.delivery.reporting import ExporterState, SendReport
from reconciler.delivery.status import DeliveryFigures, fullness
from reconciler.git.faults import GitFault, RepositoryState
from reconciler.model import ids
from reconciler.model.clock import Clock
from reconciler.model.errors import ReconcilerError
from reconciler.model.flows import Flow, FlowChange
from reconciler.model.notification_types import NotificationType, Severity
from reconciler.model.text import counted
from reconciler.notifications import rendering
from reconciler.notifications.board import Board
from reconciler.notifications.models import Cause, Domain, Finding, Observation
from reconciler.notifications.rendering import NAMED, named
from reconciler.reconcile.reconciler import Reconciler
from reconciler.reconcile.runs import RunOutcome
from reconciler.replicas.work import ALONE, Work
from reconciler.store.contract import Store
from reconciler.store.records import Attention, ResourceChange, Some

# The loop over all observers.

log = logging.getLogger(__name__)


class Observer(Protocol):
    """Checks one domain for causes."""

    async def observe(self) -> Observation:
        """Return the present findings. Raises StoreFault."""


class ObserverLoop:
    """All observers."""

    def __init__(self, board: Board, observers: Sequence[Observer], *, every: float) -> None:
        """All observers run `every` so many seconds. A check without findings takes less than a millisecond."""
        self._board = board
        self._observers = observers
        self._every = every
        self._failed: dict[int, str] = {}  # the error of each observer's last check

    async def keep(self) -> None:
        """Check regularly, until cancelled."""
        while True:
            await self.observe()
            await asyncio.sleep(self._every)

    async def observe(self) -> None:
        """Run all observers once. Raises nothing."""
        for number, observer in enumerate(self._observers):
            await self._guarded(number, self._taken(observer))
        await self._guarded(-1, self._board.tidy())

    async def _taken(self, observer: Observer) -> None:
        await self._board.take(await observer.observe())

    async def _guarded(self, number: int, work: Awaitable[None]) -> None:
        """Log a fault of an observer once, not again at each check."""
        try:
            await work
        except Exception as fault:
            if self._failed.get(number) == repr(fault):
                return
            self._failed[number] = repr(fault)
            if isinstance(fault, ReconcilerError):
                log.warning("Notifications are as they were: %s", fault.message)
            else:
                log.exception("A look for what may be wrong met a fault of the program; it is made again.")
        else:
            self._failed.pop(number, None)


# Repositories: the state that their reconcilers remember, and the last runs.

OF_STATE: Mapping[RepositoryState, NotificationType] = {
    RepositoryState.UNREACHABLE: NotificationType.REPOSITORY_UNREACHABLE,
    RepositoryState.UNAUTHORIZED: NotificationType.REPOSITORY_UNREACHABLE,
    RepositoryState.BRANCH_MISSING: NotificationType.REPOSITORY_HELD,
    RepositoryState.PATH_MISSING: NotificationType.REPOSITORY_HELD,
    RepositoryState.EMPTY: NotificationType.REPOSITORY_HELD,
    RepositoryState.UNRELATED_ROOT: NotificationType.REPOSITORY_HELD,
    RepositoryState.UNSIGNED: NotificationType.REPOSITORY_HELD,
    RepositoryState.UNSUPPORTED_FORMAT: NotificationType.REPOSITORY_HELD,
    RepositoryState.PRUNE_HELD: NotificationType.PRUNE_HELD,
    RepositoryState.MIRROR_CORRUPT: NotificationType.RECONCILE_FAILED,
}
TITLES: Mapping[NotificationType, str] = {
    NotificationType.REPOSITORY_UNREACHABLE: "The repository {} cannot be read",
    NotificationType.REPOSITORY_HELD: "Nothing is taken over from the repository {}",
    NotificationType.PRUNE_HELD: "Deletions of the repository {} are held",
    NotificationType.RECONCILE_FAILED: "The repository {} could not be reconciled",
}
REFUSED = ("invalid", "error", "in-use", "forbidden")  # statuses of resources that are not stored as Git says
RUNS = 20  # read to find the last one with a plan
STATUSES = 10_000  # of a run that are read for names


class _Run(msgspec.Struct, frozen=True):
    id: str
    outcome: RunOutcome
    counts: dict[str, int]

    @property
    def tells(self) -> bool:
        """True if the run has a plan: then it reports every error of its head."""
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
    """Checks repositories. It remembers the last run that it read of each, so that an idle repository costs no read."""

    def __init__(self, reconcilers: Callable[[], list[Reconciler]], store: Store) -> None:
        self._reconcilers = reconcilers
        self._store = store
        self._read: dict[str, tuple[str, Finding | None]] = {}  # the last run, and its finding about resources

    async def observe(self) -> Observation:
        """Check all repositories. Raises StoreFault."""
        findings: list[Finding] = []
        every = self._reconcilers()
        for one in every:
            if one.why_suspended is None:  # otherwise it is not polled, and its state says so
                findings += cause_of_state(one)
                found = await self._resources(one)
                findings += () if found is None else (found,)
        names = {one.watched.name for one in every}
        self._read = {name: read for name, read in self._read.items() if name in names}
        return Observation(Domain.REPOSITORIES, tuple(findings))

    async def _resources(self, one: Reconciler) -> Finding | None:
        name, last = one.watched.name, one.memory.last_run
        cause = Cause(NotificationType.RESOURCES_INVALID, name, one.watched.project)
        before, found = self._read.get(name, ("", Finding(cause, fading=True)))  # unknown until a run has a plan
        if last is not None and before != last:
            async with aclosing(self._store.runs_pages(repository=name, projects=None, limit=RUNS)) as pages:
                runs = [_run.decode(shown) async for page in pages for shown in page]
            run = next((run for run in runs if run.tells), None)
            found = found if run is None else await self._run_finding(run, cause)
            self._read[name] = (last, found)
        return found

    async def _run_finding(self, run: _Run, cause: Cause) -> Finding | None:
        """Return the finding about the resources in a run."""
        counts = {status: run.counts[status] for status in REFUSED if run.counts.get(status)}
        if not counts:
            return None
        found, total = await self._first(run.id), sum(counts.values())
        names = [f"{one.kind or 'a document'} {one.name or one.path or ''}".strip() for one in found]
        first = rendering.sentence(f"The first: {_why(found[0])}") if found else ""
        return Finding(
            cause,
            Severity.ERROR if run.outcome is RunOutcome.REFUSED else Severity.WARNING,
            f"Not stored as Git says: {counted(total, 'resource')} of the repository {cause.subject}",
            f"{', '.join(f'{number} {status}' for status, number in counts.items())}: "
            f"{named(names, total=total)}. {first}".strip(),
        )

    async def _first(self, run: str) -> list[_Status]:
        """Return the first resources of a run that are not stored as Git says."""
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


# Flows that a commit ended.

ENDED = timedelta(days=1)  # for which a flow counts as ended by a commit, unless it delivers again
ENDED_RUNS = 1_000  # read to find such commits
BEGINS = frozenset({FlowChange.STARTED, FlowChange.RESUMED})


class _RunFlows(msgspec.Struct, frozen=True):
    changes: tuple[Flow, ...]


class FlowRun(msgspec.Struct, frozen=True):
    """The fields of a run that are read here."""

    id: str
    commit: str | None = None
    flows: _RunFlows | None = None


class EndedFlow(NamedTuple):
    """The commit that ended a flow, its time, and the flow in a sentence."""

    commit: str
    at: datetime
    sentence: str


EndedFlows: TypeAlias = Mapping[tuple[str, str], EndedFlow]
"""By Configuration and destination."""

read_flow_run = msgspec.json.Decoder(FlowRun).decode


class FlowObserver:
    """Checks flows. It remembers for each repository the commits of the last day that ended flows, and the last run
    that it read.

    `delivers` returns True if a Configuration of a project delivers to a destination now; it is known only for
    `followed` projects.
    """

    def __init__(
        self,
        reconcilers: Callable[[], list[Reconciler]],
        store: Store,
        *,
        followed: Callable[[], Collection[str]],
        delivers: Callable[[str, str, str], bool],
        clock: Clock,
    ) -> None:
        self._reconcilers = reconcilers
        self._store = store
        self._followed = followed
        self._delivers = delivers
        self._clock = clock
        self._read: dict[str, tuple[str, EndedFlows]] = {}

    async def observe(self) -> Observation:
        """Check all repositories. Raises StoreFault."""
        every = [one for one in self._reconcilers() if one.why_suspended is None]
        since, read = self._clock() - ENDED, dict(self._read)
        self._read = {one.watched.name: read.get(one.watched.name, ("", {})) for one in every}
        findings: list[Finding] = []
        for one in every:
            name, last = one.watched.name, one.memory.last_run or ""
            before, ended = self._read[name]
            if last != before:
                ended = ended_flows(ended, await self._runs(name, before, since))
            ended = {flow: each for flow, each in ended.items() if each.at > since}
            self._read[name] = (last, ended)
            findings += self._findings(one, ended)
        return Observation(Domain.FLOWS, tuple(findings))

    def _findings(self, one: Reconciler, ended: EndedFlows) -> Iterator[Finding]:
        name, project = one.watched.name, one.watched.project
        by_commit: dict[str, list[str]] = {}
        for flow, each in ended.items():
            if not self._delivers(project, *flow):
                by_commit.setdefault(each.commit, []).append(each.sentence)
        for commit, flows in by_commit.items():
            cause = Cause(NotificationType.FLOW_STOPPED, f"{name} at {commit}", project)
            title = f"{counted(len(flows), 'flow')} ended with the commit {commit} of the repository {name}"
            details = rendering.sentence(named(flows[:NAMED], total=len(flows), between="; "))
            yield Finding(cause, Severity.WARNING, title, details, fading=project not in self._followed())

    async def _runs(self, name: str, last: str, since: datetime) -> list[FlowRun]:
        """Return the runs since an instant that were not read yet, the oldest first."""
        begin = since.timestamp() * 1000
        async with aclosing(self._store.runs_pages(repository=name, projects=None, limit=ENDED_RUNS)) as pages:
            found = [read_flow_run(shown) async for page in pages for shown in page]
        return [run for run in reversed(found) if run.id > last and ids.milliseconds(run.id) >= begin]


def ended_flows(before: EndedFlows, runs: Iterable[FlowRun]) -> EndedFlows:
    """Add the flows that these runs ended, in order, and remove those that they began again. A flow belongs to the last
    commit that ended it.
    """
    found = dict(before)
    for run in runs:
        at = datetime.fromtimestamp(ids.milliseconds(run.id) / 1000, UTC)
        for change in () if run.flows is None else run.flows.changes:
            flow = change.configuration, change.destination
            if change.change in BEGINS:
                found.pop(flow, None)
            elif change.change is FlowChange.STOPPED:
                found[flow] = EndedFlow((run.commit or "")[:12], at, change.sentence())
    return found


def cause_of_state(one: Reconciler) -> Iterator[Finding]:
    """Yield the findings about a repository itself."""
    row, fault = one.memory.row, one.memory.fault
    state, message = RepositoryState(row.state), row.message or ""
    if isinstance(fault, GitFault):
        state, message = fault.state, fault.message
    is_other = fault is not None and not isinstance(fault, GitFault)
    if state in OF_STATE:
        yield _of_repository(one, OF_STATE[state], message, fading=is_other)
    if isinstance(fault, ReconcilerError) and is_other:
        yield _of_repository(one, NotificationType.RECONCILE_FAILED, fault.message)
    elif fault is None and one.memory.seen is None:
        # No poll of this process has ended, so it is unknown if it still fails.
        yield _of_repository(one, NotificationType.RECONCILE_FAILED, "", fading=True)


def _of_repository(one: Reconciler, type_: NotificationType, message: str, *, fading: bool = False) -> Finding:
    cause = Cause(type_, one.watched.name, one.watched.project)
    severity = Severity.WARNING if type_ is NotificationType.PRUNE_HELD else Severity.ERROR
    return Finding(cause, severity, TITLES[type_].format(cause.subject), rendering.sentence(message), fading)


def _why(one: _Status) -> str:
    """Return the first line of a status' reason, after `path:line`."""
    reason = one.reason.partition("\n")[0]
    if not one.path or reason.startswith(f"{one.path}:"):
        return reason
    return f"{one.path}{'' if one.line is None else f':{one.line}'}: {reason}"


# Incomplete resources, Configurations that deliver by an earlier version, and deprecated resources in use. A project is
# checked after it changed.
#
# Checking a large project takes a while, on its own thread. It is checked again only after twenty times as long, so
# this never takes more than a twentieth of a processor.

PAUSE = 20.0  # times the duration of a project's last check


class ConfigurationObserver:
    """Checks projects after changes."""

    def __init__(self, store: Store, *, monotonic: Callable[[], float], work: Work = ALONE) -> None:
        self._store = store
        self._work = work
        self._monotonic = monotonic
        self._changed: dict[str, None] = {}
        self._not_before: dict[str, float] = {}
        self._has_begun = False

    def heard(self, told: ResourceChange) -> None:
        """Record a change of the store. It is called during the change, so it does nothing else."""
        if told.changed and told.project is not None:
            self._changed[told.project] = None

    async def observe(self) -> Observation:
        """Check the projects that changed since the last check, at first all of them. One replica does this. Raises
        StoreFault.
        """
        if not self._work.is_mine:
            self._changed.clear()
            self._has_begun = False
            return _of_projects(Domain.CONFIGURATIONS, {})
        if not self._has_begun:
            self._changed |= dict.fromkeys((await self._store.directory()).projects)
            self._has_begun = True
        found: dict[str, list[Finding]] = {}
        for project in [*self._changed]:
            begun = self._monotonic()
            if begun < self._not_before.get(project, begun):
                continue
            del self._changed[project]  # before it is read, so that a change meanwhile is checked again
            try:
                found[project] = _findings(project, await self._store.attention(project, named=NAMED))
            except BaseException:  # the findings are lost with it
                self._changed |= dict.fromkeys((*found, project))
                raise
            now = self._monotonic()
            self._not_before[project] = now + PAUSE * (now - begun)
        return _of_projects(Domain.CONFIGURATIONS, found)


def _findings(project: str, found: Attention) -> list[Finding]:
    findings = []
    first = (*(f"Configuration {name}" for name in found.incomplete.first), *found.others.first)[:NAMED]
    incomplete = Some(found.incomplete.total + found.others.total, first)
    for type_, some, they in (
        (NotificationType.CONFIGURATION_INCOMPLETE, incomplete, "Incomplete"),
        (NotificationType.DELIVERY_STALE, found.stale, "Not delivering by the present version"),
    ):
        if some.total:
            title = f"{they}: {counted(some.total, 'resource')} of the project {project}"
            details = f"{named(some.first, total=some.total)}."
            findings.append(Finding(Cause(type_, "", project), title=title, details=details))
    for one in found.deprecated:
        subject = f"{one.kind} {one.name}"
        details = f"Used by {named(one.users.first, total=one.users.total)}. {rendering.sentence(one.message)}"
        cause = Cause(NotificationType.RESOURCE_DEPRECATED, subject, project)
        findings.append(Finding(cause, Severity.INFO, f"{subject} is deprecated and in use", details.strip()))
    return findings


def _of_projects(domain: Domain, found: Mapping[str, Iterable[Finding]]) -> Observation:
    return Observation(domain, tuple(chain.from_iterable(found.values())), frozenset(found))


# Delivery: failing endpoints, dead letters, full and damaged queues, records without a route.

NEARLY_FULL, ROOMY = 0.8, 0.6  # of a queue's limit: above the first a notification opens, below the second it ends
FAILING = timedelta(seconds=30)  # for which all requests fail
UNROUTED = timedelta(minutes=15)  # after the last record without a route


class DeliveryObserver:
    """Checks delivery. It remembers since when a project has had records without a route."""

    def __init__(
        self,
        figures: Callable[[], DeliveryFigures],
        followed: Callable[[], Collection[str]],
        *,
        clock: Clock,
    ) -> None:
        """`followed` returns the projects whose routes are known, so that each of their lanes is there."""
        self._figures = figures
        self._followed = followed
        self._clock = clock
        self._unrouted: dict[str, tuple[int, datetime]] = {}  # records, and when they last grew, by project
        self._began = clock()

    async def observe(self) -> Observation:
        """Check every followed project."""
        figures, now = self._figures(), self._clock()
        findings: dict[str, list[Finding]] = {project: [] for project in sorted(self._followed())}
        lanes: dict[tuple[str, str], list[Lane]] = {}
        for lane in figures.lanes:
            lanes.setdefault((lane.project, lane.name), []).append(lane)
        for (project, name), of_one in sorted(lanes.items()):
            if project in findings:
                findings[project] += _of_destination(project, name, of_one, now=now)
        for project, found in findings.items():
            is_unrouted = self._is_unrouted(project, figures.unrouted.get(project, 0), now)
            is_young = now - self._began < UNROUTED  # counts from before the start are unknown
            if is_unrouted or is_young:
                cause = Cause(NotificationType.LOGS_UNROUTED, "", project)
                title = f"Nobody takes log records that were sent to the project {project}"
                found.append(Finding(cause, title=title, fading=not is_unrouted))
        return _of_projects(Domain.DELIVERY, findings)

    def _is_unrouted(self, project: str, records: int, now: datetime) -> bool:
        known, at = self._unrouted.get(project, (0, now))
        if records > known:
            at = now
        self._unrouted[project] = (records, at)
        return records > 0 and now - at < UNROUTED


def _of_destination(project: str, name: str, lanes: list[Lane], *, now: datetime) -> Iterator[Finding]:
    """Yield the findings about a destination, for all its lanes together."""
    depths = [Depth() if lane.queue is None else lane.queue.depth() for lane in lanes]
    failing = Cause(NotificationType.DELIVERY_FAILING, name, project)
    first = lanes[0]
    if first.exporter is not None:
        shown = first.exporter.shown()
        if not first.exporter.is_up or _gets_nothing_through(shown, now):
            why = "" if shown.last_failure is None else shown.last_failure.cause
            title = f"Nothing gets through to the destination {name}"
            yield Finding(failing, Severity.ERROR, title, rendering.sentence(why))
        elif shown.last_success is None and any(depth.batches for depth in depths):
            yield Finding(failing, Severity.ERROR, fading=True)  # an earlier failure may last
    if dead := sum(depth.dead_batches for depth in depths):
        title = f"The destination {name} has dead letters"
        details = f"{counted(dead, 'batch', 'batches')} of log records could not be delivered."
        yield Finding(Cause(NotificationType.DEAD_LETTERS, name, project), title=title, details=details)
    files, lost = sum(depth.quarantined for depth in depths), sum(depth.lost for depth in depths)
    if files or lost:
        severity = Severity.ERROR if lost else Severity.WARNING
        title = f"The queue of the destination {name} is damaged"
        details = f"Damaged files: {files}. Lost batches: {lost}."
        yield Finding(Cause(NotificationType.QUEUE_DAMAGED, name, project), severity, title, details)
    full = max(map(fullness, lanes, depths))
    if full >= ROOMY:
        percent = min(int(full * 10), 10) * 10  # in steps, so that not every batch changes the sentence
        severity = Severity.ERROR if percent >= 100 else Severity.WARNING
        title = f"The queue of the destination {name} is {'full' if percent >= 100 else 'nearly full'}"
        cause = Cause(NotificationType.QUEUE_NEARLY_FULL, name, project)
        yield Finding(cause, severity, title, f"It is {percent} percent full or more.", fading=full < NEARLY_FULL)


def _gets_nothing_through(shown: SendReport, now: datetime) -> bool:
    """Return True if all requests have failed for a while although the endpoint counts as up: one that refuses every
    request is not down.
    """
    if shown.failing_since is None or shown.state not in (ExporterState.SENDING, ExporterState.WAITING):
        return False
    return timedelta(milliseconds=now.timestamp() * 1000 - shown.failing_since) >= FAILING
