"""An estate in a database of PostgreSQL (`estates`)."""

import contextlib
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any

from psycopg import sql

from reconciler.model.audit_chain import ChainHead
from reconciler.model.errors import Refused
from reconciler.store import audit, damage
from reconciler.store.audit import VerifiedChain
from reconciler.store.estates import FACTS_OF_ONE, TABLES, Table
from reconciler.store.files import Watch
from reconciler.store.postgresql import inspection, migrating
from reconciler.store.postgresql.connection import PostgresqlConnection
from reconciler.store.postgresql.inspection import Connection
from reconciler.store.records import DamagedVersion
from reconciler.store.statements import Row

FACT = ("key", "value")  # as SQLite has them
LIVING_SECONDS = 20  # since a replica told that it lives


class PostgresqlEstate:
    """See `estates.Estate`."""

    def __init__(self, connection: Connection) -> None:
        self.place = place(connection)
        self._connection = connection

    def columns(self, table: Table) -> tuple[str, ...]:
        return FACT if table.name == "fact" else tuple(sorted(self._types(table)))

    def rows(self, table: Table, columns: tuple[str, ...]) -> Iterator[Row]:
        if table.name == "fact":
            yield from self._facts()
            return
        statement = sql.SQL("copy (select {} from {} order by {}) to stdout (format binary)").format(
            _listed(columns), sql.Identifier(table.name), _listed(table.key)
        )
        types = self._types(table)
        with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types([types[name] for name in columns])
            yield from copy.rows()

    def put(self, table: Table, columns: tuple[str, ...], rows: Iterable[Row]) -> None:
        if table.name == "fact":
            self._put_facts(rows)
            return
        statement = sql.SQL("copy {} ({}) from stdin (format binary)").format(
            sql.Identifier(table.name), _listed(columns)
        )
        types = self._types(table)
        with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types([types[name] for name in columns])
            for row in rows:
                copy.write_row(row)
        self._count_on(table)

    def clear(self, table: Table) -> None:
        self._connection.execute(sql.SQL("delete from {}").format(sql.Identifier(table.name)))

    def storable(self, value: Any) -> Any:
        return value.replace("\0", "\ufffd") if isinstance(value, str) else value

    def check_empty(self) -> None:
        """Raise Refused if the store has more rows than a new one."""
        for table in TABLES:
            statement = sql.SQL("select exists (select from {})").format(sql.Identifier(table.name))
            (is_there,) = self._connection.execute(statement).fetchone() or (False,)
            if is_there and not table.is_made:
                raise Refused(f"The store in {self.place} is not empty; name an empty database.")

    def check_unused(self) -> None:
        """Raise Refused while a replica runs on it."""
        statement = "select name from replica where beat > now() - make_interval(secs => %s) order by name"
        names = [name for (name,) in self._connection.execute(statement, [LIVING_SECONDS])]
        if names:
            raise Refused(
                f"{', '.join(names)} may run on the store in {self.place}, and would store more; stop every replica, "
                f"and try again after {LIVING_SECONDS} seconds."
            )

    def _facts(self) -> Iterator[Row]:
        for key, *values in self._connection.execute("select key, number, bytes, text from fact order by key"):
            if key not in FACTS_OF_ONE:
                yield key, next(value for value in values if value is not None)

    def _put_facts(self, rows: Iterable[Row]) -> None:
        for key, value in rows:
            column = {int: "number", bytes: "bytes", str: "text"}[type(value)]
            statement = sql.SQL("insert into fact (key, {}) values (%s, %s)").format(sql.Identifier(column))
            self._connection.execute(statement, [key, value])

    def _types(self, table: Table) -> dict[str, str]:
        statement = (
            "select column_name, data_type from information_schema.columns "
            "where table_schema = current_schema() and table_name = %s"
        )
        return dict(self._connection.execute(statement, [table.name]).fetchall())

    def _count_on(self, table: Table) -> None:
        """Let PostgreSQL's own numbers continue after the copied ones."""
        columns = (
            "select column_name from information_schema.columns "
            "where table_schema = current_schema() and table_name = %s and is_identity = 'YES'"
        )
        for (column,) in self._connection.execute(columns, [table.name]).fetchall():
            statement = sql.SQL(
                "select setval(pg_get_serial_sequence({2}, {3}), (select max({0}) from {1})) "
                "where exists (select from {1})"
            )
            parts = sql.Identifier(column), sql.Identifier(table.name), sql.Literal(table.name), sql.Literal(column)
            self._connection.execute(statement.format(*parts))


class StoredPostgresqlEstate:
    """See `estates.StoredEstate`."""

    def __init__(self, url: str) -> None:
        self._url = url

    @contextlib.contextmanager
    def reading(self) -> Iterator[PostgresqlEstate]:
        with _opened(self._url) as connection, connection.transaction():
            connection.execute("set transaction isolation level repeatable read, read only")
            _check_version(connection)
            estate = PostgresqlEstate(connection)
            estate.check_unused()
            yield estate

    @contextlib.contextmanager
    def writing(self) -> Iterator[PostgresqlEstate]:
        with closing(PostgresqlConnection(self._url)) as made:
            migrating.migrate(made)
        with _opened(self._url) as connection, connection.transaction():
            # A replica that starts meanwhile waits for this.
            connection.execute("lock table fact in access exclusive mode")
            _check_version(connection)
            estate = PostgresqlEstate(connection)
            estate.check_unused()
            estate.check_empty()
            yield estate

    def verified(self, watch: Watch) -> tuple[VerifiedChain, list[DamagedVersion]]:
        watch.tell("audit: verifying ...")
        chain, _ = verify_audit(self._url)
        return chain, damaged_versions(self._url, watch=watch)


def damaged_versions(url: str, *, watch: Watch) -> list[DamagedVersion]:
    """Return every stored version that does not match its checksum. Raises Refused when the time is up, StoreFault."""
    found: list[DamagedVersion] = []
    last, before = 0, -1
    with closing(PostgresqlConnection(url)) as connection, connection.faults("read"):
        while last != before:
            before = last
            step, last = damage.damaged_versions(connection, after=before)
            found += step
            watch.check("The look through the store")
    return found


def verify_audit(url: str, *, known: ChainHead | None = None, since: str | None = None) -> tuple[VerifiedChain, str]:
    """Verify the audit of a store at one revision (`audit.verify`), and return its place too.

    Raises BrokenChain, Refused, StoreFault.
    """
    with inspection.connected(url) as connection:
        where = place(connection)
        if inspection.migration(connection) is None:
            raise Refused(f"There is no store in {where}.")
    with closing(PostgresqlConnection(url)) as reader, reader.faults("read"):
        return audit.verify_chain(reader, known=known, since=since), where


@contextlib.contextmanager
def _opened(url: str) -> Iterator[Connection]:
    with inspection.connected(url) as connection:
        connection.execute("set statement_timeout = 0")
        yield connection


def _check_version(connection: Connection) -> None:
    where, latest = place(connection), migrating.migrations()[-1].number
    present = inspection.migration(connection)
    if present is None:
        raise Refused(f"There is no store in {where}.")
    if present != latest:
        raise Refused(
            f"The store in {where} is of version {present}, and this program copies version {latest}; start the "
            "service with this program once, which brings an older one there."
        )


def place(connection: Connection) -> str:
    """Return the database and its server, for people."""
    return f"the database {connection.info.dbname} on {connection.info.host or 'this machine'}"


def _listed(names: Iterable[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))
