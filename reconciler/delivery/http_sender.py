"""Requests to one endpoint, with the present secrets and TLS files, and answers without these secrets.

    channel = HttpSender(client, secrets=sources, clock=clock).channel(destination, project="acme")
    verdict = await channel.post(body, delivery="acme/siem/19ab:1-4", attempt=1)

`content_type` overrides a `Content-Type` in `headers`, and our own headers override users' headers: a receiver that
detects duplicates by `X-Service-Delivery-Id` must be able to rely on it. A `Host` in `headers` replaces that of the
URL; the target of the request stays.

Secrets and files are used for one second, so that a thousand requests read them once. Then they are forgotten, even
without another request. Files are read on a thread.

**Masking.** An answer may repeat secrets of the request: in plain text, in JSON, in HTML, in a URL, in hexadecimal or
in base64. It may repeat only a part, such as the token after `Bearer`. Letters match in any case.
"""

import asyncio
import base64
import binascii
import html
import json
import re
import ssl
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from itertools import accumulate
from pathlib import Path
from urllib.parse import quote, quote_plus

import msgspec

from reconciler.delivery import retry, tls
from reconciler.delivery import secrets as delivery_secrets
from reconciler.delivery.http_client import (
    AnswerLimits,
    Headers,
    HttpAnswer,
    HttpClient,
    HttpRequest,
    HttpTarget,
    checked,
)
from reconciler.delivery.otlp import encodings
from reconciler.delivery.otlp.bodies import body_fragments
from reconciler.delivery.retry import AnswerVerdict
from reconciler.delivery.secrets import SecretSources
from reconciler.model import errors
from reconciler.model.routes import Destination, Endpoint

MASK_BYTES = b"(sensitive)"
SHORTEST = 4  # bytes of a secret that is masked inside words; a shorter one is masked only as a whole word
SHORTEST_PART = 8  # characters of a part of a part of a value that is masked by itself
MOST_PARTS = 32  # of one value

_BETWEEN = re.compile(r"[\s,;=:&\"']+")
_SCHEMES = frozenset({"negotiate", "signature"})  # long words in headers that are not secret
_LINE = re.compile(rb"[^\r\n]+")


class SecretMasks:
    """Masks some secrets. Their spellings are computed at the first use."""

    def __init__(self, secrets: Iterable[str]) -> None:
        """`secrets` are whole values, such as those of headers. Their parts are masked too."""
        self._secrets = tuple(secrets)

    def __repr__(self) -> str:
        """Show none of them."""
        return f"Masks({len(self._secrets)})"

    def mask(self, data: bytes) -> bytes:
        """Return the text without the secrets. If it ends with the beginning of a secret, which may be cut off, that is
        masked too.
        """
        if not data or not self._secrets:
            return data
        shown: list[bytes] = []
        end = 0
        for start, stop in sorted(self._found(data)):
            if start > end or (start == end == 0):
                shown += (data[end:start], MASK_BYTES)
            end = max(end, stop)
        shown.append(data[end:])
        return b"".join(shown)

    def _found(self, data: bytes) -> Iterator[tuple[int, int]]:
        lowered = data.lower()
        yield from self._in_line(lowered)
        for word in self._words:
            yield from (found.span() for found in word.finditer(lowered))
        lines = [*_LINE.finditer(lowered)]
        if len(lines) > 1:  # base64 is often cut into lines
            starts = [0, *accumulate(len(line.group()) for line in lines)]
            for start, stop in self._in_line(b"".join(line.group() for line in lines)):
                first, last = bisect_right(starts, start) - 1, bisect_right(starts, stop - 1) - 1
                if first != last:
                    yield lines[first].start() + start - starts[first], lines[last].start() + stop - starts[last]

    def _in_line(self, text: bytes) -> Iterator[tuple[int, int]]:
        for form in self._forms:
            at = text.find(form)
            while at >= 0:
                yield at, at + len(form)
                at = text.find(form, at + len(form))
            beginning = form[:SHORTEST]
            at = text.find(beginning, max(0, len(text) - len(form) + 1))
            while at >= 0:
                if form.startswith(text[at:]):
                    yield at, len(text)
                    break
                at = text.find(beginning, at + 1)

    @cached_property
    def _forms(self) -> tuple[bytes, ...]:
        found = (form for secret in self._all if len(secret.encode()) >= SHORTEST for form in _forms(secret))
        return tuple(dict.fromkeys(form.lower() for form in found if len(form) >= SHORTEST))

    @cached_property
    def _words(self) -> tuple[re.Pattern[bytes], ...]:
        short = dict.fromkeys(secret.lower().encode() for secret in self._all if len(secret.encode()) < SHORTEST)
        return tuple(re.compile(rb"(?<![a-z0-9_])" + re.escape(word) + rb"(?![a-z0-9_])") for word in short)

    @cached_property
    def _all(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(part for secret in self._secrets for part in _parts(secret.strip()) if part))


def _parts(value: str) -> Iterator[str]:
    """Yield a value and its parts that are secrets by themselves."""
    yield value
    scheme, _, rest = value.partition(" ")
    yield rest.strip()
    if scheme.lower() == "basic":
        try:
            pair = base64.b64decode(rest.strip(), validate=True).decode()
        except (binascii.Error, ValueError):
            pass
        else:
            yield pair
            yield pair.partition(":")[2]
    parts = (part for part in _BETWEEN.split(value, maxsplit=MOST_PARTS) if len(part) >= SHORTEST_PART)
    yield from (part for part in parts if part.lower() not in _SCHEMES)


def _forms(secret: str) -> Iterator[bytes]:
    plain, escaped = secret.encode(), json.dumps(secret)[1:-1].encode()
    yield from (plain, escaped, json.dumps(secret, ensure_ascii=False)[1:-1].encode(), html.escape(secret).encode())
    yield from (quote(secret, safe="").encode(), quote(secret).encode(), quote_plus(secret).encode())
    yield from (plain.hex().encode(), secret.encode("utf-16-le"), secret.encode("utf-16-be"))
    for text in dict.fromkeys((plain, escaped)):
        for offset in range(3):  # the base64 of a text depends on its offset modulo 3
            encoded = base64.b64encode(b"\0" * offset + text)
            own = encoded[(offset * 8 + 5) // 6 : (offset + len(text)) * 8 // 6]  # that only the text decides
            yield from (own, own.translate(bytes.maketrans(b"+/", b"-_")))


DELIVERY_ID = "X-Service-Delivery-Id"
ATTEMPT = "X-Service-Attempt"
_OURS = frozenset({"content-type", DELIVERY_ID.lower(), ATTEMPT.lower()})


def request_target(endpoint: Endpoint) -> HttpTarget:
    """Return the target of requests, with exactly one slash between port and path."""
    path, question, query = endpoint.path.partition("?")
    return HttpTarget(
        "http" if endpoint.scheme == "http" else "https",
        endpoint.host,
        endpoint.port,
        "/" + path.lstrip("/") + question + query,
    )


def request_headers(endpoint: Endpoint, resolved: Headers) -> Headers:
    """Return the headers of every request to the endpoint. `resolved` are the user's headers with resolved secrets."""
    own = tuple((name, value) for name, value in resolved if name.lower() not in _OURS)
    return (("Content-Type", endpoint.content_type), *own)


def make_request(
    endpoint: Endpoint, *, to: HttpTarget, headers: Headers, body: bytes, delivery: str, attempt: int
) -> HttpRequest:
    """Make one request. `attempt` counts from 1."""
    method = endpoint.verb
    assert method in ("POST", "PUT", "PATCH")
    named = ((DELIVERY_ID, delivery), (ATTEMPT, str(attempt)))
    return HttpRequest(to, method, headers + named, body)  # type: ignore[arg-type]


@lru_cache(maxsize=1024)
def endpoint_origin(*, project: str, destination: str, at: int) -> str:
    """Return the beginning of the delivery ids of one queue. `at` is the time of its first batch in Unix milliseconds,
    which distinguishes it from an earlier queue with the same name and numbers.
    """
    return f"{quote(project, safe='')}/{quote(destination, safe='')}/{at:x}"


class UnreadablePayload(errors.Refused):
    """A stored batch is no valid export request of log records."""


async def record_bodies(payload: bytes, *, records: int | None = None) -> list[bytes]:
    """Return each record of an export request as JSON, in order. Their number must be the expected one.

    Raises UnreadablePayload, MemoryError.
    """
    found: list[bytes] = []
    try:
        for number, part in enumerate(body_fragments(payload)):
            if number:
                await asyncio.sleep(0)
            found += part
    except MemoryError:
        raise  # its message contains no stored text
    except Exception as problem:  # any error of the decoder: the stored bytes are wrong
        raise UnreadablePayload(
            f"What is stored is no export request of log records ({type(problem).__name__}); look at it with "
            "`reconciler queue peek`."
        ) from None
    if records not in (None, len(found)):
        raise UnreadablePayload("What is stored does not hold as many records as it should.")
    return found


def json_array(parts: Sequence[bytes]) -> bytes:
    """Return the body of a request for several records."""
    return b"[" + b",".join(parts) + b"]"


KEPT_SECONDS = 1.0
MASKED_BYTES = 32 << 10  # of an answer are masked; the kept part is shorter
ENCODED = b"(The answer is encoded in a way that the service does not decode.)"


class UnpreparedRequest(errors.Transient):
    """The secrets of a request could not be read in time."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    """The common parts of the requests of one second. `note` describes a problem of the client certificate; `masks`
    mask the sent secrets in an answer.
    """

    headers: Headers
    tls: ssl.SSLContext | None
    note: str
    masks: SecretMasks


class HttpSender:
    """The sender for all destinations: one client, one source of secrets."""

    def __init__(
        self,
        client: HttpClient,
        *,
        secrets: SecretSources,
        clock: Callable[[], int],
        authorities: Path | None = None,
    ) -> None:
        """`authorities` is a PEM file that is trusted instead of the system's authorities, where a destination has
        no `ca_file`. `clock` gives Unix milliseconds.
        """
        self.client = client
        self.secrets = secrets
        self.authorities = authorities
        self.clock = clock

    def channel(self, destination: Destination, *, project: str) -> "Channel":
        """Return a channel to the present endpoint of a destination."""
        return Channel(self, destination.endpoint, name=destination.name, project=project)


class Channel:
    """Requests to one endpoint. Used in the running loop only."""

    def __init__(self, outlet: HttpSender, endpoint: Endpoint, *, name: str, project: str) -> None:
        self._outlet = outlet
        self._endpoint = endpoint
        self._name = name
        self._project = project
        self._target = request_target(endpoint)
        self._limits = AnswerLimits(connect=endpoint.timeout, total=endpoint.timeout)
        # Only the system's authorities are wanted.
        self._is_ordinary = endpoint.scheme != "https" or not (
            outlet.authorities or endpoint.insecure_skip_verify or endpoint.ca_file or endpoint.mutual_tls
        )
        self._context: tuple[tls.TlsFiles, ssl.SSLContext] | None = None
        self._kept: _Prepared | None = None
        self._preparing: asyncio.Task[_Prepared] | None = None

    async def post(self, body: bytes, *, delivery: str, attempt: int, keeps_success: bool = False) -> AnswerVerdict:
        """Send a body once and return a verdict. It has the answer without secrets, for a success only with
        `keeps_success`.
        """
        note = ""
        try:
            prepared = self._kept or await self._prepared()
            note = prepared.note
            request = make_request(
                self._endpoint,
                to=self._target,
                headers=prepared.headers,
                body=body,
                delivery=delivery,
                attempt=attempt,
            )
            answer = await self._outlet.client.send(request, limits=self._limits, tls=prepared.tls)
        except errors.ReconcilerError as problem:
            return retry.judge_failure(problem, endpoint=self._endpoint, name=self._name, note=note)
        if answer.body_start:
            is_kept = keeps_success or not 200 <= answer.status < 300
            said = await _readable(answer, prepared.masks) if is_kept else b""
            answer = msgspec.structs.replace(answer, body_start=said)
        return retry.judge_answer(answer, endpoint=self._endpoint, name=self._name, now_ms=self._outlet.clock())

    async def _prepared(self) -> _Prepared:
        """Read secrets and files, once for all concurrent callers. Raises Refused, UnpreparedRequest."""
        if self._preparing is None:
            self._preparing = asyncio.create_task(asyncio.to_thread(self._read), name=f"prepare-{self._name}")
            self._preparing.add_done_callback(self._keep)
        try:
            async with asyncio.timeout(self._endpoint.timeout):
                return await asyncio.shield(self._preparing)
        except TimeoutError:
            raise UnpreparedRequest("its secrets could not be read in time; look at the folder of secrets.") from None

    def _keep(self, done: asyncio.Task[_Prepared]) -> None:
        self._preparing = None
        if not done.cancelled() and done.exception() is None:
            self._kept = done.result()
            asyncio.get_running_loop().call_later(KEPT_SECONDS, self._forget)

    def _forget(self) -> None:
        self._kept = None

    def _read(self) -> _Prepared:
        """Read secrets and files. Call this on a thread. Raises Refused."""
        endpoint, sources, project = self._endpoint, self._outlet.secrets, self._project
        resolved: list[tuple[str, str]] = []
        secrets = [*self._outlet.client.secrets, *endpoint.marked]
        for name, value in endpoint.headers:
            text, found = delivery_secrets.resolve_secrets(value, sources=sources, project=project)
            resolved.append((name, text))
            secrets += (*found, text)
        masks = SecretMasks(secrets)
        headers = checked(HttpRequest(self._target, headers=request_headers(endpoint, tuple(resolved)))).headers
        if self._is_ordinary:
            return _Prepared(headers, None, "", masks)
        files = tls.read_tls_file(endpoint, sources=sources, project=project, authorities=self._outlet.authorities)
        if self._context is None or self._context[0] != files:
            self._context = (files, tls.tls_context(endpoint, files))
        return _Prepared(headers, self._context[1], tls.expired_certificates(files, now=self._now()), masks)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._outlet.clock() / 1000, UTC)


async def _readable(answer: HttpAnswer, masks: SecretMasks) -> bytes:
    """Return the answer of an endpoint, decoded and without sent secrets. Do not shorten or store it before."""
    named = ",".join(value for name, value in answer.headers if name.lower() == "content-encoding")
    text = encodings.beginning(answer.body_start, named, most=MASKED_BYTES)
    if text is None:
        return ENCODED
    return await asyncio.to_thread(masks.mask, text)  # which may take milliseconds
