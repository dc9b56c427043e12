"""An estate in the two files of SQLite (`estates`)."""

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from reconciler.model.errors import Refused
from reconciler.store import audit, database, files, operations
from reconciler.store.audit import VerifiedChain
from reconciler.store.estates import FACTS_OF_ONE, Table
from reconciler.store.files import KINDS, OPERATIONS, STORE, DatabaseKind, DatabasePlaces, Watch
from reconciler.store.records import DamagedVersion
from reconciler.store.statements import Row

MADE = ".copying"  # how the name ends of what does not count yet


class SqliteEstate:
    """See `estates.Estate`."""

    def __init__(self, place: str, connections: dict[DatabaseKind, sqlite3.Connection]) -> None:
        self.place = place
        self._connections = connections

    def columns(self, table: Table) -> tuple[str, ...]:
        found = self._of(table)
        if found is None:
            return ()
        return tuple(sorted(name for _, name, *_ in found.execute(f"pragma table_info({_quoted(table.name)})")))

    def rows(self, table: Table, columns: tuple[str, ...]) -> Iterator[Row]:
        found = self._of(table)
        if found is None:
            return
        facts = f"where key not in ({', '.join(map(repr, FACTS_OF_ONE))})" if table.name == "fact" else ""
        statement = f"select {_listed(columns)} from {_quoted(table.name)} {facts} order by {_listed(table.key)}"  # noqa: S608 - names of the schema
        with closing(found.execute(statement)) as rows:
            yield from rows

    def put(self, table: Table, columns: tuple[str, ...], rows: Iterable[Row]) -> None:
        found = self._of(table)
        assert found is not None
        marks = ", ".join("?" * len(columns))
        statement = f"insert into {_quoted(table.name)} ({_listed(columns)}) values ({marks})"  # noqa: S608 - names of the schema
        found.executemany(statement, rows)

    def clear(self, table: Table) -> None:
        found = self._of(table)
        assert found is not None
        found.execute(f"delete from {_quoted(table.name)}")  # noqa: S608 - a name of the schema

    def storable(self, value: Any) -> Any:
        return value

    def _of(self, table: Table) -> sqlite3.Connection | None:
        kind = OPERATIONS if table.name.startswith("notification") else STORE
        return self._connections.get(kind)


class StoredSqliteEstate:
    """See `estates.StoredEstate`. Nobody uses the files: the caller holds the lock of the store."""

    def __init__(self, places: DatabasePlaces) -> None:
        self._places = places

    @contextlib.contextmanager
    def reading(self) -> Iterator[SqliteEstate]:
        with contextlib.ExitStack() as opened:
            connections: dict[DatabaseKind, sqlite3.Connection] = {}
            for kind in KINDS:
                path = self._places.of(kind)
                if not path.exists():
                    continue
                found = files.identify(path, kind)
                if found.version != kind.latest:
                    raise Refused(
                        f"The {kind.name} in {path} is of version {found.version}, and this program copies version "
                        f"{kind.latest}; start the service with this program once, which brings it there."
                    )
                opened.enter_context(database.faults("read", of=kind.name))
                connections[kind] = opened.enter_context(closing(database.open_reader(path)))
                connections[kind].execute("begin")
            if STORE not in connections:
                raise Refused(f"There is no store at {self._places.store}.")
            yield SqliteEstate(str(self._places.store), connections)

    @contextlib.contextmanager
    def writing(self) -> Iterator[SqliteEstate]:
        for kind in KINDS:
            path = self._places.of(kind)
            if path.exists() and path.stat().st_size:
                raise Refused(f"There is a {kind.name} at {path} already; name a place where none is.")
        made = {kind: self._places.of(kind).with_name(self._places.of(kind).name + MADE) for kind in KINDS}
        try:
            with contextlib.ExitStack() as opened:
                connections: dict[DatabaseKind, sqlite3.Connection] = {}
                for kind, path in made.items():
                    _remove(path)
                    package = operations.PACKAGE if kind is OPERATIONS else "reconciler.store"
                    connection = database.open_migrated(path, package=package, application_id=kind.application_id)
                    connections[kind] = opened.enter_context(closing(connection))
                    opened.enter_context(database.faults("written", of=kind.name))
                    opened.enter_context(database.transaction(connection, kind="immediate"))
                yield SqliteEstate(str(self._places.store), connections)
            self._keep(made)
        except BaseException:
            for path in made.values():
                _remove(path)
            raise

    def verified(self, watch: Watch) -> tuple[VerifiedChain, list[DamagedVersion]]:
        path = self._places.store
        chain = audit.verify(path, watched=lambda connection: files.watched(connection, watch, "audit: verifying"))
        return chain, files.damaged_versions(path, watch=watch)

    def _keep(self, made: dict[DatabaseKind, Path]) -> None:
        """Give both files their names, the store's last: a crash before leaves no store."""
        for path in made.values():
            files.finish(path)
        for kind in reversed(KINDS):
            target = self._places.of(kind)
            _remove(target)
            made[kind].rename(target)
            descriptor = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _remove(path: Path) -> None:
    for name in files.beside(path):
        name.unlink(missing_ok=True)


def _quoted(name: str) -> str:
    return f'"{name}"'


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(_quoted, names))
