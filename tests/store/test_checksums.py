"""A stored version that the disk changed: it is never taken for what was stored, and it touches nothing else."""

import asyncio
import contextlib
import json
import sqlite3
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.store import checksums, database
from reconciler.store.contract import Changes, Damaged, DamagedVersion, Record, RewrittenRow, Store
from reconciler.store.planning_view import PlanningView
from reconciler.store.sqlite import SqliteStore
from tests.store import looking, rows
from tests.store.engines import SqliteEngine

pytestmark = pytest.mark.anyio

BEFORE = next(at for at, step in enumerate(database.migrations()) if step.name.endswith("_checksums.sql"))
SECRETS = b'{"/spec/padding":"hush-hush"}'
MARKER = "marker-of-one-body"


def flip(path: Path, text: bytes, *, by: int = 1) -> None:
    """Change one byte in a store's file, in the middle of the one place where a text stands; nobody has it open."""
    data = bytearray(path.read_bytes())
    assert data.count(text) == 1
    data[data.index(text) + len(text) // 2] ^= by
    path.write_bytes(data)


def with_secrets(name: str) -> Changes:
    """A resource whose padding is a secret."""
    part = rows.stored(name)
    masked = part.versions[0]._replace(body=rows.body(name, 1, "(sensitive)"), secrets=SECRETS)
    return replace(part, versions=(masked,))


async def stored(engine: SqliteEngine, *parts: Changes) -> None:
    """Make a store of these, and close it."""
    store = engine.open()
    await store.create_project(rows.PROJECT, at=rows.AT)
    await store.commit(parts, record=Record(), planned_at=0)
    await store.close()


def marked(name: str = "b", padding: str = MARKER) -> Changes:
    part = rows.stored(name)
    return replace(part, versions=(part.versions[0]._replace(body=rows.body(name, 1, padding)),))


FLIPS: dict[str, Callable[[Path], None]] = {
    "in a text": lambda path: flip(path, MARKER.encode()),
    "that breaks the JSON": lambda path: flip(path, MARKER.encode(), by=MARKER.encode()[len(MARKER) // 2] ^ ord('"')),
    "that is no UTF-8": lambda path: flip(path, MARKER.encode(), by=0x80),
}


@pytest.mark.parametrize("how", sorted(FLIPS))
async def test_one_that_is_damaged_is_told_and_the_rest_of_a_list_is_as_it_was(engine: SqliteEngine, how: str) -> None:
    await stored(engine, rows.stored("a"), marked(), rows.stored("c"))
    FLIPS[how](engine.path)
    store = engine.open()
    with pytest.raises(Damaged, match="the Destination b is damaged in the store"):
        await store.get(rows.PROJECT, rows.key("b"))
    shown = [json.loads(one) async for page in _pages(store) for one in page]
    assert [shown[0], shown[2]] == [rows.shown("a", 1), rows.shown("c", 1)]
    assert shown[1] == {
        "kind": rows.KIND,
        "metadata": {"name": "b", "version": 1},
        "status": {"error": shown[1]["status"]["error"], "latest": True},
    }
    assert await looking.history(store, rows.key("b")) == [shown[1]]
    assert await store.damaged() == [DamagedVersion(rows.PROJECT, rows.KIND, "b", 1)]
    await store.close()


def _pages(store: Store) -> AsyncGenerator[list[bytes], None]:
    return store.list_pages(rows.PROJECT, rows.KIND, after="", limit=100)


async def test_a_plan_knows_which_of_what_it_compares_is_damaged_and_reads_nothing_of_it(engine: SqliteEngine) -> None:
    await stored(engine, with_secrets("a"), marked())
    flip(engine.path, b"hush-hush")
    view = engine.view()
    with view.snapshot():
        compared = view.compared(rows.PROJECT, [rows.key("a"), rows.key("b")])
        documents = view.documents(rows.PROJECT, [rows.key("a"), rows.key("b")])
    view.close()
    assert {key.name: one.damaged for key, one in compared.items()} == {"a": True, "b": False}
    held = {key.name: (one.body, one.secrets) for key, one in documents.items()}
    assert held == {"a": (b"", None), "b": (rows.body("b", 1, MARKER), None)}


async def test_a_look_through_the_store_finds_what_nobody_reads(engine: SqliteEngine) -> None:
    await stored(engine, with_secrets("a"), marked())
    flip(engine.path, b"hush-hush")
    store = engine.open()
    assert await store.damaged() == []
    await store.examine()
    found = [DamagedVersion(rows.PROJECT, rows.KIND, "a", 1)]
    assert [await store.damaged(), await store.damaged()] == [found, found]
    row = RewrittenRow(rows.PROJECT, rows.KIND, "a", 1, rows.body("a", 1, "(sensitive)"), SECRETS)
    await store.commit([Changes(rewritten=(row,))], record=Record(), planned_at=None)
    assert await store.damaged() == []
    assert json.loads(await store.get(rows.PROJECT, rows.key("a")) or b"")["spec"] == {"padding": "(sensitive)"}
    await store.close()


async def test_a_broken_status_or_source_breaks_no_list(engine: SqliteEngine) -> None:
    await stored(engine, rows.stored("a"), rows.stored("b"))
    with contextlib.closing(sqlite3.connect(engine.path)) as connection, connection:
        connection.execute("update resource_row set status = x'7b22' where name = 'b'")
    store = engine.open()
    names = [json.loads(one)["metadata"]["name"] async for page in _pages(store) for one in page]
    assert names == ["a", "b"]
    assert await store.damaged() == [DamagedVersion(rows.PROJECT, rows.KIND, "b", 1)]
    await store.close()


# What an earlier version of the program stored.


def before_checksums(path: Path, bodies: dict[str, bytes], secrets: dict[str, bytes] | None = None) -> None:
    """Make a store as an earlier version left it: one version of each name."""
    with contextlib.closing(database.open_writer(path)) as connection:
        database.migrate(connection, steps=database.migrations()[:BEFORE])
        origin = rows.origin()
        connection.execute("begin")
        connection.execute("insert into project values (?, ?)", (rows.PROJECT, rows.AT))
        connection.execute("insert into origin values (?, ?, ?, ?, ?, ?, ?)", origin)
        for number, (name, body) in enumerate(bodies.items(), 1):
            connection.execute(
                "insert into version_row (id, project, kind, name, version, since, origin, secrets, body) "
                "values (?, ?, ?, ?, 1, 0, ?, ?, ?)",
                (number, rows.PROJECT, rows.KIND, name, origin.id, (secrets or {}).get(name), body),
            )
            connection.execute(
                "insert into resource_row (project, kind, name, since, version, version_id, resource_id, digest, "
                "protected, incomplete, drifted) values (?, ?, ?, 0, 1, ?, ?, ?, 0, 0, 0)",
                (rows.PROJECT, rows.KIND, name, number, f"id-{name}", rows.digest(name, 1)),
            )
        connection.execute("commit")


def unchecked(path: Path) -> int:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        found: tuple[int] = connection.execute("select count(*) from version_row where checksum is null").fetchone()
        return found[0]


async def judged(path: Path) -> SqliteStore:
    """The store once all that it holds has a checksum."""
    store = SqliteStore(path)
    async with asyncio.timeout(30):
        while unchecked(path):
            await store.revision()
            await asyncio.sleep(0.01)
    return store


async def test_what_is_sound_gets_a_checksum_in_the_background_and_what_is_not_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    sound = {name: rows.sound_body(name, 1, "text") for name in ("a", "d")} | {
        "e": rows.sound_body("e", 1, "(sensitive)")
    }
    damaged = {
        "another-text": rows.sound_body("another-text", 1, "text").replace(b"text", b"tdxt"),
        "broken": rows.sound_body("broken", 1)[:-2],
        "another-name": rows.sound_body("b", 1),
        "secrets": rows.sound_body("secrets", 1, "(sensitive)"),
    }
    before_checksums(path, sound | damaged, {"e": SECRETS, "secrets": SECRETS.replace(b"spec", b"spdc")})
    store = await judged(path)
    await store.examine()
    assert [one.name for one in await store.damaged()] == sorted(damaged)
    for name in sound:
        assert json.loads(await store.get(rows.PROJECT, rows.key(name)) or b"")["metadata"]["name"] == name
    assert await store.revision() == 0
    await store.close()


async def test_what_has_no_checksum_yet_is_served_and_looked_through(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    before_checksums(path, {"a": rows.sound_body("a", 1), "b": rows.sound_body("b", 1).replace(b"padding", b"pbdding")})
    with contextlib.closing(database.open_writer(path)) as connection:
        database.migrate(connection, steps=database.migrations())
        found = [one for step in checksums.damaged(connection) for one in step]
    assert found == [DamagedVersion(rows.PROJECT, rows.KIND, "b", 1)]
    view = PlanningView.open(path)
    with view.snapshot():
        assert not any(one.damaged for one in view.compared(rows.PROJECT, [rows.key("a"), rows.key("b")]).values())
    view.close()


@pytest.mark.slow
async def test_a_hundred_thousand_versions_are_brought_over_in_seconds(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    before_checksums(path, {f"r{number}": rows.sound_body(f"r{number}", 1, "x" * 800) for number in range(100_000)})
    with contextlib.closing(database.open_writer(path)) as connection:
        begun = time.monotonic()
        database.migrate(connection, steps=database.migrations())
        assert time.monotonic() - begun < 5
        for _ in checksums.judge_all(connection):
            pass
        assert time.monotonic() - begun < 60
    assert unchecked(path) == 0
