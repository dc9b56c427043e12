"""An alert: what goes out about a change of state, and how it is signed. Pure.

Belongs here: its body and its headers. Does not: when there is one (`telling`), sending it (`reconciler.notifying`).

The body is made once and kept: what is signed are the bytes that are sent, at every attempt. It is signed by Standard
Webhooks 1.0.0, for which there are libraries: HMAC-SHA256 over `<webhook-id>.<webhook-timestamp>.<body>`, in base64
behind `v1,`. The time is that of the attempt, so that a receiver may refuse what is old, and the id that of the alert,
so that it may drop what came before.
"""

import base64
import binascii
import hashlib
import hmac
import re
from datetime import datetime
from typing import NamedTuple

import msgspec

from reconciler.model.clock import rfc3339
from reconciler.notifications import rendering, texts
from reconciler.notifications.models import Notification, NotificationState, UserStatus
from reconciler.notifications.rendering import NotificationPlace

CONTENT_TYPE = "application/json"
STANDARD_PREFIX = b"whsec_"
EVENTS = {NotificationState.OPEN: "opened", NotificationState.RESOLVED: "resolved"}
TEST = "test"  # the event of one that only tries

_encoder = msgspec.json.Encoder()
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
    """What is the same in the alerts to all targets."""

    text: str
    event: str
    notification: bytes  # as JSON


def alert_content(one: Notification, state: NotificationState, place: NotificationPlace) -> AlertContent:
    """What an alert says of a notification that is in this state."""
    notification = rendering.render_whole(rendering.render_notification(one, place, is_hidden=False), UserStatus.UNREAD)
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
    """What people read in a chat: nothing in it calls anybody, and no URL in it but that of our own page is one."""
    said = texts.text_of(one)
    where = one.cause.project or f"organization {place.organization}"  # which may be named as a project is
    head = f"[{one.severity}] {said.title} ({where})" if state is NotificationState.OPEN else f"{said.title} ({where})"
    return f"{_quoted(head)}\n{_quoted(said.message)}\n{rendering.type_link(one.cause.type, place)}"


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
