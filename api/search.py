"""The search over resources of all kinds: short rows, each with a state and an owner.

A search reads every resource of the project until it has found enough, page by page. Nothing is indexed for it.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import NamedTuple

import msgspec
from starlette.responses import Response

from api import requests, resources, responses
from api.calls import Call, Subject
from api.responses import Json
from api.routing import Routes
from reconciler.model import conditions, names
from reconciler.model.conditions import ResourceStatus, Source, State
from reconciler.model.names import EVERYTHING, KINDS, Key, Selector
from reconciler.model.principals import Permission

routes = Routes()

PARAMETERS = frozenset({"q", "kind", "label", "status", "owner", "limit", "after"})
LARGEST_PAGE = 1_000  # resources
PAGE = 100
BUILT_IN = "builtin"  # an owner that is no repository


# The members of a body that are read. Msgspec skips the rest.


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    version: int
    labels: dict[str, str] | None = None
    date_modified: str | None = None


class _Resource(msgspec.Struct, frozen=True):
    kind: str
    metadata: _Metadata
    status: ResourceStatus


_RESOURCE = msgspec.json.Decoder(_Resource)


class ResourceRow(msgspec.Struct, frozen=True, rename="camel"):
    """A resource in an answer. `owner` is a repository, `api` or `builtin`; None for a damaged resource."""

    kind: str
    name: str
    version: int
    date_modified: str | None
    labels: dict[str, str]
    state: State
    reason: str | None
    owner: str | None
    source: Source | None


class Wanted(NamedTuple):
    """A search: everything that is not None must match. `text` is in lower case."""

    text: str
    kind: str | None
    selector: Selector
    states: frozenset[State] | None
    owner: str | None
    after: Key

    def row(self, body: bytes) -> ResourceRow | None:
        """Return the row of a resource; None if it does not match."""
        found = _RESOURCE.decode(body)
        metadata, status = found.metadata, found.status
        if self.text not in metadata.name.lower():
            return None
        labels, owner = metadata.labels or {}, conditions.owner_of(status)
        if self.owner not in (None, owner) or not self.selector.matches(labels):
            return None
        for state, reason in conditions.conditions(status):
            if self.states is None or state in self.states:
                name, version, date = metadata.name, metadata.version, metadata.date_modified
                return ResourceRow(found.kind, name, version, date, labels, state, reason, owner, status.source)
        return None


@routes.add("GET /v1/resources", Subject.PROJECT, Permission.READ)
async def search(call: Call) -> Response:
    """Search the resources of all kinds."""
    query = requests.Query(call.query, known=PARAMETERS, strict=False)
    wanted = Wanted(
        text=(query.text("q") or "").lower(),
        kind=query.parsed("kind", _kind),
        selector=query.parsed("label", resources.parse_selector) or EVERYTHING,
        states=query.parsed("status", _states),
        owner=query.text("owner"),
        after=query.parsed("after", _key) or Key("", ""),
    )
    limit = query.integer("limit", lowest=1, highest=LARGEST_PAGE, default=PAGE)
    query.check()
    # The revision is read first: if a commit comes between, the cached answer is newer than its key, which is harmless.
    key = (await call.services.store.revision(), call.project, wanted, limit)
    body = call.services.searches.get(key)
    if body is None:
        body = await responses.unless_gone(call.receive, _body(_texts(_pages(call, wanted), limit=limit)))
        call.services.searches.keep(key, body)
    return Json(body)


async def _body(texts: AsyncGenerator[bytes, None]) -> bytes:
    async with aclosing(texts):
        return b"".join([text async for text in texts])


def _kind(text: str) -> str:
    kind = names.find_kind(text)
    if kind is None:
        raise ValueError("is not a kind; the kinds are listed in /openapi.json.")
    return kind.name


def _states(text: str) -> frozenset[State]:
    given = text.split(",")
    if not set(given) <= set(State):
        raise ValueError(f"is not one of {', '.join(State)}, or several with commas between.")
    return frozenset(map(State, given))


def _key(text: str) -> Key:
    kind, _, name = text.partition("/")
    if not (kind.isascii() and kind.isalpha()) or names.wrong_name(name) is not None:
        raise ValueError("is not a kind and a name with `/` between, as `next` of an answer.")
    return Key(kind, name)


async def _texts(pages: AsyncGenerator[list[ResourceRow], None], *, limit: int) -> AsyncGenerator[bytes, None]:
    """Yield the answer with at most `limit` rows; if there is another one, `next` is the last of them."""
    before, left, last, following = b'{"resources":[', limit, "", None
    async with aclosing(pages):
        async for page in pages:
            shown = page[:left]
            if shown:
                yield before + b",".join(map(msgspec.json.encode, shown))
                before, left, last = b",", left - len(shown), f"{shown[-1].kind}/{shown[-1].name}"
            if len(page) > len(shown):
                following = last
                break
    yield (b"" if last else before) + b'],"next":%b}' % msgspec.json.encode(following)


async def _pages(call: Call, wanted: Wanted) -> AsyncGenerator[list[ResourceRow], None]:
    """Yield the rows by kind and name. Those of one kind are of one revision of the store."""
    store, start = call.services.store, wanted.after
    for kind in (kind.name for kind in KINDS if kind.name >= start.kind and wanted.kind in (None, kind.name)):
        after = start.name if kind == start.kind else ""
        if wanted.owner == BUILT_IN:
            listed = resources.list_pages(store, call.project, kind, after=after)
        else:
            listed = store.list_pages(call.project, kind, after=after, limit=resources.ALL)
        async with aclosing(listed):
            async for page in listed:
                found = [row for row in map(wanted.row, page) if row is not None]
                if found:
                    yield found
                await asyncio.sleep(0)  # the store never suspends: a search with few results would block the loop
