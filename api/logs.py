"""Log records: POST /v1/logs."""

from functools import partial
from time import monotonic

from starlette.responses import Response
from starlette.types import Receive

from api import auth, errors, requests, responses
from api.calls import Call, Subject
from api.errors import Problem
from api.responses import Content, Header
from api.routing import Routes, Style
from reconciler.delivery import contract
from reconciler.delivery.contract import IntakeRoom, TakenRecords
from reconciler.delivery.otlp import encodings, models, reading
from reconciler.delivery.otlp.models import MalformedRequest, OtlpAnswer, RequestTooLarge
from reconciler.model.principals import Permission

# The answers of `/v1/logs`: messages of OTLP or, for a failure, a `google.rpc.Status`, in the request's encoding.

TYPES = {models.PROTOBUF.encode(): False, models.JSON.encode(): True}
"""The accepted media types; True for JSON."""


class Message(Content):
    """An answer of OTLP. It is kept cheap, because a request may carry a single record."""

    def __init__(self, answer: OtlpAnswer, *, status: int = 200, headers: tuple[Header, ...] = ()) -> None:
        super().__init__(answer.body, media_type=answer.media_type.encode(), status=status, headers=headers)


def is_json(call: Call) -> bool | None:
    """Return True for JSON, False for protobuf, None if the Content-Type is another one, missing or repeated."""
    found = call.header(b"content-type")
    if len(found) != 1:
        return None
    known = TYPES.get(found[0])
    return TYPES.get(found[0].partition(b";")[0].strip().lower()) if known is None else known


SUCCESS = (Message(models.success_answer(json=False)), Message(models.success_answer(json=True)))
"""The answer to records that were all taken in, in protobuf and in JSON."""


def taken_message(said: TakenRecords, *, json: bool) -> Response:
    """Return the answer to accepted records, with the number of those without a route."""
    if not said.rejected and not said.message:
        return SUCCESS[json]
    return Message(models.partial_success_answer(rejected=said.rejected, message=said.message, json=json))


def failure_message(call: Call, problem: Problem) -> Message:
    """Return the answer to a failed request; in JSON if its encoding is unknown."""
    after = next((float(value) for name, value in problem.headers if name == b"retry-after"), None)
    json = is_json(call) is not False
    answer = models.failure_answer(problem.status, " ".join(problem.sentences), json=json, retry_after=after)
    return Message(answer, status=problem.status, headers=problem.headers)


routes = Routes(Style({}, failure_message))

# Accepting log records: POST /v1/logs, OTLP over HTTP.
#
# A sender gives up after 400 and 413, and tries again after 429 and 503. So every request that may pass later gets one
# of the last two, even one with a slow body.

FULL_SECONDS = 1  # after which there may be room for a body again
LATE = partial(errors.Unavailable, after=FULL_SECONDS, headers=requests.CLOSE)
KNOWN = frozenset({"", "identity", *encodings.DECODERS})  # values of Content-Encoding
LARGE = "The body is over {} bytes; send the records in several requests."
FULL = "Too many log records are being taken in at this moment; try again."
MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}  # the first bytes of a compressed body
BEGINNINGS = tuple(MAGIC)
# Refusals of a body that was read. The sender is charged for the reading.
REFUSALS = (MalformedRequest, RequestTooLarge, errors.TooLarge)
PATH = "/v1/logs"
LOG_TYPES = "`Content-Type: application/x-protobuf` or `application/json`"


@routes.add(f"POST {PATH}", Subject.PROJECT, Permission.SEND_LOGS)
async def take(call: Call) -> Response:
    """Accept log records."""
    requests.none_known(call.query)
    json = is_json(call)
    if json is None:
        raise errors.UnknownType(f"Log records come with one {LOG_TYPES}.")
    encoding = _encoding(call)
    services = call.services
    sender = call.principal.name
    _wait(services.rates.wait(sender, now=monotonic()))
    limits = services.log_limits
    held = HeldBytes(services.room, sender, body_length(call, most=limits.bytes))
    try:
        body = await read_body(call.receive, limit=held.size)
        if services.contact is not None:
            services.contact.check()
        if call.caller is not None and call.caller.directory is not call.directory:
            auth.again(call)
        if encoding:
            held.change(held.size + limits.bytes)
            body = await encodings.decode_body(body, encoding, most=limits.bytes)
        else:
            _refuse_compressed(body)
        held.change(len(body))
        logs = await reading.read(body, json=json, limits=limits)
    except REFUSALS:
        services.rates.charge(sender, contract.request_cost(held.size), now=monotonic())
        raise
    else:
        _wait(services.rates.take(sender, logs.records or 1, now=monotonic()))
        taking = services.deliveries.take(call.project, logs)
        if services.deliveries.sends_at_once(call.project):
            # A sender that goes away sends the whole request again, so the work can be cancelled.
            taking = responses.unless_gone(call.receive, taking)
        return taken_message(await taking, json=json)
    finally:
        held.change(0)


class HeldBytes:
    """The bytes of one request in the room for requests in memory."""

    def __init__(self, room: IntakeRoom, sender: str, size: int) -> None:
        """Raises `Unavailable`."""
        self.room = room
        self.sender = sender
        self.size = 0
        self.change(size)

    def change(self, size: int) -> None:
        """Change the number of held bytes. Raises `Unavailable`."""
        if size != self.size:
            if not self.room.change(self.sender, self.size, size):
                raise errors.Unavailable(FULL, after=FULL_SECONDS)
            self.size = size


async def read_body(receive: Receive, *, limit: int, seconds: float = requests.READ_SECONDS) -> bytes:
    """Read the body, still encoded. Raises `TooLarge`, `Unavailable`, `ClientDisconnect`."""
    pieces: list[bytes] = []
    await requests.receive_each(receive, pieces.append, limit=limit, large=LARGE, late=LATE, seconds=seconds)
    return b"".join(pieces)


def _encoding(call: Call) -> str:
    """Return the Content-Encoding; empty for none. Raises `UnknownEncoding` before the body is read."""
    values = call.header(b"content-encoding")
    if not values:
        return ""
    encoding = values[0].strip().lower().decode("latin-1")
    if len(values) > 1 or encoding not in KNOWN:
        raise errors.UnknownEncoding("The Content-Encoding is none of gzip, zstd and identity.", known=errors.ENCODINGS)
    return "" if encoding == "identity" else encoding


def _refuse_compressed(body: bytes) -> None:
    """Raise MalformedRequest for a compressed body without a Content-Encoding. This must precede the parser: to
    protobuf, the first bytes of zstd may be unknown fields, or a whole request without records.
    """
    if body.startswith(BEGINNINGS):
        encoding = next(name for magic, name in MAGIC.items() if body.startswith(magic))
        raise MalformedRequest(f"The body is no OTLP: it looks like {encoding}; send `Content-Encoding: {encoding}`.")


def body_length(call: Call, *, most: int) -> int:
    """Return the most bytes that the body may have: its Content-Length, or the limit without one. Raises `BadRequest`,
    `TooLarge`.
    """
    value = call.named.get(b"content-length")
    return most if value is None else requests.check_length(value, most=most, large=LARGE)


def _wait(seconds: float) -> None:
    if seconds > 0:
        raise errors.TooMany("You send more log records a second than one sender may; try again.", after=seconds)
