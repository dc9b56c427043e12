"""Sessions and notifications on SQLite: `ops.db`, used by one connection on one thread.

It is a file of its own, so that a sign-in never waits for a large commit. Removing a role or a password from a person
ends their sessions without this file: the store counts it with the person, in the same transaction, and a session is
valid only with the number that it began with. So a removal never waits for this file, and restoring an older one brings
no session back.
"""

import asyncio
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from reconciler.model import errors
from reconciler.store import database
from reconciler.store.contract import NewerStore, StaleChange, StoreFault
from reconciler.store.database import Connection
from reconciler.store.records import Noted, NotificationRow, NotificationRows, NotificationStatusRow, SessionRow
from reconciler.store.statements import Row

PACKAGE = "reconciler.store.ops_db"
APPLICATION_ID = 0x52434C4F  # "RCLO": says in the file's header whose database it is
MENDING = "restart the service, which sets the file aside and begins with a new one"
WAITING = 1_000  # what waits to be written; more is refused
FLOW_KEY_BYTES = 32
OF = "sessions and notifications"
UNREAD = "unread"

T = TypeVar("T")


class SqliteOperations:
    """See `contract.Operations` for what each method promises."""

    def __init__(self, path: Path) -> None:
        """Open or make the file and bring it to this version. Raises Refused for one that cannot be used."""
        self._connection = _opened(path)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="operations")
        self._waiting = 0
        self._noted = 0  # changes of notifications by this process, the only one

    async def flow_key(self) -> bytes:
        await self._write(("make_fact", [("flow_key", os.urandom(FLOW_KEY_BYTES))]))
        return bytes((await self._all("fact", "flow_key"))[0][0])

    async def sessions(self, digests: Collection[bytes] | None = None) -> list[SessionRow]:
        found = [SessionRow(*row) for row in await self._all("all_sessions")]
        return [row for row in found if digests is None or row.digest in digests]

    async def put_session(self, row: SessionRow, *, without: Collection[bytes] = ()) -> None:
        await self._write(("remove_session", _each(without)), ("insert_session", [row]))

    async def remove_sessions(self, digests: Collection[bytes]) -> None:
        await self._write(("remove_session", _each(digests)))

    async def touch_sessions(self, seen: Mapping[bytes, str]) -> None:
        await self._write(("touch_session", [(at, digest) for digest, at in sorted(seen.items())]))

    async def notifications(self) -> NotificationRows:
        def read() -> NotificationRows:
            rows = [NotificationRow(*row) for row in self._connection.all("all_notifications")]
            statuses = [NotificationStatusRow(*row) for row in self._connection.all("all_notification_statuses")]
            return NotificationRows(self._noted, rows, statuses)

        return await self._run("read", read)

    async def note(self, noted: Noted, *, after: int) -> int:
        forgotten, unread = _each(noted.forget), _each(noted.unread)  # now: they may grow before this is written
        steps = (
            ("put_notification", noted.put),
            ("remove_notification", forgotten),
            ("remove_notification_statuses", forgotten),
            ("remove_read_statuses", unread),
            ("remove_notification_status", [row[:2] for row in noted.statuses if row.status == UNREAD]),
            ("put_notification_status", [row for row in noted.statuses if row.status != UNREAD]),
        )

        def write() -> int:
            if after != self._noted:
                raise StaleChange("The notifications changed meanwhile; read them again.")
            self._do(*steps)
            self._noted += 1
            return self._noted

        return await self._run("written", write)

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self._thread.shutdown)
        self._connection.close()

    async def _all(self, name: str, *arguments: object) -> list[Row]:
        return await self._run("read", lambda: self._connection.all(name, *arguments))

    async def _write(self, *steps: tuple[str, Iterable[Sequence[object]]]) -> None:
        await self._run("written", lambda: self._do(*steps))

    def _do(self, *steps: tuple[str, Iterable[Sequence[object]]]) -> None:
        """Run the steps in one transaction. A step is the name of a statement, and the rows of its arguments."""
        with database.transaction(self._connection, kind="immediate"):
            for name, rows in steps:
                self._connection.each(name, rows)

    async def _run(self, done: str, work: Callable[[], T]) -> T:
        """Do some work on the thread, after earlier work. Raises StoreFault, with what could not be done."""
        if self._waiting >= WAITING:
            raise StoreFault("Too many writes of sessions and notifications wait; try again.")

        self._waiting += 1
        try:
            with database.faults(done, of=OF, mending=MENDING):
                return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self._waiting -= 1


def _each(values: Collection[bytes] | Collection[str]) -> list[tuple[object]]:
    """Return a row for each value, sorted."""
    return [(value,) for value in sorted(values)]


def _opened(path: Path) -> Connection:
    """Open the file, bring it to this version, and return the connection.

    An unusable file stays as it is: it may belong to another program, or the disk may be full for a moment. A damaged
    one was moved away before, by `files.set_aside_damaged`. Raises Refused.
    """
    try:
        return database.open_migrated(path, package=PACKAGE, application_id=APPLICATION_ID)
    except errors.ReconcilerError as problem:
        raise errors.Refused(
            f"The sessions in {path} cannot be used ({_why(problem)}); look at the disk's space and permissions, or "
            f"remove {path.name} and what is called so with `-wal` and `-shm`: everybody signs in again, and what is "
            "wrong is notified anew; no more is lost."
        ) from problem


def _why(problem: errors.ReconcilerError) -> str:
    if isinstance(problem, NewerStore):
        return "a later version of this program wrote them"
    if isinstance(problem, StoreFault):
        return errors.OPEN_FILES if errors.OPEN_FILES in problem.message else str(problem.__cause__).rstrip(".")
    return "the file is another program's database"
