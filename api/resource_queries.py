"""Lists and single resources for readers: stored and built in.

A point read asks the store first and `built_in` only when there is nothing: what is stored costs no look more.
"""

import asyncio
import hashlib
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import msgspec

from reconciler.model import builtins
from reconciler.model.components import MASK
from reconciler.model.names import EVERYTHING, Key, Selector
from reconciler.store.contract import Store

ALL = 2**63 - 1  # a list without a limit: SQL's largest integer


@dataclass(frozen=True, slots=True)
class WantedResources:
    """What somebody asks of a list: the resources of a kind after a name ('' for all), so many, that match."""

    project: str
    kind: str
    after: str = ""
    limit: int = ALL
    selector: Selector = EVERYTHING


class RawText(NamedTuple):
    """A Configuration's own text, None when it has none, and whether it may be handed to collectors."""

    text: str | None
    ready: bool


def list_pages(store: Store, wanted: WantedResources) -> AsyncGenerator[list[bytes], None]:
    """The resources in byte order of their names, with their statuses, in pages of one revision; none is empty."""
    built_in = [one for one in _of_kind(wanted.kind) if one.name > wanted.after]
    selects = wanted.selector != EVERYTHING
    most = ALL if selects else wanted.limit
    stored = store.list_pages(wanted.project, wanted.kind, after=wanted.after, limit=most)
    return _chosen(stored, built_in, wanted) if selects or built_in else stored


def history_pages(store: Store, *, project: str, key: Key) -> AsyncGenerator[list[bytes], None]:
    """Every version, newest first, in pages of one revision; none when there never was such a resource.

    What is built in comes first, as one version, unless the project's own stands in its place.
    """
    stored = store.history_pages(project, key)
    shown = built_in(key)
    return stored if shown is None else _with_built_in(stored, shown)


def built_in(key: Key) -> bytes | None:
    """The resource that every project sees which stores none of this name, or None."""
    return builtins.shown().get(key)


@cache
def built_in_digest() -> str:
    """Another one as soon as the product brings other resources along, so that nobody takes an old list for a new one.

    The first call reads them from files, which takes some milliseconds.
    """
    return hashlib.sha256(b"\n".join(builtins.shown().values())).hexdigest()


def raw_text(configuration: bytes) -> RawText:
    """What a collector loads of a Configuration."""
    read = _CONFIGURATION.decode(configuration)
    return RawText(text=read.spec.raw, ready=read.status.ready)


def version(resource: bytes) -> int:
    """The number of a resource's version."""
    return _NUMBERED.decode(resource).metadata.version


def without_raw(resource: bytes) -> bytes:
    """The same resource for somebody who may not read `spec.raw`, which is text that may hold anything."""
    if b'"raw":' not in resource:
        return resource
    members = msgspec.json.decode(resource, type=dict[str, msgspec.Raw])
    spec = msgspec.json.decode(members["spec"], type=dict[str, msgspec.Raw])
    if "raw" not in spec:
        return resource
    hidden = msgspec.json.encode({**spec, "raw": MASK})
    return msgspec.json.encode({**members, "spec": msgspec.Raw(hidden)})


# What is read of a body; msgspec skips the rest, a megabyte in less than half a millisecond.


class _Metadata(msgspec.Struct, frozen=True):
    name: str
    labels: dict[str, str] | None = None


class _Spec(msgspec.Struct, frozen=True):
    raw: str | None = None


class _Status(msgspec.Struct, frozen=True):
    latest: bool = False
    ready: bool = True


class _Number(msgspec.Struct, frozen=True):
    version: int = 1  # of what is built in


class _Numbered(msgspec.Struct, frozen=True):
    metadata: _Number


class _Resource(msgspec.Struct, frozen=True):
    metadata: _Metadata


class _Version(msgspec.Struct, frozen=True):
    status: _Status


class _Configuration(msgspec.Struct, frozen=True):
    spec: _Spec
    status: _Status


_RESOURCE = msgspec.json.Decoder(_Resource)
_NUMBERED = msgspec.json.Decoder(_Numbered)
_VERSION = msgspec.json.Decoder(_Version)
_CONFIGURATION = msgspec.json.Decoder(_Configuration)


class _Shown(NamedTuple):
    """A resource as a reader gets it, and what decides whether and where it stands in a list."""

    name: str
    labels: Mapping[str, str]
    body: bytes


def _read(body: bytes) -> _Shown:
    metadata = _RESOURCE.decode(body).metadata
    return _Shown(name=metadata.name, labels=metadata.labels or {}, body=body)


async def _chosen(
    stored: AsyncGenerator[list[bytes], None], built_in: Iterable[_Shown], wanted: WantedResources
) -> AsyncGenerator[list[bytes], None]:
    """What is stored with what is built in among it, as far as it matches, until there is enough."""
    waiting, left = deque(built_in), wanted.limit
    async with aclosing(stored):
        async for page in stored:
            chosen = _matching(_merged(map(_read, page), waiting), wanted.selector)[:left]
            left -= len(chosen)
            if chosen:
                yield chosen
            if not left:
                return
            await asyncio.sleep(0)  # a store does not suspend: a selector that matches little would hold the loop
    rest = _matching(waiting, wanted.selector)[:left]
    if rest:
        yield rest


def _merged(stored: Iterable[_Shown], waiting: deque[_Shown]) -> Iterator[_Shown]:
    """One page, with what belongs before its last resource taken from what waits; both are sorted.

    What is stored shadows what is built in, whether a selector matches it or not.
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
        shadowed = bool(newest) and _VERSION.decode(newest[0]).status.latest
        yield newest if shadowed else [shown, *newest]
        async for page in stored:
            yield page


@cache
def _of_kind(kind: str) -> tuple[_Shown, ...]:
    """In the order of names, which are ASCII, so that it is the order of bytes."""
    return tuple(_read(body) for key, body in builtins.shown().items() if key.kind == kind)
