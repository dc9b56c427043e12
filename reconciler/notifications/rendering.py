"""Notifications and alerts as JSON."""

import base64
import binascii
import hashlib
import hmac
import re
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from reconciler.model.clock import rfc3339
from reconciler.model.notification_types import NotificationType
from reconciler.notifications import texts
from reconciler.notifications.models import Notification, NotificationScope, NotificationState, UserStatus

# A notification as the API shows it (interface, Notification resource). Pure.
#
# The mark of a person is the last part: the rest is the same for all who did not dismiss it, and for all who did.

API_VERSION = "service/v1"
KIND = "Notification"
PAGE = "/docs/notifications"  # of the service itself

_canonical = msgspec.json.Encoder(order="sorted")
_encoder = msgspec.json.Encoder()
_STATUS = {status: b',"status":{"userStatus":"%b"}}' % status.encode() for status in UserStatus}


class NotificationPlace(NamedTuple):
    """The organization's name, and the URL at which people reach the service, which may be empty."""

    organization: str
    web_url: str = ""


def render_notification(one: Notification, place: NotificationPlace, *, is_hidden: bool) -> bytes:
    """All but its `status`, as JSON without the last brace; `is_hidden` for whoever dismissed it."""
    spec = _spec(one, place, is_hidden=is_hidden)
    digest = hashlib.sha256(_canonical.encode(spec)).hexdigest()
    metadata = {**_metadata(one, place), "hash": digest}
    return _encoder.encode({"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec})[:-1]


def render_whole(shown: bytes, status: UserStatus) -> bytes:
    """The JSON of a notification, with what somebody did with it."""
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
    """Return what programs may need and the interface has no member for. Values follow the rule of labels."""
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


# An alert: what goes out about a change of state, and how it is signed. Pure.
#
# The body is made once and kept: what is signed are the bytes that are sent, at every attempt. It is signed by Standard
# Webhooks 1.0.0, for which there are libraries: HMAC-SHA256 over `<webhook-id>.<webhook-timestamp>.<body>`, in base64
# behind `v1,`. The time is that of the attempt, so that a receiver may refuse what is old, and the id that of the
# alert, so that it may drop what came before.

CONTENT_TYPE = "application/json"
STANDARD_PREFIX = b"whsec_"
EVENTS = {NotificationState.OPEN: "opened", NotificationState.RESOLVED: "resolved"}
TEST = "test"  # the event of one that only tries

_MARKUP = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}  # what chats read orders, links and mentions from
_UNSEEN = "\u200b"  # a space of no width: what is cut in two by it is text
_CUT = re.compile(
    r"""
    @(?=\w)  # somebody's name, or everybody
    | :(?=//)  # a URL of any scheme
    | (?<![^\W_])(?:www|ftp|mailto|tel)(?=[.:])  # what is made a link without one
    | (?<=\w)\.(?=[^\W\d_][\w-]+/)  # a domain with a path
    | \](?=\s*[(\[:])  # a link or a picture in Markdown, or where its URL stands
    | `(?=``)  # a block of code, which would swallow our own link
    """,
    re.VERBOSE | re.IGNORECASE,
)


class AlertContent(NamedTuple):
    """The common part of the alerts to all targets."""

    text: str
    event: str
    notification: bytes  # as JSON


def alert_content(one: Notification, state: NotificationState, place: NotificationPlace) -> AlertContent:
    """Return the alert about a notification in this state."""
    notification = render_whole(render_notification(one, place, is_hidden=False), UserStatus.UNREAD)
    return AlertContent(alert_text(one, state, place), EVENTS[state], notification)


def alert_body(said: AlertContent, *, identifier: str, at: datetime) -> bytes:
    """The alert as JSON. `text` is for chats, all else for programs."""
    whole = {
        "text": said.text,
        "id": identifier,
        "event": said.event,
        "at": rfc3339(at),
        "notification": msgspec.Raw(said.notification),
    }
    return _encoder.encode(whole)


class _Metadata(msgspec.Struct):
    id: str


class _About(msgspec.Struct):
    metadata: _Metadata


class _Kept(msgspec.Struct):
    event: str
    notification: _About


_decoder = msgspec.json.Decoder(_Kept)


def alert_about(sent: bytes) -> tuple[str, bool]:
    """Of a body that was made here: the id of the notification that it is about, and whether that began; of one that
    another version made and that cannot be read, an id that is empty.
    """
    try:
        kept = _decoder.decode(sent)
    except msgspec.MsgspecError:
        return "", False
    return kept.notification.metadata.id, kept.event == EVENTS[NotificationState.OPEN]


def trial_alert(*, target: str, identifier: str, at: datetime, place: NotificationPlace) -> bytes:
    """An alert that only tries whether alerts arrive: about nothing, so that it holds no notification."""
    said = f"This is a test: alerts of {_quoted(place.organization)} to {_quoted(target)} arrive here."
    return _encoder.encode({"text": said, "id": identifier, "event": TEST, "at": rfc3339(at)})


def alert_text(one: Notification, state: NotificationState, place: NotificationPlace) -> str:
    """Return the text for a chat: it mentions nobody, and holds no URL but that of our own page."""
    said = texts.text_of(one)
    where = one.cause.project or f"organization {place.organization}"  # which may be named as a project is
    head = f"[{one.severity}] {said.title} ({where})" if state is NotificationState.OPEN else f"{said.title} ({where})"
    return f"{_quoted(head)}\n{_quoted(said.message)}\n{type_link(one.cause.type, place)}"


def alert_headers(sent: bytes, *, identifier: str, seconds: int, secret: bytes | None) -> tuple[tuple[str, str], ...]:
    """The headers of an attempt at a time in Unix seconds; no signature without a secret."""
    named = (
        ("Content-Type", CONTENT_TYPE),
        ("webhook-id", identifier),
        ("webhook-timestamp", str(seconds)),
    )
    if secret is None:
        return named
    return (*named, ("webhook-signature", alert_signature(sent, identifier=identifier, seconds=seconds, secret=secret)))


def alert_signature(sent: bytes, *, identifier: str, seconds: int, secret: bytes) -> str:
    """`v1,` and base64. The key is what stands behind `whsec_` in base64, else the secret as it is."""
    signed = b"%b.%d.%b" % (identifier.encode(), seconds, sent)
    digest = hmac.new(_key(secret), signed, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def _key(secret: bytes) -> bytes:
    if secret.startswith(STANDARD_PREFIX):
        try:
            return base64.b64decode(secret.removeprefix(STANDARD_PREFIX), validate=True) or secret
        except binascii.Error:
            return secret
    return secret


def _quoted(said: str) -> str:
    """With nothing in it that a chat makes a link, a mention or a block of, but for a bare domain."""
    quoted = "".join(_MARKUP.get(character, character) for character in said)
    return _CUT.sub(lambda found: f"{found[0]}{_UNSEEN}", quoted)


# Notifications as JSON, made when somebody asks, and kept until the notification changes.


class RenderedNotifications:
    """The JSON of notifications, by id; a notification that changed is another object, and is rendered anew."""

    def __init__(self, place: NotificationPlace) -> None:
        self._place = place
        self._made: dict[str, tuple[Notification, dict[bool, bytes]]] = {}  # without the status, by `is_hidden`

    def of(self, one: Notification, status: UserStatus, *, is_kept: bool = True) -> bytes:
        """Return a notification as somebody sees it who gave it this status.

        A list that began a moment ago may show one that is not kept any more as it was then (`is_kept`).
        """
        kept, made = self._made.get(one.id, (None, {}))
        if kept is not one:
            made = {}
            if is_kept:
                self._made[one.id] = (one, made)
        is_hidden = status is UserStatus.DISMISSED
        if is_hidden not in made:
            made[is_hidden] = render_notification(one, self._place, is_hidden=is_hidden)
        return render_whole(made[is_hidden], status)

    def forget(self, identifier: str) -> None:
        """Drop a notification that is kept no longer."""
        self._made.pop(identifier, None)
