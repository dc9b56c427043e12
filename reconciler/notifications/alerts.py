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

import msgspec

from reconciler.clock import rfc3339
from reconciler.notifications import rendering, texts
from reconciler.notifications.models import Notification, State, UserStatus
from reconciler.notifications.rendering import Place

CONTENT_TYPE = "application/json"
STANDARD_PREFIX = b"whsec_"
EVENTS = {State.OPEN: "opened", State.RESOLVED: "resolved"}

_encoder = msgspec.json.Encoder()
_MARKUP = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}  # what chats read orders, links and mentions from
_MENTION = re.compile(r"@(?=\w)")
_UNSEEN = "\u200b"


def body(one: Notification, state: State, *, identifier: str, at: datetime, place: Place) -> bytes:
    """The alert as JSON. `text` is for chats, all else for programs."""
    notification = rendering.whole(rendering.rendered(one, place, is_hidden=False), UserStatus.UNREAD)
    whole = {
        "text": text(one, state, place),
        "id": identifier,
        "event": EVENTS[state],
        "at": rfc3339(at),
        "notification": msgspec.Raw(notification),
    }
    return _encoder.encode(whole)


def text(one: Notification, state: State, place: Place) -> str:
    """What people read in a chat: nothing in it calls anybody or leads elsewhere than to our own page."""
    said = texts.of(one)
    where = one.cause.project or place.organization
    head = f"[{one.severity}] {said.title} ({where})" if state is State.OPEN else f"{said.title} ({where})"
    return f"{_quoted(head)}\n{_quoted(said.message)}\n{rendering.link(one.cause.type, place)}"


def headers(sent: bytes, *, identifier: str, seconds: int, secret: bytes | None) -> tuple[tuple[str, str], ...]:
    """The headers of an attempt at a time in Unix seconds; no signature without a secret."""
    named = (
        ("Content-Type", CONTENT_TYPE),
        ("webhook-id", identifier),
        ("webhook-timestamp", str(seconds)),
    )
    if secret is None:
        return named
    return (*named, ("webhook-signature", signature(sent, identifier=identifier, seconds=seconds, secret=secret)))


def signature(sent: bytes, *, identifier: str, seconds: int, secret: bytes) -> str:
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
    quoted = "".join(_MARKUP.get(character, character) for character in said)
    return _MENTION.sub(f"@{_UNSEEN}", quoted)
