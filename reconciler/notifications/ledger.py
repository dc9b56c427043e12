"""The ledger: the changes of notifications by the findings of observers, and the alerts that follow. Pure.

One cause has one notification, even if it is found many times. It opens when an observer finds the cause, changes with
its text, and is resolved when the observer no longer finds it. A cause that returns within `HOLD`, or before its end
was sent as an alert, opens the same notification again, so that a flapping cause has only one.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec.structs import replace

from reconciler.model.text import visible
from reconciler.notifications.models import (
    OF_INSTANCES,
    Cause,
    Domain,
    Finding,
    Notification,
    NotificationScope,
    NotificationState,
    Observation,
)
from reconciler.settings.models import AlertTarget

HOLD = timedelta(minutes=15)  # after it was resolved: a cause that returns meanwhile reopens it
UPDATE = timedelta(minutes=1)  # between two changes of its sentences, unless its severity changes
MOST = 10_000  # notifications kept, open and resolved
LONGEST = 5_000  # characters of its title, and of its details
MOST_LATE = 100  # open notifications that are sent late to a target: more would fill a chat

NewId = Callable[[], str]

Owns = Callable[[Domain, Cause], bool]
"""Returns True if this replica opens and resolves notifications of such a cause."""


def changes(
    kept: Collection[Notification],
    observation: Observation,
    *,
    now: datetime,
    new_id: NewId,
    targets: Sequence[AlertTarget] = (),
    most: int = MOST,
    instance: str = "",
    owns: Owns = lambda _domain, _cause: True,
) -> list[Notification]:
    """Return the changes by the findings of one observer. `kept` is in the order of ids; new notifications get ids in
    the order of the findings. Only causes of this `instance` change, and only those that the replica `owns`.

    Of `most`, a project gets no more than it leaves to the others: the first gets half of all, the next half of the
    rest. Notifications of the organization always have room: there are few, and the gravest are among them.
    """
    latest = {one.cause: one for one in kept if one.instance == instance}
    there = [one for one in kept if one.state is NotificationState.OPEN]
    taken = Counter(one.cause.project for one in there)
    room = most - len(there)
    found: dict[Cause, Finding] = {}
    for finding in observation.findings:
        if owns(observation.domain, finding.cause):
            found.setdefault(finding.cause, finding)
    put = []
    for cause, finding in found.items():
        before = latest.get(cause)
        after = _met(before, finding, domain=observation.domain, now=now, new_id=new_id, instance=instance)
        if after is None or after is before:
            continue
        if before is None or before.state is NotificationState.RESOLVED:
            if cause.scope is not NotificationScope.ORGANIZATION and taken[cause.project] >= room:
                continue
            taken[cause.project] += 1
            room -= 1
            after = _waits(after, targets, now=now)
        elif after.severity is not before.severity:
            after = _waits(after, targets, now=now)
        put.append(after)
    for one in there:
        is_observed = observation.projects is None or one.cause.project in observation.projects
        is_ours = one.domain is observation.domain and one.instance == instance and owns(one.domain, one.cause)
        if is_ours and is_observed and one.cause not in found:
            put.append(_resolved(one, now=now))
    return put


def without_owner(kept: Iterable[Notification], is_gone: Callable[[str], bool], *, now: datetime) -> list[Notification]:
    """Resolve the notifications of replicas that are gone: none of them checks their causes any more."""
    there = [one for one in kept if one.resolved is None and one.domain in OF_INSTANCES]
    return [_resolved(one, now=now) for one in there if is_gone(one.instance)]


def _resolved(one: Notification, *, now: datetime) -> Notification:
    return replace(one, resolved=now, modified=now, version=one.version + 1)


def kept_beside(
    stored: Mapping[str, Notification], unwritten: Iterable[Notification], *, before: Mapping[str, Notification]
) -> dict[str, Notification]:
    """Return the notifications that are `stored` now, with those that could not be written yet. If another replica
    changed a notification since `before`, or opened one for its cause, that one counts.
    """
    theirs = {(one.cause, one.instance) for one in stored.values() if one.resolved is None and one.id not in before}
    ours = [
        one for one in unwritten if stored.get(one.id) == before.get(one.id) and (one.cause, one.instance) not in theirs
    ]
    return dict(sorted({**stored, **{one.id: one for one in ours}}.items()))


def forgotten(kept: Collection[Notification], *, now: datetime, retention: timedelta, most: int = MOST) -> list[str]:
    """Return the ids of notifications to remove: those that ended longer ago than `retention`, and of more than `most`
    those that ended first. Notifications with a due alert stay. One whose cause may return is not removed for its age:
    otherwise a flapping cause would be new, and alerted, each time.
    """
    before = now - max(retention, HOLD)
    ended = [(one.resolved, one.id) for one in kept if one.resolved is not None and not (one.waiting or one.told_to)]
    old = sum(resolved <= before for resolved, _ in ended)
    return [identifier for _, identifier in sorted(ended)[: max(old, len(kept) - most)]]


def _met(
    before: Notification | None, finding: Finding, *, domain: Domain, now: datetime, new_id: NewId, instance: str
) -> Notification | None:
    if before is not None and before.resolved is None:
        return before if finding.fading else _updated(before, finding, now=now)
    if finding.fading:
        return before
    is_told = before is not None and not before.waiting and not before.told_to
    if before is not None and before.resolved is not None and (not is_told or now - before.resolved <= HOLD):
        return replace(
            before,
            severity=finding.severity,
            title=_text(finding.title),
            details=_text(finding.details),
            began=now,
            modified=now,
            version=before.version + 1,
            occurrences=before.occurrences + 1,
            resolved=None,
        )
    return Notification(
        id=new_id(),
        domain=domain,
        cause=finding.cause,
        severity=finding.severity,
        title=_text(finding.title),
        details=_text(finding.details),
        opened=now,
        began=now,
        modified=now,
        instance=instance,
    )


def _updated(before: Notification, finding: Finding, *, now: datetime) -> Notification:
    after = replace(before, severity=finding.severity, title=_text(finding.title), details=_text(finding.details))
    if after == before or (after.severity is before.severity and now - before.modified < UPDATE):
        return before
    return replace(after, version=before.version + 1, modified=now)


def _text(found: str) -> str:
    """Make a name storable and showable: names from a disk or a person may have invalid characters."""
    return visible(found)[:LONGEST]


# Due alerts: each target gets one when a cause begins, and one when it ends. They follow from the notification alone,
# so alerts are not stored.
#
# The alert about the end is sent at once, unless the cause returned before. Then it flaps, and the alert is sent after
# the cause has stayed away for `HOLD`. So a cause that flaps all day sends as many alerts as one that came twice. If
# the severity rises, targets whose filter did not match before get the alert at once. The alert about the end is sent
# only to targets that accepted the one about the beginning, whatever their filters are now.


class DueAlert(NamedTuple):
    """A state of a notification to send to a target. Alerts sort in the order of sending."""

    since: datetime
    is_end: bool
    notification: str  # an id


def due_alert(one: Notification, target: str, *, now: datetime) -> DueAlert | None:
    """Return the next alert about a notification for a target, if it is due."""
    if target in one.waiting:
        return DueAlert(one.waiting[target], is_end=False, notification=one.id)
    if target not in one.told_to or one.resolved is None:
        return None
    since = one.resolved if one.occurrences == 1 else one.resolved + HOLD
    return DueAlert(since, is_end=True, notification=one.id) if since <= now else None


def due(kept: Iterable[Notification], target: str, *, now: datetime) -> list[DueAlert]:
    """Return the due alerts of a target, in order."""
    return sorted(alert for one in kept if (alert := due_alert(one, target, now=now)) is not None)


def settled(one: Notification, target: str, alert: DueAlert, *, is_told: bool) -> Notification:
    """Return the notification after an alert was accepted or given up. A given-up one has no alert about the end."""
    waiting = {name: since for name, since in one.waiting.items() if name != target}
    if not alert.is_end:
        return replace(one, waiting=waiting, told_to=one.told_to | {target} if is_told else one.told_to)
    if one.resolved is None:  # it returned while the alert about its end was sent
        waiting |= {target: one.began} if is_told else {}
    return replace(one, waiting=waiting, told_to=one.told_to - {target})


def only_to(one: Notification, names: Collection[str]) -> Notification:
    """Return the notification without targets that are no longer in the settings: they are new when they return."""
    waiting = {name: since for name, since in one.waiting.items() if name in names}
    return replace(one, waiting=waiting, told_to=one.told_to.intersection(names))


def told_late(kept: Iterable[Notification], target: AlertTarget, *, now: datetime) -> list[Notification]:
    """Return the open notifications to send to a target late: those that match its filters and that it did not get, the
    gravest first, then the oldest.
    """
    unheard = [one for one in kept if one.resolved is None and _is_new_to(target, one)]
    unheard.sort(key=lambda one: (-one.severity.weight, one.id))
    return [
        replace(one, waiting={**one.waiting, target.name: now + timedelta(microseconds=place)})
        for place, one in enumerate(unheard[:MOST_LATE])
    ]


def _waits(one: Notification, targets: Sequence[AlertTarget], *, now: datetime) -> Notification:
    new = {target.name: now for target in targets if _is_new_to(target, one)}
    return replace(one, waiting={**one.waiting, **new}) if new else one


def _is_new_to(target: AlertTarget, one: Notification) -> bool:
    """Return True if a notification matches a target's filters and was not sent to it. Notifications of one person are
    never sent.
    """
    return (
        target.name not in one.told_to
        and target.name not in one.waiting
        and not one.cause.user
        and (not target.severities or one.severity in target.severities)
        and (not target.types or one.cause.type in target.types)
        and (not target.projects or one.cause.project in target.projects)
    )
