"""The store on a real PostgreSQL server, as the suite of its promises sees it."""

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import psycopg
from psycopg import sql

from reconciler.store import engines
from reconciler.store.contract import Operations, PlanningView, Store
from reconciler.store.postgresql import migrating, rights
from reconciler.store.postgresql.connection import PostgresqlConnection
from reconciler.store.postgresql.operations import PostgresqlOperations
from reconciler.store.postgresql.store import PostgresqlStore
from tests.postgresql.servers import SERVICE, Database

# Columns with stored bytes, of which a test damages one.
STORED = (("version", "body"), ("version", "secrets"), ("rendering", "body"), ("rendering", "previous"))


class PostgresqlEngine:
    """A database of a server. Its superuser does what a disk does."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.url = " ".join(("postgresql", *database))

    @classmethod
    def of(cls, url: str) -> "PostgresqlEngine":
        """The same, in a process that a test started."""
        _, *parts = url.split(" ")
        return cls(Database(*parts))

    def prepare(self) -> None:
        """Make the store."""
        with contextlib.closing(PostgresqlConnection(self.database.url)) as connection:
            migrating.migrate(connection)
        rights.settle(self.database.url, self.database.worker_url)

    def open(self) -> Store:
        return PostgresqlStore(self.database.url)

    def open_operations(self) -> Operations:
        return PostgresqlOperations(self.database.url)

    def view(self) -> PlanningView:
        return engines.connect_views(self.database.worker_url, ["view"]).views["view"]

    def corrupt(self, text: bytes, *, by: int = 1) -> None:
        """Flip these bits of the byte in the middle of the one place where a text is stored."""
        changed = []
        with self._admin() as admin:
            for table, column in STORED:
                names = {"table": sql.Identifier(table), "column": sql.Identifier(column)}
                found = sql.SQL("select ctid, {column} from {table} where position(%s in {column}) > 0").format(**names)
                for place, stored in admin.execute(found, [text]).fetchall():
                    data = bytearray(stored)
                    data[data.index(text) + len(text) // 2] ^= by
                    write = sql.SQL("update {table} set {column} = %s where ctid = %s").format(**names)
                    changed.append(admin.execute(write, [bytes(data), place]).rowcount)
        assert changed == [1]

    @contextlib.contextmanager
    def full(self, store: Store | Operations) -> Iterator[None]:  # noqa: ARG002 - it is full for all
        """Each table refuses rows as the server does when its disk is full."""
        with self._admin() as admin:
            admin.execute(
                "create function no_room() returns trigger language plpgsql as $$ begin raise exception using "
                "errcode = 'disk_full', message = 'could not extend file: No space left on device'; end $$"
            )
            for table in self._tables(admin):
                statement = (
                    "create trigger no_room before insert or update on {} for each row execute function no_room()"
                )
                admin.execute(sql.SQL(statement).format(sql.Identifier(table)))
        yield
        with self._admin() as admin:
            admin.execute("drop function no_room cascade")

    def failing(self, store: Store) -> AbstractContextManager[None]:  # noqa: ARG002 - it fails for all
        """The service may write nothing."""
        return self._without_rights()

    @contextlib.contextmanager
    def _without_rights(self) -> Iterator[None]:
        rights, role = sql.SQL("insert, update, delete on all tables in schema public"), sql.Identifier(SERVICE)
        with self._admin() as admin:
            admin.execute(sql.SQL("revoke {} from {}").format(rights, role))
        yield
        with self._admin() as admin:
            admin.execute(sql.SQL("grant {} to {}").format(rights, role))

    def _admin(self) -> "psycopg.Connection[tuple[Any, ...]]":
        return psycopg.connect(self.database.admin_url, autocommit=True)

    @staticmethod
    def _tables(admin: "psycopg.Connection[tuple[Any, ...]]") -> list[str]:
        return [str(name) for (name,) in admin.execute("select tablename from pg_tables where schemaname = 'public'")]
