"""The view of readers: what is stored with what is built in among it, in one order, as far as a selector matches."""

import asyncio
import contextlib
import json
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from api import resources
from reconciler.model import names as model_names
from reconciler.model import values
from reconciler.model.names import Key
from reconciler.store import sql_store
from reconciler.store.records import Changes, Record
from reconciler.store.sqlite import SqliteStore
from tests.store import rows

pytestmark = pytest.mark.anyio

TYPE = "SourceType"  # custom, file and otlp are built in
BUILT_IN = ["custom", "file", "filelog", "hostmetrics", "journald", "otlp", "prometheus", "syslog"]


def body(name: str, labels: dict[str, str] | None, *, number: int = 1) -> bytes:
    metadata: dict[str, Any] = {"name": name, "version": number}
    return values.canonical_json({"metadata": metadata | ({"labels": labels} if labels else {}), "spec": {"raw": "x"}})


def stored(kind: str, names: Sequence[str], *, labels: dict[str, str] | None = None, number: int = 1) -> Changes:
    """A part that stores a version of each, all with these labels."""
    part = rows.stored(*names, number=number)
    return Changes(
        origins=part.origins,
        versions=[row._replace(kind=kind, body=body(row.name, labels, number=number)) for row in part.versions],
        heads=[row._replace(kind=kind, resource_id=f"{kind}-{row.name}") for row in part.heads],
    )


def removed(kind: str, *names: str) -> Changes:
    return Changes(removed=[row._replace(kind=kind) for row in rows.removed(*names).removed])


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "store.db")
    await opened.create_project(rows.PROJECT, at=rows.AT)
    yield opened
    await opened.close()


def wanted(store: Any, kind: str = TYPE, *, selector: str = "", **more: Any) -> AsyncGenerator[list[bytes], None]:
    return resources.list_pages(store, rows.PROJECT, kind, selector=model_names.parse_selector(selector), **more)


async def names(store: Any, kind: str = TYPE, **asked: Any) -> list[str]:
    found = [json.loads(shown) async for page in wanted(store, kind, **asked) for shown in page]
    return [resource["metadata"]["name"] for resource in found]


async def history(store: SqliteStore, key: Key) -> list[tuple[str, int, bool]]:
    """Return where each version is from, its number, and whether it is the latest."""
    pages = resources.history_pages(store, project=rows.PROJECT, key=key)
    found = [json.loads(shown) async for page in pages for shown in page]
    return [
        (one["status"]["source"]["type"], one["metadata"]["version"], one["status"].get("latest", False))
        for one in found
    ]


def test_nothing_else_is_built_in() -> None:
    assert [resources.built_in(key) for key in (Key(TYPE, "none"), Key("Source", "otlp"), Key(TYPE, "OTLP"))] == [
        None
    ] * 3


async def test_a_list_holds_both_in_byte_order(store: SqliteStore) -> None:
    await store.commit([stored(TYPE, ["Z", "a", "g", "z"])], record=Record())
    assert await names(store) == sorted(["Z", "a", "g", "z", *BUILT_IN])
    assert await names(store, after="custom", limit=3) == ["file", "filelog", "g"]
    assert await names(store, "SourceType", after="syslog") == ["z"]
    assert await names(store, "Destination") == []


async def test_what_is_stored_shadows_what_is_built_in_until_it_is_deleted(store: SqliteStore) -> None:
    await store.commit([stored(TYPE, ["file"])], record=Record())
    pages = wanted(store)
    found = [json.loads(shown)["status"]["source"]["type"] async for page in pages for shown in page]
    assert (await names(store), found) == (BUILT_IN, ["builtin", "api", *["builtin"] * (len(BUILT_IN) - 2)])
    assert await names(store, selector="!x") == BUILT_IN
    await store.commit([removed(TYPE, "file")], record=Record())
    pages = wanted(store)
    assert [json.loads(shown)["status"]["source"]["type"] async for page in pages for shown in page] == [
        "builtin"
    ] * len(BUILT_IN)


async def test_a_selector_is_asked_of_the_one_that_is_shown(store: SqliteStore) -> None:
    await store.commit([stored(TYPE, ["file"], labels={"team": "edge"})], record=Record())
    assert await names(store, selector="team=edge") == ["file"]
    assert await names(store, selector="!team") == [name for name in BUILT_IN if name != "file"]
    assert await names(store, selector="team!=edge", limit=1) == ["custom"]


async def test_history_of_what_is_built_in_is_one_version(store: SqliteStore) -> None:
    assert await history(store, Key(TYPE, "file")) == [("builtin", 1, True)]
    assert await history(store, Key(TYPE, "none")) == []


async def test_history_begins_with_what_is_shown_now(store: SqliteStore) -> None:
    key = Key(TYPE, "file")
    await store.commit([stored(TYPE, ["file"])], record=Record())
    await store.commit([stored(TYPE, ["file"], number=2)], record=Record())
    assert await history(store, key) == [("api", 2, True), ("api", 1, False)]
    await store.commit([removed(TYPE, "file")], record=Record())
    assert await history(store, key) == [("builtin", 1, True), ("api", 2, False), ("api", 1, False)]
    await store.commit([stored(TYPE, ["file"], number=3)], record=Record())
    assert await history(store, key) == [("api", 3, True), ("api", 2, False), ("api", 1, False)]


MANY = [f"{number:04}" for number in range(0, 4_000, 2)]  # ten pages


async def test_a_selected_list_is_one_revision_although_others_write(store: SqliteStore) -> None:
    chosen = MANY[::3]
    others = [name for name in MANY if name not in set(chosen)]
    parts = [stored(TYPE, chosen, labels={"a": "b"}), stored(TYPE, others)]
    await store.commit(parts, record=Record())
    found, revision = [], 1
    async for page in wanted(store, selector="a=b"):
        found += [json.loads(shown)["metadata"]["name"] for shown in page]
        new, gone = stored(TYPE, [f"3{revision:03}x"], labels={"a": "b"}), removed(TYPE, f"{3_900 + 2 * revision:04}")
        revision = await store.commit([new, gone], record=Record())
    assert (found, revision > 5) == (chosen, True)
    assert await names(store, selector="a=b") != chosen


@pytest.mark.parametrize(("selector", "found"), [("a", []), ("!a", [*MANY, *BUILT_IN])])
async def test_a_long_list_leaves_the_loop_to_others(store: SqliteStore, selector: str, found: list[str]) -> None:
    await store.commit([stored(TYPE, MANY)], record=Record())
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    assert await names(store, selector=selector) == found
    task.cancel()
    assert turns >= len(MANY) // sql_store.PAGE


def is_read(path: Path) -> bool:
    """Return True when somebody reads an older revision, which keeps the log from being emptied."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        busy, *_ = connection.execute("pragma wal_checkpoint(truncate)").fetchone()
    return bool(busy)


@pytest.mark.parametrize("asked", [{"selector": "a"}, {"limit": 1}, {"after": "otlp"}])
async def test_a_list_that_is_left_early_ends_its_read_at_once(store: SqliteStore, asked: dict[str, Any]) -> None:
    await store.commit([stored(TYPE, [*MANY, "z"], labels={"a": "b"})], record=Record())
    pages = wanted(store, **asked)
    await anext(pages)
    await store.commit([stored(TYPE, ["new"])], record=Record())
    await pages.aclose()
    assert not is_read(store.path)


async def test_a_history_that_is_left_early_ends_its_read_at_once(store: SqliteStore) -> None:
    await store.commit([stored(TYPE, ["file"])], record=Record())
    pages = resources.history_pages(store, project=rows.PROJECT, key=Key(TYPE, "file"))
    await anext(pages)
    await store.commit([stored(TYPE, ["new"])], record=Record())
    await pages.aclose()
    assert not is_read(store.path)


class Pages:
    """Resources of one kind, in pages of a size; whatever the store that a test has at hand would need time for."""

    def __init__(self, found: dict[str, str], size: int) -> None:
        self.found = found
        self.size = size

    async def list_pages(
        self, _project: str, _kind: str, *, after: str, limit: int
    ) -> AsyncGenerator[list[bytes], None]:
        left = [name for name in sorted(self.found) if name > after][:limit]
        for start in range(0, len(left), self.size):
            part = left[start : start + self.size]
            yield [body(name, {"team": self.found[name]} if self.found[name] else None) for name in part]


NAMES = st.sampled_from(["Z", "a", "custom", "customs", "file", "fila", "otl", "otlp", "otlp0", "z"])


@given(
    found=st.dictionaries(NAMES, st.sampled_from(["", "edge", "core"])),
    size=st.integers(1, 4),
    after=st.just("") | NAMES,
    limit=st.integers(1, 12) | st.just(resources.ALL),
    selector=st.sampled_from(["", "team", "!team", "team=edge", "team!=edge"]),
)
@example(found={"file": "edge"}, size=1, after="custom", limit=1, selector="!team")
async def test_a_list_is_what_is_left_of_both_sorted(
    found: dict[str, str], size: int, after: str, limit: int, selector: str
) -> None:
    matches = model_names.parse_selector(selector).matches
    shown = dict.fromkeys(BUILT_IN, "") | found
    expected = [
        name for name, team in sorted(shown.items()) if name > after and matches({"team": team} if team else {})
    ]
    store: Any = Pages(found, size)
    pages = [page async for page in wanted(store, after=after, limit=limit, selector=selector)]
    assert [] not in pages
    assert [json.loads(one)["metadata"]["name"] for page in pages for one in page] == expected[:limit]
