"""The store on PostgreSQL, which several replicas share.

Nothing waits for the server on the event loop: a few threads read, and one writes. A commit waits for those of other
replicas, because each change of the store locks the row of its revision.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from threading import Event
from typing import TypeVar

import psycopg
from psycopg import errors

from reconciler.store import records, sql_store
from reconciler.store.contract import OutcomeUnknown, StoreFault
from reconciler.store.postgresql.connection import WRITING_SECONDS, Connections, PostgresqlConnection
from reconciler.store.postgresql.migrating import migrate
from reconciler.store.postgresql.notices import PostgresqlNotices
from reconciler.store.sql_store import Listing
from reconciler.store.statements import Connection, Row

# Each thread, list and lock uses one connection. Most are idle most of the time, and then share few.
READERS = 4
LONG_READERS = 4
LISTS = 6
LOCKS = 8
LIST_SECONDS = 10.0  # a list waits this long until another one ends
INTERRUPT_SECONDS = 0.5  # until a read that did not end is interrupted again
BEAT_SECONDS = 3.0  # between two signs of life of a transaction that holds a lock

ADDRESS = "postgresql:"  # without the URL, which may hold a password: the worker connects before it gets a job

# Tables that may quote a redacted value, or be made from it.
TRACED = ("version", "resource", "rendering", "past_route", "run", "run_status", "audit")
ERASING_LOCK = "250ms"  # readers wait meanwhile
ERASING_SECONDS = 3600

T = TypeVar("T")


class ProjectTransaction:
    """A transaction that holds the lock of a project, until it is committed or rolled back."""

    def __init__(self, connection: PostgresqlConnection) -> None:
        self.connection = connection
        self.is_used = Event()  # by a commit: it needs no more signs of life


class PostgresqlStore(sql_store.SqlStore):
    """See `contract.Store` for what each method promises."""

    def __init__(self, url: str) -> None:
        """Connect and bring the store to this version. Raises StoreFault, NewerStore, Refused."""
        self.address = ADDRESS
        self._connections = Connections(url)
        with self._connections.one() as connection:
            migrate(connection)
            with connection.faults("read"):
                [(last, revision)] = connection.all("last_notice")
        self.notices = PostgresqlNotices(url, self._connections, last=last)
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store-writer")
        self._readers = ThreadPoolExecutor(max_workers=READERS, thread_name_prefix="store-reader")
        self._long_readers = ThreadPoolExecutor(max_workers=LONG_READERS, thread_name_prefix="store-long-reader")
        self._lockers = ThreadPoolExecutor(max_workers=LOCKS, thread_name_prefix="store-lock")
        self._lists = asyncio.Semaphore(LISTS)
        self._held: dict[str, ProjectTransaction] = {}
        super().__init__(revision=revision, tell_replicas=self.notices.write)

    async def _first(self, name: str, *arguments: object) -> Row | None:
        def read() -> tuple[Row | None, int]:
            with self._connections.one() as reader, reader.faults("read"):
                return reader.first_seen(name, *arguments)

        row, revision = await asyncio.get_running_loop().run_in_executor(self._readers, read)
        self._see(revision)
        return row

    def _see(self, revision: int) -> None:
        """Record the revision of a read, which may be newer than the changes heard."""
        self._revision = max(self._revision, revision)

    async def _read(self, work: Callable[[Connection], T]) -> T:
        def read() -> tuple[T, int]:
            with self._connections.one() as reader, reader.faults("read"), reader.reading():
                return work(reader), reader.value("revision")

        found, revision = await asyncio.get_running_loop().run_in_executor(self._readers, read)
        self._see(revision)
        return found

    async def _read_apart(self, work: Callable[[Connection], T]) -> T:
        def read() -> tuple[T, int]:
            with reader.faults("read"), reader.reading():
                return work(reader), reader.value("revision")

        async with self._taken(self._long_readers) as reader:
            found, revision = await _interruptible(self._long_readers, read, reader)
        self._see(revision)
        return found

    async def _write(self, work: Callable[[Connection], T]) -> T:
        def write() -> T:
            with self._doubts(), self._connections.one() as writer, writer.faults("written"), writer.writing():
                return work(writer)

        return await asyncio.get_running_loop().run_in_executor(self._writer, write)

    async def _commit(self, write: Callable[[Connection], int], *, project: str | None) -> int:
        held = None if project is None else self._held.pop(project, None)

        def commit() -> int:
            with self._doubts():
                if held is not None:
                    held.is_used.set()
                    return write(held.connection)
                with self._connections.one() as writer:
                    return write(writer)

        if held is None:
            return await asyncio.get_running_loop().run_in_executor(self._writer, commit)
        return await _to_its_end(self._writer, commit)  # its connection is not given back before that

    @contextlib.contextmanager
    def _doubts(self) -> Iterator[None]:
        """If the outcome of a change is unknown, hear it later like a change of another replica, if it was stored."""
        try:
            yield
        except OutcomeUnknown:
            self.notices.doubt()
            raise

    @contextlib.asynccontextmanager
    async def locked(self, project: str, *, seconds: float | None = None) -> AsyncIterator[None]:
        """As promised. A heartbeat keeps the session: if this process is stopped, the server ends the session and its
        lock, and a later commit raises StoreFault.
        """

        def hold() -> None:
            with connection.faults("locked"):
                connection.hold(project, WRITING_SECONDS if seconds is None else seconds)

        async with self._taken(self._lockers) as connection:
            await _interruptible(self._lockers, hold, connection)
            held = ProjectTransaction(connection)
            self._held[project] = held
            beating = asyncio.create_task(self._beat(held), name=f"lock of project {project}")
            try:
                yield
            finally:
                if self._held.get(project) is held:  # otherwise a commit ended the lock, and the next one has it
                    del self._held[project]
                beating.cancel()
                await asyncio.wait({beating})

    async def _beat(self, held: ProjectTransaction) -> None:
        while not held.is_used.is_set():
            await asyncio.sleep(BEAT_SECONDS)
            if not held.is_used.is_set():
                with contextlib.suppress(psycopg.Error):  # the commit will say that the connection is lost
                    await asyncio.get_running_loop().run_in_executor(self._readers, held.connection.beat)

    async def _pages(self, *listings: Listing) -> AsyncGenerator[list[bytes], None]:
        async with self._list(), self._taken(self._long_readers) as reader:
            found = _open_pages(reader, *listings)
            try:
                while (
                    seen := await _interruptible(self._long_readers, partial(next, found, None), reader)
                ) is not None:
                    page, revision = seen
                    self._see(revision)
                    yield page
            finally:
                await _to_its_end(self._long_readers, found.close)

    @contextlib.asynccontextmanager
    async def _list(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(LIST_SECONDS):
                await self._lists.acquire()
        except TimeoutError:
            raise StoreFault("Too many lists are read at the same time; try again.") from None
        try:
            yield
        finally:
            self._lists.release()

    @contextlib.asynccontextmanager
    async def _taken(self, executor: Executor) -> AsyncIterator[PostgresqlConnection]:
        """Use a connection for several steps."""
        connection = await _to_its_end(executor, self._connections.take, undo=self._connections.give)
        try:
            yield connection
        finally:
            # Not on the same threads: all of them may wait for locks that other calls release here.
            await _to_its_end(self._readers, partial(self._connections.give, connection))

    def figures(self) -> records.StoreFigures:
        """As promised. The files are the server's, so their sizes are unknown here."""
        return records.StoreFigures(self._commits, None, None)

    async def erase_traces(self) -> records.Traces:
        """Write the tables that held overwritten values again (`vacuum full`). Until that ends, which takes seconds for
        each gigabyte, reads and writes of them wait.

        The server's log, its backups and its standbys keep overwritten values for as long as they are kept.
        """

        def erase() -> records.Traces:
            with self._connections.one() as connection:
                try:
                    return _erase(connection)
                finally:
                    connection.close()  # its timeouts are its own

        return await asyncio.get_running_loop().run_in_executor(self._writer, erase)

    async def close(self) -> None:
        loop = asyncio.get_running_loop()
        for executor in (self._writer, self._lockers, self._long_readers, self._readers):
            await loop.run_in_executor(None, executor.shutdown)
        self._connections.close()


def _erase(connection: PostgresqlConnection) -> records.Traces:
    with connection.faults("cleared of traces"):
        found = connection.first("traces")
        if found is None:
            return records.Traces.NONE
        connection.first("set_session_timeouts", ERASING_LOCK, f"{ERASING_SECONDS}s")
        try:
            # The first step is cheap: it finds that a reader still needs overwritten rows.
            for how in (b"vacuum", b"vacuum full", b"vacuum"):
                for table in TRACED:
                    connection.plain(b"%s %s" % (how, table.encode()))
                if connection.value("kept_rows", list(TRACED)):
                    return records.Traces.KEPT
        except errors.LockNotAvailable:
            return records.Traces.KEPT
        with connection.writing():
            connection.run("forget_traces", *found)
    return records.Traces.ERASED


def _open_pages(reader: PostgresqlConnection, *listings: Listing) -> Generator[tuple[list[bytes], int], None, None]:
    """Yield pages with their revision."""
    with reader.faults("read"), reader.reading():
        revision = int(reader.value("revision"))
        for page in sql_store.pages(reader, *listings):
            yield page, revision


async def _interruptible(executor: Executor, work: Callable[[], T], connection: PostgresqlConnection) -> T:
    """Do some work on a thread. A cancelled caller interrupts it and waits for its end."""
    job = executor.submit(work)
    task = asyncio.wrap_future(job)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not job.cancel():
            interrupting = asyncio.ensure_future(_interrupt(connection, task))
            await _end(interrupting)
            await _end(task)
        raise


async def _interrupt(connection: PostgresqlConnection, task: "asyncio.Future[T]") -> None:
    """Interrupt a connection repeatedly until a task has ended, because an interrupt between two statements has no
    effect.
    """
    while not task.done():
        await asyncio.get_running_loop().run_in_executor(None, connection.interrupt)
        await asyncio.wait({task}, timeout=INTERRUPT_SECONDS)


async def _to_its_end(executor: Executor, work: Callable[[], T], *, undo: Callable[[T], None] | None = None) -> T:
    """Do some work on a thread, and wait for its end even if the caller is cancelled; then undo it."""
    loop = asyncio.get_running_loop()
    task = loop.run_in_executor(executor, work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await _end(task)
        if task.exception() is None and undo is not None:
            await _end(loop.run_in_executor(executor, undo, task.result()))
        raise


async def _end(task: "asyncio.Future[T]") -> None:
    """Wait for the end of a task, even if the caller is cancelled repeatedly. Its result is not used."""
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({task})
    if not task.cancelled():
        task.exception()
