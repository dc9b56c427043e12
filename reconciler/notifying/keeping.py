"""Notifications as rows of `ops.db`, and back.

Belongs here: that form. Does not: the file (`reconciler.operations`), who reads which (`board`).
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

import msgspec

from reconciler.model.clock import rfc3339
from reconciler.model.notification_types import NotificationType, Severity
from reconciler.notifications.models import Cause, Domain, Notification, NotificationState, UserStatus
from reconciler.store.operations import NotificationRow, NotificationStatusRow

log = logging.getLogger(__name__)


class _Body(msgspec.Struct, frozen=True, omit_defaults=True):
    domain: Domain
    type: NotificationType
    severity: Severity
    opened: str
    began: str
    modified: str
    subject: str = ""
    project: str = ""
    user: str = ""
    facts: dict[str, str | int | list[str]] = {}
    version: int = 1
    occurrences: int = 1
    resolved: str | None = None
    told: NotificationState | None = None
    told_as: list[Severity] = []
    told_to: list[str] = []


_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(_Body)


def notification_row(one: Notification) -> NotificationRow:
    """A notification as it is kept."""
    body = _Body(
        domain=one.domain,
        type=one.cause.type,
        severity=one.severity,
        opened=rfc3339(one.opened),
        began=rfc3339(one.began),
        modified=rfc3339(one.modified),
        subject=one.cause.subject,
        project=one.cause.project,
        user=one.cause.user,
        facts={name: _clean(value) for name, value in one.facts.items()},
        version=one.version,
        occurrences=one.occurrences,
        resolved=_text(one.resolved),
        told=one.told,
        told_as=sorted(one.told_as),
        told_to=sorted(one.told_to),
    )
    return NotificationRow(one.id, _encoder.encode(body))


def notifications(rows: Iterable[NotificationRow]) -> list[Notification]:
    """What was kept. A row that a later version wrote, with a type that this one does not know, is passed over."""
    found = []
    for each in rows:
        try:
            found.append(_notification(each.id, _decoder.decode(each.body)))
        except (msgspec.MsgspecError, ValueError):
            log.warning("The notification %s was written by another version, and is not shown.", each.id)
    return found


def statuses(rows: Iterable[NotificationStatusRow]) -> Iterator[tuple[str, str, UserStatus]]:
    """What people did: notification, person, status. What a later version wrote and this one does not know is passed
    over.
    """
    for each in rows:
        try:
            yield each.notification, each.user, UserStatus(each.status)
        except ValueError:
            log.warning("What was done with %s was written by another version; it is unread.", each.notification)


def _clean(value: str | int | tuple[str, ...]) -> str | int | list[str]:
    """A fact whose texts are UTF-8: a name that a disk gave may not be."""
    if isinstance(value, tuple):
        return [each.encode("utf-8", "backslashreplace").decode() for each in value]
    return value if isinstance(value, int) else value.encode("utf-8", "backslashreplace").decode()


def _notification(identifier: str, body: _Body) -> Notification:
    facts: Mapping[str, str | int | tuple[str, ...]] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in body.facts.items()
    }
    return Notification(
        id=identifier,
        domain=body.domain,
        cause=Cause(body.type, body.subject, body.project, body.user),
        severity=body.severity,
        facts=facts,
        opened=datetime.fromisoformat(body.opened),
        began=datetime.fromisoformat(body.began),
        modified=datetime.fromisoformat(body.modified),
        version=body.version,
        occurrences=body.occurrences,
        resolved=_instant(body.resolved),
        told=body.told,
        told_as=frozenset(body.told_as),
        told_to=frozenset(body.told_to),
    )


def _text(instant: datetime | None) -> str | None:
    return None if instant is None else rfc3339(instant)


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
