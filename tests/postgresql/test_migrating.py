"""Migrations on PostgreSQL: once each, however many replicas start together, and no program uses a store it cannot."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest

from reconciler.model.errors import Refused
from reconciler.store.contract import NewerStore, StoreFault
from reconciler.store.postgresql import migrating
from reconciler.store.postgresql.connection import PostgresqlConnection
from reconciler.store.statements import Migration
from tests.postgresql.servers import Database, Server

pytestmark = pytest.mark.providers

ONE = Migration(1, "create table one (n bigint); insert into one values (1);")
TWO = Migration(2, "-- oldest program: 1\ncreate table two (n bigint); insert into one values (2);")
STRICT = Migration(2, "create table two (n bigint);")
BROKEN = Migration(2, "create table two (n bigint); insert into nowhere values (1);")


@pytest.fixture
def connection(database: Database) -> Iterator[PostgresqlConnection]:
    with closing(PostgresqlConnection(database.url)) as opened:
        yield opened


def rows(database: Database, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(database.url) as reader:
        return reader.execute(statement.encode()).fetchall()


def applied(database: Database) -> list[tuple[object, ...]]:
    return rows(database, "select number, oldest_program from migration order by number")


def test_those_of_the_program_are_numbered_without_gaps() -> None:
    assert [step.number for step in migrating.migrations()] == list(range(1, len(migrating.migrations()) + 1))


def test_each_is_applied_once_and_recorded(database: Database, connection: PostgresqlConnection) -> None:
    for steps in ((ONE,), (ONE, TWO), (ONE, TWO)):
        migrating.migrate(connection, steps=steps)
    assert (applied(database), rows(database, "select n from one order by n")) == ([(1, 1), (2, 1)], [(1,), (2,)])


def test_replicas_that_start_together_apply_each_once(database: Database) -> None:
    def start(_: int) -> None:
        with closing(PostgresqlConnection(database.url)) as opened:
            migrating.migrate(opened)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(start, range(8)))
    assert [number for number, _ in applied(database)] == [step.number for step in migrating.migrations()]
    assert rows(database, "select key from fact order by key") == [("hmac_key",), ("revision",)]


def test_one_that_fails_leaves_the_store_as_it_was(database: Database, connection: PostgresqlConnection) -> None:
    migrating.migrate(connection, steps=(ONE,))
    with pytest.raises(StoreFault, match=r"^The store could not be migrated \(relation \"nowhere\" does not exist\); "):
        migrating.migrate(connection, steps=(ONE, BROKEN))
    assert (applied(database), rows(database, "select to_regclass('two')")) == ([(1, 1)], [(None,)])
    migrating.migrate(connection, steps=(ONE, TWO))


def test_an_older_program_uses_a_later_store_only_if_its_last_migration_says_so(
    database: Database, connection: PostgresqlConnection
) -> None:
    migrating.migrate(connection, steps=(ONE, TWO))
    migrating.migrate(connection, steps=(ONE,))
    later = (ONE, TWO, Migration(3, "-- oldest program: 2\nselect 1;"))
    migrating.migrate(connection, steps=later)
    migrating.migrate(connection, steps=later[:2])
    with pytest.raises(NewerStore, match="The store is of version 3, and this program knows versions up to 1: "):
        migrating.migrate(connection, steps=(ONE,))
    assert applied(database) == [(1, 1), (2, 1), (3, 2)]


def test_without_that_line_an_older_program_is_refused(connection: PostgresqlConnection) -> None:
    migrating.migrate(connection, steps=(ONE, STRICT))
    with pytest.raises(NewerStore):
        migrating.migrate(connection, steps=(ONE,))


def test_a_database_of_another_program_is_refused_and_left_alone(
    database: Database, connection: PostgresqlConnection
) -> None:
    connection.plain(b"create table theirs (n bigint)")
    with pytest.raises(Refused, match="has tables of another program; name an empty database"):
        migrating.migrate(connection)
    assert rows(database, "select tablename from pg_tables where schemaname = 'public'") == [("theirs",)]


def test_a_database_in_another_encoding_is_refused(server: Server) -> None:
    with server.admin() as admin:
        admin.execute("drop database if exists latin")
        admin.execute("create database latin owner service template template0 encoding 'LATIN1' locale 'C'")
    with (
        closing(PostgresqlConnection(server.url("latin", "service"))) as opened,
        pytest.raises(Refused, match="is not encoded in UTF8"),
    ):
        migrating.migrate(opened)
    server.drop("latin")
