"""Notifications as values and as rows of `ops.db`; long work in slices."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple, TypeAlias, TypeVar

import msgspec

from reconciler.model.clock import rfc3339
from reconciler.model.notification_types import NotificationType, Severity
from reconciler.store.records import NotificationRow, NotificationStatusRow

log = logging.getLogger(__name__)

# A notification: one cause that a person should know of, from when it began until it is forgotten.

Facts: TypeAlias = Mapping[str, str | int | tuple[str, ...]]
"""The facts in the sentences of a notification, by name; `texts` says which a type has. Never a secret, and
nothing that a stranger's endpoint answered.
"""

NO_FACTS: Facts = MappingProxyType({})


class NotificationScope(StrEnum):
    """The audience (interface, `spec.scope`)."""

    ORGANIZATION = "organization"  # organization admins see it
    PROJECT = "project"  # whoever may read the project does
    USER = "user"  # one person does


class UserStatus(StrEnum):
    """The mark of one person (interface, `status.userStatus`)."""

    UNREAD = "unread"
    READ = "read"
    DISMISSED = "dismissed"


class NotificationState(StrEnum):
    """The state of the cause now."""

    OPEN = "open"
    RESOLVED = "resolved"


class Domain(StrEnum):
    """A part of the service that is looked at as a whole: a cause that a look does not find any more is over."""

    REPOSITORIES = "repositories"
    CONFIGURATIONS = "configurations"
    DELIVERY = "delivery"
    DISK = "disk"
    CERTIFICATES = "certificates"
    KEYS = "keys"
    STORE = "store"
    DAMAGE = "damage"
    OPEN_FILES = "open-files"


class Cause(NamedTuple):
    """The identity of a notification: its type and its subject.

    `project` is empty for what concerns the organization, `user` for what is no single person's. `subject` is a name:
    of a repository, a destination, a resource, a file.
    """

    type: NotificationType
    subject: str = ""
    project: str = ""
    user: str = ""

    @property
    def scope(self) -> NotificationScope:
        """The audience."""
        if self.user:
            return NotificationScope.USER
        return NotificationScope.PROJECT if self.project else NotificationScope.ORGANIZATION


@dataclass(frozen=True, slots=True)
class Finding:
    """A cause as one look found it.

    One that is `fading` is less than what opens a notification and not yet over: an open one stays as it is. So
    a value that sways about a threshold does not open and end one again and again, and what a service that just started
    cannot know yet ends nothing.
    """

    cause: Cause
    severity: Severity = Severity.WARNING
    facts: Facts = field(default_factory=lambda: NO_FACTS)
    fading: bool = False


class Look(NamedTuple):
    """All that one look at a domain found, each cause once. With `part`, it says nothing of causes of which that
    project is not: the rest of the domain was not looked at.
    """

    domain: Domain
    findings: tuple[Finding, ...]
    part: str | None = None


class Notification(msgspec.Struct, frozen=True, gc=False):
    """One that is kept. Instants are aware. Nothing in it can refer to it, so that the garbage collector, which holds
    everything up, need not go through thousands of them.

    `version` begins at 1 and grows whenever something that a person reads changed; `modified` is when it did.
    `occurrences` counts how often the cause began. `opened` is when it did first, `began` last; `resolved` is None
    while it is there. `told` is the state that alerts went out about last, `told_as` with which severities since it was
    last told that it began, and `told_to` are the targets that an alert about that was made for and not given up: see
    `ledger`.
    """

    id: str
    domain: Domain
    cause: Cause
    severity: Severity
    facts: Facts
    opened: datetime
    began: datetime
    modified: datetime
    version: int = 1
    occurrences: int = 1
    resolved: datetime | None = None
    told: NotificationState | None = None
    told_as: frozenset[Severity] = frozenset()
    told_to: frozenset[str] = frozenset()

    @property
    def state(self) -> NotificationState:
        """The state of the cause now."""
        return NotificationState.OPEN if self.resolved is None else NotificationState.RESOLVED


# Notifications as rows of `ops.db`, and back.


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
    """Return the row of a notification."""
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


def read_notifications(rows: Iterable[NotificationRow]) -> list[Notification]:
    """Read kept notifications. A row of a later version, with a type that this one does not know, is passed over."""
    found = []
    for each in rows:
        try:
            found.append(_notification(each.id, _decoder.decode(each.body)))
        except (msgspec.MsgspecError, ValueError):
            log.warning("The notification %s was written by another version, and is not shown.", each.id)
    return found


def read_statuses(rows: Iterable[NotificationStatusRow]) -> Iterator[tuple[str, str, UserStatus]]:
    """Yield notification, person and status. A status of a later version is passed over."""
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


# Long work in slices: between two of them everything else on the loop has its turn.

SLICE = 20  # that are judged, written, rendered or told late at a stretch: each takes some 50 microseconds
QUICK = 200  # that are only looked at or counted: each takes some 5 microseconds

T = TypeVar("T")


async def in_slices(values: Sequence[T], size: int = SLICE) -> AsyncIterator[Sequence[T]]:
    """So many that the loop is held for about a millisecond, again and again."""
    for start in range(0, len(values), size):
        yield values[start : start + size]
        await asyncio.sleep(0)
