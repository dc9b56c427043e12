"""Approving what a repository holds: who may, and which commit is meant. What that releases is decided elsewhere."""

import json
import re

from starlette.responses import Response

from api import answers, errors, objects, queries, repositories
from api.answers import Json
from api.calls import Call
from reconciler.reconcile.interventions import NotHeld, Suspended

COMMIT = re.compile(r"[0-9a-f]{40}")


async def approve_repository(call: Call) -> Response:
    """POST /v1/repositories/{name}/approve"""
    queries.none_known(call.query)
    body = await objects.read_object(call, known=("commit",))
    commit = body.text("commit", required=True) or ""
    if commit and not COMMIT.fullmatch(commit):
        body.mistake("commit", "must be a commit's full id, 40 hexadecimal digits")
    body.check()
    try:
        run = await call.services.repositories.approve(
            call.parameter("name"), commit=commit, actor=call.actor, request=call.request
        )
    except (NotHeld, Suspended) as refusal:
        raise errors.Conflict(refusal.message) from refusal
    if run is None:
        raise repositories.missing()
    return Json(answers.json_member(b"run", json.dumps(run).encode()), status=202)
