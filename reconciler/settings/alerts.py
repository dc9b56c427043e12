"""The settings of notifications and alerts: how long they are kept, and who is told of them outside of the service."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import AfterValidator, Field, Strict

from reconciler.model.notification_types import NotificationType, Severity
from reconciler.model.values import Pointer, Value
from reconciler.settings import addresses
from reconciler.settings.allowing import Allowed
from reconciler.settings.scalars import Duration, Name, OptionalPath, Project
from reconciler.settings.topics import Topic

OneSeverity = Annotated[Severity, Allowed("info, warning, error or critical")]
OneType = Annotated[NotificationType, Allowed("a type of docs/notifications.md such as RepositoryUnreachable")]
AlertURL = Annotated[
    str,
    Strict(),
    AfterValidator(addresses.alert_url),
    Allowed('an http or https URL without a user or fragment, or ""'),
]


class Notifications(Topic):
    """What the service tells of itself."""

    interval: Duration = Field(default=2.0, description="Time between two looks at what may be wrong.")
    retention: Duration = Field(default=30 * 24 * 3600.0, description="How long a notification is kept after its end.")


class Alert(Topic):
    """Who is told when a cause begins, and when it ends."""

    name: Name = Field(description="What the log calls it, unique.")
    url: AlertURL = Field(default="", description="Where alerts are sent to. Off: empty, then `urlFile` says it.")
    url_file: OptionalPath = Field(
        default=None, description="File with the URL, instead of `url`: those of chats are secrets. Off: empty."
    )
    secret_file: OptionalPath = Field(
        default=None, description="File with the secret that alerts are signed with. Off: empty, they are not signed."
    )
    severities: tuple[OneSeverity, ...] = Field(default=(), description="Which severities. Off: empty, all of them.")
    types: tuple[OneType, ...] = Field(default=(), description="Which types. Off: empty, all of them.")
    projects: tuple[Project, ...] = Field(
        default=(),
        description="Of which projects. Off: empty, all of them, and what concerns the whole organization.",
    )


def alert_mistakes(alert: dict[str, Value]) -> Iterator[tuple[Pointer, str]]:
    """Which keys of an alert do not fit each other, as (the key's pointer in it, the sentence)."""
    given = [key for key in ("url", "urlFile") if alert.get(key) not in ("", None)]
    if not given:
        yield (), "needs url or urlFile"
    elif len(given) > 1:
        yield ("urlFile",), "must not be given beside url"
