"""What becomes of notifications when the service looks again. Pure: what is kept, what one look found, and the time.

One cause has one notification, however often it is met. It opens when a look finds it, changes when what a person reads
of it does, and is resolved by the first look that does not find it any more. What comes back within `HOLD` seconds
after that, or before its end was told outward, opens the same one again, so that a cause that flaps is one notification
and not many, and every beginning that was told has its end.

Belongs here: those decisions, what is forgotten, and how many are kept. Does not: looking (`reconciler.notifying`),
sentences (`texts`), what is told outward (`telling`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from datetime import datetime, timedelta

from msgspec.structs import replace

from reconciler.notifications import texts
from reconciler.notifications.models import Cause, Domain, Finding, Notification, NotificationScope, NotificationState

HOLD = timedelta(minutes=15)  # after it was resolved: what comes back meanwhile is the same one
UPDATE = timedelta(minutes=1)  # between two changes of its sentences, unless it grows worse or milder
MOST = 10_000  # that are kept, open and resolved; see `Room`

NewId = Callable[[], str]
Taken = Callable[[str], int]
"""How many are open in a project."""


@dataclass(frozen=True, slots=True)
class LedgerChanges:
    """What is to be kept in place of what there was, and which causes found no room."""

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
        """Whether one with this cause may open; then it counts."""
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
    """What findings change, of each cause the first. `known` is as of `latest`; new ones get their ids in the order in
    which they were found.
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
    """What is over of those that are open: the look that speaks of them did not find their causes."""
    return tuple(_resolved(one, now=now) for one in there if one.cause not in found)


def is_forgettable(one: Notification) -> bool:
    """Whether it may be kept no longer one day: it ended, and that is not still to be told."""
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
    if texts.text_of(after) == texts.text_of(before) and after.severity is before.severity:
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
