"""What waits for one target, in its order, and what is counted of it. In memory alone.

Belongs here: the queue of a target, its bound, and what it loses when an alert is given up. Does not: sending, waiting
and what is kept (`outbox`).

The end of a cause is told to whoever heard of its beginning: an alert about a beginning that is given up takes the one
about its end with it, and is remembered in `lost` until the board knows who did not hear.
"""

import asyncio
import logging
from collections import deque

import msgspec

from reconciler.notifications import alerts
from reconciler.notifying.targets import AlertOutcome, AlertTarget
from reconciler.store.operations import AlertRow

log = logging.getLogger(__name__)


class WaitingAlert(msgspec.Struct, frozen=True, gc=False):
    """An alert, with the id of the notification that it is about. Nothing for the garbage collector, as `AlertRow`."""

    row: AlertRow
    about: str
    is_beginning: bool


class AlertLane:
    """One target."""

    def __init__(self, to: AlertTarget, *, most: int) -> None:
        """`most` alerts wait."""
        self.to = to
        self.most = most
        self.waiting: deque[WaitingAlert] = deque()
        self.woken = asyncio.Event()
        self.lost: set[str] = set()  # notifications whose beginning was given up, which the board does not know yet
        self.owes = False  # whether it misses some that may still be open
        self.takes = False  # whether the last attempt was taken
        self.is_full = False  # whether too many waited since it took one last
        self.is_sending = False  # the oldest one, which stays at its place
        self.is_testing = False
        self.sent = self.failed = self.given_up = 0
        self._is_failing = False
        self._refused = ("", 0)  # the alert that was refused last, and how often

    def add(self, row: AlertRow) -> list[str]:
        """Let one wait; its id where it is not to be sent, since it tells the end of what was given up."""
        one = WaitingAlert(row, *alerts.alert_about(row.body))
        if one.about in self.lost and not one.is_beginning:
            return [row.id]
        if one.is_beginning:
            self.lost.discard(one.about)
        self.waiting.append(one)
        return []

    def shed(self) -> list[str]:
        """Give up what is too much, the oldest: the ids. The log tells when that begins, and a metric of how many."""
        surplus = len(self.waiting) - self.most
        if surplus <= 0:
            return []
        if not self.is_full:
            log.warning("Too many alerts wait for %s; the oldest are given up until it takes one.", self.to.name)
        self.is_full = True
        return self.give_up(surplus)

    def give_up(self, number: int) -> list[str]:
        """Give up so many, the oldest, but the one that is under way. The ids of all that go with that."""
        first = [self.waiting.popleft()] if self.is_sending else []
        gone = [self.waiting.popleft() for _ in range(number)]
        self.given_up += number
        lost = {one.about for one in gone if one.is_beginning}
        ends = self._without_ends(lost) if lost else []
        self.waiting.extendleft(first)
        self.lost |= lost
        self.owes = self.owes or bool(lost)
        return [one.row.id for one in (*gone, *ends)]

    def _without_ends(self, lost: set[str]) -> list[WaitingAlert]:
        """Take those out that tell the end of what is lost; what begins anew behind that is not lost."""
        stay: deque[WaitingAlert] = deque()
        ends = []
        for one in self.waiting:
            if one.about in lost and not one.is_beginning:
                ends.append(one)
                continue
            if one.is_beginning:
                lost.discard(one.about)
            stay.append(one)
        self.waiting = stay
        return ends

    @property
    def has_recovered(self) -> bool:
        """Whether it takes alerts, of which none waits, and misses some."""
        return self.owes and self.takes and not self.waiting

    def tell(self, came: AlertOutcome) -> None:
        """Take down what came of an attempt; say once that nothing is taken, and once that it is again."""
        was_failing, self.takes = self._is_failing, came.is_taken
        self._is_failing = not came.is_taken
        self.is_full = self.is_full and not came.is_taken
        if came.is_taken and was_failing:
            log.info("The alert target %s takes alerts again.", self.to.name)
        if not came.is_taken and not was_failing:
            log.warning("The alert target %s does not take an alert, which is tried again: %s", self.to.name, came.why)

    def refused(self, row: AlertRow) -> int:
        """How often this alert was refused by now."""
        identifier, times = self._refused
        self._refused = (row.id, times + 1 if identifier == row.id else 1)
        return self._refused[1]
