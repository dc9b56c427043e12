"""Apply and delete: reading what is asked for, and answering what the applier says."""

from starlette.responses import Response

from api import bodies, disconnects, queries
from api.answers import Empty, Json
from api.calls import Call
from reconciler.reconcile.apply import ApplyAnswer, ApplyOptions, ApplyRequest

APPLY_PARAMETERS = frozenset({"acceptInvalid", "atomic", "dryRun", "strict"})
DELETE_PARAMETERS = frozenset({"dryRun"})


async def apply_resources(call: Call) -> Response:
    """POST /v1/apply"""
    asked = _options(call, known=APPLY_PARAMETERS)
    body = await bodies.read(call)
    who = change_request(call)
    work = call.services.applier.apply(body, request=who, options=asked)
    return change_response(await disconnects.unless_gone(call.receive, work))


async def delete_resources(call: Call) -> Response:
    """POST /v1/delete"""
    asked = _options(call, known=DELETE_PARAMETERS)
    body = await bodies.read(call)
    who = change_request(call)
    work = call.services.applier.delete(body, request=who, options=asked)
    return change_response(await disconnects.unless_gone(call.receive, work))


def change_request(call: Call) -> ApplyRequest:
    """Who asks, in which project, under the id that the answer carries too."""
    return ApplyRequest(id=call.request, project=call.project, actor=call.actor)


def change_response(answer: ApplyAnswer) -> Response:
    """What the applier says, as a response."""
    if not answer.body:
        return Empty(status=answer.status)
    return Json(answer.body, status=answer.status)


def _options(call: Call, *, known: frozenset[str]) -> ApplyOptions:
    query = queries.Query(call.query, known=known, strict=True)
    options = ApplyOptions(
        accept_invalid=query.boolean("acceptInvalid"),
        atomic=query.boolean("atomic"),
        dry_run=query.boolean("dryRun"),
        strict_version=query.choice("strict", "version"),
    )
    query.check()
    return options
