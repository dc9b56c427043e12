"""A replica takes what others tell, reads all again if it missed something, and knows how old its knowledge is."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from reconciler.model.names import Key
from reconciler.replicas import following as following_module
from reconciler.replicas.cache import ListQuery, ResourceCache
from reconciler.replicas.contact import LOST_SECONDS, STALE_SECONDS, Contact, CutOff
from reconciler.replicas.following import Following
from reconciler.store.contract import Notice, Store, StoreFault
from reconciler.store.notices import CommitBody, NoticeKind, SessionsBody, encode
from reconciler.store.records import Committed, KeyRow, Record, ResourceChange
from reconciler.store.sqlite import SqliteStore
from tests.replicas.told import Told
from tests.store import rows

pytestmark = pytest.mark.anyio


@dataclass
class World:
    """A replica that follows."""

    store: Store
    told: Told
    contact: Contact
    following: Following


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    store, told = SqliteStore(tmp_path / "store.db"), Told()
    contact = Contact(told)
    made = World(store, told, contact, Following(told, store, contact))
    task = asyncio.create_task(made.following.keep())
    try:
        yield made
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await store.close()


def commit_of(number: int, *, revision: int, writer: str = "theirs") -> Notice:
    key = KeyRow("p", "Destination", "a")
    body = CommitBody(revision, (key,), changes=(ResourceChange("other", project="p"),))
    return Notice(number, writer, NoticeKind.COMMIT, encode(body))


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_subscribers_hear_of_the_commits_of_others_and_not_of_ours_twice(world: World) -> None:
    heard: list[Committed | ResourceChange] = []
    world.store.subscribe(Committed, heard.append)
    world.store.subscribe(ResourceChange, heard.append)
    world.told.hear(commit_of(1, revision=4), commit_of(2, revision=5, writer="ours"), revision=5)
    await settled()
    change, committed = heard
    assert isinstance(change, ResourceChange)
    assert isinstance(committed, Committed)
    assert (change.is_remote, committed.is_remote, committed.revision) == (True, True, 4)
    assert world.following.revision == 5


async def test_what_was_missed_is_read_again_until_it_can_be(world: World) -> None:
    reloads: list[int] = []

    async def reload() -> None:
        reloads.append(len(reloads))
        if len(reloads) == 1:
            raise StoreFault("gone again")

    world.following.reload_with(reload)
    before = world.contact.heard_at
    world.told.hear(revision=9, missed=True)
    await settled()
    assert (reloads, world.following.revision, world.contact.heard_at) == ([0], 0, before)
    world.told.hear(revision=9)
    await settled()
    assert (reloads, world.following.revision, world.contact.heard_at > before) == ([0, 1], 9, True)
    world.told.hear(revision=9)
    await settled()
    assert reloads == [0, 1]


async def test_a_database_that_does_not_answer_a_reader_stops_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following_module, "HEAR_SECONDS", 0.01)
    monkeypatch.setattr(following_module, "RELOAD_SECONDS", 0.01)
    answers, reloads = asyncio.Event(), 0

    async def hear(_: Notice) -> None:
        await answers.wait()

    async def reload() -> None:
        nonlocal reloads
        await answers.wait()
        reloads += 1

    world.following.subscribe(NoticeKind.SESSIONS, hear)
    world.following.reload_with(reload)
    world.told.hear(Notice(1, "theirs", NoticeKind.SESSIONS, b""), revision=1)
    await asyncio.sleep(0.1)
    assert (reloads, world.following.revision) == (0, 0)
    answers.set()
    world.told.hear(revision=1)
    await settled()
    assert (reloads, world.following.revision) == (1, 1)


@pytest.mark.parametrize("body", [b"", b"\xc1", encode(SessionsBody()), b"\x81\xa8revision\xa1x"])
async def test_what_cannot_be_read_makes_it_read_all(world: World, body: bytes) -> None:
    reloads: list[None] = []

    async def reload() -> None:
        reloads.append(None)

    world.following.reload_with(reload)
    world.told.hear(Notice(1, "theirs", NoticeKind.COMMIT, body), Notice(2, "theirs", "of a later version", b""))
    await settled()
    assert len(reloads) == (0 if body == encode(SessionsBody()) else 1)  # unknown fields are ignored


async def test_catching_up_waits_for_an_answer_to_a_later_question(world: World) -> None:
    waiting = [asyncio.create_task(world.following.catch_up()) for _ in range(10)]
    await settled()
    assert not any(one.done() for one in waiting)
    world.told.hear(commit_of(1, revision=1), revision=1)
    assert await asyncio.gather(*waiting) == [True] * 10
    nothing = asyncio.create_task(world.following.catch_up())
    await settled()
    world.told.hear(revision=1)
    assert await nothing is False


async def test_a_revision_is_waited_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = asyncio.create_task(world.following.knows(7))
    await settled()
    world.told.hear(revision=6)
    await settled()
    assert not waiting.done()
    world.told.hear(revision=7)
    assert await waiting
    monkeypatch.setattr(following_module, "WAIT_SECONDS", 0.01)
    assert not await world.following.knows(8)


async def test_without_contact_nothing_is_waited_for(world: World) -> None:
    world.told.is_lost = True
    async with asyncio.timeout(following_module.WAIT_SECONDS / 2):
        assert not await world.following.knows(8)
        with pytest.raises(StoreFault, match="does not reach the database"):
            await world.following.catch_up()
    assert world.contact.stale_seconds is not None


@pytest.mark.parametrize(
    ("age", "is_lost", "is_stale", "is_over"),
    [
        (0.0, False, False, False),
        (LOST_SECONDS - 1, False, False, False),
        (0.5, True, True, False),
        (LOST_SECONDS + 1, False, True, False),
        (STALE_SECONDS - 1, True, True, False),
        (STALE_SECONDS + 1, True, True, True),
        (STALE_SECONDS + 1, False, True, True),  # the process was stopped, and has not heard of anything since
    ],
)
def test_contact_is_as_old_as_what_is_known(age: float, is_lost: bool, is_stale: bool, is_over: bool) -> None:
    now = 1000.0
    contact = Contact(Told(is_lost=is_lost), monotonic=lambda: now)
    now += age
    assert (contact.stale_seconds is not None) == is_stale
    with pytest.raises(CutOff) if is_over else contextlib.nullcontext():
        contact.check()


# Resources in memory.


async def test_a_change_drops_what_is_kept_of_its_resource(world: World) -> None:
    cache, key = ResourceCache(world.store), Key(rows.KIND, "a")
    await world.store.create_project(rows.PROJECT, at=rows.AT)
    await world.store.commit([rows.stored("a")], record=Record())
    first = await cache.get(rows.PROJECT, key)
    assert first is not None
    assert await cache.get(rows.PROJECT, key) is first
    await world.store.commit([rows.stored("a", number=2)], record=Record())
    second = await cache.get(rows.PROJECT, key)
    assert second == await world.store.get(rows.PROJECT, key) != first
    await world.store.commit([rows.removed("a")], record=Record())
    assert await cache.get(rows.PROJECT, key) is None


@pytest.mark.parametrize(
    "told",
    [
        Committed(9, [KeyRow(rows.PROJECT, rows.KIND, "a")], is_remote=True),
        Committed(9, [KeyRow(rows.PROJECT, rows.KIND, "")], is_remote=True),
        Committed(9, (), released=True),
    ],
)
async def test_a_change_of_another_replica_drops_it_too(world: World, told: Committed) -> None:
    cache, key = ResourceCache(world.store), Key(rows.KIND, "a")
    await world.store.create_project(rows.PROJECT, at=rows.AT)
    await world.store.commit([rows.stored("a")], record=Record())
    first = await cache.get(rows.PROJECT, key)
    world.store.announce(told)
    second = await cache.get(rows.PROJECT, key)
    assert (second == first, second is first) == (True, False)


LISTED = ListQuery(rows.PROJECT, rows.KIND, after="", limit=10, selector="", is_full=True)


async def texts_of(*texts: bytes) -> AsyncGenerator[bytes, None]:
    for text in texts:
        yield text


async def read_list(cache: ResourceCache, query: ListQuery, *texts: bytes) -> bytes | None:
    """Pass a list on as it is answered, and return what is kept of it."""
    assert [text async for text in cache.keeping(query, texts_of(*texts))] == list(texts)
    return cache.listed(query)


@pytest.mark.parametrize(
    ("told", "stays"),
    [
        (Committed(9, [KeyRow(rows.PROJECT, rows.KIND, "new")], is_remote=True), False),
        (Committed(9, [KeyRow(rows.PROJECT, rows.KIND, "")], is_remote=True), False),
        (Committed(9, (), released=True), False),
        (Committed(9, [KeyRow(rows.PROJECT, "Processor", "new")], is_remote=True), True),
        (Committed(9, [KeyRow("other", rows.KIND, "new")], is_remote=True), True),
        (Committed(9, (), is_remote=True), True),
    ],
)
async def test_a_list_is_kept_until_its_kind_changes(world: World, told: Committed, stays: bool) -> None:
    cache = ResourceCache(world.store)
    assert cache.listed(LISTED) is None
    assert await read_list(cache, LISTED, b"[", b"a", b"]") == b"[a]"
    assert await read_list(cache, LISTED, b"[]") == b"[]"
    assert cache.listed(LISTED._replace(limit=9)) is None
    world.store.announce(told)
    assert cache.listed(LISTED) == (b"[]" if stays else None)
    await cache.clear()
    assert cache.listed(LISTED) is None


async def test_a_list_that_changes_while_it_is_read_is_not_kept(world: World) -> None:
    cache = ResourceCache(world.store)
    reading = cache.keeping(LISTED, texts_of(b"[", b"]"))
    await anext(reading)
    world.store.announce(Committed(9, [KeyRow(rows.PROJECT, rows.KIND, "new")], is_remote=True))
    assert [text async for text in reading] == [b"]"]
    assert cache.listed(LISTED) is None


async def test_long_lists_and_many_lists_are_not_kept(world: World) -> None:
    cache = ResourceCache(world.store)
    assert await read_list(cache, LISTED, *[b"x" * 1024] * 1025) is None
    assert await read_list(cache, LISTED, *[b"x" * 1024] * 1024) is not None
    queries = [LISTED._replace(limit=number) for number in range(100, 200)]
    for query in queries:
        await read_list(cache, query, b"[]")
    assert [query for query in (LISTED, *queries) if cache.listed(query) is not None] == queries[-32:]


async def test_memory_is_bounded(world: World) -> None:
    cache = ResourceCache(world.store, most_bytes=5_000)
    await world.store.create_project(rows.PROJECT, at=rows.AT)
    names = [f"r{number}" for number in range(20)]
    await world.store.commit([rows.stored(*names, padding="x" * 500)], record=Record())
    read = {name: await cache.get(rows.PROJECT, Key(rows.KIND, name)) for name in names}
    kept = [name for name in names if await cache.get(rows.PROJECT, Key(rows.KIND, name)) is read[name]]
    assert len(kept) <= 8
