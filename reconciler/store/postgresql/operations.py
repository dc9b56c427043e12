"""Sessions and notifications on PostgreSQL, in the database of the store; all replicas share them.

They do not wait for changes of the store. One thread does one thing after another, so writes have the order of the
calls. The last step of a write tells the other replicas.
"""

import asyncio
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from reconciler.store.contract import StaleChange, StoreFault
from reconciler.store.notices import NoticeKind, NotificationsBody, SessionsBody
from reconciler.store.operations import FLOW_KEY_BYTES, OF, UNREAD, WAITING
from reconciler.store.postgresql import connection as postgresql
from reconciler.store.postgresql.connection import Connections, PostgresqlConnection
from reconciler.store.records import Noted, NotificationRow, NotificationRows, NotificationStatusRow, SessionRow
from reconciler.store.sql_store import TellReplicas
from reconciler.store.statements import Connection

T = TypeVar("T")


class PostgresqlOperations:
    """See `contract.Operations` for what each method promises. The store has been brought to this version before."""

    def __init__(self, url: str, *, tell_replicas: TellReplicas | None = None) -> None:
        self.connections = Connections(url)
        self._tell_replicas = tell_replicas
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="operations")
        self._waiting = 0

    async def flow_key(self) -> bytes:
        def make(connection: PostgresqlConnection) -> bytes:
            connection.run("make_flow_key", os.urandom(FLOW_KEY_BYTES))
            return bytes(connection.value("flow_key"))

        return await self._write(make)

    async def sessions(self, digests: Collection[bytes] | None = None) -> list[SessionRow]:
        def read(connection: PostgresqlConnection) -> list[SessionRow]:
            if digests is None:
                return [SessionRow(*row) for row in connection.all("all_sessions")]
            found = [SessionRow(*row) for digest in sorted(digests) for row in connection.all("session", digest)]
            return sorted(found, key=lambda row: (row.created_at, row.digest))

        return await self._read(read)

    async def put_session(self, row: SessionRow, *, without: Collection[bytes] = ()) -> None:
        ended = sorted(without)

        def write(connection: PostgresqlConnection) -> None:
            connection.each("remove_session", _each(ended))
            connection.run("insert_session", *row)
            self._write_notice(connection, NoticeKind.SESSIONS, SessionsBody(put=(row.digest,), ended=tuple(ended)))

        await self._write(write)

    async def remove_sessions(self, digests: Collection[bytes]) -> None:
        ended = sorted(digests)

        def write(connection: PostgresqlConnection) -> None:
            connection.each("remove_session", _each(ended))
            self._write_notice(connection, NoticeKind.SESSIONS, SessionsBody(ended=tuple(ended)))

        await self._write(write)

    async def touch_sessions(self, seen: Mapping[bytes, str]) -> None:
        known = dict(sorted(seen.items()))

        def write(connection: PostgresqlConnection) -> None:
            connection.each("touch_session", ((at, digest) for digest, at in known.items()))
            self._write_notice(connection, NoticeKind.SESSIONS, SessionsBody(seen=known))

        await self._write(write)

    async def notifications(self) -> NotificationRows:
        def read(connection: PostgresqlConnection) -> NotificationRows:
            rows = [NotificationRow(*row) for row in connection.all("all_notifications")]
            statuses = [NotificationStatusRow(*row) for row in connection.all("all_notification_statuses")]
            return NotificationRows(int(connection.value("noted")), rows, statuses)

        return await self._read(read)

    async def note(self, noted: Noted, *, after: int) -> int:
        # Now: its parts may grow before this is written.
        now = Noted(list(noted.put), sorted(noted.forget), sorted(noted.unread), list(noted.statuses))

        def write(connection: PostgresqlConnection) -> int:
            number = int(connection.value("count_noted"))
            if number != after + 1:
                raise StaleChange("The notifications changed meanwhile; read them again.")
            connection.each("put_notification", now.put)
            connection.each("remove_notification", _each(now.forget))
            connection.each("remove_notification_statuses", _each(now.forget))
            connection.each("remove_read_statuses", _each(now.unread))
            connection.each("remove_notification_status", (row[:2] for row in now.statuses if row.status == UNREAD))
            connection.each("put_notification_status", (row for row in now.statuses if row.status != UNREAD))
            self._write_notice(connection, NoticeKind.NOTIFICATIONS, NotificationsBody(number, now))
            return number

        return await self._write(write)

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self._thread.shutdown)
        self.connections.close()

    def _write_notice(self, connection: Connection, kind: NoticeKind, body: SessionsBody | NotificationsBody) -> None:
        if self._tell_replicas is not None:
            self._tell_replicas(connection, kind, lambda: body)

    async def _read(self, work: Callable[[PostgresqlConnection], T]) -> T:
        def read() -> T:
            with self.connections.one() as connection, connection.reading():
                return work(connection)

        return await self._run("read", read)

    async def _write(self, work: Callable[[PostgresqlConnection], T]) -> T:
        """Do some work in one transaction."""

        def write() -> T:
            with self.connections.one() as connection, connection.transaction():
                return work(connection)

        return await self._run("written", write)

    async def _run(self, done: str, work: Callable[[], T]) -> T:
        """Do some work on the thread, after earlier work. Raises StoreFault, with what could not be done."""
        if self._waiting >= WAITING:
            raise StoreFault("Too many writes of sessions and notifications wait; try again.")
        self._waiting += 1
        try:
            with postgresql.faults(done, of=OF):
                return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self._waiting -= 1


def _each(values: Iterable[object]) -> Sequence[tuple[object]]:
    return [(value,) for value in values]
