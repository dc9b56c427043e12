"""Suspending and resuming a repository: who may, and what a body says. What follows is decided behind the services."""

import json
import re
from datetime import datetime, timedelta

from starlette.responses import Response

from api import answers, bodies, errors, queries, repositories
from api.answers import Json
from api.calls import Call
from reconciler.access.actors import Role
from reconciler.documents import limits, reading
from reconciler.documents.values import Value, pointer_text
from reconciler.reconciling.suspending import Suspended
from reconciler.settings import scalars

MAX_BYTES = 8_192  # of the body: a reason of the most characters, each escaped, and room to spare
LONGEST_REASON = 500  # characters
# One line that begins with something to see: no control characters, no separators of lines or paragraphs.
REASON = re.compile(r"[^\x00-\x20\x7f-\xa0\u2028\u2029][^\x00-\x1f\x7f-\x9f\u2028\u2029]*")
INSTANT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?(?:Z|[+-][0-9]{2}:[0-9]{2})"
)
LONGEST = timedelta(seconds=scalars.LONGEST)  # a year: beyond it an expiry is a mistake
KNOWN = ("reason", "expiry")


async def suspend(call: Call) -> Response:
    """POST /v1/repositories/{name}/suspend"""
    _check(call)
    reason, until = read_suspension(await _body(call), now=call.services.clock())
    repository = await call.services.repositories.suspend(
        call.parameter("name"), reason=reason, until=until, actor=call.actor, request=call.request
    )
    if repository is None:
        raise repositories.missing()
    return Json(answers.member(b"repository", repository))


async def resume(call: Call) -> Response:
    """POST /v1/repositories/{name}/resume"""
    _check(call)
    read_nothing(await _body(call))
    try:
        run = await call.services.repositories.resume(call.parameter("name"), actor=call.actor, request=call.request)
    except Suspended as problem:
        raise errors.Conflict(problem.message) from problem
    if run is None:
        raise repositories.missing()
    return Json(answers.member(b"run", json.dumps(run).encode()), status=202)


def read_suspension(body: bytes, *, now: datetime) -> tuple[str, datetime | None]:
    """The reason that a body gives, and when the suspension ends; raises BadRequest with every mistake."""
    value = _object(body)
    mistakes = [_unknown(key) for key in value if key not in KNOWN]
    reason, until = value.get("reason"), None
    if "reason" not in value:
        mistakes.append("/reason: is required")
    elif not isinstance(reason, str) or len(reason) > LONGEST_REASON or not REASON.fullmatch(reason):
        mistakes.append(f"/reason: must be one line of 1 to {LONGEST_REASON} characters that begins with no space")
    if "expiry" in value:
        try:
            until = _until(value["expiry"], now=now)
        except ValueError as mistake:
            mistakes.append(f"/expiry: {mistake}")
    if mistakes or not isinstance(reason, str):
        raise errors.BadRequest(*mistakes)
    return reason, until


def read_nothing(body: bytes) -> None:
    """No body, or an empty object; raises BadRequest with every mistake."""
    mistakes = [f"{pointer_text((key,))}: unknown key; there are none" for key in _object(body)] if body else []
    if mistakes:
        raise errors.BadRequest(*mistakes)


def _check(call: Call) -> None:
    queries.none_known(call.query)
    if call.actor.role is not Role.ADMIN:
        raise errors.Forbidden("Only an admin suspends and resumes repositories.")


async def _body(call: Call) -> bytes:
    try:
        return await bodies.read(call, limit=MAX_BYTES)
    except errors.TooLarge:
        told = f"The body is over {MAX_BYTES} bytes; a reason has at most {LONGEST_REASON} characters."
        raise errors.TooLarge(told) from None


def _object(body: bytes) -> dict[str, Value]:
    try:
        documents = reading.read(body, syntax=reading.Syntax.JSON, limits=limits.for_body(len(body)))
    except reading.DocumentError as error:
        raise errors.BadRequest(f"body:{error.line}:{error.column}: {error.message}") from error
    value = documents[0].value if documents else None
    if not isinstance(value, dict):
        raise errors.BadRequest("The body must be an object.")
    return value


def _unknown(key: str) -> str:
    return f"{pointer_text((key,))}: unknown key; only `reason` and `expiry` are allowed"


def _until(expiry: Value, *, now: datetime) -> datetime:
    """The instant that an expiry means; raises ValueError with what it should be."""
    allowed = "must be a duration such as 30m or 2h, or an instant with a zone such as 2026-11-21T08:00:00Z"
    if isinstance(expiry, str) and INSTANT.fullmatch(expiry):
        try:
            until = datetime.fromisoformat(expiry)
        except ValueError:
            raise ValueError(allowed) from None
    else:
        try:
            until = now + timedelta(seconds=scalars.seconds(expiry))
        except ValueError:
            raise ValueError(allowed) from None
    if not now < until <= now + LONGEST:
        raise ValueError("must be in the future, and at most a year away")
    return until
