"""Requests to one endpoint, with the secrets and TLS files as they are now."""

import asyncio
import binascii
import os
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from reconciler.delivery import egress, environment, retry
from reconciler.delivery import secrets as delivery_secrets
from reconciler.delivery.egress import AnswerLimits, CommonHeaders, Headers, HttpAnswer, HttpRequest, HttpTarget
from reconciler.delivery.http_client import HttpClient
from reconciler.delivery.otlp import encodings
from reconciler.delivery.otlp.bodies import body_fragments
from reconciler.delivery.retry import AnswerVerdict
from reconciler.delivery.secrets import SecretMasks, SecretSources, UnusableSecretFile
from reconciler.model import errors
from reconciler.model.errors import Refused
from reconciler.model.routes import Destination, Endpoint
from reconciler.settings import bounded_io

# From an endpoint's settings to a request; pure.
#
# `content_type` wins over a `Content-Type` in `headers`, and what is ours over a header of the same name: a receiver
# that tells duplicates by `X-Service-Delivery-Id` must be able to rely on it. A `Host` in `headers` is sent instead of
# the one that the URL gives; where the request goes stays as it is.

DELIVERY_ID = "X-Service-Delivery-Id"
ATTEMPT = "X-Service-Attempt"
_OURS = frozenset({"content-type", DELIVERY_ID.lower(), ATTEMPT.lower()})


def request_target(endpoint: Endpoint) -> HttpTarget:
    """Where requests go; exactly one slash stands between the port and the path."""
    path, question, query = endpoint.path.partition("?")
    return HttpTarget(
        "http" if endpoint.scheme == "http" else "https",
        endpoint.host,
        endpoint.port,
        "/" + path.lstrip("/") + question + query,
    )


def request_headers(endpoint: Endpoint, resolved: Headers) -> Headers:
    """What every request to the endpoint has; `resolved` are its headers with the secrets in their values."""
    own = tuple((name, value) for name, value in resolved if name.lower() not in _OURS)
    return (("Content-Type", endpoint.content_type), *own)


def make_request(
    endpoint: Endpoint, *, to: HttpTarget, common: CommonHeaders, body: bytes, delivery: str, attempt: int
) -> HttpRequest:
    """One request. `attempt` counts from 1."""
    method = endpoint.verb
    assert method in ("POST", "PUT", "PATCH")
    named = ((DELIVERY_ID, delivery), (ATTEMPT, str(attempt)))
    return HttpRequest(to, method, named, body, common)  # type: ignore[arg-type]


def endpoint_origin(*, project: str, destination: str, at: int) -> str:
    """What the delivery ids of one queue begin with. `at`, when its first batch of a request came, in Unix ms, keeps a
    queue apart from one that had the same name, and its numbers, before.
    """
    return f"{_quoted(project)}/{_quoted(destination)}/{at:x}"


@lru_cache(maxsize=1024)
def _quoted(name: str) -> str:
    return quote(name, safe="")


# Bodies of requests, out of what was queued.


class UnreadablePayload(errors.Refused):
    """What is stored is no export request of log records, though it was one when it came."""


async def record_bodies(payload: bytes) -> list[bytes]:
    """Each record of an export request, in order, as JSON. Raises Unreadable, MemoryError."""
    found: list[bytes] = []
    try:
        for number, part in enumerate(body_fragments(payload)):
            if number:
                await asyncio.sleep(0)
            found += part
    except MemoryError:
        raise  # which says nothing of what is stored
    except Exception as problem:  # whatever the decoder says of bytes that nobody should have stored
        raise UnreadablePayload(
            f"What is stored is no export request of log records ({type(problem).__name__}); look at it with "
            "`reconciler queue peek`."
        ) from None
    return found


def json_array(parts: Sequence[bytes]) -> bytes:
    """One body of several records."""
    return b"[" + b",".join(parts) + b"]"


# From when and until when a certificate holds, read off its DER (RFC 5280, 4.1); pure.

_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
_SEQUENCE, _UTC_TIME, _GENERALIZED_TIME, _VERSION = 0x30, 0x17, 0x18, 0xA0


class CertificateSpan(NamedTuple):
    """Both in UTC."""

    since: datetime
    until: datetime


def certificate_span(pem: str) -> CertificateSpan | None:
    """The span of the first certificate in a PEM file, the leaf of a chain; None when it cannot be read."""
    start, end = pem.find(_BEGIN), pem.find(_END)
    if not 0 <= start < end:
        return None
    try:
        certificate, _ = _contents(ssl.PEM_cert_to_DER_cert(pem[start : end + len(_END)] + "\n"), _SEQUENCE)
        signed, _ = _contents(certificate, _SEQUENCE)
        return _span(signed)
    except (ValueError, IndexError, binascii.Error):
        return None


def _span(signed: bytes) -> CertificateSpan:
    if signed[0] == _VERSION:
        _, signed = _contents(signed, _VERSION)
    for _ in range(3):  # serial number, signature, issuer
        _, signed = _contents(signed, signed[0])
    times, _ = _contents(signed, _SEQUENCE)
    since, rest = _contents(times, times[0])
    until, _ = _contents(rest, rest[0])
    return CertificateSpan(_time(times[0], since), _time(rest[0], until))


def _contents(data: bytes, tag: int) -> tuple[bytes, bytes]:
    """What one value holds, and what is behind it."""
    if data[0] != tag:
        raise ValueError
    length, start = data[1], 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(data[2:start], "big")
    return data[start : start + length], data[start + length :]


def _time(tag: int, text: bytes) -> datetime:
    """`YYMMDDhhmmssZ`, whose years from 50 on are of the last century, or with four digits of the year."""
    digits = text.decode("ascii")
    if tag == _UTC_TIME:
        digits = ("19" if digits[:2] >= "50" else "20") + digits
    elif tag != _GENERALIZED_TIME:
        raise ValueError
    return datetime.strptime(digits, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


# TLS as an endpoint's settings want it, from files in the project's folder of secrets.
#
# Everything here reads files or computes for milliseconds: it belongs on a thread.

MOST_BYTES = 1 << 20  # of `outbound.caFile`; the system's own is a quarter of that


class UnusableFile(Refused):
    """A file of TLS cannot be read, or does not hold what it should."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """What the files of an endpoint held when they were read. Without an `authority` the system's are trusted; the
    others are empty where none is wanted.
    """

    authority: str | None = field(default=None, repr=False)
    certificate: str = field(default="", repr=False)
    key: str = field(default="", repr=False)


def is_ordinary(endpoint: Endpoint, *, authorities: Path | None) -> bool:
    """Whether nothing but the system's authorities is wanted."""
    return endpoint.scheme != "https" or not (
        authorities or endpoint.insecure_skip_verify or endpoint.ca_file or endpoint.mutual_tls
    )


def read_tls_file(endpoint: Endpoint, *, sources: SecretSources, project: str, authorities: Path | None) -> TlsFiles:
    """The texts of the files; those of `authorities` where the endpoint has no `ca_file`. Raises UnusableFile."""

    def text(parameter: str, name: str) -> str:
        try:
            return delivery_secrets.read_secret_file(sources.directory, name, project=project)
        except UnusableSecretFile:
            place = sources.directory.place(name, project=project)
            raise UnusableFile(
                f"`{parameter}` leads to nothing: put a PEM file of at most 64 KiB at {place}, which the service can "
                "read and to which no link leads."
            ) from None

    if endpoint.scheme != "https":
        return TlsFiles()
    authority = text("ca_file", endpoint.ca_file) if endpoint.ca_file else _outbound(authorities)
    if not endpoint.mutual_tls:
        return TlsFiles(authority)
    return TlsFiles(authority, text("cert_file", endpoint.cert_file), text("key_file", endpoint.key_file))


def _outbound(authorities: Path | None) -> str | None:
    if authorities is None:
        return None
    try:
        return bounded_io.read_file(authorities, limit=MOST_BYTES).decode()
    except (OSError, ValueError, bounded_io.NotAFile, bounded_io.FileTooLarge):
        raise UnusableFile(f"`outbound.caFile` cannot be read: put a PEM file at {authorities}.") from None


def tls_context(endpoint: Endpoint, files: TlsFiles) -> ssl.SSLContext:
    """What connections to the endpoint are made with. With `ca_file`, its authorities are the only ones. Raises
    UnusableFile.
    """
    try:
        if files.authority == "":
            raise ValueError  # which the library would take for none, and trust the system's authorities
        made = ssl.create_default_context(cadata=files.authority)
    except (ssl.SSLError, ValueError):
        raise UnusableFile(
            f"{'`ca_file`' if endpoint.ca_file else '`outbound.caFile`'} does not hold certificates in PEM; "
            "correct the file."
        ) from None
    if endpoint.insecure_skip_verify:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    if files.certificate:
        _load(made, files)
    return made


def expired_certificates(files: TlsFiles, *, now: datetime) -> str:
    """What is wrong with the time of the client certificate, as a sentence's rest; empty for nothing."""
    span = certificate_span(files.certificate) if files.certificate else None
    if span is not None and now > span.until:
        return f"the client certificate in `cert_file` expired on {span.until:%Y-%m-%d}; renew it."
    if span is not None and now < span.since:
        return f"the client certificate in `cert_file` holds from {span.since:%Y-%m-%d} on; check the service's clock."
    return ""


def _load(made: ssl.SSLContext, files: TlsFiles) -> None:
    with _in_memory(files.certificate) as certificate, _in_memory(files.key) as key:
        try:
            made.load_cert_chain(certificate, key, password=_no_password)
        except (ssl.SSLError, ValueError, OSError):
            raise UnusableFile(
                "`cert_file` and `key_file` do not hold a certificate and its key, in PEM and without a password; "
                "correct the files."
            ) from None


def _no_password() -> str:
    """Without it OpenSSL would ask for one on the terminal."""
    return ""


@contextmanager
def _in_memory(text: str) -> Iterator[str]:
    """A path to a text, since `load_cert_chain` takes nothing else; it is on no disk."""
    descriptor = os.memfd_create("reconciler-tls", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(text.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


# Requests to one endpoint, with the secrets as they are now.
#
#     channel = Outlet(client, secrets=sources).channel(destination, project="acme")
#     verdict = await channel.post(body, delivery="acme/siem/19ab:1-4", attempt=1)
#
# What was read is used for one second, so that a thousand requests read files once; then it is forgotten, whether
# another request comes or not. Files are read on a thread. What does not depend on secrets is made once.

KEPT_SECONDS = 1.0
MASKED_BYTES = 32 << 10  # of an answer: what is kept of it is cut from these
INLINE_WORK = 4 << 20  # bytes to compare on the event loop: about a millisecond
ENCODED = b"(The answer is encoded in a way that the service does not decode.)"
_REFERENCE = "${"


class UnpreparedRequest(errors.Transient):
    """What a request needs could not be read in time."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What requests of the next second have in common; `note` is what is wrong with the client certificate, `masks`
    hide in an answer what was sent.
    """

    headers: CommonHeaders
    tls: ssl.SSLContext | None
    note: str
    masks: SecretMasks


class HttpSender:
    """What all destinations send through: one client, one place of secrets."""

    def __init__(
        self,
        client: HttpClient,
        *,
        secrets: SecretSources,
        authorities: Path | None = None,
        clock: Callable[[], int] = environment.system_clock,
    ) -> None:
        """`authorities` is a PEM file that is trusted instead of the system's authorities, where a destination has
        no `ca_file`. `clock` gives Unix milliseconds.
        """
        self.client = client
        self.secrets = secrets
        self.authorities = authorities
        self.clock = clock

    def channel(self, destination: Destination, *, project: str) -> "Channel":
        """The way to one destination's endpoint as it is set now."""
        return Channel(self, destination.endpoint, name=destination.name, project=project)


class Channel:
    """One endpoint; belongs to the running loop."""

    def __init__(self, outlet: HttpSender, endpoint: Endpoint, *, name: str, project: str) -> None:
        self._outlet = outlet
        self._endpoint = endpoint
        self._name = name
        self._project = project
        self._target = request_target(endpoint)
        self._limits = AnswerLimits(connect=endpoint.timeout, total=endpoint.timeout)
        self._is_ordinary = is_ordinary(endpoint, authorities=outlet.authorities)
        self._is_static = self._is_ordinary and not any(_REFERENCE in value for _, value in endpoint.headers)
        self._context: tuple[TlsFiles, ssl.SSLContext] | None = None
        self._kept: _Prepared | None = None
        self._preparing: asyncio.Task[_Prepared] | None = None

    async def post(self, body: bytes, *, delivery: str, attempt: int, keeps_success: bool = False) -> AnswerVerdict:
        """Send a body once. Whatever happens is a verdict. It has the answer without the secrets that were sent; that
        of a success only with `keeps_success`.
        """
        note = ""
        try:
            prepared = self._kept or await self._prepared()
            note = prepared.note
            request = make_request(
                self._endpoint,
                to=self._target,
                common=prepared.headers,
                body=body,
                delivery=delivery,
                attempt=attempt,
            )
            answer = await self._outlet.client.send(request, limits=self._limits, tls=prepared.tls)
        except errors.ReconcilerError as problem:
            return retry.judge_failure(problem, endpoint=self._endpoint, name=self._name, note=note)
        is_kept = keeps_success or not 200 <= answer.status < 300
        said = await _readable(answer, prepared.masks) if is_kept and answer.body_start else b""
        answer = msgspec.structs.replace(answer, body_start=said)
        return retry.judge_answer(answer, endpoint=self._endpoint, name=self._name, now_ms=self._outlet.clock())

    async def _prepared(self) -> _Prepared:
        """Read what is needed, once for all who ask meanwhile. Raises Refused, Unprepared."""
        if self._is_static:
            self._kept = self._read()  # which reads nothing then, and is not forgotten
            return self._kept
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
        """On a thread, since it reads files. Raises Refused."""
        endpoint, sources, project = self._endpoint, self._outlet.secrets, self._project
        resolved: list[tuple[str, str]] = []
        secrets = [*self._outlet.client.secrets, *endpoint.marked]
        for name, value in endpoint.headers:
            text = value
            if _REFERENCE in value:
                text, found = delivery_secrets.resolve_secrets(value, sources=sources, project=project)
                secrets += found
            resolved.append((name, text))
            secrets.append(text)
        masks = SecretMasks(secrets)
        common = egress.common(request_headers(endpoint, tuple(resolved)), target=self._target)
        if self._is_ordinary:
            return _Prepared(common, None, "", masks)
        files = read_tls_file(endpoint, sources=sources, project=project, authorities=self._outlet.authorities)
        if self._context is None or self._context[0] != files:
            self._context = (files, tls_context(endpoint, files))
        return _Prepared(common, self._context[1], expired_certificates(files, now=self._now()), masks)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._outlet.clock() / 1000, UTC)


async def _readable(answer: HttpAnswer, masks: SecretMasks) -> bytes:
    """What an endpoint said, decoded and without what was sent to it. Nobody cuts or keeps an answer before this."""
    named = ",".join(value for name, value in answer.headers if name.lower() == "content-encoding")
    text = encodings.beginning(answer.body_start, named, most=MASKED_BYTES)
    if text is None:
        return ENCODED
    if masks.work(len(text)) > INLINE_WORK:
        return await asyncio.to_thread(masks.mask, text)
    return masks.mask(text)
