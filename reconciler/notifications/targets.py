"""One attempt to send an alert to a target.

No sentence holds the URL, since chats take it for a password, nor anything that the target wrote.
"""

import asyncio
import logging
import ssl
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import urlsplit

from reconciler.delivery import retry
from reconciler.delivery.http_client import HttpClient
from reconciler.delivery.http_request import AnswerLimits, FailureCause, HttpAnswer, HttpRequest, HttpTarget, Unanswered
from reconciler.git import hooks
from reconciler.model import errors
from reconciler.notifications import rendering
from reconciler.notifications.ledger import AlertFilter
from reconciler.settings import bounded_io

log = logging.getLogger(__name__)

LIMITS = AnswerLimits(connect=5.0, total=10.0, answer_bytes=1024)
WHOLE = 15.0  # seconds of an attempt, with its files
MOST_BYTES = 64 * 1024  # of a file with a URL
LATER = frozenset({408, 425, 429})  # the statuses of 4xx that the same alert may not get again


@dataclass(frozen=True, slots=True)
class AlertTarget:
    """A target of the settings. One of `url` and `url_file` is given; neither is shown, since chats take a URL for a
    password.
    """

    name: str
    wanted: AlertFilter = field(default_factory=AlertFilter)
    url: str = field(default="", repr=False)
    url_file: Path | None = None
    secret_file: Path | None = None


class UnpreparedAlert(errors.Transient):
    """A file that an alert needs cannot be used."""


class AlertOutcome(NamedTuple):
    """The outcome of an attempt. `status` is None when nobody answered, `why` a sentence's rest that tells the likely
    cause, empty where it was taken. `asked` is for how many seconds the target wants to be left. `is_refused`: the same
    alert will not be taken later either.
    """

    status: int | None = None
    why: str = ""
    asked: float = 0.0
    is_refused: bool = False

    @property
    def is_taken(self) -> bool:
        """True when the target has it."""
        return self.status is not None and 200 <= self.status < 300


class AlertSender:
    """Sends to all targets over one client. Used from one event loop."""

    def __init__(self, client: HttpClient, *, authorities: Path | None = None, whole: float = WHOLE) -> None:
        """`authorities` is a PEM file that is trusted instead of the system's; an attempt has `whole` seconds."""
        self._client = client
        self._whole = whole
        self._trust = _Trust(authorities)
        self._threads: dict[str, ThreadPoolExecutor] = {}  # one for each target, which waits for its own files alone

    def close(self) -> None:
        """Begin nothing more."""
        for threads in self._threads.values():
            threads.shutdown(wait=False, cancel_futures=True)

    async def send(self, to: AlertTarget, body: bytes, *, identifier: str, seconds: float) -> AlertOutcome:
        """Send once, at a time in Unix seconds."""
        try:
            async with asyncio.timeout(self._whole):
                request = await self._request(to, body, identifier=identifier, seconds=int(seconds))
                answer = await self._client.send(request, limits=LIMITS, tls=await self._trust.context())
        except TimeoutError:
            return AlertOutcome(
                why=f"it took longer than {self._whole:g} seconds; look at the disk that its files are on"
            )
        except Unanswered as problem:
            return AlertOutcome(why=f"{problem.message}: {_ADVICE[problem.cause]}")
        except errors.ReconcilerError as problem:
            return AlertOutcome(why=problem.message)
        except Exception:
            log.exception("An alert to %s met a fault of the program.", to.name)
            return AlertOutcome(why="it met a fault of the program, which the log has")
        return judged(answer, now_ms=int(seconds * 1000))

    async def _request(self, to: AlertTarget, body: bytes, *, identifier: str, seconds: int) -> HttpRequest:
        """Files are read at each attempt, so that a new secret counts at once. Raises Unprepared."""
        if to.name not in self._threads:
            self._threads[to.name] = ThreadPoolExecutor(1, thread_name_prefix=f"alert-files-{to.name}")
        url, secret = await asyncio.get_running_loop().run_in_executor(self._threads[to.name], _read, to)
        named = rendering.alert_headers(body, identifier=identifier, seconds=seconds, secret=secret)
        return HttpRequest(_target(url, to), "POST", named, body)


def judged(answer: HttpAnswer, *, now_ms: int) -> AlertOutcome:
    """Return the outcome for an answer."""
    status = answer.status
    if 200 <= status < 300:
        return AlertOutcome(status)
    asked = retry.retry_after(answer, now_ms=now_ms)
    why = f"it answered {status}: {_meaning(status)}"
    return AlertOutcome(status, why, asked, is_refused=300 <= status < 500 and status not in LATER)


def _read(to: AlertTarget) -> tuple[str, bytes | None]:
    """The URL, and the secret where alerts are signed. Raises Unprepared."""
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
    except hooks.UnusableSecret as problem:
        raise UnpreparedAlert(f"the file {to.secret_file} {problem}; put the secret into it") from None


def _target(url: str, to: AlertTarget) -> HttpTarget:
    """Raises Unprepared, which does not show the URL."""
    try:
        parts = urlsplit(url)
        port = parts.port or (80 if parts.scheme == "http" else 443)
    except ValueError:
        parts, port = urlsplit(""), 0
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise UnpreparedAlert(f"what is in {to.url_file} is no http or https URL without a user; put one into it")
    path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    return HttpTarget("http" if parts.scheme == "http" else "https", parts.hostname, port, path)


class _Trust:
    """The trusted authorities for TLS, read when the first alert is sent, and again as long as that fails."""

    def __init__(self, authorities: Path | None) -> None:
        self._authorities = authorities
        self._context: ssl.SSLContext | None = None

    async def context(self) -> ssl.SSLContext | None:
        """None trusts the system's authorities. Raises Unprepared."""
        if self._authorities is not None and self._context is None:
            try:
                self._context = await asyncio.to_thread(ssl.create_default_context, cafile=str(self._authorities))
            except (OSError, ValueError):  # of which what SSL raises is one
                told = f"`outbound.caFile` cannot be read: put a PEM file at {self._authorities}"
                raise UnpreparedAlert(told) from None
        return self._context


def _meaning(status: int) -> str:
    if status in _MEANINGS:
        return _MEANINGS[status]
    if status < 400:
        return "a redirect, which is not followed; name where it leads to in `url`"
    if status < 500:
        return "it does not take alerts of this form; compare them with what it expects"
    return "its server fails; look at its own logs"


_WITHDRAWN = "a wrong or withdrawn URL; make a new one there, and put it into `url` or `urlFile`"
_UNSIGNED = "it expects another signature, or its URL was withdrawn; renew `secretFile`, or `url` or `urlFile`"
_MEANINGS: Mapping[int, str] = MappingProxyType(
    {
        401: _UNSIGNED,
        403: _UNSIGNED,
        404: _WITHDRAWN,
        405: _WITHDRAWN,
        407: "the proxy in `outbound.proxy` wants a password",
        408: "it did not get the alert in time; it is overloaded, or the network is slow",
        410: _WITHDRAWN,
        413: "the alert is too large for it",
        429: "it gets too many; choose fewer with `severities` and `types`",
        503: "it is overloaded or down for maintenance",
    }
)
_ADVICE: Mapping[FailureCause, str] = MappingProxyType(
    {
        FailureCause.NAME: "a wrong hostname; check the URL",
        FailureCause.CONNECT: "a wrong hostname or port, or its server is down; check the URL",
        FailureCause.TLS: "a wrong port or scheme; check the URL",
        FailureCause.UNTRUSTED: "an untrusted certificate, or one for another name; check the URL, or set "
        "`outbound.caFile`",
        FailureCause.CLIENT: "it wants a client certificate, and alerts have none",
        FailureCause.TIME: "a wrong hostname or port, or its server is slow; check the URL",
        FailureCause.PROXY: "check the proxy in `outbound.proxy`",
        FailureCause.ANSWER: "a wrong port or scheme, or its server fails; check the URL",
    }
)
