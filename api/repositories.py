"""Watched repositories: what is known of them, and asking for a run."""

import json

from starlette.responses import Response

from api import answers, errors, judging, queries
from api.answers import Json
from api.calls import Call
from reconciler.reconcile.interventions import Suspended


async def list_all(call: Call) -> Response:
    """GET /v1/repositories"""
    return Json(answers.json_array(b"repositories", await call.services.repositories.all(projects=judging.reach(call))))


async def get(call: Call) -> Response:
    """GET /v1/repositories/{name}"""
    repository = await call.services.repositories.one(call.parameter("name"))
    if repository is None:
        raise missing()
    return Json(answers.json_member(b"repository", repository))


async def reconcile(call: Call) -> Response:
    """POST /v1/repositories/{name}/reconcile"""
    queries.none_known(call.query)
    try:
        run = call.services.repositories.reconcile(call.parameter("name"), actor=call.actor)
    except Suspended as problem:
        raise errors.Conflict(problem.message) from problem
    if run is None:
        raise missing()
    return Json(answers.json_member(b"run", json.dumps(run).encode()), status=202)


def missing() -> errors.NotFound:
    """No repository has this name."""
    return errors.NotFound(judging.NO_REPOSITORY)
