"""Sending alerts: each target has a task of its own, and gets its due alerts one after another."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from reconciler.delivery.http_client import HttpClient
from reconciler.model.clock import Clock, rfc3339
from reconciler.model.text import counted
from reconciler.notifications import alerts, ledger
from reconciler.notifications.alerts import WHOLE, AlertSender
from reconciler.notifications.board import Board
from reconciler.notifications.ledger import DueAlert
from reconciler.notifications.models import AlertOutcome, TriedAlert
from reconciler.notifications.rendering import NotificationPlace
from reconciler.settings.models import AlertTarget

log = logging.getLogger(__name__)

PATIENCE = timedelta(hours=1)  # from when an alert is due
REFUSALS = 3  # of one alert; a proxy may have been the one that refused
FIRST_RETRY = 1.0  # seconds; doubled at each failure
LONGEST_RETRY = 60.0
LONGEST_ASKED = 300.0  # of a `Retry-After`
SPREAD = 0.1
DOUBLINGS = 10

Wait = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class AlertTally:
    """Counts of a target since the start: alerts, and failed attempts."""

    target: str
    sent: int
    failed: int
    given_up: int
    waiting: int


class _Lane:
    """The state of one target."""

    def __init__(self, to: AlertTarget) -> None:
        self.to = to
        self.sent = self.failed = self.given_up = 0
        self.body: tuple[DueAlert, bytes] | None = None  # of the last attempt: a further one sends the same
        self.failures = 0  # in a row
        self.refusals = 0  # of the alert of the last attempt
        self.owes = False  # True if it lacks alerts about open notifications

    def tell(self, came: AlertOutcome) -> None:
        """Record the outcome of an attempt. Log once when the target refuses alerts, and once when it accepts again."""
        was_failing = self.failures > 0
        if came.is_taken:
            self.sent += 1
            self.failures = 0
            if was_failing:
                log.info("The alert target %s takes alerts again.", self.to.name)
            return
        self.failed += 1
        self.failures += 1
        self.refusals += came.is_refused
        if not was_failing:
            log.warning("The alert target %s does not take an alert, which is tried again: %s", self.to.name, came.why)


class Outbox:
    """All targets of a board. Used from one event loop.

    An alert is due until its target accepted it, so each arrives at least once. A failed alert is tried again for an
    hour, a refused one twice more; then it is given up. The log and a metric report that, but no notification, because
    its own alert would fail too.
    """

    def __init__(self, board: Board, *, place: NotificationPlace, clock: Clock, wait: Wait = asyncio.sleep) -> None:
        self._board = board
        self._place = place
        self._clock = clock
        self._wait = wait
        self._lanes = {one.name: _Lane(one) for one in board.targets}
        self._sender: AlertSender | None = None

    @property
    def targets(self) -> list[str]:
        """The names of the targets, in the order of the settings."""
        return list(self._lanes)

    def tallies(self) -> list[AlertTally]:
        """Return the counts of each target."""
        return [
            AlertTally(one.to.name, one.sent, one.failed, one.given_up, len(self._board.due(one.to)))
            for one in self._lanes.values()
        ]

    async def test(self, target: str | None, *, request: str) -> list[TriedAlert]:
        """Send a test alert once to a target, or to all, before alerts that wait; do nothing for an unknown target.
        `request` is the id of the request.
        """
        async with asyncio.TaskGroup() as group:
            tests = [
                group.create_task(self._test(lane, identifier=f"{request}-{name}"), name=f"alert-test-{name}")
                for name, lane in self._lanes.items()
                if target in (None, name)
            ]
        return [test.result() for test in tests]

    async def _test(self, lane: _Lane, *, identifier: str) -> TriedAlert:
        to = lane.to
        if self._sender is None:
            return TriedAlert(to.name, AlertOutcome(why="the service is starting or ending; try again"), 0.0)
        now, begun = self._clock(), time.monotonic()
        body = alerts.trial_alert(target=to.name, identifier=identifier, at=now, place=self._place)
        came = await self._sender.send(to, body, identifier=identifier, seconds=now.timestamp())
        return TriedAlert(to.name, came, time.monotonic() - begun)

    async def keep(self, client: HttpClient, *, authorities: Path | None = None, whole: float = WHOLE) -> None:
        """Send for ever. `authorities` is a PEM file that is trusted instead of the system's; an attempt has `whole`
        seconds.
        """
        self._sender = sender = AlertSender(client, authorities=authorities, whole=whole)
        try:
            async with asyncio.TaskGroup() as group:
                for name, lane in self._lanes.items():
                    group.create_task(self._serve(lane, sender), name=f"alerts-{name}")
        finally:
            self._sender = None

    async def _serve(self, lane: _Lane, sender: AlertSender) -> None:
        while True:
            changed = self._board.changed()
            due = await self._due(lane)
            for alert in due:
                if not await self._send(lane, alert, sender):
                    break  # other alerts may be due at the next attempt
            if not due and lane.owes and lane.sent and not lane.failures:
                lane.owes = False
                await self._board.tell_late(lane.to)
            elif not due:
                await changed.wait()

    async def _due(self, lane: _Lane) -> list[DueAlert]:
        """Give up alerts that waited too long; return the others."""
        due, before = self._board.due(lane.to), self._clock() - PATIENCE
        old = sum(alert.since <= before for alert in due)
        if old:
            log.warning("%s to %s given up: an hour old.", counted(old, "alert"), lane.to.name)
        await self._give_up(lane, due[:old])
        return due[old:]

    async def _give_up(self, lane: _Lane, given_up: list[DueAlert]) -> None:
        if given_up:
            lane.given_up += len(given_up)
            lane.owes = lane.owes or not all(alert.is_end for alert in given_up)
            await self._board.settle(lane.to, given_up, is_told=False)

    async def _send(self, lane: _Lane, alert: DueAlert, sender: AlertSender) -> bool:
        """Try an alert once if it is still due. If it is not accepted, wait, and return False."""
        to, one = lane.to, self._board.notification(alert.notification)
        if one is None or ledger.due_alert(one, to.name, now=self._clock()) != alert:
            return True
        identifier = alerts.alert_id(alert, to)
        if lane.body is None or lane.body[0] != alert:
            lane.body = (alert, alerts.alert_body(one, alert, self._place, identifier=identifier))
            lane.refusals = 0
        came = await sender.send(to, lane.body[1], identifier=identifier, seconds=self._clock().timestamp())
        lane.tell(came)
        if came.is_taken:
            await self._board.settle(to, [alert], is_told=True)
            return True
        if lane.refusals >= REFUSALS:
            log.warning("An alert to %s of %s is given up: %s.", to.name, rfc3339(alert.since), came.why)
            await self._give_up(lane, [alert])
        else:
            await self._wait(max(_backoff(lane.failures), min(came.asked, LONGEST_ASKED)))
        return False


def _backoff(failures: int) -> float:
    wait = min(FIRST_RETRY * float(2 ** min(failures - 1, DOUBLINGS)), LONGEST_RETRY)
    return wait * random.uniform(1 - SPREAD, 1 + SPREAD)  # noqa: S311 - it spreads waits
