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

import logging
import math
from collections.abc import Mapping
from typing import NamedTuple

from starlette.responses import Response

from api.responses import Header, json_answer
from reconciler.auth import changes as auth_changes
from reconciler.auth.sign_in import Throttled
from reconciler.delivery import contract
from reconciler.delivery.otlp import models
from reconciler.model import error_codes, errors
from reconciler.model.error_codes import ErrorCode
from reconciler.reconcile.apply import Locked
from reconciler.reconcile.interventions import NotHeld, Suspended
from reconciler.replicas.contact import CutOff
from reconciler.replicas.peers import PeerGone
from reconciler.settings.bounded_io import DiskHangs
from reconciler.store.contract import Damaged, LeaseLost, Moved, StoreFault
from reconciler.worker import process as worker_process

logger = logging.getLogger(__name__)

ENCODINGS = b"gzip, zstd, identity"  # of bodies, where any are taken
BUSY_SECONDS = 5  # after which a request that found all busy may be tried again


class Problem(errors.Refused):
    """A request that cannot be served, each reason in one sentence; `code` is that of each. Status and code are the
    class's unless they are given. `after` is the seconds after which the same request may pass.
    """

    status: int
    code: ErrorCode

    def __init__(
        self,
        *sentences: str,
        status: int | None = None,
        code: ErrorCode | None = None,
        headers: tuple[Header, ...] = (),
        after: float | None = None,
    ) -> None:
        super().__init__(" ".join(sentences))
        self.sentences = sentences
        self.status = self.status if status is None else status
        self.code = self.code if code is None else code
        self.headers = headers if after is None else (retry_after(after), *headers)


class BadRequest(Problem):
    """The request is not what the interface documents."""

    status, code = 400, ErrorCode.INVALID_REQUEST


class Unauthenticated(Problem):
    """The request carries no credential, or none that is known."""

    status, code = 401, ErrorCode.NO_CREDENTIAL


class Forbidden(Problem):
    """The caller is known, and may not do this."""

    status, code = 403, ErrorCode.FORBIDDEN


class NotFound(Problem):
    """The thing does not exist, or the caller may not know that it does."""

    status, code = 404, ErrorCode.NOT_FOUND


class Hidden(NotFound):
    """The thing exists, but the caller may not know it. The answer is the same as for a missing thing, and the audit
    counts a refusal. `project` is the project of the thing, or empty if the path names it.
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
    """The request is valid, but conflicts with the present state."""

    status, code = 409, ErrorCode.CONFLICT


class TooLarge(Problem):
    """The body is over the limit."""

    status, code = 413, ErrorCode.TOO_LARGE


class UnknownEncoding(Problem):
    """The body has an encoding that this path does not accept."""

    status, code = 415, ErrorCode.UNSUPPORTED_ENCODING

    def __init__(self, sentence: str, *, known: bytes = b"identity") -> None:
        super().__init__(sentence, headers=((b"accept-encoding", known),))


class UnknownType(Problem):
    """The body has a media type that this path does not accept, or none."""

    status, code = 415, ErrorCode.UNSUPPORTED_TYPE


class TooMany(Problem):
    """The caller has too many requests in progress; later the same request may pass."""

    status, code = 429, ErrorCode.TOO_MANY_REQUESTS


class Unavailable(Problem):
    """The request is valid, but the service cannot handle it now; the same request may pass later."""

    status, code = 503, ErrorCode.UNAVAILABLE


def retry_after(seconds: float) -> Header:
    """Return the header `Retry-After`, in whole seconds, at least one (RFC 9110, 10.2.3)."""
    return b"retry-after", b"%d" % max(1, math.ceil(seconds))


def as_json(problem: Problem) -> Response:
    """Return the error response of the interface, as an answer."""
    body = error_codes.body(problem.sentences, problem.code)
    return json_answer(body, status=problem.status, headers=problem.headers)


class Row(NamedTuple):
    """The answer to one class of exceptions.

    `sentence` may have the exception's own message, also with a capital letter, and the id of the request.
    `seconds` is when to try again, unless the exception knows it. `log` is the level at which the failure is logged.
    """

    status: int
    code: ErrorCode
    seconds: float | None = None
    log: int | None = None
    sentence: str = "{message}"


MOVED = "What is held changed before this was stored; nothing was changed: send it again."
FAILED = "The service failed to answer; its log has the cause under the id {request}."
TABLE: Mapping[type[Exception], Row] = {
    auth_changes.Missing: Row(404, ErrorCode.NOT_FOUND),
    auth_changes.Conflict: Row(409, ErrorCode.CONFLICT),
    errors.Refused: Row(400, ErrorCode.INVALID_REQUEST),
    Suspended: Row(409, ErrorCode.REPOSITORY_SUSPENDED),
    NotHeld: Row(409, ErrorCode.NOTHING_HELD),
    worker_process.Busy: Row(429, ErrorCode.TOO_MANY_REQUESTS, BUSY_SECONDS),
    # A full disk or a busy project is no fault of the program, so nothing is logged: the sentence says everything.
    Locked: Row(503, ErrorCode.PROJECT_BUSY, BUSY_SECONDS, logging.WARNING),
    StoreFault: Row(503, ErrorCode.STORE_UNAVAILABLE, BUSY_SECONDS, logging.WARNING),
    CutOff: Row(503, ErrorCode.STORE_UNAVAILABLE, BUSY_SECONDS),  # which is logged when it begins
    DiskHangs: Row(503, ErrorCode.STORE_UNAVAILABLE, BUSY_SECONDS, logging.WARNING),
    Moved: Row(503, ErrorCode.PROJECT_BUSY, BUSY_SECONDS, logging.WARNING, MOVED),
    PeerGone: Row(503, ErrorCode.REPLICA_UNAVAILABLE, BUSY_SECONDS, logging.WARNING),
    LeaseLost: Row(503, ErrorCode.REPLICA_UNAVAILABLE, BUSY_SECONDS, logging.WARNING),
    worker_process.Overdue: Row(500, ErrorCode.TOOK_TOO_LONG, None, logging.ERROR, "{message} Its id is {request}."),
    # The store has logged which version it is.
    Damaged: Row(500, ErrorCode.RESOURCE_DAMAGED, sentence="{capital}."),
    Throttled: Row(429, ErrorCode.TOO_MANY_ATTEMPTS),
    models.RequestTooLarge: Row(413, ErrorCode.TOO_LARGE),
    contract.UnknownDestination: Row(404, ErrorCode.DESTINATION_NOT_FOUND),
    contract.QueueFull: Row(503, ErrorCode.QUEUE_FULL),
    contract.NotTaken: Row(503, ErrorCode.UNAVAILABLE, BUSY_SECONDS),
    Exception: Row(500, ErrorCode.INTERNAL, log=logging.CRITICAL, sentence=FAILED),
}
"""The row of the nearest base class counts. Transient has no row, so any other failure outside is a 500."""


def problem_of(exception: Exception, *, request: str) -> Problem:
    """Return the answer to an exception that ended a request; `request` is the id that is also in the log."""
    if isinstance(exception, Problem):
        return exception
    row = TABLE[next(kind for kind in type(exception).__mro__ if kind in TABLE)]
    if row.code is ErrorCode.INTERNAL:
        # The trace goes to the log alone: it may name files, tables and addresses.
        logger.error(f"The request {request} failed.", exc_info=exception, extra={"fields": {"request": request}})
    elif row.log is not None:
        logger.log(row.log, f"The request {request} failed: {exception}", extra={"fields": {"request": request}})
    seconds = exception.seconds if isinstance(exception, (Throttled, contract.QueueFull)) else row.seconds
    message = str(exception)
    sentence = row.sentence.format(message=message, capital=message[:1].upper() + message[1:], request=request)
    return Problem(sentence, status=row.status, code=row.code, after=seconds)
