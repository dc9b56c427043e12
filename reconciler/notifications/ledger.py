"""What becomes of notifications when the service looks again. Pure: what is kept, what one look found, and the time.

One cause has one notification, however often it is met. It opens when a look finds it, changes when what a person reads
of it does, and is resolved by the first look that does not find it any more. What comes back within `HOLD` seconds
after that opens the same one again, so that a cause that flaps is one notification and not many.

Belongs here: those decisions, what is forgotten, and how many are kept. Does not: looking (`reconciler.notifying`),
sentences (`texts`), what is told outward (`telling`).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from reconciler.notifications import texts
from reconciler.notifications.models import Cause, Domain, Finding, Look, Notification, State

HOLD = timedelta(minutes=15)  # after it was resolved: what comes back meanwhile is the same one
UPDATE = timedelta(minutes=1)  # between two changes of its sentences, unless it grows worse or milder
MOST = 10_000  # that are kept, open and resolved

NewId = Callable[[], str]


@dataclass(frozen=True, slots=True)
class Changes:
    """What is to be kept in place of what there was, and which causes found no room."""

    put: tuple[Notification, ...] = ()
    left_out: int = 0


def latest(kept: Iterable[Notification]) -> dict[Cause, Notification]:
    """The newest notification of each cause."""
    found: dict[Cause, Notification] = {}
    for one in kept:
        known = found.get(one.cause)
        if known is None or one.id > known.id:
            found[one.cause] = one
    return found


def observed(
    known: Mapping[Cause, Notification], look: Look, *, now: datetime, new_id: NewId, room: int = MOST
) -> Changes:
    """What a look changes: what it found, and what it did not find any more. See `met` and `missed`."""
    changes = met(known, look.findings, domain=look.domain, now=now, new_id=new_id, room=room)
    return Changes((*changes.put, *missed(known, look, now=now)), changes.left_out)


def met(
    known: Mapping[Cause, Notification],
    findings: Iterable[Finding],
    *,
    domain: Domain,
    now: datetime,
    new_id: NewId,
    room: int = MOST,
) -> Changes:
    """What findings change. `known` is as of `latest`, `room` how many more may be open; new ones get their ids in the
    order in which they were found.
    """
    put: list[Notification] = []
    left_out = 0
    for finding in findings:
        before = known.get(finding.cause)
        after = _met(before, finding, domain=domain, now=now, new_id=new_id)
        if after is None or after is before:
            continue
        is_opening = before is None or before.state is State.RESOLVED
        if is_opening and room <= 0:
            left_out += 1
            continue
        room -= is_opening
        put.append(after)
    return Changes(tuple(put), left_out)


def missed(known: Mapping[Cause, Notification], look: Look, *, now: datetime) -> tuple[Notification, ...]:
    """What is over, since the look that speaks of it did not find it."""
    found = {finding.cause for finding in look.findings}
    return tuple(_resolved(one, now=now) for one in _of(known, look) if one.cause not in found)


def forgotten(kept: Iterable[Notification], *, now: datetime, retention: timedelta, most: int = MOST) -> list[str]:
    """The ids of those that are kept no longer: ended longer ago than `retention`, and, where there are too many, those
    that ended first.
    """
    every = list(kept)
    ended = sorted((one.resolved, one.id) for one in every if one.resolved is not None)
    surplus = max(len(every) - most, 0)
    return [
        identifier for place, (at, identifier) in enumerate(ended) if place < surplus or (at and at <= now - retention)
    ]


def _of(known: Mapping[Cause, Notification], look: Look) -> list[Notification]:
    """The open ones that a look speaks of."""
    return [
        one
        for one in known.values()
        if one.domain is look.domain
        and one.state is State.OPEN
        and (look.part is None or one.cause.project == look.part)
    ]


def _met(
    before: Notification | None, finding: Finding, *, domain: Domain, now: datetime, new_id: NewId
) -> Notification | None:
    if before is not None and before.state is State.OPEN:
        return before if finding.fading else _updated(before, finding, now=now)
    if finding.fading:
        return before
    if before is not None and before.resolved is not None and now - before.resolved <= HOLD:
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


def _updated(before: Notification, finding: Finding, *, now: datetime) -> Notification:
    if (before.severity, before.facts) == (finding.severity, finding.facts):
        return before
    after = replace(before, severity=finding.severity, facts=finding.facts)
    if texts.of(after) == texts.of(before) and after.severity is before.severity:
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
