"""The loop over all observers, and those of repositories, Configurations and delivery."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Protocol

import msgspec

from reconciler.delivery.lanes import Lane
from reconciler.delivery.queue.contract import Depth
from reconciler.delivery.reporting import ExporterState, ReportSnapshot
from reconciler.delivery.status import DeliveryFigures, fullness
from reconciler.git.faults import GitFault, RepositoryState
from reconciler.model import errors, ids
from reconciler.model.clock import Clock
from reconciler.model.errors import ReconcilerError
from reconciler.model.flows import Flow, FlowChange
from reconciler.model.notification_types import NotificationType, Severity
from reconciler.notifications.board import Board
from reconciler.notifications.models import NO_FACTS, QUICK, Cause, Domain, Facts, Finding, Look, in_slices
from reconciler.notifications.rendering import NAMED, REFUSED
from reconciler.reconcile.reconciler import Reconciler
from reconciler.reconcile.runs import RunOutcome
from reconciler.store.contract import Store
from reconciler.store.records import Attention, ResourceChange

# The loop over all observers.

log = logging.getLogger(__name__)


class Observer(Protocol):
    """Knows where to look at one thing."""

    async def look(self) -> list[Look]:
        """Return the findings of now. Raises StoreFault."""


class ObserverLoop:
    """All observers."""

    def __init__(self, board: Board, observers: Sequence[Observer], *, every: float) -> None:
        """`every` so many seconds all of them look, which costs less than a millisecond where nothing is wrong."""
        self._board = board
        self._observers = observers
        self._every = every
        self._failed: dict[int, str] = {}  # what was said of an observer's last look

    async def keep(self) -> None:
        """Look for ever."""
        while True:
            await self.look()
            await asyncio.sleep(self._every)

    async def look(self) -> None:
        """Look once. Raises nothing."""
        for number, observer in enumerate(self._observers):
            await self._guarded(number, observer)
        await self._guarded(-1, None)

    async def _guarded(self, number: int, observer: Observer | None) -> None:
        try:
            if observer is None:
                await self._board.tidy()
            else:
                for look in await observer.look():
                    await self._board.take(look)
        except errors.ReconcilerError as problem:
            self._say(number, problem.message)
        except Exception as fault:
            if self._failed.get(number) != repr(fault):
                log.exception("A look for what may be wrong met a fault of the program; it is made again.")
            self._failed[number] = repr(fault)
        else:
            self._failed.pop(number, None)

    def _say(self, number: int, message: str) -> None:
        """Once, and not at each look that meets it again."""
        if self._failed.get(number) != message:
            log.warning("Notifications are as they were: %s", message)
        self._failed[number] = message


# Repositories: the state that their reconcilers remember, and the last runs.

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
BEGINS = frozenset({FlowChange.STARTED, FlowChange.RESUMED})
RUNS = 20  # that are looked at for the last one that tells how resources fared
STATUSES = 10_000  # of a run that are looked at for names


class ObservedRepositories(Protocol):
    """Knows the repositories."""

    def reconcilers(self) -> list[Reconciler]:
        """Return the reconciler of each repository, by name."""


class ObservedRoutes(Protocol):
    """Knows what delivers now."""

    def followed(self) -> Collection[str]:
        """The projects whose routes are known."""

    def delivers(self, project: str, configuration: str, destination: str) -> bool:
        """Return True when a Configuration delivers to a destination."""


class _RunFlows(msgspec.Struct, frozen=True):
    counts: dict[str, int]
    changes: tuple[Flow, ...]


class ObservedRun(msgspec.Struct, frozen=True):
    """A run, as far as it is looked at."""

    id: str
    outcome: RunOutcome
    counts: dict[str, int]
    commit: str | None = None
    flows: _RunFlows | None = None

    @property
    def tells(self) -> bool:
        """True when the run came to a plan: each such run reports every error of its head."""
        return self.outcome in (RunOutcome.SUCCEEDED, RunOutcome.PARTIAL) or bool(self.counts)


class _Status(msgspec.Struct, frozen=True):
    kind: str | None
    name: str | None
    status: str
    path: str | None = None
    line: int | None = None
    reason: str = ""


read_run = msgspec.json.Decoder(ObservedRun).decode
_status = msgspec.json.Decoder(_Status)


ENDED = timedelta(days=1)  # after a commit ended a flow, unless it delivers again before
ENDED_RUNS = 1_000  # that are looked at for such commits


@dataclass(frozen=True, slots=True)
class EndedFlows:
    """The flows that one commit ended, as sentences by Configuration and destination; `more` have no name."""

    commit: str
    at: datetime
    flows: Mapping[tuple[str, str], str]
    more: int


class RepositoryObserver:
    """Remembers of each repository which run it has read, so that a look at one that did nothing reads nothing."""

    def __init__(
        self, repositories: ObservedRepositories, store: Store, *, routes: ObservedRoutes, clock: Clock
    ) -> None:
        self._repositories = repositories
        self._store = store
        self._routes = routes
        self._clock = clock
        self._last: dict[str, str] = {}  # the last run that was seen, by repository
        self._refused: dict[str, Facts] = {}  # what that run, or one before it, told
        self._ended: dict[str, tuple[EndedFlows, ...]] = {}  # the oldest first

    async def look(self) -> list[Look]:
        """All repositories. Raises StoreFault."""
        findings: list[Finding] = []
        every = self._repositories.reconcilers()
        async for slice_ in in_slices(every):
            for one in slice_:
                if one.why_suspended is None:  # else nobody looks, and it says so itself
                    findings += cause_of_state(one)
                    findings += await self._resources(one)
                    findings += self._flows(one.watched.name, one.watched.project)
        self._forget({one.watched.name for one in every})
        return [Look(Domain.REPOSITORIES, tuple(findings))]

    async def _resources(self, one: Reconciler) -> list[Finding]:
        name = one.watched.name
        last = one.memory.last_run
        if last is not None and self._last.get(name) != last:
            told = await self._told(name)
            if told is not None:
                self._refused[name] = told
            runs = await self._runs_since(name, self._last.get(name, ""))
            self._ended[name] = ended_flows(self._ended.get(name, ()), runs)
            self._last[name] = last
        cause = Cause(NotificationType.RESOURCES_INVALID, name, one.watched.project)
        if name not in self._refused:
            return [Finding(cause, fading=True)]  # no run has told yet
        facts = self._refused[name]
        if not facts:
            return []
        return [Finding(cause, Severity.ERROR if facts.get("refused") else Severity.WARNING, facts)]

    async def _told(self, name: str) -> Facts | None:
        """Return what the last run with a plan reported of resources; empty for nothing, None without such a run."""
        async with aclosing(self._store.runs_pages(repository=name, projects=None, limit=RUNS)) as pages:
            async for page in pages:
                for shown in page:
                    run = read_run(shown)
                    if run.tells:
                        return await self._facts(run)
        return None

    async def _runs_since(self, name: str, last: str) -> list[ObservedRun]:
        """Return the runs of a day that are newer than the last one that was seen, the oldest first."""
        found: list[ObservedRun] = []
        since = (self._clock() - ENDED).timestamp() * 1000
        async with aclosing(self._store.runs_pages(repository=name, projects=None, limit=ENDED_RUNS)) as pages:
            async for page in pages:
                for shown in page:
                    run = read_run(shown)
                    if run.id <= last or ids.milliseconds(run.id) < since:
                        return found[::-1]
                    found.append(run)
        return found[::-1]

    def _flows(self, name: str, project: str) -> Iterator[Finding]:
        """Yield the commits of the last day of which flows do not deliver now."""
        since = self._clock() - ENDED
        is_known = project in self._routes.followed()
        self._ended[name] = tuple(one for one in self._ended.get(name, ()) if one.at > since)
        for one in self._ended[name]:
            left = [text for flow, text in one.flows.items() if not self._routes.delivers(project, *flow)]
            if left:
                cause = Cause(NotificationType.FLOW_STOPPED, f"{name} at {one.commit}", project)
                total = len(left) + one.more
                facts: Facts = {"repository": name, "commit": one.commit, "total": total, "names": tuple(left[:NAMED])}
                yield Finding(cause, Severity.WARNING, facts, fading=not is_known)

    async def _facts(self, run: ObservedRun) -> Facts:
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
            self._ended.pop(name, None)


def ended_flows(before: Iterable[EndedFlows], runs: Iterable[ObservedRun]) -> tuple[EndedFlows, ...]:
    """Add what these runs ended, in order, and take away what they began again."""
    found = list(before)
    for run in runs:
        if run.flows is None:
            continue
        changes = run.flows.changes
        begun = {(one.configuration, one.destination) for one in changes if one.change in BEGINS}
        ended = {
            (one.configuration, one.destination): one.sentence() for one in changes if one.change is FlowChange.STOPPED
        }
        found = [
            replace(one, flows={flow: text for flow, text in one.flows.items() if flow not in begun}) for one in found
        ]
        if ended:
            at = datetime.fromtimestamp(ids.milliseconds(run.id) / 1000, UTC)
            more = run.flows.counts.get(FlowChange.STOPPED, 0) - len(ended)
            found.append(EndedFlows((run.commit or "")[:12], at, ended, more))
    return tuple(one for one in found if one.flows)


def cause_of_state(one: Reconciler) -> Iterator[Finding]:
    """Yield what is wrong with a repository itself."""
    watched, row, fault = one.watched, one.memory.row, one.memory.fault
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
    elif fault is None and one.memory.seen is None:
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


# Resources that are incomplete, Configurations that deliver by an earlier version, and what is deprecated and in use:
# looked for in a project after it changed.
#
# A look at a large project takes a while, on a thread of its own; such a project is not looked at again before twenty
# times as long has passed, so that this never takes more than a twentieth of a processor.

PAUSE = 20.0  # times what the last look at a project took


class ConfigurationObserver:
    """Hears of changes, and looks later."""

    def __init__(self, store: Store, *, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._monotonic = monotonic
        self._changed: dict[str, None] = {}
        self._not_before: dict[str, float] = {}
        self._has_begun = False

    def heard(self, told: ResourceChange) -> None:
        """The store changed. Called in the middle of a change, so it only takes note."""
        if told.changed and told.project is not None:
            self._changed[told.project] = None

    async def look(self) -> list[Look]:
        """The projects that changed since the last look; at the first, all of them. Raises StoreFault."""
        if not self._has_begun:
            self._changed |= dict.fromkeys(await self._store.projects())
            self._has_begun = True
        looks: dict[str, Look] = {}
        for project in [*self._changed]:
            begun = self._monotonic()
            if begun < self._not_before.get(project, begun):
                continue
            del self._changed[project]  # before it is read: what changes meanwhile is looked at again
            try:
                found = await _findings(project, await self._store.attention(project, named=NAMED))
            except BaseException:  # what was found is lost with it
                self._changed |= dict.fromkeys((*looks, project))
                raise
            now = self._monotonic()
            self._not_before[project] = now + PAUSE * (now - begun)
            looks[project] = Look(Domain.CONFIGURATIONS, tuple(found), part=project)
        return [*looks.values()]


async def _findings(project: str, found: Attention) -> list[Finding]:
    findings = []
    if found.incomplete.total or found.others.total:
        facts: Facts = {"total": found.incomplete.total, "names": found.incomplete.first}
        if found.others.total:
            facts = {**facts, "others": found.others.total, "other_names": found.others.first}
        findings.append(Finding(Cause(NotificationType.CONFIGURATION_INCOMPLETE, "", project), Severity.WARNING, facts))
    if found.stale.total:
        facts = {"total": found.stale.total, "names": found.stale.first}
        findings.append(Finding(Cause(NotificationType.DELIVERY_STALE, "", project), Severity.WARNING, facts))
    async for slice_ in in_slices(found.deprecated, QUICK):
        for one in slice_:
            cause = Cause(NotificationType.RESOURCE_DEPRECATED, f"{one.kind} {one.name}", project)
            used: Facts = {"users": one.users.total, "names": one.users.first, "instead": one.message}
            findings.append(Finding(cause, Severity.INFO, used))
    return findings


# Delivery: failing endpoints, dead letters, full and damaged queues, records without a route.

NEARLY_FULL, ROOMY = 0.8, 0.6  # of what a queue takes: a notification opens, and ends below
FAILING = timedelta(seconds=30)  # that requests fail and none arrives
UNROUTED = timedelta(minutes=15)  # after the last record that nobody took
SLICE = 20  # destinations that are looked at at a stretch


class ObservedDeliveries(Protocol):
    """Knows the lanes."""

    def figures(self) -> DeliveryFigures:
        """Return the counts of all projects."""

    def followed(self) -> Collection[str]:
        """The projects whose routes are known, so that each of their lanes is there."""


@dataclass(slots=True)
class _One:
    """All lanes of one destination together."""

    lanes: list[Lane] = field(default_factory=list)
    dead: int = 0
    damaged: int = 0  # files in quarantine
    lost: int = 0  # batches
    fullness: float = 0.0


class DeliveryObserver:
    """Remembers since when nobody takes records of a project."""

    def __init__(self, deliveries: ObservedDeliveries, *, clock: Clock) -> None:
        self._deliveries = deliveries
        self._clock = clock
        self._unrouted: dict[str, tuple[int, datetime]] = {}  # records, and when they last grew, by project
        self._began = clock()

    async def look(self) -> list[Look]:
        """Every project that is followed."""
        figures, now = self._deliveries.figures(), self._clock()
        findings: dict[str, list[Finding]] = {project: [] for project in sorted(self._deliveries.followed())}
        for place, ((project, name), one) in enumerate(sorted((await _together(figures)).items())):
            if project in findings:
                findings[project] += _of_one(project, name, one, now=now)
            if place % SLICE == 0:
                await asyncio.sleep(0)
        for project, records in figures.unrouted.items():
            if project in findings and self._is_unrouted(project, records, now):
                findings[project].append(Finding(Cause(NotificationType.LOGS_UNROUTED, "", project)))
        if now - self._began < UNROUTED:  # what was counted before the start is not known any more
            for project, found in findings.items():
                if all(one.cause.type is not NotificationType.LOGS_UNROUTED for one in found):
                    found.append(Finding(Cause(NotificationType.LOGS_UNROUTED, "", project), fading=True))
        return [Look(Domain.DELIVERY, tuple(found), part=project) for project, found in findings.items()]

    def _is_unrouted(self, project: str, records: int, now: datetime) -> bool:
        known, at = self._unrouted.get(project, (0, now))
        if records > known:
            at = now
        self._unrouted[project] = (records, at)
        return records > 0 and now - at < UNROUTED


async def _together(figures: DeliveryFigures) -> dict[tuple[str, str], _One]:
    found: dict[tuple[str, str], _One] = {}
    for place, lane in enumerate(figures.lanes):
        if place % SLICE == 0:
            await asyncio.sleep(0)
        depth = Depth() if lane.queue is None else lane.queue.depth()
        one = found.setdefault((lane.project, lane.name), _One())
        one.lanes.append(lane)
        one.dead += depth.dead_batches
        one.damaged += depth.quarantined
        one.lost += depth.lost
        one.fullness = max(one.fullness, fullness(lane, depth))
    return found


def _of_one(project: str, name: str, one: _One, *, now: datetime) -> list[Finding]:
    def finding(type_: NotificationType, severity: Severity, facts: Facts, *, fading: bool = False) -> Finding:
        return Finding(Cause(type_, name, project), severity, facts, fading=fading)

    findings = []
    cause = _failing(one.lanes[0], now)
    if cause is not None:
        facts: Facts = {"cause": cause} if one.lanes[0].queue is not None else {"cause": cause, "inline": 1}
        findings.append(finding(NotificationType.DELIVERY_FAILING, Severity.ERROR, facts))
    elif _is_untried(one):
        findings.append(finding(NotificationType.DELIVERY_FAILING, Severity.ERROR, {}, fading=True))
    if one.dead:
        findings.append(finding(NotificationType.DEAD_LETTERS, Severity.WARNING, {"batches": one.dead}))
    if one.damaged or one.lost:
        severity = Severity.ERROR if one.lost else Severity.WARNING
        facts = {"files": one.damaged, "lost": one.lost}
        findings.append(finding(NotificationType.QUEUE_DAMAGED, severity, facts))
    if one.fullness >= ROOMY:
        percent = min(int(one.fullness * 10), 10) * 10  # in steps, so that each batch does not change a sentence
        severity = Severity.ERROR if percent >= 100 else Severity.WARNING
        fades = one.fullness < NEARLY_FULL
        findings.append(finding(NotificationType.QUEUE_NEARLY_FULL, severity, {"percent": percent}, fading=fades))
    return findings


def _is_untried(one: _One) -> bool:
    """Return True when records wait and none got through since the start: an earlier failure may last."""
    exporter = one.lanes[0].exporter
    waits = any(lane.queue is not None and lane.queue.depth().batches for lane in one.lanes)
    return waits and exporter is not None and exporter.shown().last_success is None


def _failing(lane: Lane, now: datetime) -> str | None:
    """Return what keeps records from a destination; None when nothing does, or not for long."""
    if lane.exporter is None:
        return None
    shown = lane.exporter.shown()
    if lane.exporter.is_up and not _gets_nothing_through(shown, now):
        return None
    return "" if shown.last_failure is None else shown.last_failure.cause


def _gets_nothing_through(shown: ReportSnapshot, now: datetime) -> bool:
    """Return True when requests have failed for a while and none arrived between them, while the endpoint counts as up:
    one that refuses all requests is not down.
    """
    if shown.failing_since is None or shown.state not in (ExporterState.SENDING, ExporterState.WAITING):
        return False
    return timedelta(milliseconds=now.timestamp() * 1000 - shown.failing_since) >= FAILING
