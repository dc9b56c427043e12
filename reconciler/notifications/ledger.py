"""The ledger: how notifications change when observers report, and which alerts follow. Pure."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

from msgspec.structs import replace

from reconciler.model.notification_types import NotificationType, Severity
from reconciler.notifications import rendering
from reconciler.notifications.models import Cause, Domain, Finding, Notification, NotificationScope, NotificationState

# Changes of notifications by a look. Pure: the kept ones, the findings of a look, and the time.
#
# One cause has one notification, however often it is met. It opens when a look finds it, changes when what a person
# reads of it does, and is resolved by the first look that does not find it any more. What comes back within `HOLD`
# seconds after that, or before its end was told outward, opens the same one again, so that a cause that flaps is one
# notification and not many, and every beginning that was told has its end.

HOLD = timedelta(minutes=15)  # after it was resolved: what comes back meanwhile is the same one
UPDATE = timedelta(minutes=1)  # between two changes of its sentences, unless it grows worse or milder
MOST = 10_000  # that are kept, open and resolved; see `LedgerRoom`

NewId = Callable[[], str]
Taken = Callable[[str], int]
"""How many are open in a project."""


@dataclass(frozen=True, slots=True)
class LedgerChanges:
    """Notifications to keep in place of earlier ones, and the number of causes without room."""

    put: tuple[Notification, ...] = ()
    left_out: int = 0


class LedgerRoom:
    """How many more may be open. A project takes no more than it leaves to all others: one alone gets half of all, the
    next half of the rest, so that there is always some for one that has few. What concerns the organization needs no
    room: there are few such causes, and the worst are among them, which thousands of a project's must not hide.
    """

    def __init__(self, left: int, taken: Taken = lambda _: 0) -> None:
        """`left` for all together, and what each project has already."""
        self._left = left
        self._taken = taken
        self._opened: Counter[str] = Counter()

    def take(self, cause: Cause) -> bool:
        """Take room for one with this cause; False when there is none."""
        project = cause.project
        has = self._taken(project) + self._opened[project]
        if cause.scope is not NotificationScope.ORGANIZATION and has >= self._left:
            return False
        self._left -= 1
        self._opened[project] += 1
        return True


def latest(kept: Iterable[Notification]) -> dict[Cause, Notification]:
    """The newest notification of each cause."""
    found: dict[Cause, Notification] = {}
    for one in kept:
        known = found.get(one.cause)
        if known is None or one.id > known.id:
            found[one.cause] = one
    return found


def met(
    known: Mapping[Cause, Notification],
    findings: Iterable[Finding],
    *,
    domain: Domain,
    now: datetime,
    new_id: NewId,
    room: LedgerRoom,
) -> LedgerChanges:
    """Return what findings change; of each cause the first counts. `known` is as of `latest`; new ones get their ids in
    the order in which they were found.
    """
    put: list[Notification] = []
    left_out = 0
    first: dict[Cause, Finding] = {}
    for finding in findings:
        first.setdefault(finding.cause, finding)
    for finding in first.values():
        before = known.get(finding.cause)
        after = _met(before, finding, domain=domain, now=now, new_id=new_id)
        if after is None or after is before:
            continue
        is_opening = before is None or before.state is NotificationState.RESOLVED
        if is_opening and not room.take(finding.cause):
            left_out += 1
            continue
        put.append(after)
    return LedgerChanges(tuple(put), left_out)


def missed(there: Iterable[Notification], found: Set[Cause], *, now: datetime) -> tuple[Notification, ...]:
    """Resolve those open notifications whose cause a look did not find any more."""
    return tuple(_resolved(one, now=now) for one in there if one.cause not in found)


def is_forgettable(one: Notification) -> bool:
    """Return True when it may be forgotten one day: it ended, and no alert about that is due."""
    return one.resolved is not None and one.told is not NotificationState.OPEN


def forgotten(ended: Iterable[Notification], *, now: datetime, retention: timedelta, surplus: int = 0) -> list[str]:
    """The ids of those that are kept no longer, of all that are forgettable: ended longer ago than `retention`, and so
    many as are too many, those that ended first. For its age alone none goes that may come back, or a cause that flaps
    would be new, and told, each time.
    """
    before = now - max(retention, HOLD)
    every = list(ended)
    gone = {one.id: None for one in every if one.resolved is not None and one.resolved <= before}
    if surplus > len(gone):
        # Quick, since they are kept almost in this order.
        first = sorted(every, key=lambda one: (one.resolved, one.id))[:surplus]
        gone |= {one.id: None for one in first}
    return [*gone]


def _met(
    before: Notification | None, finding: Finding, *, domain: Domain, now: datetime, new_id: NewId
) -> Notification | None:
    if before is not None and before.state is NotificationState.OPEN:
        return before if finding.fading else _updated(before, finding, now=now)
    if finding.fading:
        return before
    if before is not None and (before.told is NotificationState.OPEN or _is_recent(before, now)):
        return _reopened(before, finding, now=now)
    return Notification(
        id=new_id(),
        domain=domain,
        cause=finding.cause,
        severity=finding.severity,
        facts=finding.facts,
        opened=now,
        began=now,
        modified=now,
    )


def _is_recent(ended: Notification, now: datetime) -> bool:
    return ended.resolved is not None and now - ended.resolved <= HOLD


def _updated(before: Notification, finding: Finding, *, now: datetime) -> Notification:
    if (before.severity, before.facts) == (finding.severity, finding.facts):
        return before
    after = replace(before, severity=finding.severity, facts=finding.facts)
    if rendering.text_of(after) == rendering.text_of(before) and after.severity is before.severity:
        return before
    if after.severity is before.severity and now - before.modified < UPDATE:
        return before
    return replace(after, version=before.version + 1, modified=now)


def _reopened(before: Notification, finding: Finding, *, now: datetime) -> Notification:
    return replace(
        before,
        severity=finding.severity,
        facts=finding.facts,
        began=now,
        modified=now,
        version=before.version + 1,
        occurrences=before.occurrences + 1,
        resolved=None,
    )


def _resolved(before: Notification, *, now: datetime) -> Notification:
    return replace(before, resolved=now, modified=now, version=before.version + 1)


# Alerts that are due, and their targets. Pure.
#
# Told is a change of state: that a cause began, at once, and that it ended, at once as well, unless it had come back
# before. Then it flaps, and its end is told once it stayed away for as long as it may come back (`ledger.HOLD`). So
# whoever heard last that it is over is right, and one that flaps for a day is told as often as one that came twice. One
# that grows worse is told at once, to those alone who did not want to hear of what it was before. Who heard of a
# beginning is remembered by name: filters change, and alerts are given up.

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
    return None if flaps and now - one.resolved < HOLD else NotificationState.RESOLVED


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
    """Return True when a target gets an alert about this state of a notification, as it is before `told`.

    It gets the "resolved" alert only if it got the "opened" one, and each of them once. What is one person's is told to
    nobody else.
    """
    has_heard = one.told is NotificationState.OPEN and target in one.told_to
    if state is NotificationState.RESOLVED:
        return has_heard
    return not has_heard and not one.cause.user and _fits(wanted, one) and _takes(wanted, one.severity)


def wants_anew(target: str, wanted: AlertFilter, one: Notification) -> bool:
    """Return True when a target gets a late alert about an open notification that others were told of.

    The target is new, its filter was another, or its alert was given up.
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
