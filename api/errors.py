"""What the API refuses and how each exception becomes an answer: `{"errors": [sentence, ...]}`, from one table.

    errors.Refused
    └── Problem               a request that cannot be served; the status says why
        ├── BadRequest        400
        ├── Unauthenticated   401, with WWW-Authenticate
        ├── Forbidden         403
        ├── NotFound          404
        ├── MethodNotAllowed  405, with Allow
        ├── Conflict          409
        ├── TooLarge          413
        ├── UnknownEncoding   415, with Accept-Encoding
        ├── UnknownType       415
        └── TooMany           429, with Retry-After

Which problem a request has is decided by the modules that read requests, not here.
"""

import json
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import ClassVar, TypeAlias

from starlette.exceptions import HTTPException
from starlette.responses import Response

from api.answers import Header, Json
from reconciler import errors
from reconciler.access import changing
from reconciler.reading import client
from reconciler.signing_in import Throttled

logger = logging.getLogger(__name__)

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
    """The body is compressed."""

    status = 415

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, headers=((b"accept-encoding", b"identity"),))


class UnknownType(Problem):
    """The body does not say that it is JSON where it must."""

    status = 415


class TooMany(Problem):
    """The caller has too much under way; later the same request may pass."""

    status = 429

    def __init__(self, sentence: str, *, after: float) -> None:
        super().__init__(sentence, headers=(retry_after(after),))


def retry_after(seconds: float) -> Header:
    """When to try again, in whole seconds and never at once (RFC 9110, 10.2.3)."""
    return b"retry-after", b"%d" % max(1, math.ceil(seconds))


def body(sentences: Iterable[str]) -> bytes:
    """The error response of the interface."""
    return json.dumps({"errors": list(sentences)}, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def answer(exception: Exception, *, request: str) -> Response:
    """The answer to a request that ended in an exception; `request` is the id that also stands in the log."""
    kind = next(kind for kind in type(exception).__mro__ if kind in TABLE)
    return TABLE[kind](exception, request)


def _problem(exception: Exception, _request: str) -> Response:
    assert isinstance(exception, Problem)
    return Json(body(exception.sentences), status=exception.status, headers=exception.headers)


def _http(exception: Exception, _request: str) -> Response:
    assert isinstance(exception, HTTPException)
    headers = tuple((name.lower().encode(), value.encode()) for name, value in (exception.headers or {}).items())
    return Json(body([f"{exception.detail}."]), status=exception.status_code, headers=headers)


def _told(exception: Exception, _request: str, *, status: int) -> Response:
    return Json(body([str(exception)]), status=status)


def _busy(exception: Exception, _request: str) -> Response:
    return Json(body([str(exception)]), status=429, headers=(retry_after(BUSY_SECONDS),))


def _throttled(exception: Exception, _request: str) -> Response:
    assert isinstance(exception, Throttled)
    return Json(body([exception.message]), status=429, headers=(retry_after(exception.seconds),))


def _overdue(exception: Exception, request: str) -> Response:
    logger.error(f"The request {request} took too long.", extra={"fields": {"request": request}})
    return Json(body([f"{exception} Its id is {request}."]), status=500)


def _failed(exception: Exception, request: str) -> Response:
    # The trace goes to the log alone: it may name files, tables and addresses.
    logger.error(f"The request {request} failed.", exc_info=exception, extra={"fields": {"request": request}})
    return Json(body([f"The service failed to answer; its log has the cause under the id {request}."]), status=500)


Answering: TypeAlias = Callable[[Exception, str], Response]

TABLE: Mapping[type, Answering] = {
    Problem: _problem,
    HTTPException: _http,
    changing.Missing: partial(_told, status=404),
    changing.Conflict: partial(_told, status=409),
    errors.Refused: partial(_told, status=400),
    client.Busy: _busy,
    client.Overdue: _overdue,
    Throttled: _throttled,
    Exception: _failed,
}
"""The nearest class decides; Transient has no line of its own, so that what failed outside is a 500."""
