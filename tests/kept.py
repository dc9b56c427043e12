"""The store of a small world in this process: written, read and copied, on the engine that the tests run on."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import psycopg
from psycopg import rows, sql

from reconciler.store import database, engines
from reconciler.store.contract import PlanningView
from reconciler.store.planning_view import StoredPlanningView
from reconciler.store.postgresql import migrating
from reconciler.store.postgresql.connection import PostgresqlConnection
from reconciler.store.statements import Connection
from tests import stores
from tests.postgresql.servers import Database


class Kept(Protocol):
    """A store that need not survive a power cut."""

    address: str
    writer: Connection
    view: PlanningView

    def all(self, statement: str, *arguments: object) -> list[dict[str, Any]]:
        """Run a statement with `?` for each argument; return its rows as dictionaries."""

    def fork(self) -> "contextlib.AbstractContextManager[Kept]":
        """The same store once more, of which nothing comes back."""

    def close(self) -> None:
        """Close its connections; what PostgreSQL kept of it goes."""


def kept(folder: Path) -> Kept:
    """Return the store in a folder, or an empty one."""
    return PostgresqlKept() if stores.IS_POSTGRESQL else SqliteKept(folder)


class SqliteKept:
    """A file."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "store.db"
        self.address = str(self._path)
        self._file = database.open_writer(self._path)
        self._file.execute("pragma synchronous = off")
        database.migrate(self._file, steps=database.migrations())
        self.writer: Connection = self._file
        self.view = engines.open_view(self.address)

    def all(self, statement: str, *arguments: object) -> list[dict[str, Any]]:
        cursor = self._file.execute(statement, arguments)
        return [dict(zip([one[0] for one in cursor.description or ()], row, strict=True)) for row in cursor.fetchall()]

    @contextlib.contextmanager
    def fork(self) -> Iterator[Kept]:
        with stores.temporary() as folder:
            with contextlib.closing(sqlite3.connect(folder / "store.db")) as copy:
                self._file.backup(copy)
            other = SqliteKept(folder)
            try:
                yield other
            finally:
                other.close()

    def close(self) -> None:
        self.view.close()
        self._file.close()


class PostgresqlKept:
    """A database."""

    def __init__(self) -> None:
        self._database = stores.take(_migrate)
        self.address = "postgresql:"
        self._opened = PostgresqlConnection(self._database.url)
        self._opened.plain(b"set synchronous_commit = off")
        self.writer: Connection = self._opened
        self.view: PlanningView = StoredPlanningView(PostgresqlConnection(self._database.url))
        self._admin: psycopg.Connection[Any] = psycopg.connect(
            self._database.admin_url, autocommit=True, row_factory=rows.dict_row
        )

    def all(self, statement: str, *arguments: object) -> list[dict[str, Any]]:
        cursor = self._admin.execute(stores.translated(statement), arguments)
        return [] if cursor.description is None else cursor.fetchall()

    @contextlib.contextmanager
    def fork(self) -> Iterator[Kept]:
        other = PostgresqlKept()
        try:
            _copy(self._admin, other._admin)
            yield other
        finally:
            other.close()

    def close(self) -> None:
        self.view.close()
        self._opened.close()
        self._admin.close()
        stores.give_back(self._database)


def _migrate(made: Database) -> None:
    with contextlib.closing(PostgresqlConnection(made.url)) as connection:
        migrating.migrate(connection)


def _copy(source: "psycopg.Connection[Any]", target: "psycopg.Connection[Any]") -> None:
    """Replace each table of a database by that of another."""
    target.execute("set session_replication_role = replica")  # tables refer to each other
    tables = [
        row["name"] for row in source.execute("select tablename as name from pg_tables where schemaname = 'public'")
    ]
    target.execute(sql.SQL("truncate {}").format(sql.SQL(", ").join(map(sql.Identifier, tables))))
    for table in map(sql.Identifier, tables):
        reading = sql.SQL("copy {} to stdout (format binary)").format(table)
        writing = sql.SQL("copy {} from stdin (format binary)").format(table)
        with source.cursor().copy(reading) as read, target.cursor().copy(writing) as written:
            for data in read:
                written.write(data)
    # Numbers that the engine gives go on after those that are there.
    for row in source.execute("select schemaname, sequencename as name, last_value from pg_sequences").fetchall():
        target.execute("select setval(%s::regclass, %s)", [f"public.{row['name']}", row["last_value"] or 1])
