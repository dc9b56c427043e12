"""An estate: every row of a store, whatever its engine, and the copy of one into another.

Data of one engine or one moment is left out, as in a backup: sessions, the key of sealed sign-ins, the mark that traces
must be erased, and messages between replicas.
"""

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import msgspec

from reconciler.model.errors import Refused
from reconciler.store.audit import VerifiedChain
from reconciler.store.files import Watch
from reconciler.store.records import DamagedVersion
from reconciler.store.statements import Row

TOLD_ROWS = 1_000  # between two looks at the time


class Table(NamedTuple):
    """A table, with the columns that order its rows."""

    name: str
    key: tuple[str, ...]
    is_made: bool = False  # a new store has rows in it


TABLES = (  # a row comes after those that it refers to
    Table("fact", ("key",), is_made=True),
    Table("project", ("name",)),
    Table("user", ("id",)),
    Table("member", ("project", "user")),
    Table("api_key", ("id",)),
    Table("invitation", ("id",)),
    Table("origin", ("id",)),
    Table("version", ("id",)),
    Table("resource", ("project", "kind", "name")),
    Table("reference", ("project", "kind", "name", "target_kind", "target_name")),
    Table("source_file", ("repository", "path")),
    Table("wanted", ("repository", "path", "position")),
    Table("repository", ("name",)),
    Table("suspension", ("repository",)),
    Table("prune_ledger", ("id",)),
    Table("held", ("repository", "why", "kind", "name")),
    Table("approval", ("repository",)),
    Table("approved", ("repository", "kind", "name")),
    Table("run", ("id",)),
    Table("run_status", ("run", "ordinal")),
    Table("rendering", ("project", "configuration")),
    Table("past_route", ("project", "configuration")),
    Table("audit", ("id",)),
    Table("audit_link", ("number",)),
    Table("audit_rewrite", ("event", "link")),
    Table("audit_anchor", ("id",), is_made=True),
    Table("notification", ("id",)),
    Table("notification_status", ("notification", "user")),
)
FACTS_OF_ONE = ("flow_key", "traces")  # facts that are not copied


class Estate(Protocol):
    """A store as tables. All reads see one moment. Rows that are put into it are stored together when its context
    ends.
    """

    @property
    def place(self) -> str:
        """The store's place for people, without a password."""

    def columns(self, table: Table) -> tuple[str, ...]:
        """Return a table's columns, sorted; none if it has no such table."""

    def rows(self, table: Table, columns: tuple[str, ...]) -> Iterator[Row]:
        """Yield the rows of a table in the order of its key, one at a time."""

    def put(self, table: Table, columns: tuple[str, ...], rows: Iterable[Row]) -> None:
        """Add rows to a table."""

    def clear(self, table: Table) -> None:
        """Remove the rows that a new store has in a table."""

    def storable(self, value: Any) -> Any:
        """Return a value as this engine stores it."""


class StoredEstate(Protocol):
    """A store that can be opened as an estate."""

    def reading(self) -> AbstractContextManager[Estate]:
        """Open a store of this version that nobody uses. Raises Refused, StoreFault."""

    def writing(self) -> AbstractContextManager[Estate]:
        """Make an empty store. Raises Refused where one is that is not empty, StoreFault. If the context ends with an
        exception, there is none.
        """

    def verified(self, watch: Watch) -> tuple[VerifiedChain, list[DamagedVersion]]:
        """Verify the audit, and return it with the damaged versions. Raises BrokenChain, StoreFault."""


class CopiedTable(NamedTuple):
    """The rows of a table, and their SHA-256 in hexadecimal digits."""

    name: str
    rows: int
    sha256: str


@dataclass(frozen=True, slots=True)
class CopiedEstate:
    """A verified copy."""

    tables: tuple[CopiedTable, ...]
    chain: VerifiedChain
    damaged: list[DamagedVersion]  # in the source as well


def copy(source: StoredEstate, target: StoredEstate, *, watch: Watch) -> CopiedEstate:
    """Copy an estate into an empty store, and compare all that was written with what was read.

    Raises Refused, StoreFault; then the target is as empty as before. A broken chain of the audit is refused.
    """
    with source.reading() as given, target.writing() as made:
        source.verified(watch)
        shared = {table: _columns(table, given, made) for table in TABLES}
        tables = tuple(_copied(table, columns, given, made, watch) for table, columns in shared.items())
        for table, one in zip(TABLES, tables, strict=True):
            digest = _Digest(table)
            for row in _with_progress(table, "verified", made.rows(table, shared[table]), watch):
                digest.add(row)
            if digest.told() != one:
                raise Refused(
                    f"The table {table.name} is not in {made.place} as it was read from {given.place}, so nothing was "
                    "copied; look at the disks of both."
                )
    chain, damaged = target.verified(watch)
    return CopiedEstate(tables, chain, damaged)


class _Digest:
    """The digest of a table's rows, which do not depend on the engine."""

    def __init__(self, table: Table) -> None:
        self._name, self._rows, self._hash = table.name, 0, hashlib.sha256()

    def add(self, row: Row) -> Row:
        """Add the next row, and return it."""
        self._rows += 1
        self._hash.update(msgspec.msgpack.encode(row))
        return row

    def told(self) -> CopiedTable:
        """Return the digest of the rows so far."""
        return CopiedTable(self._name, self._rows, self._hash.hexdigest())


def _columns(table: Table, source: Estate, target: Estate) -> tuple[str, ...]:
    columns = target.columns(table)
    # A service that never started with this store has no notifications yet.
    if source.columns(table) not in ((), columns):
        raise Refused(f"The table {table.name} has other columns in {target.place} than in {source.place}.")
    return columns


def _copied(table: Table, columns: tuple[str, ...], source: Estate, target: Estate, watch: Watch) -> CopiedTable:
    if table.is_made:
        target.clear(table)
    digest = _Digest(table)
    rows = (
        tuple(map(target.storable, row)) for row in _with_progress(table, "copied", source.rows(table, columns), watch)
    )
    target.put(table, columns, map(digest.add, rows))
    return digest.told()


def _with_progress(table: Table, done: str, rows: Iterable[Row], watch: Watch) -> Iterator[Row]:
    for number, row in enumerate(rows):
        if number % TOLD_ROWS == 0:
            watch.check("The copy of the store")
            watch.tell(f"{table.name}: {number} rows {done}")
        yield row
