"""The engines that keep a store, as the suite of its promises sees them. Another engine is one more class here."""

import contextlib
import resource
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol
from unittest import mock
from weakref import WeakValueDictionary

from reconciler.store import database, engines
from reconciler.store.contract import Operations, PlanningView, Store
from reconciler.store.operations import SqliteOperations
from reconciler.store.sqlite import SqliteStore
from tests.postgresql import engine as postgresql

MOST_PAGES = 0xFFFFFFFE  # SQLite's own limit

# A full disk and one that takes nothing are settings of the connection that writes, which the product keeps to itself.
_writers: WeakValueDictionary[Path, database.Connection] = WeakValueDictionary()
_open_writer = database.open_writer


def _remembered(path: Path) -> database.Connection:
    made = _writers[path] = _open_writer(path)
    return made


mock.patch.object(database, "open_writer", _remembered).start()


class Engine(Protocol):
    """One place that holds one store; every `open` is another user of it, as another process would be."""

    @property
    def url(self) -> str:
        """The text from which `engine` makes the same engine, in a process of its own."""

    def open(self) -> Store: ...

    def open_operations(self) -> Operations: ...

    def view(self) -> PlanningView: ...

    def corrupt(self, text: bytes, *, by: int = 1) -> None:
        """Flip these bits of the byte in the middle of the one place where a text is stored; nobody has it open."""

    def full(self, store: Store | Operations) -> AbstractContextManager[None]:
        """While it lasts, there is no room for what this store writes."""

    def failing(self, store: Store) -> AbstractContextManager[None]:
        """While it lasts, the disk takes nothing that this store writes."""


class SqliteEngine:
    """SQLite in a real file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"sqlite:{path}"

    def open(self) -> Store:
        return SqliteStore(self.path)

    def open_operations(self) -> Operations:
        return SqliteOperations(self.path.with_name("ops.db"))

    def view(self) -> PlanningView:
        return engines.open_view(str(self.path))

    def corrupt(self, text: bytes, *, by: int = 1) -> None:
        flip(self.path, text, by=by)

    def full(self, store: Store | Operations) -> AbstractContextManager[None]:
        return full(store.path if isinstance(store, SqliteStore) else self.path.with_name("ops.db"))

    @contextlib.contextmanager
    def failing(self, store: Store) -> Iterator[None]:
        """The kernel refuses every write to a file of this process with EFBIG, which SQLite takes for a broken disk."""
        assert isinstance(store, SqliteStore)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def flip(path: Path, text: bytes, *, by: int = 1) -> None:
    """Change one byte in a store's file, in the middle of the one place where a text is; nobody has it open."""
    data = bytearray(path.read_bytes())
    assert data.count(text) == 1
    data[data.index(text) + len(text) // 2] ^= by
    path.write_bytes(data)


def writer(path: Path) -> sqlite3.Connection:
    """Return the connection by which this process writes a file."""
    return _writers[path]


@contextlib.contextmanager
def full(path: Path) -> Iterator[None]:
    """While it lasts, the file has no room."""
    connection = writer(path)
    connection.execute("vacuum")  # migrations leave free pages
    (pages,) = connection.execute("pragma page_count").fetchone()
    connection.execute(f"pragma max_page_count = {pages}").fetchone()
    try:
        yield
    finally:
        connection.execute(f"pragma max_page_count = {MOST_PAGES}").fetchone()


@contextlib.contextmanager
def read_only(path: Path) -> Iterator[None]:
    """While it lasts, the file takes nothing."""
    connection = writer(path)
    connection.execute("pragma query_only = on").fetchone()
    try:
        yield
    finally:
        connection.execute("pragma query_only = off").fetchone()


def engine(url: str) -> Engine:
    """The engine of a URL, for a process that a test started."""
    if url.startswith("postgresql "):
        return postgresql.PostgresqlEngine.of(url)
    name, _, place = url.partition(":")
    assert name == "sqlite", url
    return SqliteEngine(Path(place))
