"""The server of the tests is a real one: it keeps what was committed, and its roles may do what they should."""

import time
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors

from tests.postgresql.servers import Database, Server

pytestmark = pytest.mark.providers


@pytest.fixture
def own() -> Iterator[Server]:
    """A server on TCP that no other test uses."""
    server = Server(tcp=True, max_connections="20")
    try:
        yield server.start()
    finally:
        server.remove()


def test_it_writes_durably(database: Database) -> None:
    with psycopg.connect(database.url) as connection:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            assert connection.execute("select current_setting(%s)", [setting]).fetchone() == ("on",)


@pytest.mark.parametrize("end", ["fast", "immediate", "kill"])
def test_it_keeps_what_was_committed_however_it_ends(own: Server, end: str) -> None:
    database = own.database("kept")
    with psycopg.connect(database.url) as connection:
        connection.execute("create table t (n integer)")
        connection.execute("insert into t values (1)")
    with psycopg.connect(database.url) as connection:
        connection.execute("insert into t values (2)")
        if end == "kill":
            own.kill()
        else:
            own.stop(end)
        assert not own.is_running
        with pytest.raises(psycopg.OperationalError):
            connection.execute("select 1")
    own.start()
    with psycopg.connect(database.url) as connection:
        assert connection.execute("select n from t").fetchall() == [(1,)]


def test_the_worker_reads_and_does_nothing_else(database: Database) -> None:
    with psycopg.connect(database.url, autocommit=True) as service:
        service.execute("create table t (n integer)")
        service.execute("insert into t values (1)")
        service.execute("grant select on t to worker")
    with psycopg.connect(database.worker_url, autocommit=True) as worker:
        assert worker.execute("select n from t").fetchall() == [(1,)]
        for statement in (
            "insert into t values (2)",
            "delete from t",
            "drop table t",
            "create table s (n integer)",
            "create temporary table s (n integer)",
        ):
            with pytest.raises(errors.InsufficientPrivilege):
                worker.execute(statement)


def test_over_tcp_a_password_is_needed(own: Server) -> None:
    database = own.database("one")
    assert database.url.startswith("postgresql://service:")
    with psycopg.connect(database.url) as connection:
        assert connection.execute("select current_user, current_setting('max_connections')").fetchone() == (
            "service",
            "20",
        )
    user, _, host = database.url.partition("://")[2].partition("@")
    for wrong in (f"postgresql://service@{host}", f"postgresql://service:wrong@{host}"):
        assert user not in wrong
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(wrong)


def test_a_database_is_fresh_and_fast(server: Server) -> None:
    for _ in range(2):
        database = server.database("again")
        with psycopg.connect(database.url) as connection:
            connection.execute("create table t (n integer)")
    begun = time.monotonic()
    copy = server.database("copied", template="again")
    assert time.monotonic() - begun < 5
    with psycopg.connect(copy.url) as connection:
        assert connection.execute("select n from t").fetchall() == []
    server.drop("copied")
    server.drop("again")
