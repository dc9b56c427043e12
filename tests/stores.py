"""The engine of the stores of a run of tests: SQLite, or PostgreSQL if the variable TEST_STORE says `postgresql`.

With PostgreSQL each state directory has a database of its own, in one server for each process of the tests.
"""

import atexit
import contextlib
import functools
import itertools
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg

from reconciler.store import audit, engines
from reconciler.store.audit import VerifiedChain
from reconciler.store.contract import Store
from reconciler.store.engines import OpenedStore
from tests.postgresql.engine import PostgresqlEngine
from tests.postgresql.servers import Database, Server
from tests.store import looking
from tests.store.engines import Engine, SqliteEngine

IS_POSTGRESQL = os.environ.get("TEST_STORE") == "postgresql"

_databases: dict[Path, Database] = {}
_states: dict[int, Path] = {}  # by the identity of the open store


@functools.cache
def _server() -> Server:
    """The server of this process of the tests; it ends with it."""
    server = Server()
    atexit.register(server.remove)
    return server.start()


def keep(state: Path, database: Database) -> None:
    """Keep the store of a state directory in this database, whatever the engine of the others is."""
    _databases[state] = database


def database(state: Path) -> Database | None:
    """The database of a state directory, made when it is first asked for; None on SQLite."""
    if IS_POSTGRESQL and state not in _databases:
        keep(state, _server().database(f"suite_{len(_databases)}"))
    return _databases.get(state)


def settings(state: Path) -> dict[str, object]:
    """The settings of the store of a daemon with this state directory."""
    made = database(state)
    return {} if made is None else {"store": {"url": made.url, "workerUrl": made.worker_url}}


async def opened(state: Path) -> OpenedStore:
    """Open the store of a state directory in this process."""
    made = database(state)
    if made is None:
        opened = await engines.open_store(f"sqlite:///{state / 'store.db'}", state)
    else:
        opened = await engines.open_store(made.url, state, worker_url=made.worker_url)
    _states[id(opened.store)] = state
    return opened


def worker_options(store: OpenedStore, mirrors: Path) -> dict[str, Any]:
    """Arguments of a `WorkerClient` for an open store: as tests use it on SQLite, it is granted everything."""
    if not store.worker_connection:
        return {}
    return {"granted": (store.store.address, str(mirrors)), "connection": store.worker_connection}


def engine(state: Path) -> Engine:
    """The engine of the store of a state directory, as the suite of its promises sees it."""
    made = database(state)
    return SqliteEngine(state / "store.db") if made is None else PostgresqlEngine(made)


def state_of(store: Store) -> Path:
    """The state directory of a store that was opened here."""
    return _states[id(store)]


def tables(state: Path) -> dict[str, list[dict[str, Any]]]:
    """Every row of a store by its table."""
    with sql(state) as store:
        return {name: store.table(name) for name in store.tables()}


def content(state: Path) -> dict[str, bytes]:
    """Return the content of a store's files by name; on PostgreSQL of its tables, whose files it keeps to itself."""
    if database(state) is None:
        return looking.files(state / "store.db")
    return {name: repr(rows).encode() for name, rows in tables(state).items()}


def verify(state: Path) -> VerifiedChain:
    """Verify the audit."""
    made = database(state)
    if made is None:
        return audit.verify(state / "store.db")
    return engines.verify_audit(made.url, known=None, since=None)[0]


@contextlib.contextmanager
def sql(state: Path) -> Iterator["Statements"]:
    """A connection of its own to the store of a state directory, which may do everything. It commits at the end."""
    made = database(state)
    if made is not None:
        with psycopg.connect(made.url) as connection:
            yield Statements(connection)
    else:
        with closing(sqlite3.connect(state / "store.db")) as file, file:
            yield Statements(file)


MIGRATED = "migrated"  # a database with an empty store, from which others are made
_numbers = itertools.count(1)


@functools.cache
def _migrated(migrate: Callable[[Database], None]) -> str:
    migrate(_server().database(MIGRATED))
    return MIGRATED


def take(migrate: Callable[[Database], None]) -> Database:
    """A database with an empty store, for one user after another."""
    template = _migrated(migrate)
    return _server().database(f"world_{next(_numbers)}", template=template)


def give_back(database: Database) -> None:
    """Forget a database that was taken."""
    _server().drop(database.name)


@contextlib.contextmanager
def temporary() -> Iterator[Path]:
    """A folder that goes."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def translated(statement: str) -> bytes:
    """A statement with `?` for each argument, for psycopg."""
    return statement.replace("%", "%%").replace("?", "%s").encode()


class Statements:
    """Statements that both engines understand, with `?` for each argument."""

    def __init__(self, connection: "sqlite3.Connection | psycopg.Connection[Any]") -> None:
        self._connection = connection

    def tables(self) -> list[str]:
        """The names of the tables."""
        if isinstance(self._connection, sqlite3.Connection):
            found = self.execute("select name from sqlite_schema where type = 'table'")
        else:
            found = self.execute("select tablename from pg_tables where schemaname = 'public'")
        return sorted(name for (name,) in found)

    def table(self, name: str) -> list[dict[str, Any]]:
        """Every row of a table."""
        cursor = self._connection.execute(f'select * from "{name}"')  # noqa: S608
        columns = [one[0] for one in cursor.description or ()]
        return [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]

    def count_revision(self) -> None:
        """Count one change of the store."""
        if isinstance(self._connection, sqlite3.Connection):
            self.execute("update fact set value = value + 1 where key = 'revision'")
        else:
            self.execute("update fact set number = number + 1 where key = 'revision'")

    def execute(self, statement: str, *arguments: object) -> list[tuple[Any, ...]]:
        """Run one; return its rows."""
        if isinstance(self._connection, sqlite3.Connection):
            return self._connection.execute(statement, arguments).fetchall()
        cursor = self._connection.execute(translated(statement), arguments)
        return [] if cursor.description is None else cursor.fetchall()
