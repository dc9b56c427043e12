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

from reconciler.concerns import Severity, Type
from reconciler.notifications import ledger
from reconciler.notifications.models import Notification, State

_NOBODY: frozenset[str] = frozenset()
_NO_SEVERITY: frozenset[Severity] = frozenset()


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
    if one.resolved is None:
        return State.OPEN if one.told is not State.OPEN or one.severity not in one.told_as else None
    if one.told is not State.OPEN:
        return None
    flaps = one.occurrences > 1
    return None if flaps and now - one.resolved < ledger.HOLD else State.RESOLVED


def told(one: Notification, state: State, to: Collection[str]) -> Notification:
    """The same, after that was told to these targets: nothing that a person reads changed."""
    if state is State.RESOLVED:
        return replace(one, told=state, told_to=_NOBODY)
    as_, to_ = (one.told_as, one.told_to) if one.told is State.OPEN else (_NO_SEVERITY, _NOBODY)
    return replace(one, told=state, told_as=_also(as_, one.severity), told_to=_joined(to_, tuple(to)))


def told_also(one: Notification, target: str) -> Notification:
    """The same, after a target was told of it that had not heard of it."""
    return replace(one, told_to=one.told_to | {target})


def untold(one: Notification, targets: Collection[str]) -> Notification:
    """The same, after the alerts that told targets of its beginning were given up."""
    return replace(one, told_to=one.told_to.difference(targets))


def wants(target: str, wanted: Filter, one: Notification, state: State) -> bool:
    """Whether a target hears that a notification, as it is before `told`, is in this state: an end is news for whoever
    heard of the beginning, a beginning for whoever did not. What is one person's is told to nobody else.
    """
    has_heard = one.told is State.OPEN and target in one.told_to
    if state is State.RESOLVED:
        return has_heard
    return not has_heard and not one.cause.user and _fits(wanted, one) and _takes(wanted, one.severity)


def wants_anew(target: str, wanted: Filter, one: Notification) -> bool:
    """Whether a target hears late of one that others were told of, that is still there and that it did not hear of: it
    is new, its filter was another, or its alert was given up. So it knows what has ended when it hears of the end.
    """
    is_there = one.told is State.OPEN and one.state is State.OPEN and target not in one.told_to
    fits = is_there and not one.cause.user and _fits(wanted, one)
    return fits and any(_takes(wanted, severity) for severity in {*one.told_as, one.severity})


# One set for thousands of notifications that the same targets were told of.


@lru_cache(maxsize=256)
def _joined(before: frozenset[str], targets: tuple[str, ...]) -> frozenset[str]:
    return before.union(targets)


@lru_cache(maxsize=256)
def _also(before: frozenset[Severity], severity: Severity) -> frozenset[Severity]:
    return before | {severity}


def _fits(wanted: Filter, one: Notification) -> bool:
    return (not wanted.types or one.cause.type in wanted.types) and (
        not wanted.projects or one.cause.project in wanted.projects
    )


def _takes(wanted: Filter, severity: Severity) -> bool:
    return not wanted.severities or severity in wanted.severities
