"""Delivery of one destination: shown, replayed, discarded, tested; of all instances, if there are several."""

import json
from collections.abc import AsyncIterator, Awaitable, Sequence
from typing import Any

from starlette.responses import Response

from api import access, audit_events, auth, errors, instances, logs, requests
from api.calls import Call, Subject
from api.instances import Part
from api.requests import Members
from api.responses import json_answer
from api.routing import Routes
from reconciler.delivery import contract, dead_letters, history, status, sums
from reconciler.model import components, names
from reconciler.model.components import WEBHOOK
from reconciler.model.names import Key
from reconciler.model.principals import Permission

routes = Routes()

QUEUE, DEAD_LETTERS, ALL = "queue", "deadLetters", "all"
WHAT = (QUEUE, DEAD_LETTERS, ALL)
AT = "@"  # between the id of a dead letter and its instance, where there are several
PARAMETERS = frozenset({instances.PARAMETER})


@routes.add("GET /v1/deliveries", Subject.PROJECT, Permission.READ)
async def list_all(call: Call) -> Response:
    """Show the delivery of every destination of a project."""

    async def own() -> Part:
        return call.services.deliveries.all(call.project, answers=_may_see_answers(call))

    return json_answer(await instances.read(call, own, sums.sum_projects))


@routes.add("GET /v1/destinations/{name}/delivery", Subject.PROJECT, Permission.READ)
async def get(call: Call) -> Response:
    """Show the delivery of one destination."""
    name = _name(call)

    async def own() -> Part:
        return {"delivery": await _shown(call, name)}

    def merge(found: Sequence[tuple[str, Part]]) -> Part:
        return {"delivery": sums.sum_deliveries([(instance, part["delivery"]) for instance, part in found])}

    return json_answer(await instances.read(call, own, merge))


@routes.add("GET /v1/destinations/{name}/delivery/history", Subject.PROJECT, Permission.READ)
async def get_history(call: Call) -> Response:
    """Show the last hour of one destination, a sample a minute."""
    name = _name(call)

    async def own() -> Part:
        await _shown(call, name)
        samples = call.services.deliveries.history(call.project, name)
        return {"interval": history.INTERVAL_SECONDS, "samples": samples}

    def merge(found: Sequence[tuple[str, Part]]) -> Part:
        return {
            "interval": history.INTERVAL_SECONDS,
            "samples": sums.sum_histories([one["samples"] for _, one in found]),
        }

    return json_answer(await instances.read(call, own, merge))


@routes.add("GET /v1/destinations/{name}/delivery/dead-letters", Subject.PROJECT, Permission.HANDLE_DELIVERIES)
async def list_dead_letters(call: Call) -> Response:
    """Show the oldest dead letters of a destination, with the beginnings of their first records."""
    name = _name(call)
    query = requests.Query(call.query, known=frozenset({"limit"}), strict=False)
    limit = query.integer("limit", lowest=1, highest=dead_letters.MOST, default=dead_letters.USUAL)
    query.check()

    async def own() -> Part:
        await _shown(call, name)
        return {"deadLetters": await call.services.deliveries.dead_letters(call.project, name, most=limit)}

    def merge(found: Sequence[tuple[str, Part]]) -> Part:
        letters = [
            {**letter, "id": f"{letter['id']}{AT}{instance}", "instance": instance}
            for instance, part in found
            for letter in part["deadLetters"]
        ]
        return {"deadLetters": sorted(letters, key=lambda one: str(one["buriedAt"]))[:limit]}

    return json_answer(await instances.read(call, own, merge, query={"limit": limit}))


@routes.add("POST /v1/destinations/{name}/delivery/replay", Subject.PROJECT, Permission.HANDLE_DELIVERIES)
async def replay(call: Call) -> Response:
    """Queue the dead letters of a destination again, or one of them."""
    name = _name(call)
    body = await requests.read_object(call, known=("batch",), optional=True, parameters=PARAMETERS)
    batch, instance = _chosen(call, body)
    body.check()
    asked: dict[str, object] = {} if batch is None else {"batch": batch}

    def own() -> Awaitable[Part]:
        steps = call.services.deliveries.replay(call.project, name, letter=batch)
        return _counted(call, name, "replayed", steps, asked)

    return json_answer(await instances.act(call, own, _summing("replayed"), instance=instance, body=asked))


@routes.add("POST /v1/destinations/{name}/delivery/discard", Subject.PROJECT, Permission.HANDLE_DELIVERIES)
async def discard(call: Call) -> Response:
    """Discard the queue of a destination, its dead letters, both, or one dead letter."""
    name = _name(call)
    body = await requests.read_object(call, known=("what", "batch"), parameters=PARAMETERS)
    what = body.choice("what", WHAT, required=True)
    batch, instance = _chosen(call, body)
    if batch is not None and what != DEAD_LETTERS:
        body.mistake("batch", f"is allowed only if `what` is {DEAD_LETTERS}")
    body.check()
    queued, dead = what in (QUEUE, ALL), what in (DEAD_LETTERS, ALL)
    asked: dict[str, object] = {"what": what} if batch is None else {"what": what, "batch": batch}

    def own() -> Awaitable[Part]:
        steps = call.services.deliveries.discard(call.project, name, queued=queued, dead=dead, letter=batch)
        return _counted(call, name, "discarded", steps, asked)

    return json_answer(await instances.act(call, own, _summing("discarded"), instance=instance, body=asked))


@routes.add("POST /v1/destinations/{name}/delivery/test", Subject.PROJECT, Permission.HANDLE_DELIVERIES)
async def test(call: Call) -> Response:
    """Send a test record, and answer with the endpoint's answer."""
    name = _name(call)
    (await requests.read_object(call, known=(), parameters=PARAMETERS)).check()

    async def own() -> Part:
        await _shown(call, name)
        return {"test": await call.services.deliveries.test(call.project, name)}

    def merge(found: Sequence[tuple[str, Part]]) -> Part:
        tests = [{**part["test"], "instance": instance} for instance, part in found]
        return {"test": min(tests, key=lambda one: bool(one["delivered"]))}

    return json_answer(await instances.act(call, own, merge, instance=instances.instance_of(call)))


@routes.add("POST /v1/destinations/{name}/delivery/batches", Subject.PROJECT, Permission.HANDLE_DELIVERIES)
async def receive(call: Call) -> Response:
    """Store batches or dead letters of another instance's queue."""
    name = _name(call)
    requests.none_known(call.query)
    held = logs.HeldBytes(call.services.room, call.principal.name, logs.body_length(call, most=contract.MOVED_BYTES))
    try:
        body = await logs.read_body(call.receive, limit=held.size)
        auth.again(call)
        batches, records = await call.services.deliveries.receive(call.project, name, body)
    finally:
        held.change(0)
    return json_answer({"received": {"batches": batches, "records": records}})


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


def _chosen(call: Call, body: Members) -> tuple[str | None, str | None]:
    """Return the id of the dead letter that a body chooses, and the instance that the id or the query names."""
    batch, instance = body.text("batch"), instances.instance_of(call)
    if batch is None:
        return None, instance
    letter, _, place = batch.partition(AT)
    if dead_letters.ID.fullmatch(letter) is None:
        body.mistake("batch", "must be the `id` of a dead letter")
    elif place and instance not in (None, place):
        body.mistake("batch", f"is of another instance than {instance}")
    return letter, place or instance


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
) -> Part:
    """Do the steps. Record the finished ones in the audit even if a later step fails."""
    total = {"batches": 0, "records": 0}
    try:
        async for batches, records in steps:
            total = {"batches": total["batches"] + batches, "records": total["records"] + records}
    finally:
        if total["batches"]:
            await audit_events.handled_delivery(call, name, done, {**total, **asked})
    return {done: total}


def _summing(done: str) -> instances.Merge:
    """Return a function that sums what several instances did."""

    def merge(found: Sequence[tuple[str, Part]]) -> Part:
        return {done: {one: sum(part[done][one] for _, part in found) for one in ("batches", "records")}}

    return merge
