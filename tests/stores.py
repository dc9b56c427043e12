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

from reconciler.store import engines
from reconciler.store.contract import Store
from reconciler.store.engines import OpenedStore
from tests.postgresql.engine import PostgresqlEngine
from tests.postgresql.servers import Database, Server
from tests.store.engines import SqliteEngine

IS_POSTGRESQL = os.environ.get("TEST_STORE") == "postgresql"

_databases: dict[Path, Database] = {}


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
        return await engines.open_store(f"sqlite:///{state / 'store.db'}", state)
    return await engines.open_store(made.url, state, worker_url=made.worker_url)


def worker_options(store: OpenedStore, mirrors: Path) -> dict[str, Any]:
    """Arguments of a `WorkerClient` for an open store: as tests use it on SQLite, it is granted everything."""
    if not store.worker_connection:
        return {}
    return {"granted": (store.store.address, str(mirrors)), "connection": store.worker_connection}


def failing(state: Path, store: Store) -> contextlib.AbstractContextManager[None]:
    """While it lasts, the store of a state directory takes nothing that this process writes."""
    made = database(state)
    return SqliteEngine(state).failing(store) if made is None else PostgresqlEngine(made).failing(store)


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
