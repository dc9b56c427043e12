"""When an alert goes out about a notification, and to whom. Pure.

Belongs here: those two decisions. Does not: what an alert says (`alerts`), sending it (`reconciler.notifying`).

Told is a change of state: that a cause began, and that it ended. A cause that flaps is told once in `DAMPING` seconds:
that it began again waits that long after the last time, and that it ended is told when its beginning was. One that
grows worse is told at once, to those alone who did not want to hear of what it was before.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from reconciler.notifications.models import Notification, Severity, State, Type

DAMPING = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class Filter:
    """Which notifications a target wants; empty is all of them. With `projects`, what is the organization's is not
    wanted.
    """

    severities: Collection[Severity] = ()
    types: Collection[Type] = ()
    projects: Collection[str] = ()


def due(one: Notification, *, now: datetime) -> State | None:
    """The state that is to be told now, or None."""
    if one.state is State.RESOLVED:
        return State.RESOLVED if one.told is State.OPEN else None
    if one.told is State.OPEN:
        return State.OPEN if one.severity not in one.told_as else None
    if one.told_at is not None and now - one.told_at < DAMPING:
        return None
    return State.OPEN


def told(one: Notification, state: State, *, now: datetime) -> Notification:
    """The same, after that was told: nothing that a person reads changed."""
    if state is State.RESOLVED:
        return replace(one, told=state)
    before = one.told_as if one.told is State.OPEN else frozenset[Severity]()
    at = one.told_at if one.told is State.OPEN else now
    return replace(one, told=state, told_at=at, told_as=before | {one.severity})


def wants(wanted: Filter, one: Notification, state: State) -> bool:
    """Whether a target hears that a notification, as it is before `told`, is in this state. What is one person's is
    told to nobody else.
    """
    return not one.cause.user and _fits(wanted, one) and _is_news(wanted, one, state)


def _fits(wanted: Filter, one: Notification) -> bool:
    return (not wanted.types or one.cause.type in wanted.types) and (
        not wanted.projects or one.cause.project in wanted.projects
    )


def _is_news(wanted: Filter, one: Notification, state: State) -> bool:
    """An end is news for whoever heard of the beginning, a beginning for whoever did not."""
    has_heard = one.told is State.OPEN and any(_takes(wanted, severity) for severity in one.told_as)
    return has_heard if state is State.RESOLVED else _takes(wanted, one.severity) and not has_heard


def _takes(wanted: Filter, severity: Severity) -> bool:
    return not wanted.severities or severity in wanted.severities
