"""A stored version that the disk changed: it is never taken for what was stored, and it touches nothing else."""

import contextlib
import json
import sqlite3
import time
from pathlib import Path

import pytest

from reconciler.store import database
from reconciler.store.records import DamagedVersion
from reconciler.store.sqlite import SqliteStore
from tests.store import looking, rows
from tests.store.contract_damage import stored
from tests.store.engines import SqliteEngine

pytestmark = pytest.mark.anyio

BEFORE = 8  # steps, until there were checksums
SECRETS = b'{"/spec/padding":"hush-hush"}'


async def test_a_broken_status_or_source_breaks_no_list(engine: SqliteEngine) -> None:
    await stored(engine, rows.stored("a"), rows.stored("b"))
    with contextlib.closing(sqlite3.connect(engine.path)) as connection, connection:
        connection.execute("update resource set status = x'7b22' where name = 'b'")
    store = engine.open()
    names = await looking.names(store)
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
        found: tuple[int] = connection.execute("select count(*) from version where checksum is null").fetchone()
        return found[0]


async def test_what_is_sound_gets_a_checksum_and_what_is_not_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    sound = {"a": rows.sound_body("a", 1, "text"), "e": rows.sound_body("e", 1, "(sensitive)")}
    damaged = {"broken": rows.sound_body("broken", 1)[:-2]}
    before_checksums(path, sound | damaged, {"e": SECRETS})
    store = SqliteStore(path)
    assert unchecked(path) == 0
    await store.examine()
    assert [one.name for one in await store.damaged()] == sorted(damaged)
    for name in sound:
        assert json.loads(await store.get(rows.PROJECT, rows.key(name)) or b"")["metadata"]["name"] == name
    assert await store.revision() == 0
    await store.close()


@pytest.mark.slow
async def test_a_hundred_thousand_versions_are_brought_over_in_seconds(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    before_checksums(path, {f"r{number}": rows.sound_body(f"r{number}", 1, "x" * 800) for number in range(100_000)})
    with contextlib.closing(database.open_writer(path)) as connection:
        begun = time.monotonic()
        database.migrate(connection, steps=database.migrations())
        assert time.monotonic() - begun < 5
    assert unchecked(path) == 0
