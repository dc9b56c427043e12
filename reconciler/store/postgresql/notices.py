"""Notices on PostgreSQL: rows of a table, and NOTIFY with the number of the last one.

One connection listens. It asks after each notification, and each second too, so a lost notification costs a second. A
notification only says that there are notices to read, so a late or repeated one does no harm.

A server that does not answer within the time for it is treated as gone: the socket is shut down, so that nothing waits
for it, and the next connection is tried after a pause.
"""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from time import monotonic
from typing import Any, TypeVar

import msgspec
import psycopg
from psycopg import AsyncConnection, AsyncRawCursor

from reconciler.store.contract import Heard, Notice
from reconciler.store.notices import encode
from reconciler.store.postgresql.connection import Connections, load_queries, session_parameters
from reconciler.store.statements import Connection

log = logging.getLogger(__name__)

WRITER_BYTES = 8
LISTEN = "listen reconciler"
CHECK_SECONDS = 1.0  # between two questions, if nothing happens
ASK_SECONDS = 0.1  # at least, from one question to the next one that somebody asked for
ANSWER_SECONDS = 2.0  # for each answer
PAUSE_SECONDS = 0.25  # before another connection is tried
PAGE = 500  # notices in one answer
KEPT_SECONDS = 3600.0
FORGET_SECONDS = 600.0  # between two removals of older ones, by each replica

Listener = AsyncConnection[tuple[object, ...]]
T = TypeVar("T")


class PostgresqlNotices:
    """See `contract.Notices` for what each method promises."""

    def __init__(self, url: str, connections: Connections, *, last: int) -> None:
        """`connections` are those of the store; `last` is the number of the last notice when it was opened."""
        self.writer = os.urandom(WRITER_BYTES).hex()
        self.is_lost = False
        self._url = url
        self._connections = connections
        self._losing = [connections]
        self._last = last
        self._is_doubtful = False
        self._woken = asyncio.Event()
        self._asked: asyncio.TimerHandle | None = None
        self._asked_at = 0.0  # of the last question
        # Replicas that are started together do not remove together.
        self._forget_at = monotonic() + FORGET_SECONDS * int.from_bytes(os.urandom(2)) / 0xFFFF

    def also_lose(self, connections: Connections) -> None:
        """Add connections that also fail while the server does not answer."""
        self._losing.append(connections)

    def write(self, connection: Connection, kind: str, body: Callable[[], msgspec.Struct]) -> None:
        """Write a notice at the end of a transaction. Raises errors of the engine."""
        connection.first("insert_notice", self.writer, str(kind), encode(body()))

    async def tell(self, kind: str, body: msgspec.Struct) -> None:
        def write() -> None:
            with self._connections.one() as writer, writer.faults("written"), writer.transaction():
                self.write(writer, kind, lambda: body)

        await asyncio.to_thread(write)

    def doubt(self) -> None:
        """Handle this process's own changes like those of another from now on, and let everything be read again,
        because the outcome of a change is unknown. Its notice may have come already, or may come much later. Safe for
        threads.
        """
        self.writer = os.urandom(WRITER_BYTES).hex()
        self._is_doubtful = True

    def ask(self) -> None:
        if self._asked is None:
            left = self._asked_at + ASK_SECONDS - monotonic()
            self._asked = asyncio.get_running_loop().call_later(max(0.0, left), self._wake)

    def _wake(self) -> None:
        self._asked = None
        self._woken.set()

    async def follow(self) -> AsyncGenerator[Heard, None]:
        listener: Listener | None = None
        try:
            while True:
                self._woken.clear()
                self._asked_at = monotonic()
                is_new, is_doubtful = listener is None, self._is_doubtful
                try:
                    listener = listener or await self._connect()
                    heard = await in_time(listener, self._read(listener))
                except (psycopg.Error, OSError) as fault:
                    if listener is not None:
                        await listener.close()
                        listener = None
                    # A connection that was ended may be replaced at once.
                    if is_new or isinstance(fault, TimeoutError):
                        self._lose(fault)
                        await asyncio.sleep(PAUSE_SECONDS)
                    continue
                if is_doubtful:
                    self._is_doubtful = False
                    heard = heard._replace(missed=True)
                self._find()
                yield heard
                if len(heard.notices) < PAGE:
                    await self._wait(listener)
        finally:
            if listener is not None:
                await listener.close()

    async def _connect(self) -> Listener:
        listener = await AsyncConnection.connect(
            **session_parameters(self._url, "reconciler notices"), autocommit=True, cursor_factory=AsyncRawCursor
        )
        listener.add_notify_handler(lambda _: self._woken.set())
        try:
            await in_time(listener, listener.execute(LISTEN))
        except BaseException:
            await listener.close()
            raise
        return listener

    async def _read(self, listener: Listener) -> Heard:
        asked_at = self._asked_at
        [(last, revision)] = await self._all(listener, "last_notice")
        if last == self._last:
            if asked_at > self._forget_at:
                self._forget_at = asked_at + FORGET_SECONDS
                await listener.execute(load_queries()["forget_notices"], (KEPT_SECONDS,))
            return Heard((), revision, asked_at)
        rows = await self._all(listener, "notices_after", self._last, PAGE)
        notices = tuple(Notice(*row) for row in rows)
        first = self._last + 1
        # A smaller number is that of a restored database.
        is_whole = last >= first and bool(notices) and notices[0].number == first
        self._last = notices[-1].number if is_whole else last
        if not is_whole:
            return Heard((), revision, asked_at, missed=True)
        # If there are more notices, this is not the state at the time of the question.
        is_all = self._last >= last
        return Heard(notices, revision if is_all else 0, asked_at if is_all else -1.0)

    async def _all(self, listener: Listener, name: str, *arguments: object) -> list[tuple[Any, ...]]:
        cursor = await listener.execute(load_queries()[name], arguments)
        return await cursor.fetchall()

    async def _wait(self, listener: Listener) -> None:
        """Wait for a notification or a caller of `ask`, for at most a second."""
        if listener.pgconn.notifies() is not None:  # it came with the last answer
            return
        loop, file = asyncio.get_running_loop(), listener.fileno()
        loop.add_reader(file, self._woken.set)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):
                    await self._woken.wait()
        finally:
            loop.remove_reader(file)

    def _lose(self, fault: Exception) -> None:
        if not self.is_lost:
            log.warning("The database does not answer this replica: %s", " ".join(str(fault).split()))
        self.is_lost = True
        for connections in self._losing:
            connections.lose()

    def _find(self) -> None:
        if self.is_lost:
            log.warning("The database answers again.")
        self.is_lost = False
        for connections in self._losing:
            connections.find()


async def in_time(listener: Listener, work: Awaitable[T]) -> T:
    """Return the server's answer. Raises TimeoutError after `ANSWER_SECONDS`."""
    task = asyncio.ensure_future(work)
    try:
        # Twice half of the time: after a pause of this process, the answer may have arrived already.
        for _ in range(2):
            await asyncio.wait({task}, timeout=ANSWER_SECONDS / 2)
    finally:
        is_late = not task.done()
        if is_late:
            _shut_down(listener)
            await asyncio.wait({task})
            task.exception()  # it says that the connection was ended
    if is_late:
        raise TimeoutError(f"no answer for {ANSWER_SECONDS:.0f} seconds")
    return task.result()


def _shut_down(listener: Listener) -> None:
    """End the connection at once, without a message to the server. Callers that wait for it fail."""
    with contextlib.suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(listener.fileno())) as ours:
        ours.shutdown(socket.SHUT_RDWR)
