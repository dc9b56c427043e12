"""Alerts: their content and signature, and one attempt to send one to a target."""

import asyncio
import base64
import binascii
import hashlib
import hmac
import html
import logging
import re
import ssl
from datetime import datetime
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from reconciler.delivery import retry
from reconciler.delivery.http_client import (
    AnswerLimits,
    HttpAnswer,
    HttpClient,
    HttpRequest,
    HttpTarget,
    Unanswered,
    checked,
)
from reconciler.git import hooks
from reconciler.git.remotes.credentials import UnusableFile
from reconciler.model import errors, ids
from reconciler.model.clock import rfc3339
from reconciler.notifications import rendering
from reconciler.notifications.ledger import DueAlert
from reconciler.notifications.models import AlertOutcome, Notification, UserStatus
from reconciler.notifications.rendering import NotificationPlace
from reconciler.settings import bounded_io
from reconciler.settings.bounded_io import BoundedIO
from reconciler.settings.models import AlertTarget

log = logging.getLogger(__name__)

# An alert about a change of state: its content and its signature. Pure.
#
# The body is made once, so every attempt signs and sends the same bytes. The signature is that of Standard Webhooks
# 1.0.0, for which there are libraries: HMAC-SHA256 over `<webhook-id>.<webhook-timestamp>.<body>`, in base64 after
# `v1,`. The time is that of the attempt, so that a receiver can refuse old ones. The id is that of the alert, so that
# it can drop repetitions.

_encoder = msgspec.json.Encoder()

CONTENT_TYPE = "application/json"
STANDARD_PREFIX = b"whsec_"

_UNSEEN = "\u200b"  # a zero-width space, which breaks links and mentions
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


def alert_id(alert: DueAlert, to: AlertTarget) -> str:
    """Return the id of an alert: the same at each attempt, also after a restart."""
    told = f"{to.name} {alert.notification} {alert.is_end} {alert.since.isoformat()}"
    randomness = hashlib.sha256(told.encode()).digest()[: ids.RANDOM_BYTES]
    return ids.ulid(milliseconds=int(alert.since.timestamp() * 1000), randomness=randomness)


def alert_body(one: Notification, alert: DueAlert, place: NotificationPlace, *, identifier: str) -> bytes:
    """Return the alert about a notification as JSON. `text` is for chats, the other members for programs."""
    if not alert.is_end:
        one = replace(one, resolved=None)  # the end has its own alert
    whole = {
        "text": alert_text(one, place),
        "id": identifier,
        "event": "resolved" if alert.is_end else "opened",
        "at": rfc3339(alert.since),
        "notification": msgspec.Raw(rendering.render(one, place, UserStatus.UNREAD)),
    }
    return _encoder.encode(whole)


def trial_alert(*, target: str, identifier: str, at: datetime, place: NotificationPlace) -> bytes:
    """Return a test alert. It is about nothing, so it has no notification."""
    said = f"This is a test: alerts of {_quoted(place.organization)} to {_quoted(target)} arrive here."
    return _encoder.encode({"text": said, "id": identifier, "event": "test", "at": rfc3339(at)})


def alert_text(one: Notification, place: NotificationPlace) -> str:
    """Return the text for a chat, without mentions, and without URLs except that of our own page."""
    said = rendering.text_of(one)
    where = one.cause.project or f"organization {place.organization}"  # an organization may have the name of a project
    head = f"[{one.severity}] {said.title} ({where})" if one.resolved is None else f"{said.title} ({where})"
    return f"{_quoted(head)}\n{_quoted(said.message)}\n{rendering.type_link(one.cause.type, place)}"


def alert_headers(sent: bytes, *, identifier: str, seconds: int, secret: bytes | None) -> tuple[tuple[str, str], ...]:
    """Return the headers of an attempt at a time in Unix seconds, with a signature if there is a secret."""
    named = (
        ("Content-Type", CONTENT_TYPE),
        ("webhook-id", identifier),
        ("webhook-timestamp", str(seconds)),
    )
    if secret is None:
        return named
    return (*named, ("webhook-signature", alert_signature(sent, identifier=identifier, seconds=seconds, secret=secret)))


def alert_signature(sent: bytes, *, identifier: str, seconds: int, secret: bytes) -> str:
    """Return `v1,` and base64. The key is the base64 text after `whsec_`, otherwise the secret itself."""
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
    """Quote a text so that a chat makes no link, mention or block of it, except of a bare domain."""
    escaped = html.escape(said, quote=False)  # chats read orders, links and mentions from `<` and `>`
    return _CUT.sub(lambda found: f"{found[0]}{_UNSEEN}", escaped)


# One attempt to send an alert to a target. No sentence has the URL, which is a password for chats, or the target's
# text.

LIMITS = AnswerLimits(connect=5.0, total=10.0, answer_bytes=1024)
WHOLE = 15.0  # seconds of an attempt, with its files
MOST_BYTES = 64 * 1024  # of a file with a URL
LATER = frozenset({408, 425, 429})  # the statuses of 4xx after which the same alert may succeed


class UnpreparedAlert(errors.Transient):
    """A file that an alert needs cannot be used."""


class AlertSender:
    """Sends to all targets over one client. Used from one event loop."""

    def __init__(self, client: HttpClient, *, authorities: Path | None = None, whole: float = WHOLE) -> None:
        """`authorities` is a PEM file that is trusted instead of the system's; an attempt has `whole` seconds."""
        self._client = client
        self._whole = whole
        self._authorities = authorities
        self._trust: ssl.SSLContext | None = None  # made with the first alert; None trusts the system's authorities
        self._files: dict[str, BoundedIO] = {}  # of each target, which waits for its own alone

    async def send(self, to: AlertTarget, body: bytes, *, identifier: str, seconds: float) -> AlertOutcome:
        """Send an alert once, at a time in Unix seconds."""
        try:
            async with asyncio.timeout(self._whole):
                request = await self._request(to, body, identifier=identifier, seconds=int(seconds))
                answer = await self._client.send(request, limits=LIMITS, tls=await self._trusted())
        except TimeoutError:
            return AlertOutcome(
                why=f"it took longer than {self._whole:g} seconds; look at the disk that its files are on"
            )
        except Unanswered as problem:
            return AlertOutcome(why=f"{problem.message}; {_ADVICE}")
        except errors.ReconcilerError as problem:
            return AlertOutcome(why=problem.message)
        except Exception:
            log.exception("An alert to %s met a fault of the program.", to.name)
            return AlertOutcome(why="it met a fault of the program, which the log has")
        return judged(answer, now_ms=int(seconds * 1000))

    async def _trusted(self) -> ssl.SSLContext | None:
        """Return the TLS context; read the authorities again until that succeeds. Raises UnpreparedAlert."""
        if self._authorities is not None and self._trust is None:
            try:
                self._trust = await asyncio.to_thread(ssl.create_default_context, cafile=str(self._authorities))
            except (OSError, ValueError):  # SSLError is an OSError
                told = f"`outbound.caFile` cannot be read: put a PEM file at {self._authorities}"
                raise UnpreparedAlert(told) from None
        return self._trust

    async def _request(self, to: AlertTarget, body: bytes, *, identifier: str, seconds: int) -> HttpRequest:
        """Make the request. Files are read at each attempt, so a new secret counts at once. Raises UnpreparedAlert."""
        files = self._files.setdefault(to.name, BoundedIO(f"the files of the alert target {to.name}"))
        url, secret = await files.answer(partial(_read, to))
        named = alert_headers(body, identifier=identifier, seconds=seconds, secret=secret)
        return checked(HttpRequest(_target(url, to), "POST", named, body))


def judged(answer: HttpAnswer, *, now_ms: int) -> AlertOutcome:
    """Return the outcome for an answer."""
    status = answer.status
    if 200 <= status < 300:
        return AlertOutcome(status)
    asked = retry.retry_after(answer, now_ms=now_ms)
    why = f"it answered {status}: {_meaning(status)}"
    return AlertOutcome(status, why, asked, is_refused=300 <= status < 500 and status not in LATER)


def _read(to: AlertTarget) -> tuple[str, bytes | None]:
    """Read the URL, and the secret if alerts are signed. Raises UnpreparedAlert."""
    url = to.url
    if to.url_file is not None:
        try:
            url = bounded_io.read_file(to.url_file, limit=MOST_BYTES).decode("ascii").strip()
        except (OSError, ValueError, bounded_io.NotAFile, bounded_io.FileTooLarge):
            raise UnpreparedAlert(f"the file {to.url_file} cannot be read; put the URL into it") from None
    if to.secret_file is None:
        return url, None
    try:
        return url, hooks.read_secret(to.secret_file)
    except UnusableFile as problem:
        raise UnpreparedAlert(f"the file {to.secret_file} {problem}; put the secret into it") from None


def _target(url: str, to: AlertTarget) -> HttpTarget:
    """Parse the URL. Raises UnpreparedAlert, which does not show it."""
    try:
        parts = urlsplit(url)
        port = parts.port or (80 if parts.scheme == "http" else 443)
    except ValueError:
        parts, port = urlsplit(""), 0
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise UnpreparedAlert(f"what is in {to.url_file} is no http or https URL without a user; put one into it")
    path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    return HttpTarget("http" if parts.scheme == "http" else "https", parts.hostname, port, path)


def _meaning(status: int) -> str:
    if status == 429:
        return "it gets too many; choose fewer with `severities` and `types`"
    if status < 400:
        return "a redirect, which is not followed; name where it leads to in `url`"
    if status < 500:
        return "a wrong or withdrawn URL, or it expects another signature; correct `url`, `urlFile` or `secretFile`"
    return "its server fails; look at its own logs"


_ADVICE = "check its URL, and `outbound.proxy` and `outbound.caFile`"
