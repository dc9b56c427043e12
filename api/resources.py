"""Resources: list, get, raw text, delete by name and history.

What a change does is decided behind the applier, what a reader sees in `reconciler.store.resource_queries`.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.responses import Response

from api import answers, changes, disconnects, errors, etags, judging, queries, streams
from api.answers import Header, Json
from api.at_once import AtOnce
from api.calls import Call
from reconciler.model import names
from reconciler.model.names import Key, Selector
from reconciler.model.principals import Permission
from reconciler.store import resource_queries

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
    etag = etags.of_version(resource, version=resource_queries.version(resource))
    body = answers.json_member(b"resource", resource)
    return etags.not_modified(call, etag) or AtOnce(body, media_type=answers.JSON, headers=(etag,))


async def list_kind(call: Call) -> Response:
    """GET /v1/resources/{kind}"""
    query = queries.Query(call.query, known=LIST_PARAMETERS, strict=False)
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
    held = etags.not_modified(call, etag)
    if held is not None:
        return held
    wanted = resource_queries.WantedResources(project, kind, after=after, limit=limit, selector=selector)
    pages = resource_queries.list_pages(call.services.store, wanted)
    return streams.Streamed(streams.stream_array(b"resources", _all_shown(call, pages, kind=kind)), headers=(etag,))


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
        return Json(errors.body([sentence]), status=409)
    return _text(call, found.text.encode())


async def delete(call: Call) -> Response:
    """DELETE /v1/resources/{kind}/{name}"""
    queries.none_known(call.query)
    key = key_of(call)
    request, matching = changes.change_request(call), etags.matching(call)
    work = call.services.applier.delete_one(key, request=request, matching=matching)
    return changes.change_response(await disconnects.unless_gone(call.receive, work))


async def history(call: Call) -> Response:
    """GET /v1/{kind}/{name}/history"""
    key = key_of(call)
    pages = resource_queries.history_pages(call.services.store, project=call.project, key=key)
    return streams.Streamed(streams.stream_array(b"versions", _all_shown(call, _existing(pages, key), kind=key.kind)))


def _hides(call: Call, kind: str) -> bool:
    """Whether a part of the resources of this kind is not for whoever asks."""
    if kind != CONFIGURATION:
        return False
    return not judging.permits(call, Permission.READ_RAW, project=call.project)


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
        raise errors.NotFound("There is no such kind; the kinds are listed in /openapi.json.")
    return kind.name


def _after(query: queries.Query) -> str:
    after = query.text("after") or ""
    problem = names.wrong_name(after) if after else None
    if problem is not None:
        query.problems.append(f"The query parameter `after` {problem}.")
    return after


def _selector(query: queries.Query) -> Selector:
    try:
        return names.parse_selector(query.text("selector") or "")
    except names.BadSelector as bad:
        query.problems.append(f"The query parameter `selector` is not a label selector: {bad.message}.")
        return names.EVERYTHING


def _text(call: Call, text: bytes) -> Response:
    """Text as it is, under a type that nothing runs: who applied it does not choose what a browser takes it for."""
    etag = etags.etag_header(text)
    response = Response(text, media_type="text/plain")
    response.raw_headers.append(etag)
    return etags.not_modified(call, etag) or response


def missing(key: Key) -> errors.NotFound:
    """There is no such resource."""
    return errors.NotFound(f"There is no {key.kind} {key.name}.")


async def _list_etag(call: Call, *facts: str | int) -> Header:
    # The revision is read before the list: should a commit come between, the list is newer than its tag says, and the
    # next request with that tag gets it again. The other order could hide a change.
    revision = await call.services.store.revision()
    return etags.etag_header(repr((revision, *facts)).encode())
