"""Bringing a file of SQLite to this version: numbered files, applied with their record in one transaction.

The sentences are of the store; `ops.db` (`reconciler.operations`) goes the same way and has its own.
"""

import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from reconciler.model.errors import Refused
from reconciler.store.contract import NewerStore

APPLICATION_ID = 0x52434C52  # "RCLR": says in the file's header whose database it is


@dataclass(frozen=True, slots=True)
class Migration:
    """One step; its number is the store's version after it."""

    number: int
    name: str
    sql: str


def migrations(package: str = "reconciler.store") -> tuple[Migration, ...]:
    """Every step that ships with this version in a package, in order."""
    folder = resources.files(package) / "migrations"
    found = (
        Migration(number=int(match[1]), name=entry.name, sql=entry.read_text(encoding="utf-8"))
        for entry in folder.iterdir()
        if (match := re.fullmatch(r"([0-9]{4})_\w+\.sql", entry.name))
    )
    return tuple(sorted(found, key=lambda migration: migration.number))


def migrate(
    connection: sqlite3.Connection, *, steps: tuple[Migration, ...], application_id: int = APPLICATION_ID
) -> None:
    """Apply the steps that the store lacks. Raises `NewerStore` when it has more than this version knows,
    Refused when it is no store at all.

    A process that dies meanwhile leaves the store as it was.
    """
    _check_whose(connection, application_id)
    latest = steps[-1].number
    present = _version(connection)
    if present > latest:
        raise NewerStore(
            f"The store is of version {present}, and this program knows versions up to {latest}: "
            "it was written by a later version; install that one, or restore a backup made before the upgrade."
        )
    if present < latest:
        _apply(connection, [step for step in steps if step.number > present], application_id)


def _check_whose(connection: sqlite3.Connection, application_id: int) -> None:
    """Refuse another program's database: ours is empty when new, and says whose it is from the first step on."""
    (application,) = connection.execute("pragma application_id").fetchone()
    (tables,) = connection.execute("select count(*) from sqlite_master").fetchone()
    if tables and application != application_id:
        raise Refused("The store's file is another program's database; name another with `store.url`.")


def _version(connection: sqlite3.Connection) -> int:
    row: tuple[int] = connection.execute("pragma user_version").fetchone()
    return row[0]


def _apply(connection: sqlite3.Connection, steps: Sequence[Migration], application_id: int) -> None:
    latest = steps[-1].number
    script = "\n".join(step.sql for step in steps)
    record = f"pragma user_version = {latest}; pragma application_id = {application_id};"
    try:
        # Together: for each transaction the disk is waited for, and a new store has all steps before it.
        connection.executescript(f"begin immediate;\n{script}\n{record}\ncommit;")
    except sqlite3.Error:
        if connection.in_transaction:
            connection.rollback()
        # Another process that opened the store at the same moment may have taken these steps first.
        if _version(connection) < latest:
            raise
