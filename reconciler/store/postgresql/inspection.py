"""Facts about a database of PostgreSQL, without opening the store in it: for the start and the doctor.

No error contains a password: libpq only names hosts, users and databases, and an unreadable URI is not shown.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import psycopg
from psycopg import sql
from psycopg.rows import tuple_row

from reconciler.store.contract import StoreFault
from reconciler.store.postgresql import migrating
from reconciler.store.postgresql.connection import URL_SETTING, load_queries, url_options, wrong_option
from reconciler.store.records import NotificationRow
from reconciler.store.replica_records import ServerReport

PARTS = 10_000  # of a server's version: 150018 is 15.18
CONNECT_SECONDS = 10
STATEMENT_MILLISECONDS = 10_000

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]


@contextlib.contextmanager
def connected(url: str, setting: str = URL_SETTING) -> Iterator[Connection]:
    """Connect outside of transactions, with limits. Raises Refused for a URL that libpq cannot use, StoreFault."""
    given: dict[str, Any] = {"connect_timeout": CONNECT_SECONDS, **url_options(url, setting)}
    try:
        with psycopg.connect(**given, autocommit=True, row_factory=tuple_row) as connection:
            connection.execute(sql.SQL("set statement_timeout = {}").format(sql.Literal(STATEMENT_MILLISECONDS)))
            yield connection
    except psycopg.Error as problem:
        if refused := wrong_option(problem, setting):
            raise refused from problem
        why = " ".join(str(problem).split()).rstrip(".") or type(problem).__name__
        raise StoreFault(f"PostgreSQL could not be asked ({why}); look at the server, and at `store`.") from problem


def passfile(url: str, setting: str) -> Path | None:
    """Return the file with passwords that a URL names. Raises Refused."""
    found = url_options(url, setting).get("passfile")
    return Path(found) if found else None


def is_empty(url: str) -> bool:
    """Return True if a database has no store. Raises Refused, StoreFault."""
    with connected(url) as connection:
        return not _has(connection, "fact")


def server(url: str) -> ServerReport:
    """Return the report of a server and its database. Raises Refused, StoreFault."""
    with connected(url) as connection:
        return ServerReport(
            version=connection.info.server_version // PARTS,
            is_standby=_value(connection, "select pg_is_in_recovery()"),
            unsafe=tuple(
                f"{name} = off"
                for name in ("fsync", "full_page_writes", "synchronous_commit")
                if _value(connection, "select current_setting(%s)", name) == "off"
            ),
            encoding=_value(connection, "select current_setting('server_encoding')"),
            connections_left=_connections_left(connection),
            migration=migration(connection),
            oldest=migrating.OLDEST_SERVER // PARTS,
            latest=migrating.migrations()[-1].number,
        )


def notifications(url: str) -> list[NotificationRow]:
    """Return all notifications. Raises Refused, StoreFault."""
    with connected(url) as connection:
        return [NotificationRow(*row) for row in connection.execute(load_queries()["all_notifications"])]


def migration(connection: Connection) -> int | None:
    """Return the version of the store in a database; None if there is no store."""
    if not _has(connection, "migration"):
        return None
    return int(_value(connection, "select coalesce(max(number), 0) from migration"))


def identity(connection: Connection) -> tuple[Any, ...]:
    """Return the identity of a database: the server, as far as every role may read it, and the database in it."""
    statement = "select pg_postmaster_start_time(), oid from pg_database where datname = current_database()"
    return connection.execute(statement).fetchone() or ()


def _connections_left(connection: Connection) -> int:
    """Return the number of free connections: the smallest limit of the server, the database and the role, less those in
    use.
    """
    return int(
        _value(
            connection,
            "select least("
            " current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer"
            " - (select count(*) from pg_stat_activity where backend_type = 'client backend'),"
            " (select nullif(datconnlimit, -1) - (select count(*) from pg_stat_activity a where a.datname = d.datname)"
            "  from pg_database d where datname = current_database()),"
            " (select nullif(rolconnlimit, -1) - (select count(*) from pg_stat_activity a where a.usename = r.rolname)"
            "  from pg_roles r where rolname = current_user))",
        )
    )


def _has(connection: Connection, table: str) -> bool:
    return bool(_value(connection, "select to_regclass(%s) is not null", table))


def _value(connection: Connection, statement: str, *arguments: object) -> Any:
    row = connection.execute(statement, arguments or None).fetchone()
    return None if row is None else row[0]
