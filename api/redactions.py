"""Redacting: taking a text out of the history of a resource. Who may, and what a body says.

What is rewritten is decided behind the applier. The text is a secret: nothing here logs or repeats it.
"""

import asyncio
import json
import logging

from starlette.responses import Response

from api import bodies, changes, disconnects, errors, objects, queries, resources
from api.answers import Json
from api.calls import Call
from reconciler.model import rendering
from reconciler.store.contract import Store, StoreFault, Traces
from reconciler.worker.messages import RedactPlanned

logger = logging.getLogger(__name__)

PARAMETERS = frozenset({"dryRun"})
MAX_BYTES = rendering.MOST * 12 + 1_024  # JSON may write a character as two escapes, of six bytes each
ERASE_SECONDS = 20.0  # that an answer waits for the store's files; they are cleared in the background as well


async def redact_resource(call: Call) -> Response:
    """POST /v1/{kind}/{name}/history/redact"""
    query = queries.Query(call.query, known=PARAMETERS, strict=True)
    dry_run = query.boolean("dryRun")
    query.check()
    key = resources.key_of(call)
    text = read_text(await bodies.read(call, limit=MAX_BYTES))
    who = changes.change_request(call)
    work = call.services.applier.redact(key, text, request=who, dry_run=dry_run)
    planned = await disconnects.unless_gone(call.receive, work)
    if not planned.exists:
        raise resources.missing(key)
    if planned.obstacle is not None:
        raise errors.Conflict(planned.obstacle)
    if dry_run:
        return _response(planned)
    erased = await _erase(call.services.store)
    logger.info(
        "The history of %s %s was redacted by %s: versions rewritten: %d%s.",
        *(key.kind, key.name, who.actor.name, len(planned.versions)),
        "" if erased else "; traces are in the store's files until nobody reads an older revision",
    )
    return _response(planned, erased=erased)


def read_text(body: bytes) -> str:
    """The text that a body names. Raises `BadRequest` with every mistake."""
    members = objects.object_members(body, known=("value",))
    text = members.text("value", required=True)
    problem = None if text is None else rendering.redaction_problem(text)
    if problem is not None:
        members.mistake("value", problem)
    members.check()
    return text or ""


async def _erase(store: Store) -> bool:
    """Whether no trace is left in the store's files; what is left is erased in the background."""
    try:
        async with asyncio.timeout(ERASE_SECONDS):
            return await store.erase_traces() is not Traces.KEPT
    except (TimeoutError, StoreFault):
        return False


def _response(planned: RedactPlanned, **more: bool) -> Response:
    answer = {"versions": planned.versions, "places": planned.places, **more}
    return Json(json.dumps(answer, separators=(",", ":")).encode())
