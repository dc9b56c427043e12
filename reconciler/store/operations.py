"""Sessions, notifications and alerts, in a database of their own."""

import asyncio
import os
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from reconciler.model import errors
from reconciler.store import database
from reconciler.store.contract import NewerStore, StoreFault

# What is kept beside the resources, in a file of its own (`ops.db`), so that a sign-in never waits for a large commit.
#
# What is taken from somebody ends their sessions without this file: the store counts it with the person, in the same
# transaction, and a session counts only with the number that it began with. So nobody is removed later because this
# file cannot be written, and no session comes back with a file that was not.


class SessionRow(NamedTuple):
    """A browser that is signed in. Instants are RFC 3339, UTC, as everywhere."""

    digest: bytes  # SHA-256 of what its cookie holds
    user: str  # an id
    losses: int  # those of the person when it began
    created_at: str
    seen_at: str
    id_token: str  # of the provider, for its own sign-out; empty for a person with a password

    def __repr__(self) -> str:
        return f"SessionRow(user={self.user!r}, created_at={self.created_at!r})"


class NotificationRow(NamedTuple):
    """A notification that is kept; `body` is JSON, which `reconciler.notifications.storage` reads and writes."""

    id: str
    body: bytes


class NotificationStatusRow(NamedTuple):
    """What somebody did with a notification. Of one that they have not looked at there is no row."""

    notification: str
    user: str
    status: str


class AlertRow(msgspec.Struct, frozen=True, gc=False):
    """An alert that is still to be sent: to which target, and the body as it is sent at each attempt.

    One look may make 20,000 of them. They refer to nothing that could refer to them, so that the garbage collector,
    which holds everything up, need not go through them.
    """

    id: str
    target: str
    body: bytes
    made_at: str

    def __repr__(self) -> str:
        return f"AlertRow(id={self.id!r}, target={self.target!r})"


class Noted(NamedTuple):
    """What one look changed: rows to put, the ids of notifications to forget with all that people did with them, those
    of notifications that nobody has read any more, and alerts to send. `targets` are the names of all that alerts go to
    from now on; None leaves those that are kept.
    """

    put: Sequence[NotificationRow] = ()
    forget: Collection[str] = ()
    unread: Collection[str] = ()
    alerts: Sequence[AlertRow] = ()
    targets: Collection[str] | None = None


class Operations(Protocol):
    """The file. Each method raises `StoreFault` (`reconciler.store.contract`) when the disk or SQLite does, and where
    too much waits to be written.
    """

    async def flow_key(self) -> bytes:
        """The key of sealed sign-ins (`reconciler.auth.oidc.flows`), 32 random bytes that were made once."""

    async def sessions(self) -> list[SessionRow]:
        """Every session, by its age."""

    async def put_session(self, row: SessionRow, *, without: Collection[bytes] = ()) -> None:
        """Keep a new one and forget those with these digests, both or neither, on the disk before this returns."""

    async def remove_sessions(self, digests: Collection[bytes]) -> None:
        """Forget these, on the disk before this returns."""

    async def touch_sessions(self, seen: Mapping[bytes, str]) -> None:
        """When these were seen last; nobody waits for the disk."""

    async def notifications(self) -> list[NotificationRow]:
        """Every notification, by its id."""

    async def notification_statuses(self) -> list[NotificationStatusRow]:
        """What people did with them, by notification and person."""

    async def alerts(self) -> list[AlertRow]:
        """The alerts that are still to be sent, in the order in which they were made."""

    async def alert_targets(self) -> list[str]:
        """The names of all that alerts went to when they were noted last, sorted."""

    async def note(self, noted: Noted) -> None:
        """Keep what a look changed, all of it or nothing, on the disk before this returns."""

    async def put_notification_status(self, row: NotificationStatusRow) -> None:
        """Keep what somebody did with a notification, in place of what they did before; `unread` removes that. On the
        disk before this returns.
        """

    async def remove_alerts(self, ids: Collection[str]) -> None:
        """Forget alerts that are sent, or given up, on the disk before this returns."""

    async def close(self) -> None:
        """End with what is under way."""


# `ops.db` on SQLite: one connection, and one thread that uses it.

PACKAGE = "reconciler.store.ops_db"
APPLICATION_ID = 0x52434C4F  # "RCLO": says in the file's header whose database it is
WAITING = 1_000  # what waits to be written; more is refused
FLOW_KEY_BYTES = 32
NOTIFICATIONS, ALERTS, SESSIONS = "notifications", "alerts", "sessions"
UNREAD = "unread"

T = TypeVar("T")


class SqliteOperations:
    """See `Operations` for what each method promises."""

    def __init__(self, path: Path) -> None:
        """Open or make the file and bring it to this version. Raises Refused for one that cannot be used."""
        self._sql = database.load_queries(PACKAGE)
        self._connection = _opened(path)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="operations")
        self._waiting = 0

    async def flow_key(self) -> bytes:
        sql = self._sql

        def make() -> bytes:
            with database.transaction(self._connection, kind="immediate"):
                self._connection.execute(sql["make_fact"], ("flow_key", os.urandom(FLOW_KEY_BYTES)))
                (key,) = self._connection.execute(sql["fact"], ("flow_key",)).fetchone()
            return bytes(key)

        return await self._run("written", make)

    async def sessions(self) -> list[SessionRow]:
        sql = self._sql["all_sessions"]
        return await self._run("read", lambda: [SessionRow(*row) for row in self._connection.execute(sql)])

    async def put_session(self, row: SessionRow, *, without: Collection[bytes] = ()) -> None:
        def put() -> None:
            with database.transaction(self._connection, kind="immediate"):
                self._remove(without)
                self._connection.execute(self._sql["insert_session"], row)

        await self._run("written", put)

    async def remove_sessions(self, digests: Collection[bytes]) -> None:
        def remove() -> None:
            with database.transaction(self._connection, kind="immediate"):
                self._remove(digests)

        await self._run("written", remove)

    async def touch_sessions(self, seen: Mapping[bytes, str]) -> None:
        rows = [(at, digest) for digest, at in sorted(seen.items())]

        def touch() -> None:
            with (
                database.unsynced(self._connection),
                database.transaction(self._connection, kind="immediate"),
            ):
                self._connection.executemany(self._sql["touch_session"], rows)

        await self._run("written", touch)

    async def notifications(self) -> list[NotificationRow]:
        return [NotificationRow(*row) for row in await self._all("all_notifications", of=NOTIFICATIONS)]

    async def notification_statuses(self) -> list[NotificationStatusRow]:
        return [NotificationStatusRow(*row) for row in await self._all("all_notification_statuses", of=NOTIFICATIONS)]

    async def alerts(self) -> list[AlertRow]:
        return [AlertRow(*row) for row in await self._all("all_alerts", of=ALERTS)]

    async def alert_targets(self) -> list[str]:
        return [name for (name,) in await self._all("all_alert_targets", of=ALERTS)]

    async def note(self, noted: Noted) -> None:
        forget, unread = [*noted.forget], [*noted.unread]  # which may grow while this is written

        def note() -> None:
            forgotten = [(one,) for one in sorted(forget)]
            with database.transaction(self._connection, kind="immediate"):
                self._connection.executemany(self._sql["put_notification"], noted.put)
                self._connection.executemany(self._sql["remove_notification"], forgotten)
                self._connection.executemany(self._sql["remove_notification_statuses"], forgotten)
                self._connection.executemany(self._sql["remove_read_statuses"], ((one,) for one in sorted(unread)))
                self._connection.executemany(self._sql["insert_alert"], map(msgspec.structs.astuple, noted.alerts))
                if noted.targets is not None:
                    self._connection.execute(self._sql["remove_alert_targets"])
                    self._connection.executemany(
                        self._sql["insert_alert_target"], [(name,) for name in sorted(noted.targets)]
                    )

        await self._run("written", note, of=NOTIFICATIONS)

    async def put_notification_status(self, row: NotificationStatusRow) -> None:
        def put() -> None:
            with database.transaction(self._connection, kind="immediate"):
                if row.status == UNREAD:
                    self._connection.execute(self._sql["remove_notification_status"], row[:2])
                else:
                    self._connection.execute(self._sql["put_notification_status"], row)

        await self._run("written", put, of=NOTIFICATIONS)

    async def remove_alerts(self, ids: Collection[str]) -> None:
        def remove() -> None:
            with database.transaction(self._connection, kind="immediate"):
                self._connection.executemany(self._sql["remove_alert"], ((one,) for one in sorted(ids)))

        await self._run("written", remove, of=ALERTS)

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self._thread.shutdown)
        self._connection.close()

    async def _all(self, name: str, *, of: str) -> list[tuple[Any, ...]]:
        return await self._run("read", lambda: self._connection.execute(self._sql[name]).fetchall(), of=of)

    def _remove(self, digests: Collection[bytes]) -> None:
        self._connection.executemany(self._sql["remove_session"], [(digest,) for digest in sorted(digests)])

    async def _run(self, done: str, work: Callable[[], T], *, of: str = SESSIONS) -> T:
        """Do some work on the thread, after what came before. Raises StoreFault, which says what could not be done."""
        if self._waiting >= WAITING:
            raise StoreFault("Too many writes of sessions and notifications wait; try again.")

        def guarded() -> T:
            with database.faults(done, of=of):
                return work()

        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, guarded)
        finally:
            self._waiting -= 1


def _opened(path: Path) -> sqlite3.Connection:
    """The connection to a file that is whole and of this version.

    One that is not stops the start and stays as it is: it may be another program's, or of a disk that is full for a
    moment. Raises Refused.
    """
    try:
        connection = database.open_writer(path)
        try:
            with database.faults("migrated"):
                steps = database.migrations(PACKAGE)
                database.migrate(connection, steps=steps, application_id=APPLICATION_ID)
                # It is small, and damage that is found later would be found by whoever signs in.
                (found,) = connection.execute("pragma quick_check(1)").fetchone()
            if found != "ok":
                raise StoreFault(found) from sqlite3.DatabaseError("it is damaged")
        except BaseException:
            connection.close()
            raise
    except errors.ReconcilerError as problem:
        raise errors.Refused(
            f"The sessions in {path} cannot be used ({_why(problem)}); look at the disk's space and permissions, or "
            f"remove {path.name} and what is called so with `-wal` and `-shm`: everybody signs in again, and what is "
            "wrong is notified anew; no more is lost."
        ) from problem
    return connection


def _why(problem: errors.ReconcilerError) -> str:
    if isinstance(problem, NewerStore):
        return "a later version of this program wrote them"
    if isinstance(problem, StoreFault):
        return str(problem.__cause__).rstrip(".")
    return "the file is another program's database"
