"""Log records: POST /v1/logs."""

import asyncio
from asyncio import CancelledError, Future, get_running_loop
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from datetime import datetime
from functools import partial
from hashlib import sha256
from time import monotonic, perf_counter
from typing import Any, NamedTuple, TypeVar

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Message as StarletteMessage
from starlette.types import Receive

from api import auth, bodies, calls, edge, errors
from api.auth import Authenticator
from api.calls import Call, Endpoint, State
from api.edge import AtOnce
from api.errors import Header, Told
from reconciler.delivery import intake
from reconciler.delivery.intake import IntakeRoom
from reconciler.delivery.otlp import models, reading
from reconciler.delivery.otlp.models import (
    MOST_BYTES,
    Logs,
    MalformedRequest,
    OtlpAnswer,
    RequestTooLarge,
    UnknownEncoding,
)
from reconciler.delivery.reporting import NotTaken, TakenRecords
from reconciler.model.directory import Directory, Key
from reconciler.server.connections import WholeRequest
from reconciler.server.services import Services

# Waiting that costs nothing where there is nothing to wait for.
#
# Setting a timer and taking it back costs more than reading a small body, which nearly always is there already.

Result = TypeVar("Result")


class _Begun(Awaitable[Result]):
    """The rest of a coroutine that has run up to what it waits for first."""

    __slots__ = ("coroutine", "waits")

    def __init__(self, coroutine: Coroutine[Any, Any, Result], waits: Any) -> None:
        self.coroutine = coroutine
        self.waits = waits

    def __await__(self) -> Generator[Any, Any, Result]:
        waits = self.waits
        while True:
            try:
                sent = yield waits
            except BaseException as raised:  # it is the coroutine's, a cancellation too
                go_on = partial(self.coroutine.throw, raised)
            else:
                go_on = partial(self.coroutine.send, sent)
            try:
                waits = go_on()
            except StopIteration as ended:
                result: Result = ended.value
                return result


async def within(call: Callable[[], Awaitable[Result]], *, seconds: float) -> Result:
    """What a coroutine function gives, waited for no longer than that. Raises TimeoutError."""
    coroutine: Any = call()
    try:
        waits = coroutine.send(None)
    except StopIteration as ended:
        result: Result = ended.value
        return result
    async with asyncio.timeout(seconds):
        return await _Begun(coroutine, waits)


# How `/v1/logs` answers: messages of OTLP and, for a failure, a `google.rpc.Status`, in the request's own encoding.

TYPES = {models.PROTOBUF.encode(): False, models.JSON.encode(): True}
"""Whether a media type is JSON, of those that there are."""


class Message(AtOnce):
    """An answer of OTLP: senders of single records pay for little else."""

    def __init__(self, answer: OtlpAnswer, *, status: int = 200, headers: tuple[Header, ...] = ()) -> None:
        super().__init__(answer.body, media_type=answer.media_type.encode(), status=status, headers=headers)


def is_json(headers: Iterable[Header]) -> bool | None:
    """Whether a body is JSON, or protobuf; None when its Content-Type says neither, or is missing or repeated."""
    found = [value for name, value in headers if name == b"content-type"]
    if len(found) != 1:
        return None
    known = TYPES.get(found[0])
    return TYPES.get(found[0].partition(b";")[0].strip().lower()) if known is None else known


SUCCESS = (Message(models.success_answer(json=False)), Message(models.success_answer(json=True)))
"""The answer to records that were all taken in, in protobuf and in JSON."""


def taken_message(said: TakenRecords, *, json: bool) -> Response:
    """The answer to records that were taken in, with those that nobody takes."""
    if not said.rejected and not said.message:
        return SUCCESS[json]
    return Message(models.partial_success_answer(rejected=said.rejected, message=said.message, json=json))


def failure_message(headers: Iterable[Header], said: Told) -> Message:
    """The answer to a request of these headers that failed. Whose encoding is unknown gets JSON."""
    after = next((float(value) for name, value in said.headers if name == b"retry-after"), None)
    json = is_json(headers) is not False
    answer = models.failure_answer(said.status, " ".join(said.sentences), json=json, retry_after=after)
    return Message(answer, status=said.status, headers=said.headers)


# Taking log records in: POST /v1/logs, OTLP over HTTP.
#
# A sender gives up what it is told by 400 or 413 and tries again what it is told by 429 or 503, so whatever may pass
# later is one of the last two, a body that came too slowly as well.

READ_SECONDS = 60.0  # for a whole body
FULL_SECONDS = 1  # after which there may be room for a body again
KNOWN = frozenset({"", "identity", "gzip", "x-gzip", "zstd"})  # values of Content-Encoding
CLOSE: tuple[Header, ...] = ((b"connection", b"close"),)
FULL = "Too many log records are being taken in at this moment; try again."
MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}  # how what is compressed begins
BEGINNINGS = tuple(MAGIC)
REFUSALS = (
    MalformedRequest,
    RequestTooLarge,
    UnknownEncoding,
    errors.TooLarge,
)  # of what was read: that it was costs the sender
LOG_TYPES = "`Content-Type: application/x-protobuf` or `application/json`"


async def take(call: Call) -> Response:
    """POST /v1/logs"""
    if call.query:
        bodies.none_known(call.query)
    json = is_json(call.scope["headers"])
    if json is None:
        raise errors.UnknownType(f"Log records come with one {LOG_TYPES}.")
    encoding = _encoding(call)
    services = call.services
    sender = call.principal.name
    _wait(services.rates.wait(sender, now=monotonic()))
    held = _Held(services.room, sender, _length(call))
    try:
        body = await read_body(call.receive, limit=held.size)
        if services.accounts.directory is not call.state["directory"]:
            calls.again(call)
        if encoding:
            held.change(held.size + MOST_BYTES)
            body = await reading.decode_body(body, encoding)
        else:
            _refuse_compressed(body)
        held.change(len(body))
        logs = await reading.read(body, json=json)
    except REFUSALS:
        services.rates.charge(sender, intake.request_cost(held.size), now=monotonic())
        raise
    else:
        _wait(services.rates.take(sender, logs.records or 1, now=monotonic()))
        taking = services.deliveries.take(call.project, logs)
        if services.deliveries.sends_at_once(call.project):
            # Who waits for an endpoint and goes away sends all of it again: nobody needs the answer to this.
            taking = bodies.unless_gone(call.receive, taking)
        return taken_message(await taking, json=json)
    finally:
        held.change(0)


class _Held:
    """What one request holds of the room."""

    __slots__ = ("room", "sender", "size")

    def __init__(self, room: IntakeRoom, sender: str, size: int) -> None:
        """Raises `Unavailable`."""
        self.room = room
        self.sender = sender
        self.size = 0
        self.change(size)

    def change(self, size: int) -> None:
        """Hold so many bytes instead. Raises `Unavailable`."""
        if size != self.size:
            if not self.room.change(self.sender, self.size, size):
                raise errors.Unavailable(FULL, after=FULL_SECONDS)
            self.size = size


async def read_body(receive: Receive, *, limit: int, seconds: float = READ_SECONDS) -> bytes:
    """The body as it came. Raises `TooLarge`, `Unavailable`, `ClientDisconnect`."""
    try:
        return await within(partial(_received, receive, limit=limit), seconds=seconds)
    except TimeoutError:
        # The rest would be taken for the next request's beginning, or waited for: the connection ends here.
        sentence = f"The body did not arrive within {seconds:g} seconds."
        raise errors.Unavailable(sentence, after=FULL_SECONDS, headers=CLOSE) from None


async def _received(receive: Receive, *, limit: int) -> bytes:
    pieces: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        pieces.append(message.get("body", b""))
        more = message.get("more_body", False)
        size += len(pieces[-1])
        if size > limit:
            raise _too_large()
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _encoding(call: Call) -> str:
    """The Content-Encoding; empty for none. Raises `UnknownEncoding`."""
    if b"content-encoding" not in call.headers:
        return ""
    values = call.header(b"content-encoding")
    encoding = values[0].strip().lower().decode("latin-1")
    if len(values) > 1 or encoding not in KNOWN:
        # Before the body is read, which the same answer would follow.
        raise errors.UnknownEncoding("The Content-Encoding is none of gzip, zstd and identity.", known=errors.ENCODINGS)
    return "" if encoding == "identity" else encoding


def _refuse_compressed(body: bytes) -> None:
    """Of a body that names no encoding. Asked before it is read: to protobuf, what zstd writes in front of a short text
    may be fields that it passes over, or all of a request without records. Raises `Malformed`.
    """
    if body.startswith(BEGINNINGS):
        encoding = next(name for magic, name in MAGIC.items() if body.startswith(magic))
        raise MalformedRequest(f"The body is no OTLP: it looks like {encoding}; send `Content-Encoding: {encoding}`.")


def _length(call: Call) -> int:
    """How many bytes the body may have: as many as it says, else the most. Raises `BadRequest`, `TooLarge`."""
    value = call.headers.get(b"content-length")
    if value is None:
        return MOST_BYTES
    value = value.strip(b" \t")  # which is around the value and none of it (RFC 9110, 5.5)
    if not value.isdigit():
        raise errors.BadRequest("The header Content-Length is not a number of bytes.")
    # A number of more digits than the limit is larger: it need not become an integer, whose cost has no bound.
    if len(value) > 20 or int(value) > MOST_BYTES:
        raise _too_large()
    return int(value)


def _wait(seconds: float) -> None:
    if seconds > 0:
        raise errors.TooMany("You send more log records a second than one sender may; try again.", after=seconds)


def _too_large() -> errors.TooLarge:
    return errors.TooLarge(f"The body is over {MOST_BYTES} bytes; send the records in several requests.")


# Who sends log records with a head that was seen before: senders have the same one for each of their requests.

UNUSUAL = frozenset({b"content-encoding", b"cookie", b"origin", b"sec-fetch-site", b"transfer-encoding"})
"""Headers that the edge asks about, or with which a body is read otherwise. So may one that is repeated be."""

MOST = 1_024  # heads that are remembered; whoever gives each request another one, as a trace's id does, gains nothing


class Sender(NamedTuple):
    """Who sends protobuf as it is, by which key, and to which project. The environment's key stands in no directory."""

    name: str
    project: str
    key: Key | None


class Senders:
    """Those of one route."""

    def __init__(self, services: Services, judge: Callable[[Call], None]) -> None:
        """`judge` is the route's: it says which project a call is about, and raises where that may not be."""
        self._services = services
        self._judge = judge
        self._authenticator = Authenticator(services)
        self._known: dict[bytes, Sender] = {}
        self._directory: Directory | None = None  # by which all of them were judged

    def of(self, headers: list[Header], *, now: datetime) -> Sender | None:
        """Who sends with such a head; None, or an exception, where more is to be asked or said of it.

        What was found out of a head holds while the directory is the same one, but for the end of a key's time. Only
        the length is another one in each request, and it stands in nothing that is asked. What is remembered is a
        digest, as it is of keys.
        """
        directory = self._services.accounts.directory
        if directory is not self._directory or len(self._known) >= MOST:
            self._directory = directory
            self._known.clear()
        lines = [b"%b:%b" % header for header in headers if header[0] != b"content-length"]
        head = sha256(b"\n".join(lines)).digest()  # the parser lets no end of a line into a header
        known = self._known.get(head)
        if known is not None:
            is_held = known.key is None or self._services.accounts.uses(known.key, at=now)
            return known if is_held else None
        judged = self._judged(headers)
        if judged is not None:
            self._known[head] = judged
        return judged

    def _judged(self, headers: list[Header]) -> Sender | None:
        call = Call({"headers": headers, "state": State(services=self._services, request="")}, _nothing)
        is_unusual = len(call.headers) < len(headers) or not UNUSUAL.isdisjoint(call.headers)
        if is_unusual or is_json(headers) is not False:
            return None
        shown = auth.shown_credentials(headers)
        if len(shown.keys) != 1 or shown.passwords:
            return None
        call.state["principal"] = principal = self._authenticator.holder(shown.keys[0])
        call.state["directory"] = directory = self._services.accounts.directory
        self._judge(call)
        return Sender(principal.name, call.project, directory.key_of(shown.keys[0]))


async def _nothing() -> StarletteMessage:
    """What is left to receive of a request that is here whole."""
    return {"type": "http.disconnect"}


# POST /v1/logs of small requests, answered without a task: who sends single records pays for little else.

ENDED = "The service stops; send the records again."


class _ShortcutHeld(NamedTuple):
    """What a request holds until it is answered, its id, and when it began."""

    sender: str
    size: int
    id: str
    began: float


class Shortcut:
    """See `reconciler.server.connections.Shortcut`. Not for a service that asks nobody who they are: to whom it
    answers is settled by more than a key.
    """

    method = b"POST"

    def __init__(self, services: Services, endpoint: Endpoint, *, target: str) -> None:
        """`endpoint` is what the usual way leads to."""
        self.target = target.encode()
        self._services = services
        self._endpoint = endpoint
        self._senders = Senders(services, endpoint.judges["POST"])
        self._common = edge.Common(services.headers)

    def take(self, request: WholeRequest) -> bool:
        """See the contract."""
        began, now, size = perf_counter(), self._services.clock(), len(request.content)
        try:
            sender = self._senders.of(request.headers, now=now)
            logs = None if sender is None else reading.at_once(request.content)
        except Exception:
            return False  # whatever it is, the usual way meets it again, and tells it
        if sender is None or logs is None:
            return False
        held = _ShortcutHeld(sender.name, size, edge.request_id(now), began)
        queued = self._queued(sender, logs, size=size)
        if queued is None:
            return False
        queued.add_done_callback(partial(self._answer, request, held))
        return True

    def _queued(self, sender: Sender, logs: Logs, *, size: int) -> Future[None] | None:
        """Queue them if there is room in all that is counted; None if not, and then nothing of them is."""
        if not self._enter(sender.name, size):
            return None
        rates, queued = self._services.rates, None
        if rates.take(sender.name, logs.records, now=monotonic()) <= 0.0:
            queued = self._enqueued(sender.project, logs)
            if queued is None:
                rates.give_back(sender.name, logs.records)
        if queued is None:
            self._leave(sender.name, size)
        return queued

    def _enqueued(self, project: str, logs: Logs) -> Future[None] | None:
        try:
            return self._services.deliveries.enqueue(project, logs)
        except Exception as fault:  # some queue may have them, and would get them once more the usual way
            failed: Future[None] = get_running_loop().create_future()
            failed.set_exception(fault)
            return failed

    def _enter(self, sender: str, size: int) -> bool:
        services = self._services
        if not edge.enter_request(services.in_flight, sender):
            return False
        if services.room.change(sender, 0, size):
            return True
        edge.leave_request(services.in_flight, sender)
        return False

    def _leave(self, sender: str, size: int) -> None:
        self._services.room.change(sender, size, 0)
        edge.leave_request(self._services.in_flight, sender)

    def _answer(self, request: WholeRequest, held: _ShortcutHeld, queued: Future[None]) -> None:
        self._leave(held.sender, held.size)
        answer = self._message(request, held, queued)
        request.answer(answer.status_code, self._common.head(answer.head, held.id), bytes(answer.body))
        self._services.measured.traffic.note(self._endpoint, "POST", answer.status_code, perf_counter() - held.began)

    def _message(self, request: WholeRequest, held: _ShortcutHeld, queued: Future[None]) -> Message:
        """The answer that the usual way has to what came of it."""
        failure = CancelledError() if queued.cancelled() else queued.exception()
        if failure is None:
            return SUCCESS[False]
        told = failure if isinstance(failure, Exception) else NotTaken(ENDED)
        return failure_message(request.headers, errors.told(told, request=held.id))
