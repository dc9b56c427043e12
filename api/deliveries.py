"""Delivery of one destination: shown, replayed, discarded, tested."""

import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import Response

from api import access, audit_events, errors, requests
from api.calls import Call, Subject
from api.requests import Members
from api.responses import json_answer
from api.routing import Routes
from reconciler.delivery import contract, dead_letters, history, status
from reconciler.model import components, names
from reconciler.model.components import WEBHOOK
from reconciler.model.names import Key
from reconciler.model.principals import Permission

routes = Routes()

QUEUE, DEAD_LETTERS, ALL = "queue", "deadLetters", "all"
WHAT = (QUEUE, DEAD_LETTERS, ALL)


@routes.add("GET /v1/deliveries", Subject.PROJECT, Permission.READ)
async def list_all(call: Call) -> Response:
    """Show the delivery of every destination of a project."""
    return json_answer(call.services.deliveries.all(call.project, answers=_may_see_answers(call)))


@routes.add("GET /v1/destinations/{name}/delivery", Subject.PROJECT, Permission.READ)
async def get(call: Call) -> Response:
    """Show the delivery of one destination."""
    return json_answer({"delivery": await _shown(call, _name(call))})


@routes.add("GET /v1/destinations/{name}/delivery/history", Subject.PROJECT, Permission.READ)
async def get_history(call: Call) -> Response:
    """Show the last hour of one destination, a sample a minute."""
    name = _name(call)
    await _shown(call, name)
    samples = call.services.deliveries.history(call.project, name)
    return json_answer({"interval": history.INTERVAL_SECONDS, "samples": samples})


@routes.add("GET /v1/destinations/{name}/delivery/dead-letters", Subject.PROJECT, Permission.HANDLE_DELIVERIES)
async def list_dead_letters(call: Call) -> Response:
    """Show the oldest dead letters of a destination, with the beginnings of their first records."""
    name = _name(call)
    query = requests.Query(call.query, known=frozenset({"limit"}), strict=False)
    limit = query.integer("limit", lowest=1, highest=dead_letters.MOST, default=dead_letters.USUAL)
    query.check()
    await _shown(call, name)
    return json_answer({"deadLetters": await call.services.deliveries.dead_letters(call.project, name, most=limit)})


@routes.add("POST /v1/destinations/{name}/delivery/replay", Subject.PROJECT, Permission.HANDLE_DELIVERIES)
async def replay(call: Call) -> Response:
    """Queue the dead letters of a destination again, or one of them."""
    name = _name(call)
    body = await requests.read_object(call, known=("batch",), optional=True)
    batch = _batch(body)
    body.check()
    steps = call.services.deliveries.replay(call.project, name, letter=batch)
    return await _counted(call, name, "replayed", steps, {} if batch is None else {"batch": batch})


@routes.add("POST /v1/destinations/{name}/delivery/discard", Subject.PROJECT, Permission.HANDLE_DELIVERIES)
async def discard(call: Call) -> Response:
    """Discard its queue, its dead letters or one of them, or both."""
    name = _name(call)
    body = await requests.read_object(call, known=("what", "batch"))
    what, batch = body.choice("what", WHAT, required=True), _batch(body)
    if batch is not None and what != DEAD_LETTERS:
        body.mistake("batch", f"is allowed only if `what` is {DEAD_LETTERS}")
    body.check()
    queued, dead = what in (QUEUE, ALL), what in (DEAD_LETTERS, ALL)
    steps = call.services.deliveries.discard(call.project, name, queued=queued, dead=dead, letter=batch)
    return await _counted(
        call, name, "discarded", steps, {"what": what} if batch is None else {"what": what, "batch": batch}
    )


@routes.add("POST /v1/destinations/{name}/delivery/test", Subject.PROJECT, Permission.HANDLE_DELIVERIES)
async def test(call: Call) -> Response:
    """Send a test record, and answer with the endpoint's answer."""
    name = _name(call)
    (await requests.read_object(call, known=())).check()
    await _shown(call, name)
    return json_answer({"test": await call.services.deliveries.test(call.project, name)})


async def _shown(call: Call, name: str) -> dict[str, Any]:
    """Return a destination's delivery, even for a webhook without a route. Raises UnknownDestination."""
    try:
        return call.services.deliveries.shown(call.project, name, answers=_may_see_answers(call))
    except contract.UnknownDestination:
        stored = await call.services.store.get(call.project, Key("Destination", name))
        if stored is None or components.type_name_of(json.loads(stored)["spec"]) != WEBHOOK.name:
            raise
        return status.idle_delivery(name)


def _may_see_answers(call: Call) -> bool:
    """Return True if the caller may see the answers of endpoints, which may contain any text."""
    return access.permits(call, Permission.HANDLE_DELIVERIES, project=call.project)


def _batch(body: Members) -> str | None:
    """Return the id of the dead letter that a body chooses, or None."""
    batch = body.text("batch")
    if batch is not None and dead_letters.ID.fullmatch(batch) is None:
        body.mistake("batch", "must be the `id` of a dead letter")
    return batch


def _name(call: Call) -> str:
    """Return the destination in the path: a resource's name, or `configuration:id` of an inline one. Raises
    `BadRequest`.
    """
    name = call.parameters["name"]
    first, colon, last = name.partition(":")
    problem = names.wrong_name(first) or (names.wrong_name(last) if colon else None)
    if problem is not None:
        raise errors.BadRequest(f"The name in the path {problem}; that of a webhook in place is `configuration:id`.")
    return name


async def _counted(
    call: Call, name: str, done: str, steps: AsyncIterator[tuple[int, int]], asked: dict[str, object]
) -> Response:
    """Do the steps, and record the finished ones in the audit even if a later step fails."""
    total = {"batches": 0, "records": 0}
    try:
        async for batches, records in steps:
            total = {"batches": total["batches"] + batches, "records": total["records"] + records}
    finally:
        if total["batches"]:
            await audit_events.handled_delivery(call, name, done, {**total, **asked})
    return json_answer({done: total})
