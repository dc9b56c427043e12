"""Resources: list, get, history, apply, delete and redact."""

import asyncio
import hashlib
import logging
import re
from collections import deque
from collections.abc import AsyncGenerator, Coroutine, Iterable, Iterator, Mapping
from contextlib import aclosing
from functools import cache
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response

from api import access, errors, requests, responses
from api.calls import Call, Subject
from api.responses import Empty, Json
from api.routing import Routes
from reconciler.model import builtins, components, names, rendering
from reconciler.model.components import MASK
from reconciler.model.error_codes import ErrorCode
from reconciler.model.names import EVERYTHING, Key, Selector
from reconciler.model.outcomes import UpdateStatus
from reconciler.model.principals import Permission
from reconciler.reconcile.apply import ApplyAnswer, ApplyRequest
from reconciler.replicas.cache import ListQuery
from reconciler.review import kept_plans
from reconciler.store.contract import Damaged, Store, StoreFault
from reconciler.store.records import ChangedVersions, Traces
from reconciler.worker.messages import ApplyOptions

routes = Routes()
history_routes = Routes()  # `/v1/{kind}/...`, which any other path wins over

ALL = 2**63 - 1  # a list without a limit: SQL's largest integer

# Apply and delete: reading the request, and sending the applier's answer.

COLLECTOR_PARAMETERS = frozenset({"previous"})
APPLY_PARAMETERS = frozenset({"acceptInvalid", "atomic", "dryRun", "strict"})
DELETE_PARAMETERS = frozenset({"dryRun"})
CHANGES_PARAMETERS = frozenset({"from"})
VERSION = re.compile(r"[1-9][0-9]{0,17}")
LAST_VERSION = 10**18 - 1


@routes.add("POST /v1/apply", Subject.PROJECT, Permission.CHANGE)
async def apply_resources(call: Call) -> Response:
    """Create and change resources."""
    body, options = await _read_change(call, known=APPLY_PARAMETERS)
    return await _changed(call, call.services.applier.apply(body, request=_request(call), options=options))


@routes.add("POST /v1/delete", Subject.PROJECT, Permission.CHANGE)
async def delete_resources(call: Call) -> Response:
    """Delete resources."""
    body, options = await _read_change(call, known=DELETE_PARAMETERS)
    return await _changed(call, call.services.applier.delete(body, request=_request(call), options=options))


async def _read_change(call: Call, *, known: frozenset[str]) -> tuple[bytes, ApplyOptions]:
    query = requests.Query(call.query, known=known, strict=True)
    options = ApplyOptions(
        accept_invalid=query.boolean("acceptInvalid"),
        atomic=query.boolean("atomic"),
        dry_run=query.boolean("dryRun"),
        strict_version=query.choice("strict", "version"),
    )
    query.check()
    return await requests.read(call), options


def _request(call: Call) -> ApplyRequest:
    """Return the request for the applier: the caller, the project, and the id that the answer has too."""
    return ApplyRequest(id=call.request, project=call.project, actor=call.actor)


async def _changed(call: Call, work: Coroutine[Any, Any, ApplyAnswer]) -> Response:
    """Return the applier's answer as a response."""
    answer = await responses.unless_gone(call.receive, work)
    return Json(answer.body, status=answer.status) if answer.body else Empty(status=answer.status)


# Resources: list, get, raw text, delete by name and history.
#
# The applier decides about changes. Readers see stored and built-in resources: see the end of this module.

LIST_PARAMETERS = frozenset({"limit", "after", "selector"})
LARGEST_PAGE = 10_000  # resources
MOST_VERSIONS = 1_000  # that a request may name as `limit`
MOST_REFERENCES = 1_000  # in each direction in one answer
CONFIGURATION = "Configuration"  # the one kind that Collectors load
YAML = b"text/yaml; charset=utf-8"


@routes.add("GET /v1/resources/{kind}/{name}", Subject.PROJECT, Permission.READ)
async def get(call: Call) -> Response:
    """Show one resource."""
    key = _key(call)
    resource = await _stored(call, key) or built_in(key)
    if resource is None:
        raise _missing(key)
    if _hides(call, key.kind):
        resource = without_raw(resource)
    etag = responses.of_version(resource, version=resource_version(resource))
    body = responses.json_member(b"resource", resource)
    return requests.not_modified(call, etag) or Json(body, headers=(etag,))


async def _stored(call: Call, key: Key) -> bytes | None:
    """Return the present version of a resource. Raises `Damaged`, StoreFault."""
    services = call.services
    return await (services.store if services.cache is None else services.cache).get(call.project, key)


@routes.add("GET /v1/resources/{kind}", Subject.PROJECT, Permission.READ)
async def list_kind(call: Call) -> Response:
    """List the resources of a kind."""
    query = requests.Query(call.query, known=LIST_PARAMETERS, strict=False)
    limit = query.integer("limit", lowest=1, highest=LARGEST_PAGE, default=ALL)
    after, selector = query.parsed("after", _name) or "", query.parsed("selector", parse_selector) or EVERYTHING
    query.check()
    kind, store, cache = _kind(call), call.services.store, call.services.cache
    selected, is_full = query.text("selector") or "", not _hides(call, kind)
    asked = ListQuery(call.project, kind, after=after, limit=limit, selector=selected, is_full=is_full)
    # The revision is read before the list: if a commit comes between, the list is newer than its tag, so the next
    # request with this tag gets the list again. The other order could hide a change.
    try:
        revision = await store.revision()
    except StoreFault:
        if (kept := _list_without_contact(call, asked)) is None:
            raise
        return Json(kept)
    etag = responses.etag_header(repr((revision, *asked, built_in_digest())).encode())
    held = requests.not_modified(call, etag)
    if held is not None:
        return held
    pages = list_pages(store, call.project, kind, after=after, limit=limit, selector=selector)
    texts = responses.stream_array(b"resources", _all_shown(call, pages, kind=kind))
    return responses.Streamed(texts if cache is None else cache.keeping(asked, texts), headers=(etag,))


def _list_without_contact(call: Call, query: ListQuery) -> bytes | None:
    """Return a list that was kept, if the answer is going to be marked as stale."""
    cache, contact = call.services.cache, call.services.contact
    return None if cache is None or contact is None or contact.stale_seconds is None else cache.listed(query)


@routes.add("GET /v1/resources/{kind}/{name}/references", Subject.PROJECT, Permission.READ)
async def list_references(call: Call) -> Response:
    """Show the references of a resource in both directions."""
    key, store, built_in = _key(call), call.services.store, builtins.built_in()
    uses, used_by = await store.references(call.project, key, limit=MOST_REFERENCES + 1)
    if await store.get(call.project, key) is None:
        if key not in built_in:
            raise _missing(key)
        uses = dict.fromkeys(sorted(one.key for one in components.references(built_in[key])), False)
    shown = [
        {"kind": one.kind, "name": one.name, "exists": is_stored or one in built_in}
        for one, is_stored in list(uses.items())[:MOST_REFERENCES]
    ]
    users = [{"kind": one.kind, "name": one.name} for one in used_by[:MOST_REFERENCES]]
    more = max(len(uses), len(used_by)) > MOST_REFERENCES
    return responses.json_answer({"uses": shown, "usedBy": users, "more": more})


@routes.add("GET /v1/resources/{kind}/{name}/raw", Subject.PROJECT, Permission.LOAD)
async def raw(call: Call) -> Response:
    """Answer with the text of a Configuration that a Collector loads."""
    key, found = await _configuration(call)
    if found.spec.raw is None:
        raise errors.NotFound(f"The {CONFIGURATION} {key.name} has no `raw` in its spec.")
    # A type that no browser executes, whatever text the author applied.
    return _text(call, _raw_text(key, found), media_type=b"text/plain; charset=utf-8")


@routes.add("GET /v1/resources/{kind}/{name}/collector.yaml", Subject.PROJECT, Permission.LOAD)
async def collector_yaml(call: Call) -> Response:
    """Answer with the YAML that a Collector runs: `raw` or the rendering. With `previous`, answer with the one
    before.
    """
    query = requests.Query(call.query, known=COLLECTOR_PARAMETERS, strict=False)
    previous = query.boolean("previous")
    query.check()
    key, found = await _configuration(call)
    if previous:
        return _text(call, await _previous(call, key, found), media_type=YAML)
    if found.spec.raw is not None:
        return _text(call, _raw_text(key, found), media_type=YAML)
    text = await call.services.store.rendering(call.project, key.name)
    if not text:
        why = _unrendered(found.status, is_tried=text is not None)
        sentence = f"There is no collector.yaml of the {CONFIGURATION} {key.name}: {why}."
        raise errors.NotFound(sentence, code=ErrorCode.NOT_RENDERED)
    return _text(call, text, media_type=YAML)


async def _previous(call: Call, key: Key, found: "_Configuration") -> bytes:
    """Return the rendering before the present one. Raises `NotFound`, `Damaged`."""
    is_raw = found.spec.raw is not None  # a rendering from before it had `raw` may exist for a moment
    text = None if is_raw else await call.services.store.rendering(call.project, key.name, previous=True)
    if not text:
        why = "the text is its own, and its history has the earlier ones" if is_raw else "no other one is kept"
        sentence = f"There is no earlier collector.yaml of the {CONFIGURATION} {key.name}: {why}."
        raise errors.NotFound(sentence, code=ErrorCode.NOT_RENDERED)
    return text


def _unrendered(status: "_Status", *, is_tried: bool) -> str:
    """Return the reason why a Configuration has no rendering."""
    if status.rendering.fault.reason:
        return status.rendering.fault.reason
    if not status.ready:
        return "it is incomplete, as its status says"
    return "it runs in the service" if is_tried else "it is not rendered yet; try again in a moment"


async def _configuration(call: Call) -> tuple[Key, "_Configuration"]:
    """Return the Configuration that the path names. Raises `BadRequest`, `NotFound`, `Damaged`."""
    key = _key(call)
    if key.kind != CONFIGURATION:
        raise errors.NotFound(f"Only a {CONFIGURATION} has a text for Collectors, and {key.kind} is another kind.")
    resource = await _stored(call, key)
    if resource is None:
        raise _missing(key)
    return key, _CONFIGURATION.decode(resource)


def _raw_text(key: Key, found: "_Configuration") -> bytes:
    if not found.status.ready:
        # Collectors must not get an incomplete Configuration.
        sentence = f"The {CONFIGURATION} {key.name} is not ready; its status says what is incomplete."
        raise errors.Conflict(sentence, code=ErrorCode.NOT_READY)
    return (found.spec.raw or "").encode()


def _text(call: Call, text: bytes, *, media_type: bytes) -> Response:
    etag = responses.etag_header(text)
    shown = responses.Content(text, media_type=media_type, headers=(etag,))
    return requests.not_modified(call, etag) or shown


@routes.add("DELETE /v1/resources/{kind}/{name}", Subject.PROJECT, Permission.CHANGE)
async def delete(call: Call) -> Response:
    """Delete one resource."""
    requests.none_known(call.query)
    key, matching = _key(call), requests.matching(call)
    return await _changed(call, call.services.applier.delete_one(key, request=_request(call), matching=matching))


@history_routes.add("GET /v1/{kind}/{name}/history", Subject.PROJECT, Permission.READ)
async def history(call: Call) -> Response:
    """List the versions of a resource."""
    query = requests.Query(call.query, known=frozenset({"limit"}), strict=False)
    key, limit = _key(call), query.integer("limit", lowest=1, highest=MOST_VERSIONS, default=ALL)
    query.check()
    found = _first(history_pages(call.services.store, project=call.project, key=key), limit=limit)
    pages = _all_shown(call, found, kind=key.kind)
    return responses.Streamed(responses.stream_array(b"versions", pages, empty=_missing(key)))


async def _first(pages: AsyncGenerator[list[bytes], None], *, limit: int) -> AsyncGenerator[list[bytes], None]:
    """Yield the first `limit` items of the pages."""
    left = limit
    async with aclosing(pages):
        async for page in pages:
            yield page[:left]
            left -= len(page)
            if left <= 0:
                return


def _hides(call: Call, kind: str) -> bool:
    """Return True if the caller may not see resources of this kind in full."""
    return kind == CONFIGURATION and not access.permits(call, Permission.READ_RAW, project=call.project)


def _all_shown(call: Call, pages: AsyncGenerator[list[bytes], None], *, kind: str) -> AsyncGenerator[list[bytes], None]:
    return _without_raw(pages) if _hides(call, kind) else pages


async def _without_raw(pages: AsyncGenerator[list[bytes], None]) -> AsyncGenerator[list[bytes], None]:
    async with aclosing(pages):
        async for page in pages:
            yield [without_raw(resource) for resource in page]


def _key(call: Call) -> Key:
    """Return the resource in the path. Raises `BadRequest`, `NotFound`."""
    name = call.parameters["name"]
    problem = names.wrong_name(name)
    if problem is not None:
        raise errors.BadRequest(f"The name in the path {problem}.")
    return Key(_kind(call), name)


def _kind(call: Call) -> str:
    kind = names.find_kind(call.parameters["kind"])
    if kind is None:
        sentence = "There is no such kind; the kinds are listed in /openapi.json."
        raise errors.NotFound(sentence, code=ErrorCode.KIND_NOT_FOUND)
    return kind.name


def _name(text: str) -> str:
    problem = names.wrong_name(text) if text else None
    if problem is not None:
        raise ValueError(f"{problem}.")
    return text


def parse_selector(text: str) -> Selector:
    """Parse a selector in a query. Raises ValueError with the end of a sentence."""
    try:
        return names.parse_selector(text)
    except names.BadSelector as bad:
        raise ValueError(f"is not a label selector: {bad.message}.") from None


def _missing(key: Key) -> errors.NotFound:
    return errors.NotFound(f"There is no {key.kind} {key.name}.", code=ErrorCode.RESOURCE_NOT_FOUND)


# Redactions: the permission and the body.
#
# The worker decides what is rewritten (`worker.redactions`). The text is a secret: nothing here logs or repeats it.

logger = logging.getLogger(__name__)

PARAMETERS = frozenset({"dryRun"})
MAX_BYTES = rendering.MOST * 12 + 1_024  # JSON may write a character as two escapes, of six bytes each
ERASE_SECONDS = 20.0  # for which an answer waits for the store's files; afterwards they are cleared in the background


@history_routes.add("POST /v1/{kind}/{name}/history/redact", Subject.PROJECT, Permission.REDACT)
async def redact_resource(call: Call) -> Response:
    """Redact a text in all versions of a resource."""
    query = requests.Query(call.query, known=PARAMETERS, strict=True)
    dry_run = query.boolean("dryRun")
    query.check()
    key = _key(call)
    text = read_text(await requests.read(call, limit=MAX_BYTES))
    who = _request(call)
    work = call.services.applier.redact(key, text, request=who, dry_run=dry_run)
    planned = await responses.unless_gone(call.receive, work)
    if not planned.exists:
        raise _missing(key)
    if planned.obstacle is not None:
        raise errors.Conflict(planned.obstacle)
    answer: dict[str, object] = {"versions": planned.versions, "places": planned.places}
    if not dry_run:
        answer["erased"] = erased = await _erase(call.services.store)
        logger.info(
            "The history of %s %s was redacted by %s: versions rewritten: %d%s.",
            *(key.kind, key.name, who.actor.name, len(planned.versions)),
            "" if erased else "; traces are in the store's files until nobody reads an older revision",
        )
    return responses.json_answer(answer)


def read_text(body: bytes) -> str:
    """Read the text in a body. Raises `BadRequest` with every mistake."""
    members = requests.object_members(body, known=("value",))
    text = members.text("value", required=True)
    problem = None if text is None else rendering.redaction_problem(text)
    if problem is not None:
        members.mistake("value", problem)
    members.check()
    return text or ""


async def _erase(store: Store) -> bool:
    """Erase the traces in the store's files for a limited time. Return True if none is left; otherwise this continues
    in the background.
    """
    try:
        async with asyncio.timeout(ERASE_SECONDS):
            return await store.erase_traces() is not Traces.KEPT
    except (TimeoutError, StoreFault):
        return False


# Single versions and their changes. These paths come after `redact`, because the path of a version also matches that
# one.


@history_routes.add("GET /v1/{kind}/{name}/history/{version}", Subject.PROJECT, Permission.READ)
async def get_version(call: Call) -> Response:
    """Show one version of a resource."""
    key, number = _key(call), _number(call)
    version = await _version(call, key, number)
    shown = without_raw(version) if _hides(call, key.kind) else version
    return Json(responses.json_member(b"version", shown))


@history_routes.add("GET /v1/{kind}/{name}/history/{version}/changes", Subject.PROJECT, Permission.READ)
async def list_changes(call: Call) -> Response:
    """List the fields in which a version differs from an earlier one, by default the one before."""
    query = requests.Query(call.query, known=CHANGES_PARAMETERS, strict=False)
    key, number = _key(call), _number(call)
    earlier = query.integer("from", lowest=1, highest=LAST_VERSION, default=number - 1)
    query.check()
    for one in sorted({number, earlier} - {0}):  # there is none before the first
        await _version(call, key, one)
    pair = ChangedVersions(*key, UpdateStatus.CONFIGURED, None, None, earlier or None, number)
    [found] = await call.services.applier.compare(call.project, [pair])
    if found.reason is not None:
        raise Damaged(found.reason)
    shown = kept_plans.without_raw(found) if _hides(call, key.kind) else found
    left_out = {"fieldsLeftOut": shown.fields_left_out} if shown.fields_left_out else {}
    answer = {"from": earlier or None, "version": number, "fields": shown.fields, **left_out}
    return Json(msgspec.json.encode(answer))


async def _version(call: Call, key: Key, number: int) -> bytes:
    """Return one version; a built-in resource has one too. Raises `NotFound`, `Damaged`."""
    version = await call.services.store.get(call.project, key, version=number)
    shown = built_in(key)
    if version is None and shown is not None and resource_version(shown) == number:
        return shown
    if version is None:
        told = f"There is no version {number} of {key.kind} {key.name}."
        raise errors.NotFound(told, code=ErrorCode.RESOURCE_NOT_FOUND)
    return version


def _number(call: Call) -> int:
    """Return the version in the path. Raises `BadRequest`."""
    text = call.parameters["version"]
    if not VERSION.fullmatch(text):
        raise errors.BadRequest("The version in the path is not a number from 1 on.")
    return int(text)


# Stored and built-in resources for readers. A single read uses the store first, and `built_in` only if the store has
# none.


def list_pages(
    store: Store, project: str, kind: str, *, after: str = "", limit: int = ALL, selector: Selector = EVERYTHING
) -> AsyncGenerator[list[bytes], None]:
    """Yield at most `limit` matching resources of a kind after a name, in byte order of names, with their statuses, in
    non-empty pages of one revision.
    """
    built_in = [one for one in _of_kind(kind) if one.name > after]
    selects = selector != EVERYTHING
    stored = store.list_pages(project, kind, after=after, limit=ALL if selects else limit)
    return _chosen(stored, built_in, limit=limit, selector=selector) if selects or built_in else stored


def history_pages(store: Store, *, project: str, key: Key) -> AsyncGenerator[list[bytes], None]:
    """Yield every version, newest first, in pages of one revision; none if the resource never existed.

    A built-in resource comes first, as one version, unless the project's own resource replaces it.
    """
    stored = store.history_pages(project, key)
    shown = built_in(key)
    return stored if shown is None else _with_built_in(stored, shown)


def built_in(key: Key) -> bytes | None:
    """Return the built-in resource of this name, or None."""
    return builtins.shown().get(key)


@cache
def built_in_digest() -> str:
    """Return a digest of the built-in resources. It changes with a version of the product that has others, so that an
    old list is not taken for a new one.

    The first call reads them from files, which takes some milliseconds.
    """
    return hashlib.sha256(b"\n".join(builtins.shown().values())).hexdigest()


def resource_version(resource: bytes) -> int:
    """Return the version number of a resource."""
    return _RESOURCE.decode(resource).metadata.version


def without_raw(resource: bytes) -> bytes:
    """Return the resource without `spec.raw`, for callers who may not read it: it may contain secrets."""
    if b'"raw":' not in resource:
        return resource
    members = msgspec.json.decode(resource, type=dict[str, msgspec.Raw])
    spec = msgspec.json.decode(members["spec"], type=dict[str, msgspec.Raw])
    if "raw" not in spec:
        return resource
    hidden = msgspec.json.encode({**spec, "raw": MASK})
    return msgspec.json.encode({**members, "spec": msgspec.Raw(hidden)})


# The members of a body that are read. Msgspec skips the rest, a megabyte in less than half a millisecond.


class _Metadata(msgspec.Struct, frozen=True):
    name: str = ""
    labels: dict[str, str] | None = None
    version: int = 1  # of what is built in


class _Fault(msgspec.Struct, frozen=True):
    reason: str = ""


class _Rendering(msgspec.Struct, frozen=True):
    fault: _Fault = _Fault()


class _Status(msgspec.Struct, frozen=True):
    latest: bool = False
    ready: bool = True
    rendering: _Rendering = _Rendering()


class _Resource(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()
    status: _Status = _Status()


class _Spec(msgspec.Struct, frozen=True):
    raw: str | None = None


class _Configuration(_Resource, frozen=True, kw_only=True):
    spec: _Spec


_RESOURCE = msgspec.json.Decoder(_Resource)
_CONFIGURATION = msgspec.json.Decoder(_Configuration)


class _Shown(NamedTuple):
    """A resource as a reader gets it, with the fields that select and order it in a list."""

    name: str
    labels: Mapping[str, str]
    body: bytes


def _read(body: bytes) -> _Shown:
    metadata = _RESOURCE.decode(body).metadata
    return _Shown(name=metadata.name, labels=metadata.labels or {}, body=body)


async def _chosen(
    stored: AsyncGenerator[list[bytes], None], built_in: Iterable[_Shown], *, limit: int, selector: Selector
) -> AsyncGenerator[list[bytes], None]:
    """Yield the stored and built-in resources that match, in the order of their names, at most `limit`."""
    waiting, left = deque(built_in), limit
    async with aclosing(stored):
        async for page in stored:
            chosen = _matching(_merged(map(_read, page), waiting), selector)[:left]
            left -= len(chosen)
            if chosen:
                yield chosen
            if not left:
                return
            await asyncio.sleep(0)  # reading the store never suspends: a selector with few matches would block the loop
    rest = _matching(waiting, selector)[:left]
    if rest:
        yield rest


def _merged(stored: Iterable[_Shown], waiting: deque[_Shown]) -> Iterator[_Shown]:
    """Merge a page with the waiting built-in resources that belong before its last resource. Both are sorted.

    A stored resource hides the built-in one of its name, even if a selector does not match it.
    """
    for one in stored:
        while waiting and waiting[0].name < one.name:
            yield waiting.popleft()
        if waiting and waiting[0].name == one.name:
            waiting.popleft()
        yield one


def _matching(found: Iterable[_Shown], selector: Selector) -> list[bytes]:
    return [one.body for one in found if selector.matches(one.labels)]


async def _with_built_in(stored: AsyncGenerator[list[bytes], None], shown: bytes) -> AsyncGenerator[list[bytes], None]:
    async with aclosing(stored):
        newest: list[bytes] = await anext(stored, [])
        shadowed = bool(newest) and _RESOURCE.decode(newest[0]).status.latest
        yield newest if shadowed else [shown, *newest]
        async for page in stored:
            yield page


@cache
def _of_kind(kind: str) -> tuple[_Shown, ...]:
    """Return the built-in resources of a kind by name. Names are ASCII, so this is the order of bytes."""
    return tuple(_read(body) for key, body in builtins.shown().items() if key.kind == kind)
