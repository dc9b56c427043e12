"""Problems of requests, and the answer to each exception, from one table.

The usual form of an answer is `{"errors": [sentence, ...], "codes": [code, ...]}`. The modules that read requests
decide which problem a request has.

    errors.Refused
    └── Problem               a request that cannot be served; the status says why
        ├── BadRequest        400
        ├── Unauthenticated   401, with WWW-Authenticate
        ├── Forbidden         403
        ├── NotFound          404
        │   └── Hidden
        ├── MethodNotAllowed  405, with Allow
        ├── Conflict          409
        ├── TooLarge          413
        ├── UnknownEncoding   415, with Accept-Encoding
        ├── UnknownType       415
        ├── TooMany           429, with Retry-After
        └── Unavailable       503, with Retry-After
"""

import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, NamedTuple

from starlette.responses import Response

from api.responses import Header, Json
from reconciler.auth import changes as auth_changes
from reconciler.auth.sign_in import Throttled
from reconciler.delivery import contract
from reconciler.delivery.otlp import models
from reconciler.model import error_codes, errors
from reconciler.model.error_codes import ErrorCode
from reconciler.reconcile.apply import Locked
from reconciler.reconcile.interventions import NotHeld, Suspended
from reconciler.settings.bounded_io import DiskHangs
from reconciler.store.contract import Damaged, Moved, StoreFault
from reconciler.worker import client

logger = logging.getLogger(__name__)

ENCODINGS = b"gzip, zstd, identity"  # of bodies, where any are taken
BUSY_SECONDS = 5  # after which a request that found all busy may be tried again


class Problem(errors.Refused):
    """A request that cannot be served, each reason in one sentence. `code` is the class's unless it is given."""

    status: ClassVar[int]
    code: ErrorCode

    def __init__(self, *sentences: str, code: ErrorCode | None = None, headers: tuple[Header, ...] = ()) -> None:
        super().__init__(" ".join(sentences))
        self.sentences = sentences
        self.code = self.code if code is None else code
        self.headers = headers


class BadRequest(Problem):
    """The request is not what the interface documents."""

    status, code = 400, ErrorCode.INVALID_REQUEST


class Unauthenticated(Problem):
    """The request carries no credential, or none that is known."""

    status, code = 401, ErrorCode.NO_CREDENTIAL

    def __init__(self, sentence: str, *, code: ErrorCode, challenge: bytes) -> None:
        super().__init__(sentence, code=code, headers=((b"www-authenticate", challenge),))


class Forbidden(Problem):
    """The caller is known, and may not do this."""

    status, code = 403, ErrorCode.FORBIDDEN


class NotFound(Problem):
    """There is no such thing, or none that the caller may know of."""

    status, code = 404, ErrorCode.NOT_FOUND


class Hidden(NotFound):
    """The thing exists and the caller may not know of it: the answer is that of a missing one, and the audit counts a
    refusal. `project` is the project of the thing; empty where the path says it.
    """

    def __init__(self, sentence: str, *, code: ErrorCode = ErrorCode.NOT_FOUND, project: str = "") -> None:
        super().__init__(sentence, code=code)
        self.project = project


class MethodNotAllowed(Problem):
    """The path exists, for other methods."""

    status, code = 405, ErrorCode.METHOD_NOT_ALLOWED

    def __init__(self, allow: str) -> None:
        super().__init__(f"This path takes {allow} alone.", headers=((b"allow", allow.encode()),))


class Conflict(Problem):
    """The request is fine, and does not fit what is there."""

    status, code = 409, ErrorCode.CONFLICT


class TooLarge(Problem):
    """The body is over the limit."""

    status, code = 413, ErrorCode.TOO_LARGE


class UnknownEncoding(Problem):
    """The body is compressed, or not as this path takes it."""

    status, code = 415, ErrorCode.UNSUPPORTED_ENCODING

    def __init__(self, sentence: str, *, known: bytes = b"identity") -> None:
        super().__init__(sentence, headers=((b"accept-encoding", known),))


class UnknownType(Problem):
    """The body does not say that it is what this path takes."""

    status, code = 415, ErrorCode.UNSUPPORTED_TYPE


class TooMany(Problem):
    """The caller has too many requests in progress; later the same request may pass."""

    status, code = 429, ErrorCode.TOO_MANY_REQUESTS

    def __init__(self, sentence: str, *, after: float) -> None:
        super().__init__(sentence, headers=(retry_after(after),))


class Unavailable(Problem):
    """The request is fine, and there is no room for it now; later the same request may pass."""

    status, code = 503, ErrorCode.UNAVAILABLE

    def __init__(
        self, sentence: str, *, after: float, code: ErrorCode | None = None, headers: tuple[Header, ...] = ()
    ) -> None:
        super().__init__(sentence, code=code, headers=(retry_after(after), *headers))


class Told(NamedTuple):
    """The answer to a failed request before it has a form; `code` is that of each sentence."""

    status: int
    sentences: tuple[str, ...]
    code: ErrorCode
    headers: tuple[Header, ...] = ()


def retry_after(seconds: float) -> Header:
    """When to try again, in whole seconds and never at once (RFC 9110, 10.2.3)."""
    return b"retry-after", b"%d" % max(1, math.ceil(seconds))


def body(sentences: Sequence[str], code: ErrorCode) -> bytes:
    """The error response of the interface."""
    return json.dumps(error_codes.body(sentences, code), ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "replace"
    )


def as_json(said: Told) -> Response:
    """The error response of the interface, as an answer."""
    return Json(body(said.sentences, said.code), status=said.status, headers=said.headers)


class Row(NamedTuple):
    """The answer to one class of exceptions: its sentence is the exception's own, unless `sentence` makes another.

    `seconds` is when to try again, unless the exception knows it. `log` is the level at which the failure is logged.
    """

    status: int
    code: ErrorCode
    seconds: int | None = None
    log: int | None = None
    sentence: Callable[[Exception, str], str] = lambda exception, _: str(exception)


TABLE: Mapping[type[Exception], Row] = {
    auth_changes.Missing: Row(404, ErrorCode.NOT_FOUND),
    auth_changes.Conflict: Row(409, ErrorCode.CONFLICT),
    errors.Refused: Row(400, ErrorCode.INVALID_REQUEST),
    Suspended: Row(409, ErrorCode.REPOSITORY_SUSPENDED),
    NotHeld: Row(409, ErrorCode.NOTHING_HELD),
    client.Busy: Row(429, ErrorCode.TOO_MANY_REQUESTS, BUSY_SECONDS),
    # A full disk or a busy project is no fault of the program: the sentence says all that there is to know.
    Locked: Row(503, ErrorCode.PROJECT_BUSY, BUSY_SECONDS, logging.WARNING),
    StoreFault: Row(503, ErrorCode.STORE_UNAVAILABLE, BUSY_SECONDS, logging.WARNING),
    DiskHangs: Row(503, ErrorCode.STORE_UNAVAILABLE, BUSY_SECONDS, logging.WARNING),
    Moved: Row(
        503,
        ErrorCode.PROJECT_BUSY,
        BUSY_SECONDS,
        logging.WARNING,
        lambda *_: "What is held changed each time before this was stored; nothing was changed: send it again.",
    ),
    client.Overdue: Row(
        500,
        ErrorCode.TOOK_TOO_LONG,
        None,
        logging.ERROR,
        lambda exception, request: f"{exception} Its id is {request}.",
    ),
    # The store has logged which version it is.
    Damaged: Row(500, ErrorCode.RESOURCE_DAMAGED, sentence=lambda exception, _: _as_sentence(str(exception))),
    Throttled: Row(429, ErrorCode.TOO_MANY_ATTEMPTS),
    models.RequestTooLarge: Row(413, ErrorCode.TOO_LARGE),
    models.UnknownEncoding: Row(415, ErrorCode.UNSUPPORTED_ENCODING),
    contract.UnknownDestination: Row(404, ErrorCode.DESTINATION_NOT_FOUND),
    contract.QueueFull: Row(503, ErrorCode.QUEUE_FULL),
    contract.NotTaken: Row(503, ErrorCode.UNAVAILABLE, BUSY_SECONDS),
    Exception: Row(
        500,
        ErrorCode.INTERNAL,
        log=logging.CRITICAL,
        sentence=lambda _, request: f"The service failed to answer; its log has the cause under the id {request}.",
    ),
}
"""The nearest class decides; Transient has no line of its own, so that what else failed outside is a 500."""


def told(exception: Exception, *, request: str) -> Told:
    """The answer to an exception that ended a request; `request` is the id that is also in the log."""
    if isinstance(exception, Problem):
        return Told(exception.status, exception.sentences, exception.code, exception.headers)
    row = TABLE[next(kind for kind in type(exception).__mro__ if kind in TABLE)]
    if row.code is ErrorCode.INTERNAL:
        # The trace goes to the log alone: it may name files, tables and addresses.
        logger.error(f"The request {request} failed.", exc_info=exception, extra={"fields": {"request": request}})
    elif row.log is not None:
        logger.log(row.log, f"The request {request} failed: {exception}", extra={"fields": {"request": request}})
    seconds = exception.seconds if isinstance(exception, (Throttled, contract.QueueFull)) else row.seconds
    headers: tuple[Header, ...] = () if seconds is None else (retry_after(seconds),)
    if isinstance(exception, models.UnknownEncoding):
        headers = ((b"accept-encoding", ENCODINGS),)
    return Told(row.status, (row.sentence(exception, request),), row.code, headers)


def _as_sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
