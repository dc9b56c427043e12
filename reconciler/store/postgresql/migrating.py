"""The numbered migrations of the store on PostgreSQL.

Each is applied in one transaction with its record. A migration may begin with the line `-- oldest program: N`: then
programs that know migrations up to N can still use the store, so replicas of two versions may share it during an
upgrade. Without this line they are refused.
"""

import re
from functools import cache
from time import monotonic

from reconciler.model.errors import Refused
from reconciler.store import statements
from reconciler.store.contract import NewerStore
from reconciler.store.postgresql.connection import PACKAGE, PostgresqlConnection
from reconciler.store.statements import Migration

OLDEST_SERVER = 150000  # PostgreSQL 15
SECONDS = 3600  # of one migration: it may write all rows
_OLDEST_PROGRAM = re.compile(r"\A-- oldest program: (\d+)\n")


@cache
def migrations() -> tuple[Migration, ...]:
    """Return the migrations of this version, in order."""
    return statements.migrations(PACKAGE)


def migrate(connection: PostgresqlConnection, *, steps: tuple[Migration, ...] | None = None) -> None:
    """Apply the migrations that the store lacks. Replicas that start together do it one after another.

    Raises NewerStore if the store has a migration after which this version cannot use it, Refused if the database
    belongs to something else, StoreFault.
    """
    known = migrations() if steps is None else steps
    with connection.faults("migrated"):
        if connection.value("server_version") < OLDEST_SERVER:
            raise Refused("The server of `store.url` is too old: PostgreSQL 15 or later is needed.")
        if connection.value("encoding") != "UTF8":
            raise Refused("The database of `store.url` is not encoded in UTF8; make another with `encoding 'UTF8'`.")
        if not _is_current(connection, known[-1].number):
            for step in known:
                _apply(connection, step)


def _is_current(connection: PostgresqlConnection, latest: int) -> bool:
    """Return True if the store needs no migration."""
    if not connection.value("has_migrations"):
        if connection.value("has_tables"):
            raise Refused("The database of `store.url` has tables of another program; name an empty database.")
        return False
    present, oldest_program = connection.first("last_migration") or (0, 0)
    if present > latest and oldest_program > latest:
        raise NewerStore(
            f"The store is of version {present}, and this program knows versions up to {latest}: "
            "it was written by a later version; install that one, or restore a backup made before the upgrade."
        )
    return bool(present >= latest)


def _apply(connection: PostgresqlConnection, step: Migration) -> None:
    oldest = _OLDEST_PROGRAM.match(step.sql)
    with connection.transaction(monotonic() + SECONDS):
        connection.first("lock_migrations")
        connection.run("make_migrations")
        if connection.first("migration", step.number) is None:
            connection.plain(step.sql.encode())
            connection.run("insert_migration", step.number, int(oldest[1]) if oldest else step.number)
