"""Answers as JSON bytes, problems, and the answer to each exception, from one table."""

import json
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import ClassVar, NamedTuple, TypeAlias

from starlette.exceptions import HTTPException
from starlette.responses import Response

from reconciler.auth import changes
from reconciler.auth.passwords import Throttled
from reconciler.delivery import contract
from reconciler.delivery.otlp import models
from reconciler.model import errors
from reconciler.reconcile.locks import Locked
from reconciler.settings.bounded_io import DiskHangs
from reconciler.store.contract import Damaged, Moved, StoreFault
from reconciler.worker import client

# Answers that are JSON bytes already: the store and the applier hand over bytes, and nothing is encoded twice.
#
# An answer that is sent while it is read is in `bodies`.

Header: TypeAlias = tuple[bytes, bytes]

JSON = b"application/json"
CONTENT_TYPE: Header = (b"content-type", JSON)


class Json(Response):
    """A JSON body that is bytes already."""

    def __init__(self, body: bytes, *, status: int = 200, headers: tuple[Header, ...] = ()) -> None:
        # Starlette's own constructor encodes names and values of every header; these are bytes from the start.
        self.status_code = status
        self.body = body
        self.background = None
        self.raw_headers = [CONTENT_TYPE, (b"content-length", b"%d" % len(body)), *headers]


class Empty(Response):
    """An answer without a body: 204, or 304."""

    def __init__(self, *, status: int, headers: tuple[Header, ...] = ()) -> None:
        self.status_code = status
        self.body = b""
        self.background = None
        self.raw_headers = list(headers)


def json_member(name: bytes, value: bytes) -> bytes:
    """A JSON object with one member."""
    return b'{"%b":%b}' % (name, value)


def json_array(name: bytes, values: Iterable[bytes]) -> bytes:
    """A JSON object with one member, an array."""
    return b'{"%b":[%b]}' % (name, b",".join(values))


# What the API refuses and what each exception tells whoever asked, from one table; and the usual form of an answer,
# `{"errors": [sentence, ...]}`.
#
#     errors.Refused
#     └── Problem               a request that cannot be served; the status says why
#         ├── BadRequest        400
#         ├── Unauthenticated   401, with WWW-Authenticate
#         ├── Forbidden         403
#         ├── NotFound          404
#         │   └── Hidden
#         ├── MethodNotAllowed  405, with Allow
#         ├── Conflict          409
#         ├── TooLarge          413
#         ├── UnknownEncoding   415, with Accept-Encoding
#         ├── UnknownType       415
#         ├── TooMany           429, with Retry-After
#         └── Unavailable       503, with Retry-After
#
# Which problem a request has is decided by the modules that read requests, not here.

logger = logging.getLogger(__name__)

ENCODINGS = b"gzip, zstd, identity"  # of bodies, where any are taken
BUSY_SECONDS = 5  # after which a request that found all busy may be tried again


class Problem(errors.Refused):
    """A request that cannot be served, each reason in one sentence."""

    status: ClassVar[int]

    def __init__(self, *sentences: str, headers: tuple[Header, ...] = ()) -> None:
        super().__init__(" ".join(sentences))
        self.sentences = sentences
        self.headers = headers


class BadRequest(Problem):
    """The request is not what the interface documents."""

    status = 400


class Unauthenticated(Problem):
    """The request carries no credential, or none that is known."""

    status = 401

    def __init__(self, sentence: str, *, challenge: bytes) -> None:
        super().__init__(sentence, headers=((b"www-authenticate", challenge),))


class Forbidden(Problem):
    """The caller is known, and may not do this."""

    status = 403


class NotFound(Problem):
    """There is no such thing, or none that the caller may know of."""

    status = 404


class Hidden(NotFound):
    """There is such a thing, and whoever asks may not know of it: they are told as of one that there is not, and the
    audit counts that they were refused. `project` is the one that it is of; empty where the path says it.
    """

    def __init__(self, sentence: str, *, project: str = "") -> None:
        super().__init__(sentence)
        self.project = project


class MethodNotAllowed(Problem):
    """The path exists, for other methods."""

    status = 405

    def __init__(self, allow: str) -> None:
        super().__init__(f"This path takes {allow} alone.", headers=((b"allow", allow.encode()),))


class Conflict(Problem):
    """The request is fine, and does not fit what is there."""

    status = 409


class TooLarge(Problem):
    """The body is over the limit."""

    status = 413


class UnknownEncoding(Problem):
    """The body is compressed, or not as this path takes it."""

    status = 415

    def __init__(self, sentence: str, *, known: bytes = b"identity") -> None:
        super().__init__(sentence, headers=((b"accept-encoding", known),))


class UnknownType(Problem):
    """The body does not say that it is what this path takes."""

    status = 415


class TooMany(Problem):
    """The caller has too much under way; later the same request may pass."""

    status = 429

    def __init__(self, sentence: str, *, after: float) -> None:
        super().__init__(sentence, headers=(retry_after(after),))


class Unavailable(Problem):
    """The request is fine, and there is no room for it now; later the same request may pass."""

    status = 503

    def __init__(self, sentence: str, *, after: float, headers: tuple[Header, ...] = ()) -> None:
        super().__init__(sentence, headers=(retry_after(after), *headers))


class Told(NamedTuple):
    """What whoever asked is told, in any form."""

    status: int
    sentences: tuple[str, ...]
    headers: tuple[Header, ...] = ()


def retry_after(seconds: float) -> Header:
    """When to try again, in whole seconds and never at once (RFC 9110, 10.2.3)."""
    return b"retry-after", b"%d" % max(1, math.ceil(seconds))


def body(sentences: Iterable[str]) -> bytes:
    """The error response of the interface."""
    return json.dumps({"errors": list(sentences)}, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def told(exception: Exception, *, request: str) -> Told:
    """What an exception that ended a request tells; `request` is the id that also stands in the log."""
    kind = next(kind for kind in type(exception).__mro__ if kind in TABLE)
    return TABLE[kind](exception, request)


def as_json(said: Told) -> Response:
    """The error response of the interface, as an answer."""
    return Json(body(said.sentences), status=said.status, headers=said.headers)


def _problem(exception: Exception, _request: str) -> Told:
    assert isinstance(exception, Problem)
    return Told(exception.status, exception.sentences, exception.headers)


def _http(exception: Exception, _request: str) -> Told:
    assert isinstance(exception, HTTPException)
    headers = tuple((name.lower().encode(), value.encode()) for name, value in (exception.headers or {}).items())
    return Told(exception.status_code, (f"{exception.detail}.",), headers)


def _told(exception: Exception, _request: str, *, status: int) -> Told:
    return Told(status, (str(exception),))


def _busy(exception: Exception, _request: str) -> Told:
    return Told(429, (str(exception),), (retry_after(BUSY_SECONDS),))


def _throttled(exception: Exception, _request: str) -> Told:
    assert isinstance(exception, Throttled)
    return Told(429, (exception.message,), (retry_after(exception.seconds),))


def _unknown_encoding(exception: Exception, _request: str) -> Told:
    return Told(415, (str(exception),), ((b"accept-encoding", ENCODINGS),))


def _full(exception: Exception, _request: str) -> Told:
    assert isinstance(exception, contract.QueueFull)
    return Told(503, (exception.message,), (retry_after(exception.seconds),))


def _not_taken(exception: Exception, _request: str) -> Told:
    return Told(503, (str(exception),), (retry_after(BUSY_SECONDS),))


def _outside(exception: Exception, request: str) -> Told:
    # Its sentence is for people, and says all that there is to know: a full disk is no fault of the program.
    logger.warning(f"The request {request} failed: {exception}", extra={"fields": {"request": request}})
    return Told(503, (str(exception),), (retry_after(BUSY_SECONDS),))


def _damaged(exception: Exception, _request: str) -> Told:
    # The store has logged which version it is.
    told = str(exception)
    return Told(500, (f"{told[:1].upper()}{told[1:]}.",))


def _moved(exception: Exception, request: str) -> Told:
    logger.warning(f"The request {request} failed: {exception}", extra={"fields": {"request": request}})
    told = "What is held changed each time before this was stored; nothing was changed: send it again."
    return Told(503, (told,), (retry_after(BUSY_SECONDS),))


def _overdue(exception: Exception, request: str) -> Told:
    logger.error(f"The request {request} took too long.", extra={"fields": {"request": request}})
    return Told(500, (f"{exception} Its id is {request}.",))


def _failed(exception: Exception, request: str) -> Told:
    # The trace goes to the log alone: it may name files, tables and addresses.
    logger.error(f"The request {request} failed.", exc_info=exception, extra={"fields": {"request": request}})
    return Told(500, (f"The service failed to answer; its log has the cause under the id {request}.",))


Answering: TypeAlias = Callable[[Exception, str], Told]

TABLE: Mapping[type, Answering] = {
    Problem: _problem,
    HTTPException: _http,
    changes.Missing: partial(_told, status=404),
    changes.Conflict: partial(_told, status=409),
    errors.Refused: partial(_told, status=400),
    client.Busy: _busy,
    Locked: _outside,
    client.Overdue: _overdue,
    Throttled: _throttled,
    models.RequestTooLarge: partial(_told, status=413),
    models.UnknownEncoding: _unknown_encoding,
    contract.UnknownDestination: partial(_told, status=404),
    contract.QueueFull: _full,
    contract.NotTaken: _not_taken,
    Damaged: _damaged,
    StoreFault: _outside,
    Moved: _moved,
    DiskHangs: _outside,
    Exception: _failed,
}
"""The nearest class decides; Transient has no line of its own, so that what else failed outside is a 500."""
