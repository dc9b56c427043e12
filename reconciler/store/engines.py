"""Opening a store. The engine and its place are known here and below.

Each function imports what it opens: the worker, which reads, loads nothing that writes or waits.
"""

# ruff: noqa: PLC0415 - see above

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from reconciler.store.contract import Operations, PlanningView, Replication, Store
from reconciler.store.records import Changes, Record
from reconciler.store.replica_records import RoleReport, ServerReport

if TYPE_CHECKING:
    from reconciler.model.audit_chain import ChainHead
    from reconciler.store.audit import VerifiedChain
    from reconciler.store.estates import StoredEstate
    from reconciler.store.files import DatabasePlaces, Watch
    from reconciler.store.records import DamagedVersion, NotificationRow


class OpenedStore(NamedTuple):
    """The parts of an open store. `replication` is None for one that only one process can use."""

    store: Store
    operations: Operations
    replication: Replication | None = None
    worker_connection: str = ""  # how the worker connects to a store on a server; it may hold a password


async def open_store(url: str, state_directory: Path, *, worker_url: str = "") -> OpenedStore:
    """Open both parts of the store of the settings `store.url`, `store.workerUrl` and `stateDir`, or make them, and
    bring them to this version.

    Raises Refused, NewerStore, StoreFault.
    """
    import asyncio

    from reconciler.store import files
    from reconciler.store.operations import SqliteOperations
    from reconciler.store.sqlite import SqliteStore

    if is_on_server(url):
        return await _open_on_server(url, worker_url=worker_url)
    places = files.places(url, state_directory)
    store = await asyncio.to_thread(SqliteStore, places.store)
    try:
        return OpenedStore(store, await asyncio.to_thread(SqliteOperations, places.operations))
    except BaseException:
        await store.close()
        raise


async def _open_on_server(url: str, *, worker_url: str) -> OpenedStore:
    import asyncio

    from reconciler.store.postgresql import rights
    from reconciler.store.postgresql.leases import PostgresqlLeases
    from reconciler.store.postgresql.operations import PostgresqlOperations
    from reconciler.store.postgresql.store import PostgresqlStore

    store = await asyncio.to_thread(PostgresqlStore, url)
    try:
        worker_connection = await asyncio.to_thread(rights.settle, url, worker_url)
        operations = PostgresqlOperations(url, tell_replicas=store.notices.write)
        store.notices.also_lose(operations.connections)
        replication = Replication(store.notices, PostgresqlLeases(url))
        return OpenedStore(store, operations, replication, worker_connection=worker_connection)
    except BaseException:
        await store.close()
        raise


def is_empty(url: str) -> bool:
    """Return True if a database of PostgreSQL has no store. Raises Refused, StoreFault."""
    from reconciler.store.postgresql import inspection

    return inspection.is_empty(url)


def passfile(url: str, setting: str) -> Path | None:
    """Return the file with passwords that the URL of a setting names. Raises Refused."""
    from reconciler.store.postgresql import inspection

    return inspection.passfile(url, setting)


def server_report(url: str) -> ServerReport:
    """Ask a server of PostgreSQL, and the database of `store.url`, about themselves. Raises Refused, StoreFault."""
    from reconciler.store.postgresql import inspection

    return inspection.server(url)


def role_report(worker_url: str, *, service_url: str) -> RoleReport:
    """Ask PostgreSQL about the role of the worker. Raises Refused, StoreFault."""
    from reconciler.store.postgresql import rights

    return rights.role_report(worker_url, service_url=service_url)


def verify_audit(url: str, *, known: "ChainHead | None", since: str | None) -> "tuple[VerifiedChain, str]":
    """Verify the audit of a store on a server, as `audit.verify` does, and return the place of the store too.

    Raises BrokenChain, Refused, StoreFault.
    """
    from reconciler.store.postgresql import estate

    return estate.verify_audit(url, known=known, since=since)


def damaged_versions(url: str, *, watch: "Watch") -> "list[DamagedVersion]":
    """Return every version of a store on a server that does not match its checksum.

    Raises Refused when the time is up, StoreFault.
    """
    from reconciler.store.postgresql import estate

    return estate.damaged_versions(url, watch=watch)


def stored_notifications(place: "DatabasePlaces | str") -> "list[NotificationRow]":
    """Return all notifications in files of SQLite, or in the database of a URL of PostgreSQL.

    Raises Refused, StoreFault.
    """
    if isinstance(place, str):
        from reconciler.store.postgresql import inspection

        return inspection.notifications(place)
    from reconciler.store import files

    return files.notifications(place.operations)


def stored_estate(place: "DatabasePlaces | str") -> "StoredEstate":
    """Return the estate in files of SQLite, which nobody uses, or in the database of a URL of PostgreSQL."""
    if isinstance(place, str):
        from reconciler.store.postgresql.estate import StoredPostgresqlEstate

        return StoredPostgresqlEstate(place)
    from reconciler.store.sqlite_estate import StoredSqliteEstate

    return StoredSqliteEstate(place)


def open_view(address: str) -> PlanningView:
    """Open the reads of a plan of the store with this address (`Store.address`). Raises StoreFault."""
    from reconciler.store import database
    from reconciler.store.planning_view import StoredPlanningView

    return StoredPlanningView(database.open_reader(Path(address)))


def view_files(address: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the files that a process needs for a view of the store with this address: those to read, and those to read
    and write. They exist, because the store is open in the main process.
    """
    if is_on_server(address):
        return (), ()
    path = os.path.realpath(address)
    # A reader records its position in `-shm`, so that its pages are not overwritten (sqlite.org/walformat.html).
    return (path, f"{path}-wal"), (f"{path}-shm",)


ON_SERVER = "postgresql:"  # how the address of a store on a server begins


def is_on_server(address: str) -> bool:
    """Return True if views of the store with this address are connections to a server."""
    return address.startswith(ON_SERVER)


class ConnectedViews(NamedTuple):
    """Views on a server by name, each with a connection of its own, and the sockets of these connections."""

    views: Mapping[str, PlanningView]
    sockets: tuple[int, ...]


def connect_views(connection: str, names: Iterable[str]) -> ConnectedViews:
    """Open a view on a server for each name. Raises StoreFault, Refused."""
    from reconciler.store.planning_view import StoredPlanningView
    from reconciler.store.postgresql.connection import PostgresqlConnection

    opened = {name: PostgresqlConnection(connection, name="reconciler-worker") for name in names}
    views: dict[str, PlanningView] = {name: StoredPlanningView(one) for name, one in opened.items()}
    return ConnectedViews(views, tuple(one.descriptor() for one in opened.values()))


class ScratchStore:
    """A store for one plan without a server: filled from a commit, planned against, and lost with the process."""

    def __init__(self, path: Path) -> None:
        """Make the file. Raises StoreFault."""
        from reconciler.store import database

        self.address = str(path)
        self._writer = database.open_migrated(path)
        self._writer.execute("pragma synchronous = off")
        self.hmac_key = bytes(self._writer.value("hmac_key"))
        self.view = open_view(self.address)

    def create_project(self, name: str, *, at: str) -> None:
        """Make sure that a project exists."""
        self._writer.run("put_project", name, at)

    def commit(self, parts: Iterable[Changes], *, record: Record) -> None:
        """As `Store.commit`, but it returns when all is written."""
        from reconciler.store import commit

        commit.commit(self._writer, parts, record=record)

    def close(self) -> None:
        """Close its connections."""
        self.view.close()
        self._writer.close()


@contextlib.contextmanager
def open_scratch() -> Iterator[ScratchStore]:
    """Make a store in a temporary folder, which only its owner may read, since commits hold secrets too."""
    with (
        tempfile.TemporaryDirectory(prefix="reconciler-plan-") as folder,
        closing(ScratchStore(Path(folder) / "store.db")) as opened,
    ):
        yield opened
