"""Resources: list, get, history, apply, delete and redact."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.responses import Response

from api import bodies, calls, errors, resource_queries
from api.calls import Call
from api.errors import Empty, Json
from api.headers import Header
from reconciler.model import names, rendering
from reconciler.model.error_codes import ErrorCode
from reconciler.model.names import Key, Selector
from reconciler.model.principals import Permission
from reconciler.reconcile.apply import ApplyAnswer, ApplyOptions, ApplyRequest
from reconciler.store.contract import Store, StoreFault
from reconciler.store.records import Traces
from reconciler.worker.messages import RedactPlanned

# Apply and delete: reading what is asked for, and answering what the applier says.

APPLY_PARAMETERS = frozenset({"acceptInvalid", "atomic", "dryRun", "strict"})
DELETE_PARAMETERS = frozenset({"dryRun"})


async def apply_resources(call: Call) -> Response:
    """POST /v1/apply"""
    asked = _options(call, known=APPLY_PARAMETERS)
    body = await bodies.read(call)
    who = change_request(call)
    work = call.services.applier.apply(body, request=who, options=asked)
    return change_response(await bodies.unless_gone(call.receive, work))


async def delete_resources(call: Call) -> Response:
    """POST /v1/delete"""
    asked = _options(call, known=DELETE_PARAMETERS)
    body = await bodies.read(call)
    who = change_request(call)
    work = call.services.applier.delete(body, request=who, options=asked)
    return change_response(await bodies.unless_gone(call.receive, work))


def change_request(call: Call) -> ApplyRequest:
    """Who asks, in which project, under the id that the answer carries too."""
    return ApplyRequest(id=call.request, project=call.project, actor=call.actor)


def change_response(answer: ApplyAnswer) -> Response:
    """What the applier says, as a response."""
    if not answer.body:
        return Empty(status=answer.status)
    return Json(answer.body, status=answer.status)


def _options(call: Call, *, known: frozenset[str]) -> ApplyOptions:
    query = bodies.Query(call.query, known=known, strict=True)
    options = ApplyOptions(
        accept_invalid=query.boolean("acceptInvalid"),
        atomic=query.boolean("atomic"),
        dry_run=query.boolean("dryRun"),
        strict_version=query.choice("strict", "version"),
    )
    query.check()
    return options


# Resources: list, get, raw text, delete by name and history.
#
# What a change does is decided behind the applier, what a reader sees in `api.resource_queries`.

LIST_PARAMETERS = frozenset({"limit", "after", "selector"})
LARGEST_PAGE = 10_000  # resources
CONFIGURATION = "Configuration"  # the one kind that may have a text of its own


async def get(call: Call) -> Response:
    """GET /v1/resources/{kind}/{name}"""
    key = key_of(call)
    resource = await call.services.store.get(call.project, key) or resource_queries.built_in(key)
    if resource is None:
        raise missing(key)
    resource = _shown(call, resource, kind=key.kind)
    etag = bodies.of_version(resource, version=resource_queries.version(resource))
    body = errors.json_member(b"resource", resource)
    return bodies.not_modified(call, etag) or Json(body, headers=(etag,))


async def list_kind(call: Call) -> Response:
    """GET /v1/resources/{kind}"""
    query = bodies.Query(call.query, known=LIST_PARAMETERS, strict=False)
    limit = query.integer("limit", lowest=1, highest=LARGEST_PAGE, default=resource_queries.ALL)
    after, selector = _after(query), _selector(query)
    query.check()
    kind = _kind(call)
    project = call.project
    facts = (
        project,
        kind,
        after,
        limit,
        query.text("selector") or "",
        resource_queries.built_in_digest(),
        _hides(call, kind),
    )
    etag = await _list_etag(call, *facts)
    held = bodies.not_modified(call, etag)
    if held is not None:
        return held
    wanted = resource_queries.WantedResources(project, kind, after=after, limit=limit, selector=selector)
    pages = resource_queries.list_pages(call.services.store, wanted)
    return bodies.Streamed(bodies.stream_array(b"resources", _all_shown(call, pages, kind=kind)), headers=(etag,))


async def raw(call: Call) -> Response:
    """GET /v1/resources/{kind}/{name}/raw"""
    key = key_of(call)
    if key.kind != CONFIGURATION:
        raise errors.NotFound(f"Only a {CONFIGURATION} may have a raw text, and {key.kind} is another kind.")
    resource = await call.services.store.get(call.project, key)
    if resource is None:
        raise missing(key)
    found = resource_queries.raw_text(resource)
    if found.text is None:
        raise errors.NotFound(f"The {CONFIGURATION} {key.name} has no `raw` in its spec.")
    if not found.ready:
        # What is incomplete is not rolled out, and this is how collectors would get it.
        sentence = f"The {CONFIGURATION} {key.name} is not ready; its status says what is incomplete."
        raise errors.Conflict(sentence, code=ErrorCode.NOT_READY)
    return _text(call, found.text.encode())


async def delete(call: Call) -> Response:
    """DELETE /v1/resources/{kind}/{name}"""
    bodies.none_known(call.query)
    key = key_of(call)
    request, matching = change_request(call), bodies.matching(call)
    work = call.services.applier.delete_one(key, request=request, matching=matching)
    return change_response(await bodies.unless_gone(call.receive, work))


async def history(call: Call) -> Response:
    """GET /v1/{kind}/{name}/history"""
    key = key_of(call)
    pages = resource_queries.history_pages(call.services.store, project=call.project, key=key)
    return bodies.Streamed(bodies.stream_array(b"versions", _all_shown(call, _existing(pages, key), kind=key.kind)))


def _hides(call: Call, kind: str) -> bool:
    """Whether a part of the resources of this kind is not for whoever asks."""
    if kind != CONFIGURATION:
        return False
    return not calls.permits(call, Permission.READ_RAW, project=call.project)


def _shown(call: Call, resource: bytes, *, kind: str) -> bytes:
    return resource_queries.without_raw(resource) if _hides(call, kind) else resource


def _all_shown(call: Call, pages: AsyncGenerator[list[bytes], None], *, kind: str) -> AsyncGenerator[list[bytes], None]:
    return _without_raw(pages) if _hides(call, kind) else pages


async def _without_raw(pages: AsyncGenerator[list[bytes], None]) -> AsyncGenerator[list[bytes], None]:
    async with aclosing(pages):
        async for page in pages:
            yield [resource_queries.without_raw(resource) for resource in page]


async def _existing(pages: AsyncGenerator[list[bytes], None], key: Key) -> AsyncGenerator[list[bytes], None]:
    """The pages. Raises `NotFound` when there are none, before anything is sent."""
    async with aclosing(pages):
        first = await anext(pages, None)
        if first is None:
            raise missing(key)
        yield first
        async for page in pages:
            yield page


def key_of(call: Call) -> Key:
    """The resource that the path names. Raises `BadRequest`, `NotFound`."""
    name = call.parameter("name")
    problem = names.wrong_name(name)
    if problem is not None:
        raise errors.BadRequest(f"The name in the path {problem}.")
    return Key(_kind(call), name)


def _kind(call: Call) -> str:
    kind = names.find_kind(call.parameter("kind"))
    if kind is None:
        raise errors.NotFound(
            "There is no such kind; the kinds are listed in /openapi.json.", code=ErrorCode.KIND_NOT_FOUND
        )
    return kind.name


def _after(query: bodies.Query) -> str:
    after = query.text("after") or ""
    problem = names.wrong_name(after) if after else None
    if problem is not None:
        query.problems.append(f"The query parameter `after` {problem}.")
    return after


def _selector(query: bodies.Query) -> Selector:
    try:
        return names.parse_selector(query.text("selector") or "")
    except names.BadSelector as bad:
        query.problems.append(f"The query parameter `selector` is not a label selector: {bad.message}.")
        return names.EVERYTHING


def _text(call: Call, text: bytes) -> Response:
    """Text as it is, under a type that nothing runs: who applied it does not choose what a browser takes it for."""
    etag = bodies.etag_header(text)
    response = Response(text, media_type="text/plain")
    response.raw_headers.append(etag)
    return bodies.not_modified(call, etag) or response


def missing(key: Key) -> errors.NotFound:
    """There is no such resource."""
    return errors.NotFound(f"There is no {key.kind} {key.name}.", code=ErrorCode.RESOURCE_NOT_FOUND)


async def _list_etag(call: Call, *facts: str | int) -> Header:
    # The revision is read before the list: should a commit come between, the list is newer than its tag says, and the
    # next request with that tag gets it again. The other order could hide a change.
    revision = await call.services.store.revision()
    return bodies.etag_header(repr((revision, *facts)).encode())


# Redacting: taking a text out of the history of a resource. Who may, and what a body says.
#
# What is rewritten is decided behind the applier. The text is a secret: nothing here logs or repeats it.

logger = logging.getLogger(__name__)

PARAMETERS = frozenset({"dryRun"})
MAX_BYTES = rendering.MOST * 12 + 1_024  # JSON may write a character as two escapes, of six bytes each
ERASE_SECONDS = 20.0  # that an answer waits for the store's files; they are cleared in the background as well


async def redact_resource(call: Call) -> Response:
    """POST /v1/{kind}/{name}/history/redact"""
    query = bodies.Query(call.query, known=PARAMETERS, strict=True)
    dry_run = query.boolean("dryRun")
    query.check()
    key = key_of(call)
    text = read_text(await bodies.read(call, limit=MAX_BYTES))
    who = change_request(call)
    work = call.services.applier.redact(key, text, request=who, dry_run=dry_run)
    planned = await bodies.unless_gone(call.receive, work)
    if not planned.exists:
        raise missing(key)
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
    members = bodies.object_members(body, known=("value",))
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
