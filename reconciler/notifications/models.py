"""Notifications as values, and long work in slices."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple, TypeAlias, TypeVar

import msgspec

from reconciler.model.notification_types import NotificationType, Severity

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


# Long work in slices: between two of them everything else on the loop has its turn.

SLICE = 20  # that are judged, written, rendered or told late at a stretch: each takes some 50 microseconds
QUICK = 200  # that are only looked at or counted: each takes some 5 microseconds

T = TypeVar("T")


async def in_slices(values: Sequence[T], size: int = SLICE) -> AsyncIterator[Sequence[T]]:
    """So many that the loop is held for about a millisecond, again and again."""
    for start in range(0, len(values), size):
        yield values[start : start + size]
        await asyncio.sleep(0)
