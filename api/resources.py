"""Resources: list, get, delete by name and history. What a change does is decided behind the applier."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.responses import Response

from api import answers, changes, disconnects, errors, etags, projects, queries, streams
from api.answers import Header, Json
from api.calls import Call
from reconciler.resources import kinds, names
from reconciler.resources.keys import Key

LIST_PARAMETERS = frozenset({"limit", "after"})
LARGEST_PAGE = 10_000  # resources
ALL = 2**63 - 1  # a list without a limit: SQL's largest integer


async def get(call: Call) -> Response:
    """GET /v1/resources/{kind}/{name}"""
    key = _key(call)
    resource = await call.services.store.get(await projects.chosen(call), key)
    if resource is None:
        raise _missing(key)
    etag = etags.header(resource)
    return etags.not_modified(call, etag) or Json(answers.member(b"resource", resource), headers=(etag,))


async def list_kind(call: Call) -> Response:
    """GET /v1/resources/{kind}"""
    query = queries.Query(call.query, known=LIST_PARAMETERS, strict=False)
    limit = query.integer("limit", lowest=1, highest=LARGEST_PAGE, default=ALL)
    after = query.text("after") or ""
    problem = names.name(after) if after else None
    if problem is not None:
        query.problems.append(f"The query parameter `after` {problem}.")
    query.check()
    kind = _kind(call)
    project = await projects.chosen(call)
    etag = await _list_etag(call, project, kind, after, limit)
    held = etags.not_modified(call, etag)
    if held is not None:
        return held
    pages = call.services.store.list_pages(project, kind, after=after, limit=limit)
    return streams.Streamed(streams.array(b"resources", pages), headers=(etag,))


async def delete(call: Call) -> Response:
    """DELETE /v1/resources/{kind}/{name}"""
    queries.none_known(call.query)
    key = _key(call)
    request = await changes.request(call)
    return changes.response(
        await disconnects.unless_gone(call.receive, call.services.applier.delete_one(key, request=request))
    )


async def history(call: Call) -> Response:
    """GET /v1/{kind}/{name}/history"""
    key = _key(call)
    pages = call.services.store.history_pages(await projects.chosen(call), key)
    return streams.Streamed(streams.array(b"versions", _existing(pages, key)))


async def _existing(pages: AsyncGenerator[list[bytes], None], key: Key) -> AsyncGenerator[list[bytes], None]:
    """The pages. Raises `NotFound` when there are none, before anything is sent."""
    async with aclosing(pages):
        first = await anext(pages, None)
        if first is None:
            raise _missing(key)
        yield first
        async for page in pages:
            yield page


def _key(call: Call) -> Key:
    name = call.parameter("name")
    problem = names.name(name)
    if problem is not None:
        raise errors.BadRequest(f"The name in the path {problem}.")
    return Key(_kind(call), name)


def _kind(call: Call) -> str:
    kind = kinds.find(call.parameter("kind"))
    if kind is None:
        raise errors.NotFound("There is no such kind; the kinds are listed in /openapi.json.")
    return kind.name


def _missing(key: Key) -> errors.NotFound:
    return errors.NotFound(f"There is no {key.kind} {key.name}.")


async def _list_etag(call: Call, *facts: str | int) -> Header:
    # The revision is read before the list: should a commit come between, the list is newer than its tag says, and the
    # next request with that tag gets it again. The other order could hide a change.
    revision = await call.services.store.revision()
    return etags.header(repr((revision, *facts)).encode())
