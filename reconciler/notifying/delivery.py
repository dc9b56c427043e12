"""What is wrong with delivery, from what it counts of itself.

Belongs here: from which number on something is worth a notification. Does not: counting, the disk (`disks`), sentences.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from reconciler.delivery.lanes import Lane
from reconciler.delivery.queue.contract import Depth
from reconciler.delivery.reporting import ExporterState, ReportSnapshot
from reconciler.delivery.status import DeliveryFigures, fullness
from reconciler.model.clock import Clock
from reconciler.model.notification_types import NotificationType, Severity
from reconciler.notifications.models import Cause, Domain, Facts, Finding, Look

NEARLY_FULL, ROOMY = 0.8, 0.6  # of what a queue takes: a notification opens, and ends below
FAILING = timedelta(seconds=30)  # that requests fail and none arrives
UNROUTED = timedelta(minutes=15)  # after the last record that nobody took
SLICE = 20  # destinations that are looked at at a stretch


class ObservedDeliveries(Protocol):
    """What knows the lanes."""

    def figures(self) -> DeliveryFigures:
        """What is counted of all projects."""

    def followed(self) -> Collection[str]:
        """The projects whose routes are known, so that each of their lanes is there."""


@dataclass(slots=True)
class _One:
    """All lanes of one destination together."""

    lanes: list[Lane] = field(default_factory=list)
    dead: int = 0
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
    if one.fullness >= ROOMY:
        percent = min(int(one.fullness * 10), 10) * 10  # in steps, so that each batch does not change a sentence
        severity = Severity.ERROR if percent >= 100 else Severity.WARNING
        fades = one.fullness < NEARLY_FULL
        findings.append(finding(NotificationType.QUEUE_NEARLY_FULL, severity, {"percent": percent}, fading=fades))
    return findings


def _is_untried(one: _One) -> bool:
    """Whether records wait and none got through since the start: what failed before it may fail still."""
    exporter = one.lanes[0].exporter
    waits = any(lane.queue is not None and lane.queue.depth().batches for lane in one.lanes)
    return waits and exporter is not None and exporter.shown().last_success is None


def _failing(lane: Lane, now: datetime) -> str | None:
    """What keeps records from getting through to a destination; None when nothing does, or not for long."""
    if lane.exporter is None:
        return None
    shown = lane.exporter.shown()
    if lane.exporter.is_up and not _gets_nothing_through(shown, now):
        return None
    return "" if shown.last_failure is None else shown.last_failure.cause


def _gets_nothing_through(shown: ReportSnapshot, now: datetime) -> bool:
    """Whether requests have failed for a while and none arrived between them, while the endpoint counts as up: one that
    refuses all that it is sent is not down.
    """
    if shown.failing_since is None or shown.state not in (ExporterState.SENDING, ExporterState.WAITING):
        return False
    return timedelta(milliseconds=now.timestamp() * 1000 - shown.failing_since) >= FAILING
