"""Suspending and resuming a repository: who may, and what a body says. What follows is decided behind the services."""

import json
import re

from starlette.responses import Response

from api import answers, errors, instants, objects, queries, repositories
from api.answers import Json
from api.calls import Call
from api.objects import Members
from reconciler.reconcile.interventions import Suspended

LONGEST_REASON = 500  # characters
# One line that begins with something to see: no control characters, no separators of lines or paragraphs.
REASON = re.compile(r"[^\x00-\x20\x7f-\xa0\u2028\u2029][^\x00-\x1f\x7f-\x9f\u2028\u2029]*")


async def suspend(call: Call) -> Response:
    """POST /v1/repositories/{name}/suspend"""
    queries.none_known(call.query)
    body = await objects.read_object(call, known=("reason", "expiry"))
    reason, until = _reason(body), instants.expiry(body, now=call.services.clock())
    body.check()
    repository = await call.services.repositories.suspend(
        call.parameter("name"), reason=reason, until=until, actor=call.actor, request=call.request
    )
    if repository is None:
        raise repositories.missing()
    return Json(answers.json_member(b"repository", repository))


async def resume(call: Call) -> Response:
    """POST /v1/repositories/{name}/resume"""
    queries.none_known(call.query)
    (await objects.read_object(call, known=())).check()
    try:
        run = await call.services.repositories.resume(call.parameter("name"), actor=call.actor, request=call.request)
    except Suspended as problem:
        raise errors.Conflict(problem.message) from problem
    if run is None:
        raise repositories.missing()
    return Json(answers.json_member(b"run", json.dumps(run).encode()), status=202)


def _reason(body: Members) -> str:
    reason = body.text("reason", required=True)
    if reason is not None and (len(reason) > LONGEST_REASON or not REASON.fullmatch(reason)):
        body.mistake("reason", f"must be one line of 1 to {LONGEST_REASON} characters that begins with no space")
    return reason or ""
