"""An estate is copied between SQLite and PostgreSQL in both directions, whole and verified."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from reconciler.cli import exits
from reconciler.model.errors import Refused
from reconciler.store import engines, estates
from reconciler.store.audit import BrokenChain
from reconciler.store.estates import FACTS_OF_ONE, TABLES, CopiedEstate
from reconciler.store.files import DatabasePlaces
from reconciler.store.records import Changes, Record
from reconciler.store.repository_records import PruneRow
from tests.cli.conftest import Program
from tests.ops import scenes
from tests.postgresql.engine import PostgresqlEngine
from tests.postgresql.servers import PASSWORDS, SERVICE, Database, Server
from tests.store import chains, full_estates, looking, rows
from tests.store.engines import Engine, SqliteEngine

pytestmark = pytest.mark.providers

# What is of one moment, of sessions, or between replicas.
LEFT_OUT = {"session", "notice", "notice_count", "replica", "lease", "migration"}


@pytest.fixture
def source(tmp_path: Path) -> DatabasePlaces:
    """A state directory with a row in every table."""
    places = scenes.places(tmp_path / "source")
    asyncio.run(full_estates.fill(SqliteEngine(places.store), many=3))
    return places


@pytest.fixture
def filled(server: Server) -> Iterator[Database]:
    """A database with a row in every table."""
    made = server.database("filled")
    engine = PostgresqlEngine(made)
    engine.prepare()
    asyncio.run(full_estates.fill(engine, many=3))
    yield made
    server.drop(made.name)


def copy(source: DatabasePlaces | str, target: DatabasePlaces | str) -> CopiedEstate:
    return estates.copy(engines.stored_estate(source), engines.stored_estate(target), watch=scenes.watch())


def digests(copied: CopiedEstate) -> dict[str, tuple[int, str]]:
    return {table.name: (table.rows, table.sha256) for table in copied.tables}


def tables(database: Database) -> dict[str, int]:
    """How many rows each table has."""
    with psycopg.connect(database.admin_url) as connection:
        found = connection.execute("select tablename from pg_tables where schemaname = 'public'").fetchall()
        counts = {}
        for (name,) in found:
            statement = sql.SQL("select count(*) from {}").format(sql.Identifier(name))
            [(counts[name],)] = connection.execute(statement).fetchall()
        return counts


def change(database: Database, statement: str) -> None:
    with psycopg.connect(database.admin_url, autocommit=True) as connection:
        connection.execute(statement.encode())


async def shown(engine: Engine) -> list[object]:
    """All that a reader sees of a store."""
    store, operations = engine.open(), engine.open_operations()
    try:
        noted = await operations.notifications()
        return [
            await looking.everything(store),
            await store.directory(),
            await store.attention(rows.PROJECT, named=9),
            await store.rendering(rows.PROJECT, "c"),
            await store.hmac_key(),
            await store.auth_type(),
            await store.audit_ends(),
            (noted.rows, noted.statuses),
        ]
    finally:
        await operations.close()
        await store.close()


def test_every_table_is_copied_or_known_to_be_left_out(filled: Database) -> None:
    found = tables(filled)
    assert found.keys() - {table.name for table in TABLES} == LEFT_OUT
    assert {table.name for table in TABLES} - found.keys() == set()
    assert [name for name, number in found.items() if not number and name not in LEFT_OUT] == []


def test_there_and_back_is_the_same_estate(source: DatabasePlaces, database: Database, tmp_path: Path) -> None:
    there = copy(source, database.url)
    back = copy(database.url, scenes.places(tmp_path / "back"))
    assert digests(back) == digests(there)
    assert all(number for number, _ in digests(there).values())
    assert (back.chain.head, back.damaged) == (there.chain.head, [])
    found = [
        asyncio.run(shown(engine))
        for engine in (
            SqliteEngine(source.store),
            PostgresqlEngine(database),
            SqliteEngine(scenes.places(tmp_path / "back").store),
        )
    ]
    assert found[1] == found[0]
    assert found[2] == found[0]
    assert tables(database)["session"] == 0


def test_from_one_server_to_another_database(filled: Database, server: Server, database: Database) -> None:
    copied = copy(filled.url, database.url)
    assert asyncio.run(shown(PostgresqlEngine(database))) == asyncio.run(shown(PostgresqlEngine(filled)))
    with psycopg.connect(database.admin_url) as connection:
        facts = {key for (key,) in connection.execute("select key from fact")}
    assert facts & set(FACTS_OF_ONE) == set()
    assert digests(copied)["fact"][0] == len(facts)
    assert server.is_running


def test_numbers_that_the_server_gives_go_on(source: DatabasePlaces, database: Database) -> None:
    copy(source, database.url)

    async def prune() -> None:
        store = PostgresqlEngine(database).open()
        try:
            await store.commit([Changes(pruned=[PruneRow("telemetry", 1_800_000_000_001, 9, 1)])], record=Record())
            await store.commit([rows.stored("new")], record=Record())
        finally:
            await store.close()

    asyncio.run(prune())
    assert tables(database)["prune_ledger"] == 2


def test_the_worker_reads_the_copy(source: DatabasePlaces, database: Database) -> None:
    copy(source, database.url)

    async def start() -> str:
        opened = await engines.open_store(database.url, Path("/nowhere"), worker_url=database.worker_url)
        try:
            return opened.worker_connection
        finally:
            await opened.operations.close()
            await opened.store.close()

    assert "worker" in asyncio.run(start())
    view = PostgresqlEngine(database).view()
    with view.snapshot():
        assert view.owned_count("telemetry", rows.PROJECT) == 0
    view.close()


def test_a_target_that_is_not_empty_stays_as_it_is(source: DatabasePlaces, filled: Database) -> None:
    before = tables(filled)
    with pytest.raises(
        Refused, match=r"^The store in the database filled on .* is not empty; name an empty database\.$"
    ):
        copy(source, filled.url)
    assert tables(filled) == before


def test_a_database_of_another_program_is_refused(source: DatabasePlaces, database: Database) -> None:
    change(database, "create table theirs (n integer)")
    with pytest.raises(Refused, match="has tables of another program"):
        copy(source, database.url)
    assert tables(database) == {"theirs": 0}


def test_a_store_that_a_replica_uses_is_refused(filled: Database, source: DatabasePlaces, tmp_path: Path) -> None:
    put = "insert into replica (name, url, version, process, settings, beat) values ('one', '', '', '', '', now() - "
    change(filled, f"{put}interval '10 s')")
    with pytest.raises(Refused, match=r"^one may run on the store in the database filled on "):
        copy(filled.url, scenes.places(tmp_path / "target"))
    assert scenes.listing(tmp_path / "target") == []
    change(filled, "update replica set beat = now() - interval '30 s'")
    assert copy(filled.url, scenes.places(tmp_path / "target")).damaged == []
    del source


def test_an_empty_database_and_another_version_are_refused(
    database: Database, filled: Database, tmp_path: Path
) -> None:
    target = scenes.places(tmp_path / "target")
    with pytest.raises(Refused, match=r"^There is no store in the database test_\d+ on "):
        copy(database.url, target)
    change(filled, "insert into migration (number, oldest_program) values (1000, 1)")
    with pytest.raises(Refused, match="is of version 1000, and this program copies version"):
        copy(filled.url, target)


def test_what_is_broken_is_refused_and_the_target_is_as_empty_as_before(
    source: DatabasePlaces, database: Database
) -> None:
    slow = scenes.watch_that_is_over()
    with pytest.raises(Refused, match="took longer than"):
        estates.copy(engines.stored_estate(source), engines.stored_estate(database.url), watch=slow)
    counts = tables(database)
    assert {name for name, number in counts.items() if number} == {"fact", "audit_anchor", "migration", "notice_count"}
    chains.tamper(source.store, "update audit set actor = 'key:other' where id = (select max(id) from audit)")
    with pytest.raises(BrokenChain):
        copy(source, database.url)
    assert tables(database) == counts


def test_text_that_the_server_does_not_take_is_stored_as_the_service_would(tmp_path: Path, database: Database) -> None:
    places = scenes.places(tmp_path / "odd")

    async def fill() -> None:
        store = SqliteEngine(places.store).open()
        await store.create_project(rows.PROJECT, at=rows.AT)
        await store.commit([], record=Record(run=rows.run("R1", message="a\0b")))
        await store.close()

    asyncio.run(fill())
    copy(places, database.url)
    with psycopg.connect(database.url) as connection:
        assert connection.execute("select message from run").fetchall() == [("a\ufffdb",)]


def test_the_command_copies_in_both_directions(source: DatabasePlaces, database: Database, tmp_path: Path) -> None:
    (tmp_path / "back").mkdir()
    program = Program(tmp_path)
    there = program("store", "copy", str(source.store.parent), database.url)
    assert (there.code, there.err.splitlines()[-2]) == (exits.OK, "Not in it: sessions (people sign in again).")
    again = program("store", "copy", f"sqlite:///{source.store}", database.url)
    assert (again.code, again.err.startswith("error: the store in the database ")) == (exits.ERROR, True)
    back = program("store", "copy", database.url, str(tmp_path / "back"))
    assert back.code == exits.OK, back.err
    assert back.out == there.out
    assert re.search(r"^audit: \d+ events, verified; head: \d+:[0-9a-f]{64}$", back.out, re.MULTILINE)


def test_the_password_comes_from_the_environment(source: DatabasePlaces, tmp_path: Path) -> None:
    server = Server(tcp=True)
    try:
        database = server.start().database("one")
        bare = database.url.replace(f":{PASSWORDS[SERVICE]}@", "@")
        told = Program(tmp_path)("store", "copy", str(source.store.parent), bare, PGPASSWORD=PASSWORDS[SERVICE])
        assert told.code == exits.OK, told.err
        wrong = Program(tmp_path)("store", "copy", str(source.store.parent), bare, PGPASSWORD="canary-wrong")
        assert wrong.code == exits.ERROR
        assert "password authentication failed" in wrong.err
    finally:
        server.remove()
