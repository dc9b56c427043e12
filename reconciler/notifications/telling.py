"""When an alert goes out about a notification, and to whom. Pure.

Belongs here: those two decisions. Does not: what an alert says (`alerts`), sending it (`reconciler.notifying`).

Told is a change of state: that a cause began, at once, and that it ended, at once as well, unless it had come back
before. Then it flaps, and its end is told once it stayed away for as long as it may come back (`ledger.HOLD`). So
whoever heard last that it is over is right, and one that flaps for a day is told as often as one that came twice. One
that grows worse is told at once, to those alone who did not want to hear of what it was before. Who heard of a
beginning is remembered by name: filters change, and alerts are given up.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from msgspec.structs import replace

from reconciler.model.notification_types import NotificationType, Severity
from reconciler.notifications import ledger
from reconciler.notifications.models import Notification, NotificationState

_NOBODY: frozenset[str] = frozenset()
_NO_SEVERITY: frozenset[Severity] = frozenset()


@dataclass(frozen=True, slots=True)
class AlertFilter:
    """Which notifications a target wants; empty is all of them. With `projects`, what is the organization's is not
    wanted.
    """

    severities: Collection[Severity] = ()
    types: Collection[NotificationType] = ()
    projects: Collection[str] = ()


def due(one: Notification, *, now: datetime) -> NotificationState | None:
    """The state that is to be told now, or None."""
    if one.resolved is None:
        return (
            NotificationState.OPEN
            if one.told is not NotificationState.OPEN or one.severity not in one.told_as
            else None
        )
    if one.told is not NotificationState.OPEN:
        return None
    flaps = one.occurrences > 1
    return None if flaps and now - one.resolved < ledger.HOLD else NotificationState.RESOLVED


def told(one: Notification, state: NotificationState, to: Collection[str]) -> Notification:
    """The same, after that was told to these targets: nothing that a person reads changed."""
    if state is NotificationState.RESOLVED:
        return replace(one, told=state, told_to=_NOBODY)
    as_, to_ = (one.told_as, one.told_to) if one.told is NotificationState.OPEN else (_NO_SEVERITY, _NOBODY)
    return replace(one, told=state, told_as=_also(as_, one.severity), told_to=_joined(to_, tuple(to)))


def told_also(one: Notification, target: str) -> Notification:
    """The same, after a target was told of it that had not heard of it."""
    return replace(one, told_to=one.told_to | {target})


def untold(one: Notification, targets: Collection[str]) -> Notification:
    """The same, after the alerts that told targets of its beginning were given up."""
    return replace(one, told_to=one.told_to.difference(targets))


def wants(target: str, wanted: AlertFilter, one: Notification, state: NotificationState) -> bool:
    """Whether a target hears that a notification, as it is before `told`, is in this state: an end is news for whoever
    heard of the beginning, a beginning for whoever did not. What is one person's is told to nobody else.
    """
    has_heard = one.told is NotificationState.OPEN and target in one.told_to
    if state is NotificationState.RESOLVED:
        return has_heard
    return not has_heard and not one.cause.user and _fits(wanted, one) and _takes(wanted, one.severity)


def wants_anew(target: str, wanted: AlertFilter, one: Notification) -> bool:
    """Whether a target hears late of one that others were told of, that is still there and that it did not hear of: it
    is new, its filter was another, or its alert was given up. So it knows what has ended when it hears of the end.
    """
    is_there = one.told is NotificationState.OPEN and one.state is NotificationState.OPEN and target not in one.told_to
    fits = is_there and not one.cause.user and _fits(wanted, one)
    return fits and any(_takes(wanted, severity) for severity in {*one.told_as, one.severity})


# One set for thousands of notifications that the same targets were told of.


@lru_cache(maxsize=256)
def _joined(before: frozenset[str], targets: tuple[str, ...]) -> frozenset[str]:
    return before.union(targets)


@lru_cache(maxsize=256)
def _also(before: frozenset[Severity], severity: Severity) -> frozenset[Severity]:
    return before | {severity}


def _fits(wanted: AlertFilter, one: Notification) -> bool:
    return (not wanted.types or one.cause.type in wanted.types) and (
        not wanted.projects or one.cause.project in wanted.projects
    )


def _takes(wanted: AlertFilter, severity: Severity) -> bool:
    return not wanted.severities or severity in wanted.severities
