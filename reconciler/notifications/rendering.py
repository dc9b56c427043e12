"""A notification as the API shows it (interface, Notification resource). Pure.

Belongs here: that shape. Every member of the interface's table is there, save texts, maps and arrays that are empty.
Does not: the sentences (`texts`), who sees which.

What one person did with it is the last part, so that the rest is made once for all who did not dismiss it, and once
for all who did.
"""

import hashlib
from datetime import UTC
from typing import Any, NamedTuple

import msgspec

from reconciler.model.clock import rfc3339
from reconciler.model.notification_types import NotificationType
from reconciler.notifications import texts
from reconciler.notifications.models import Notification, NotificationScope, UserStatus

API_VERSION = "service/v1"
KIND = "Notification"
PAGE = "/docs/notifications"  # of the service itself

_canonical = msgspec.json.Encoder(order="sorted")
_encoder = msgspec.json.Encoder()
_STATUS = {status: b',"status":{"userStatus":"%b"}}' % status.encode() for status in UserStatus}


class NotificationPlace(NamedTuple):
    """Where notifications are shown: the organization's name, and the URL at which people reach the service, which may
    be empty.
    """

    organization: str
    web_url: str = ""


def render_notification(one: Notification, place: NotificationPlace, *, is_hidden: bool) -> bytes:
    """All but its `status`, as JSON without the last brace; `is_hidden` for whoever dismissed it."""
    spec = _spec(one, place, is_hidden=is_hidden)
    digest = hashlib.sha256(_canonical.encode(spec)).hexdigest()
    metadata = {**_metadata(one, place), "hash": digest}
    return _encoder.encode({"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec})[:-1]


def render_whole(shown: bytes, status: UserStatus) -> bytes:
    """What `rendered` gave, with what somebody did with it."""
    return shown + _STATUS[status]


def type_link(type_: NotificationType, place: NotificationPlace) -> str:
    """The URL of the page of this service that explains a type."""
    return f"{place.web_url.rstrip('/')}{PAGE}#{type_.value.lower()}"


def _metadata(one: Notification, place: NotificationPlace) -> dict[str, Any]:
    said, url = texts.text_of(one), type_link(one.cause.type, place)
    return {
        "id": one.id,
        "name": f"{one.cause.type}-{one.id}",
        "displayName": said.title,
        "description": said.title,
        "labels": _labels(one),
        "version": one.version,
        "dateModified": rfc3339(one.modified),
        "deprecated": False,
        "stability": "stable",
        "resourceDocLink": url,
        "additionalInfo": {
            "message": said.message,
            "documentation": [{"text": f"{one.cause.type}: what it means and what to do", "url": url}],
        },
    }


def _labels(one: Notification) -> dict[str, str]:
    """What a program may want to know that the interface has no member for. Values follow the rule of labels."""
    return {
        "service/state": one.state.value,
        "service/since": f"{one.began.astimezone(UTC):%Y%m%dT%H%M%SZ}",  # ISO 8601 without what a label may not hold
        "service/occurrences": str(one.occurrences),
        "service/cause": render_cause(one),
    }


def render_cause(one: Notification) -> str:
    """The same text for all notifications of one cause, and for no other."""
    return hashlib.sha256(_canonical.encode(one.cause)).hexdigest()[:32]


def _spec(one: Notification, place: NotificationPlace, *, is_hidden: bool) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "notificationType": one.cause.type.value,
        "severity": one.severity.value,
        "scope": one.cause.scope.value,
        "organization": place.organization,
        "account": one.cause.project,
        "userId": one.cause.user if one.cause.scope is NotificationScope.USER else "",
        "recommendationId": one.cause.type.value.lower(),
    }
    return {**{name: value for name, value in spec.items() if value}, "hidden": is_hidden}
