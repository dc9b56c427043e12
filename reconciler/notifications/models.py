"""Notifications as values and as rows of `ops.db`."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

import msgspec

from reconciler.model.notification_types import NotificationType, Severity
from reconciler.store.records import NotificationRow

log = logging.getLogger(__name__)

# A notification: one cause that a person should know of, from when it began until it is forgotten.


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
    FLOWS = "flows"
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
    """A cause as one look found it, told in a line for a list and in sentences with its details. They hold no secret,
    and nothing that a stranger's endpoint answered.

    One that is `fading` is less than what opens a notification and not yet over: an open one stays as it is. So
    a value that sways about a threshold does not open and end one again and again, and what a service that just started
    cannot know yet ends nothing.
    """

    cause: Cause
    severity: Severity = Severity.WARNING
    title: str = ""
    details: str = ""
    fading: bool = False


class Look(NamedTuple):
    """All that one look at a domain found; of each cause the first finding counts. With `projects`, only these were
    looked at; "" stands for the organization.
    """

    domain: Domain
    findings: tuple[Finding, ...]
    projects: frozenset[str] | None = None


class Notification(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One that is kept. Instants are aware.

    `title` is empty in a row of an earlier version, until a look finds the cause. `version` begins at 1 and grows
    whenever something that a person reads changed; `modified` is when it did. `occurrences` counts how often the cause
    began. `opened` is when it did first, `began` last; `resolved` is None while it is there. `waiting` holds the
    targets that are still to be told of the beginning, and since when; `told_to` those that took that alert, and are to
    be told of the end.
    """

    id: str
    domain: Domain
    cause: Cause
    severity: Severity
    title: str = ""
    details: str = ""
    opened: datetime
    began: datetime
    modified: datetime
    version: int = 1
    occurrences: int = 1
    resolved: datetime | None = None
    waiting: Mapping[str, datetime] = {}
    told_to: frozenset[str] = frozenset()

    @property
    def state(self) -> NotificationState:
        """The state of the cause now."""
        return NotificationState.OPEN if self.resolved is None else NotificationState.RESOLVED


# Notifications as rows of `ops.db`, and back.

_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(Notification)


def notification_row(one: Notification) -> NotificationRow:
    """Return the row of a notification."""
    return NotificationRow(one.id, _encoder.encode(one))


def read_notifications(rows: Iterable[NotificationRow]) -> Iterator[Notification]:
    """Read kept notifications. A row of a later version, with a type that this one does not know, is passed over."""
    for each in rows:
        try:
            yield _decoder.decode(each.body)
        except msgspec.MsgspecError:
            log.warning("The notification %s was written by another version, and is not shown.", each.id)
