"""Apply and delete: reading what is asked for, and answering what the applier says."""

from starlette.responses import Response

from api import bodies, disconnects, queries
from api.answers import Empty, Json
from api.calls import Call
from reconciler.applying import Answer, Options, Request

APPLY_PARAMETERS = frozenset({"acceptInvalid", "atomic", "dryRun", "strict"})
DELETE_PARAMETERS = frozenset({"dryRun"})


async def apply(call: Call) -> Response:
    """POST /v1/apply"""
    asked = _options(call, known=APPLY_PARAMETERS)
    body = await bodies.read(call)
    who = request(call)
    work = call.services.applier.apply(body, request=who, options=asked)
    return response(await disconnects.unless_gone(call.receive, work))


async def delete(call: Call) -> Response:
    """POST /v1/delete"""
    asked = _options(call, known=DELETE_PARAMETERS)
    body = await bodies.read(call)
    who = request(call)
    work = call.services.applier.delete(body, request=who, options=asked)
    return response(await disconnects.unless_gone(call.receive, work))


def request(call: Call) -> Request:
    """Who asks, in which project, under the id that the answer carries too."""
    return Request(id=call.request, project=call.project, actor=call.actor)


def response(answer: Answer) -> Response:
    """What the applier says, as a response."""
    if not answer.body:
        return Empty(status=answer.status)
    return Json(answer.body, status=answer.status)


def _options(call: Call, *, known: frozenset[str]) -> Options:
    query = queries.Query(call.query, known=known, strict=True)
    options = Options(
        accept_invalid=query.boolean("acceptInvalid"),
        atomic=query.boolean("atomic"),
        dry_run=query.boolean("dryRun"),
        strict_version=query.choice("strict", "version"),
    )
    query.check()
    return options
