"""The store on SQLite. Point reads are inline on the event loop, since they take microseconds; one thread writes."""

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, ExitStack, closing, nullcontext
from functools import partial
from pathlib import Path
from typing import TypeVar

from reconciler.store import database, records, sql_store
from reconciler.store.contract import StoreFault
from reconciler.store.database import Connection
from reconciler.store.sql_store import Listing
from reconciler.store.statements import Connection as AnyConnection
from reconciler.store.statements import Row

LOST = (
    "The store {path} was removed or replaced under the running service, so that nothing can be stored; stop the "
    "service, and put the file back or restore a backup (docs/recovery.md)."
)

T = TypeVar("T")


class SqliteStore(sql_store.SqlStore):
    """See `contract.Store` for what each method promises."""

    def __init__(self, path: Path) -> None:
        """Open or make the file and bring it to this version. Raises `StoreFault`, `NewerStore`."""
        self.path = path
        self.address = str(path)
        self._writer = database.open_migrated(path)
        try:
            self._reader = database.open_reader(path)
        except BaseException:
            self._writer.close()
            raise
        self._file = _stat(path)
        self._committing = 0
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store-writer")
        super().__init__(revision=int(self._reader.value("revision")))

    async def _on_writer(self, work: Callable[[Connection], T]) -> T:
        """Do some work on the thread that writes, after earlier work."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, self._writer)

    async def _write(self, work: Callable[[AnyConnection], T]) -> T:
        def write(connection: Connection) -> T:
            with connection.faults("written"), connection.writing():
                return work(connection)

        written = await self._on_writer(write)
        self._check_file()
        return written

    async def _commit(self, write: Callable[[AnyConnection], int], *, project: str | None) -> int:  # noqa: ARG002 - one process writes
        self._committing += 1
        try:
            after = await self._on_writer(write)
        finally:
            self._committing -= 1
        self._check_file()
        return after

    @property
    def known_revision(self) -> int:
        # Reads see a commit as soon as it is on the disk, a moment before this thread learns of it.
        if self._committing:
            with contextlib.suppress(sqlite3.Error):
                self._revision = max(self._revision, int(self._reader.value("revision")))
        return self._revision

    def _check_file(self) -> None:
        """Raise StoreFault if the file is no longer the one that was opened: writes to a removed file are lost when the
        process ends, and no other process sees them.
        """
        found = _stat(self.path)
        if self._file is None or found is None or not os.path.samestat(found, self._file):
            raise StoreFault(LOST.format(path=self.path))

    async def revision(self) -> int:
        self._check_file()
        return await super().revision()

    def locked(self, project: str, *, seconds: float | None = None) -> AbstractAsyncContextManager[None]:  # noqa: ARG002
        return nullcontext()

    def figures(self) -> records.StoreFigures:
        file, log = _stat(self.path), _stat(self.path.with_name(f"{self.path.name}-wal"))
        return records.StoreFigures(self._commits, file and file.st_size, log and log.st_size)

    async def erase_traces(self) -> records.Traces:
        return await self._on_writer(partial(erase_traces, folder=self.path.parent))

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self._thread.shutdown)
        self._reader.close()
        self._writer.close()

    async def _pages(self, *listings: Listing) -> AsyncGenerator[list[bytes], None]:
        # One read transaction on a connection of its own makes all pages one revision. While it is open, SQLite cannot
        # move newer pages of its log into the file, so the log grows.
        with closing(database.open_reader(self.path)) as reader, reader.faults("read"), reader.reading():
            for page in sql_store.pages(reader, *listings):
                yield page

    async def _read_apart(self, work: Callable[[AnyConnection], T]) -> T:
        with closing(database.open_reader(self.path)) as reader, reader.faults("read"):
            task = asyncio.ensure_future(asyncio.to_thread(work, reader))
            try:
                return await asyncio.shield(task)
            except asyncio.CancelledError:
                reader.interrupt()
                await asyncio.wait({task})
                task.exception()  # it says that it was interrupted, and nobody asks
                raise

    async def _read(self, work: Callable[[AnyConnection], T]) -> T:
        # There is no `await` here, so nothing else reads on this connection meanwhile.
        with self._reader.faults("read"), self._reader.reading():
            return work(self._reader)

    async def _first(self, name: str, *arguments: object) -> Row | None:
        # Not the context manager of `database`: on every point read it would cost a quarter of the read.
        try:
            rows = self._reader.all(name, *arguments)
        except sqlite3.Error as fault:
            raise database.fault("read", fault) from fault
        return rows[0] if rows else None


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


WAIT_MILLISECONDS = 250  # for readers of an older revision; writes wait meanwhile


def erase_traces(connection: Connection, *, folder: Path) -> records.Traces:
    """Erase the traces, unless a reader still needs them. `folder` must have room for a copy of the file.

    `secure_delete` overwrites the freed bytes, but when rows move between pages, SQLite leaves copies of them in the
    unused parts of pages, and the log has the old pages. So the file is written again, and then the log is emptied.

    If the process is killed, the next call starts again. It takes seconds for each gigabyte of the file. Raises
    `StoreFault`.
    """
    with connection.faults("cleared of traces"), ExitStack() as waiting:
        connection.execute(f"pragma busy_timeout = {WAIT_MILLISECONDS}").fetchone()
        waiting.callback(connection.execute, f"pragma busy_timeout = {database.BUSY_MILLISECONDS}")
        if connection.first("traces") is None:
            return records.Traces.NONE
        # A reader of an older revision keeps the log from being emptied, and the log would get the whole new file.
        if not _empty_log(connection):
            return records.Traces.KEPT
        # The copy contains secrets and may be large, so it is made beside the store and not in the system's temporary
        # folder. The pragma is deprecated; a SQLite built without it uses the temporary folder.
        quoted = str(folder).replace("'", "''")
        connection.execute(f"pragma temp_store_directory = '{quoted}'").fetchone()
        connection.execute("vacuum")
        if not _empty_log(connection):
            return records.Traces.KEPT
        connection.run("forget_traces")
    return records.Traces.ERASED


def _empty_log(connection: Connection) -> bool:
    """Copy the log into the file and empty it; return False while a reader needs an older revision."""
    (busy, *_) = connection.execute("pragma wal_checkpoint(truncate)").fetchone()
    return not busy
