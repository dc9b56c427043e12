"""Notifications as sentences and as JSON: what happened, what it means, what to do. Pure."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import msgspec

from reconciler.model.clock import rfc3339
from reconciler.model.notification_types import NotificationType
from reconciler.model.text import counted, visible
from reconciler.notifications.models import Cause, Notification, UserStatus

# Parts of sentences, for observers.

MOST = 500  # characters of a text that is not the service's own
NAMED = 5  # names in a sentence; the rest is counted


def named(names: Sequence[str], *, total: int, between: str = ", ") -> str:
    """Return `a, b, c and 2 more`."""
    rest = total - len(names)
    return between.join(names) + (f" and {rest} more" if rest > 0 else "")


def sentence(text: str) -> str:
    """Return a text as a sentence, bounded."""
    text = text.strip()
    if len(text) > MOST:
        text = f"{text[:MOST]}…"
    end = "" if not text or text[-1] in ".!?…" else "."
    return f"{text[:1].upper()}{text[1:]}{end}"


# The explanations of the types for people, in `types.md`: when there is one, what it means, what to do.


class TypeExplanation(NamedTuple):
    """Paragraphs of plain text; backticks enclose what is typed or read as it is."""

    when: str
    means: str
    todo: str


@cache
def explanations() -> Mapping[NotificationType, TypeExplanation]:
    """Return the explanation of each type, in the order of the page that shows them."""
    text = (resources.files("reconciler.notifications") / "types.md").read_text(encoding="utf-8")
    found = {}
    for section in text.removeprefix("### ").split("\n### "):
        name, *paragraphs = [" ".join(part.split()) for part in section.split("\n\n")]
        found[NotificationType(name)] = TypeExplanation(*paragraphs)
    return found


class NotificationText(NamedTuple):
    """A line for a list, and the sentences that tell the whole."""

    title: str
    message: str


def text_of(one: Notification) -> NotificationText:
    """Return the text of a notification, for an open or a resolved one."""
    title = one.title or f"{one.cause.type} {one.cause.subject}".strip()
    if one.instance:
        title = f"{title} (replica {one.instance})"
    explained = explanations()[one.cause.type]
    message = f"{one.details} {explained.means} {_typed(explained.todo, one.cause)}".strip()
    again = ""
    if one.occurrences > 1:
        again = f" It has come {counted(one.occurrences, 'time')} since {rfc3339(one.opened)}."
    if one.resolved is None:
        return NotificationText(title, f"{message}{again}")
    return NotificationText(f"Resolved: {title}", f"Over since {rfc3339(one.resolved)}; it was: {message}{again}")


def _typed(todo: str, cause: Cause) -> str:
    """Fill names into commands. A command about a repository needs no project."""
    subject, project = visible(cause.subject)[:MOST], visible(cause.project)[:MOST]
    of = "" if project in ("", "default") else f" --project {project}"
    return todo.replace("REPOSITORY", subject).replace("DESTINATION", f"{subject}{of}")


# A notification as the API shows it (interface, Notification resource).

API_VERSION = "service/v1"
KIND = "Notification"
PAGE = "/docs/notifications"  # of the service itself

_canonical = msgspec.json.Encoder(order="sorted")
_encoder = msgspec.json.Encoder()


class NotificationPlace(NamedTuple):
    """The organization's name, and the URL at which people reach the service, which may be empty."""

    organization: str
    web_url: str = ""


def render(one: Notification, place: NotificationPlace, status: UserStatus) -> bytes:
    """Return a notification as JSON for a person with this mark."""
    spec = _spec(one, place, is_hidden=status is UserStatus.DISMISSED)
    said, url = text_of(one), type_link(one.cause.type, place)
    cause = (*one.cause, one.instance) if one.instance else one.cause
    metadata: dict[str, Any] = {
        "id": one.id,
        "name": f"{one.cause.type}-{one.id}",
        "displayName": said.title,
        "description": said.title,
        # Facts for programs without a member in the interface. Values follow the rules of labels.
        "labels": {
            "service/state": one.state.value,
            "service/since": f"{one.began.astimezone(UTC):%Y%m%dT%H%M%SZ}",  # ISO 8601 as far as a label may hold it
            "service/occurrences": str(one.occurrences),
            "service/cause": hashlib.sha256(_canonical.encode(cause)).hexdigest()[:32],
            **({"service/replica": one.instance} if one.instance else {}),
        },
        "version": one.version,
        "dateModified": rfc3339(one.modified),
        "deprecated": False,
        "stability": "stable",
        "resourceDocLink": url,
        "additionalInfo": {
            "message": said.message,
            "documentation": [{"text": f"{one.cause.type}: what it means and what to do", "url": url}],
        },
        "hash": hashlib.sha256(_canonical.encode(spec)).hexdigest(),
    }
    whole = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": metadata,
        "spec": spec,
        "status": {"userStatus": status},
    }
    return _encoder.encode(whole)


def type_link(type_: NotificationType, place: NotificationPlace) -> str:
    """Return the URL of the page of this service that explains a type."""
    return f"{place.web_url.rstrip('/')}{PAGE}#{type_.value.lower()}"


def _spec(one: Notification, place: NotificationPlace, *, is_hidden: bool) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "notificationType": one.cause.type.value,
        "severity": one.severity.value,
        "scope": one.cause.scope.value,
        "organization": place.organization,
        "account": one.cause.project,
        "userId": one.cause.user,
        "recommendationId": one.cause.type.value.lower(),
    }
    return {**{name: value for name, value in spec.items() if value}, "hidden": is_hidden}
