"""Approving what a repository holds: who may, and which commit is meant. What that releases is decided elsewhere."""

import json
import re

from starlette.responses import Response

from api import answers, bodies, errors, queries, repositories
from api.answers import Json
from api.calls import Call
from reconciler.access.actors import Role
from reconciler.documents.values import pointer_text
from reconciler.reconciling.approving import NotHeld
from reconciler.reconciling.suspending import Suspended

MAX_BYTES = 1_024  # of the body: one commit's id, and room to spare
COMMIT = re.compile(r"[0-9a-f]{40}")
SHAPE = 'the body is {"commit": ID}'


async def approve(call: Call) -> Response:
    """POST /v1/repositories/{name}/approve"""
    queries.none_known(call.query)
    if call.actor.role is not Role.ADMIN:
        raise errors.Forbidden("Only an admin approves what a repository holds.")
    commit = read_commit(await bodies.read(call, limit=MAX_BYTES))
    try:
        run = await call.services.repositories.approve(
            call.parameter("name"), commit=commit, actor=call.actor, request=call.request
        )
    except (NotHeld, Suspended) as refusal:
        raise errors.Conflict(refusal.message) from refusal
    if run is None:
        raise repositories.missing()
    return Json(answers.member(b"run", json.dumps(run).encode()), status=202)


def read_commit(body: bytes) -> str:
    """The commit that a body names. Raises BadRequest with every mistake."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise errors.BadRequest(f"The body is not JSON; {SHAPE}.") from None
    if not isinstance(value, dict):
        raise errors.BadRequest(f"The body must be an object; {SHAPE}.")
    commit = value.pop("commit", None)
    mistakes = [f"{pointer_text((key,))}: unknown key; only `commit` is allowed" for key in value]
    if not isinstance(commit, str) or not COMMIT.fullmatch(commit):
        mistakes.append("/commit: must be a commit's full id, 40 hexadecimal digits")
    if mistakes:
        raise errors.BadRequest(*mistakes)
    assert isinstance(commit, str)
    return commit
