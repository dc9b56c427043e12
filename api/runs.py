"""Runs: what each look at a repository did."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec
from starlette.responses import Response

from api import answers, errors, judging, queries, streams
from api.calls import Call

LIST_PARAMETERS = frozenset({"repository", "limit"})
LARGEST_PAGE = 10_000  # runs
PAGE = 100  # runs, when no limit is given: runs are kept, so that all of them would only grow
MISSING = "There is no such run; GET /v1/runs lists those that were recorded."


async def list_runs(call: Call) -> Response:
    """GET /v1/runs"""
    query = queries.Query(call.query, known=LIST_PARAMETERS, strict=False)
    limit = query.integer("limit", lowest=1, highest=LARGEST_PAGE, default=PAGE)
    query.check()
    pages = call.services.store.runs_pages(
        repository=query.text("repository"), projects=judging.reach(call), limit=limit
    )
    return streams.Streamed(streams.stream_array(b"runs", pages))


async def get_run(call: Call) -> Response:
    """GET /v1/runs/{id}"""
    return streams.Streamed(_one(call, call.parameter("id"), projects=judging.reach(call)))


async def _one(call: Call, run: str, *, projects: frozenset[str] | None) -> AsyncGenerator[bytes, None]:
    """The answer. Raises `NotFound` before anything is sent."""
    # A run leaves memory a moment after it is stored. The store comes first, so that what was finished once stays so,
    # and last, for a run that ended between the two look-ups.
    for look in (_finished, _pending, _finished):
        found = False
        async with aclosing(look(call, run, projects)) as texts:
            async for text in texts:
                found = True
                yield text
        if found:
            return
    raise errors.NotFound(MISSING)


async def _finished(call: Call, run: str, projects: frozenset[str] | None) -> AsyncGenerator[bytes, None]:
    async with aclosing(call.services.store.run_pages(run)) as pages:
        first = await anext(pages, None)
        if first is None:
            return
        [head] = first
        _check(call, projects, _project(head))
        before = b'{"run":%b,"statuses":[' % head.removesuffix(b"}")  # the statuses become its last member
        async with aclosing(streams.join_parts(before, pages, b"]}}")) as texts:
            async for text in texts:
                yield text


async def _pending(call: Call, run: str, projects: frozenset[str] | None) -> AsyncGenerator[bytes, None]:
    """A queued or a running run, from memory: it has no statuses yet."""
    found = call.services.repositories.run(run)
    if found is not None:
        _check(call, projects, _project(found))
        yield answers.json_member(b"run", found)


def _check(call: Call, projects: frozenset[str] | None, project: str) -> None:
    if not judging.is_within(projects, project):
        raise judging.missing(call, MISSING, project=project)


class _Run(msgspec.Struct, frozen=True):
    project: str


_RUN = msgspec.json.Decoder(_Run)


def _project(run: bytes) -> str:
    return _RUN.decode(run).project
