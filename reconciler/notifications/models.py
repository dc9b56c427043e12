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

# A notification: one cause that a person should know, from its beginning until it is forgotten.


class NotificationScope(StrEnum):
    """The audience (interface, `spec.scope`)."""

    ORGANIZATION = "organization"  # organization admins see it
    PROJECT = "project"  # everybody who may read the project sees it
    USER = "user"  # one person sees it


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
    """A part of the service that one observer checks completely: a cause that it no longer finds is over."""

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
    REPLICAS = "replicas"


OF_INSTANCES = frozenset(
    {Domain.DELIVERY, Domain.DISK, Domain.CERTIFICATES, Domain.STORE, Domain.DAMAGE, Domain.OPEN_FILES}
)
"""The things that each replica checks for itself: its queues, its machine, and how it reaches the store."""


class Cause(NamedTuple):
    """The identity of a notification: its type and its subject.

    `project` is empty for causes of the organization, `user` for causes that are not of one person. `subject` is the
    name of a repository, a destination, a resource or a file.
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
    """A cause as an observer found it, with a title and sentences with details. They have no secret and no text from an
    endpoint.

    A `fading` finding does not open a notification, but keeps an open one. So a value near a threshold does not open
    and end one again and again, and a service that has just started ends none too early.
    """

    cause: Cause
    severity: Severity = Severity.WARNING
    title: str = ""
    details: str = ""
    fading: bool = False


class Observation(NamedTuple):
    """The findings of one check of a domain. If a cause has several findings, the first counts. With `projects`, only
    these were checked; "" is the organization.
    """

    domain: Domain
    findings: tuple[Finding, ...]
    projects: frozenset[str] | None = None


class Notification(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A stored notification. Instants are aware.

    `title` is empty in a row of an earlier version, until an observer finds the cause. `version` begins at 1 and grows
    with each change of its text; `modified` is the time of the last one. `occurrences` counts the beginnings of the
    cause: `opened` is the first, `began` the last; `resolved` is None while the cause exists. `waiting` has the targets
    that must still get the alert about the beginning, and since when; `told_to` those that accepted it and must get the
    one about the end. `instance` is the replica whose cause it is (`owners`), empty for all others.
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
    instance: str = ""

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
    """Read stored notifications. Rows of a later version with an unknown type are skipped."""
    for each in rows:
        try:
            yield _decoder.decode(each.body)
        except msgspec.MsgspecError:
            log.warning("The notification %s was written by another version, and is not shown.", each.id)


# Alerts.


class AlertOutcome(NamedTuple):
    """The outcome of an attempt. `status` is None without an answer. `why` is the end of a sentence with the likely
    cause, empty if the alert was accepted. `asked` is the number of seconds from `Retry-After`. `is_refused`: the same
    alert would not be accepted later either.
    """

    status: int | None = None
    why: str = ""
    asked: float = 0.0
    is_refused: bool = False

    @property
    def is_taken(self) -> bool:
        """True if the target accepted the alert."""
        return self.status is not None and 200 <= self.status < 300


@dataclass(frozen=True, slots=True)
class TriedAlert:
    """The outcome of a test of a target, and how many seconds it took."""

    target: str
    came: AlertOutcome
    seconds: float
