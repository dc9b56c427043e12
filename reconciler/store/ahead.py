"""Writing a large change ahead: short jobs on the thread that writes, between which others have their turn.

Belongs here: when which job of a change runs. Does not: what it writes (`staging`), nor what is swept (`sweeping`).
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from typing import TypeVar

from reconciler.store import connections, overtaking, queries, staging, sweeping, writing
from reconciler.store.contract import Changes, Record, StoreFault
from reconciler.store.moving import RecentCommits
from reconciler.store.staging import Staged
from reconciler.store.sweeper import Sweeper

log = logging.getLogger(__name__)

# What must be free on the disk for every step: the log and as much again. Giving up what is written takes room as well,
# and so do the small changes of others, which a large one must not end by filling the disk.
ROOM_BYTES = 2 * connections.WAL_LIMIT_BYTES
NO_ROOM = (
    f"The disk of the store has less than {ROOM_BYTES >> 20} MiB left, and a large change is given up before it takes "
    "the rest; free some space."
)

T = TypeVar("T")


class SqliteAhead:
    """See `contract.Ahead` for what each method promises."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        *,
        thread: Executor,
        sweeper: Sweeper,
        recent: RecentCommits,
        room: Callable[[], int],
    ) -> None:
        """`room` says how many bytes are free on the disk."""
        self._connection = connection
        self._room = room
        self._recent = recent
        self._thread = thread
        self._sweeper = sweeper
        self._staged = Staged()
        self._dropped: Iterator[None] | None = None
        self._others: Iterator[None] | None = None
        self.is_ended = False

    async def write(self, parts: Iterable[Changes]) -> None:
        coming = iter(parts)
        while not self.is_ended and await self._job(lambda: self._step(coming)):
            pass

    async def drop(self) -> None:
        if not self.is_ended:
            self.is_ended = True
            await self._job(self._drop)

    async def commit(
        self, parts: Iterable[Changes], *, record: Record, planned_at: int | None, footprint: bytes
    ) -> int:
        """As `Store.commit`."""
        self.is_ended = True
        try:
            while True:
                after = await self._job(
                    lambda: self._commit(parts, record=record, planned_at=planned_at, footprint=footprint)
                )
                if after is not None:
                    return after
        except BaseException:
            await self._job(self._drop)
            raise

    async def _job(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _step(self, coming: Iterator[Changes]) -> bool:
        """Whether there may be more to do."""
        if self._staged.number is None and self._sweeps_before():
            return True
        with connections.faults("measured", OSError):
            room = self._room()
        if room < ROOM_BYTES:
            raise StoreFault(NO_ROOM)
        return staging.stage_step(self._connection, self._staged, coming)

    def _sweeps_before(self) -> bool:
        """Whether rows of changes that were dropped had to be swept: their numbers are smaller than the one to come,
        so that they would be seen with it.
        """
        if self._dropped is None:
            self._dropped = sweeping.sweep_dropped(self._connection)
        return next(self._dropped, self) is not self

    def _drop(self) -> None:
        if self._staged.number is not None:
            sql = queries.load_queries()
            self._staged.is_void = True
            try:
                with connections.faults("written"):
                    self._connection.execute(sql["mark_dropped"], (self._staged.number,))
            except StoreFault as fault:
                # Nobody can show it any more; the next change that is shown, or the next start, sweeps it.
                log.warning("%s", fault)
            self._sweeper.begin()

    def _commit(
        self, parts: Iterable[Changes], *, record: Record, planned_at: int | None, footprint: bytes
    ) -> int | None:
        """The revision afterwards; None: there is more to do before."""
        if self._sweeps_others():
            return None
        after = writing.commit(
            self._connection,
            parts,
            record=record,
            planned_at=planned_at,
            recent=self._recent,
            footprint=footprint,
            ahead=self._staged,
        )
        self._sweeper.begin()
        return after

    def _sweeps_others(self) -> bool:
        """Whether changes of other processes had to go: they would be seen with this one, and are planned again.

        Those that begin later have larger numbers.
        """
        if self._others is None:
            self._others = self._dropped_others()
        return next(self._others, self) is not self

    def _dropped_others(self) -> Iterator[None]:
        sql = queries.load_queries()
        with connections.faults("written"):
            rows = self._connection.execute(sql["all_staged"]).fetchall()
            others = [row for row in rows if row[0] != self._staged.number]
            if self._staged.number is None or not others:
                return
            overtaking.mark_others(self._connection, self._staged.number)
        yield from sweeping.sweep_dropped(self._connection)
