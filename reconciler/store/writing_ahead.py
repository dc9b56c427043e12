"""The order of writes ahead on the thread that writes, and the sweeping of what was dropped."""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import TypeVar

from reconciler.store import checksums, database, rows, staging, writing
from reconciler.store.conflict_detection import RecentCommits
from reconciler.store.contract import Changes, Record, StoreFault
from reconciler.store.staging import Staged

# Taking away what does not count any more, and what a change wrote ahead that was dropped.
#
# A few rows in each transaction, so that whoever wants to write in between waits a moment. Nobody sees any of it; after
# a crash it goes on with what is left.

ROWS = 500  # deleted in one transaction: about 10 ms
VERSIONS = 200  # which may be large
LOOKED_THROUGH = 5_000  # rows of which few are deleted, or all


def sweep_everything(connection: sqlite3.Connection) -> Iterator[None]:
    """Each step is one transaction. Raises `StoreFault`."""
    yield from sweep_dropped(connection)
    yield from _ended(connection)
    yield from _lists(connection)


def sweep_dropped(connection: sqlite3.Connection) -> Iterator[None]:
    """Only what changes that were dropped have left."""
    sql = database.load_queries()
    with database.faults("read"):
        rows = connection.execute(sql["all_staged"]).fetchall()
    for number, versions, audits, _, is_dropped in rows:
        if is_dropped:
            yield from _kept(connection, number)
            yield from _repeated(connection, sql["drop_versions"], versions, number, VERSIONS)
            yield from _repeated(connection, sql["drop_audits"], audits, number, ROWS)
            yield from _written(connection, number)
            yield from _repeated(connection, sql["drop_statuses"], number, ROWS)
            with _transaction(connection):
                connection.execute(sql["forget_staged"], (number,))
            yield


def _kept(connection: sqlite3.Connection, number: int) -> Iterator[None]:
    """What the change would have ended."""
    sql = database.load_queries()
    for name in (sql["keep_heads"], sql["keep_references"], sql["keep_files"], sql["keep_wanted"]):
        yield from _repeated(connection, name, number, ROWS)


def _written(connection: sqlite3.Connection, number: int) -> Iterator[None]:
    """What it wrote beside versions."""
    sql = database.load_queries()
    stretches: Sequence[tuple[str, str, tuple[object, ...]]] = (
        (sql["next_heads"], sql["drop_heads"], ("", "", "")),
        (sql["next_references"], sql["drop_references"], ("", "", "")),
        (sql["next_files"], sql["drop_files"], (0, "")),
        (sql["next_wanted"], sql["drop_wanted"], (0, "")),
    )
    for next_, drop, start in stretches:
        yield from _looked_through(connection, number, next_=next_, drop=drop, start=start)


def _looked_through(
    connection: sqlite3.Connection, number: int, *, next_: str, drop: str, start: tuple[object, ...]
) -> Iterator[None]:
    here: tuple[object, ...] | None = start
    while here is not None:
        with _transaction(connection):
            there = connection.execute(next_, (*here, LOOKED_THROUGH)).fetchone()
            end = tuple(None for _ in start) if there is None else there
            connection.execute(drop, (number, *here, *end))
        here = there
        yield


def _ended(connection: sqlite3.Connection) -> Iterator[None]:
    """What does not count since this revision or an earlier one."""
    sql = database.load_queries()
    for name in (sql["sweep_heads"], sql["sweep_references"], sql["sweep_files"], sql["sweep_wanted"]):
        yield from _repeated(connection, name, ROWS)


def _lists(connection: sqlite3.Connection) -> Iterator[None]:
    """The rows of lists that are nobody's. One change may have an index and a list of what is held of one number."""
    sql = database.load_queries()
    index = (sql["drop_listed_files"], sql["drop_listed_wanted"])
    yield from _lists_of(connection, rows.INDEX, sql["next_index"], index)
    yield from _lists_of(connection, rows.HELD, sql["next_held"], (sql["drop_listed_held"],))


def _lists_of(connection: sqlite3.Connection, what: str, next_: str, drops: Iterable[str]) -> Iterator[None]:
    number = _next_list(connection, what, next_, 0)
    while number is not None:
        for statement in drops:
            yield from _repeated(connection, statement, number, ROWS)
        number = _next_list(connection, what, next_, number)


def _next_list(connection: sqlite3.Connection, what: str, next_: str, number: int) -> int | None:
    """The next number that rows have and no list; numbers are not used again."""
    sql = database.load_queries()
    with database.faults("read"):
        (found,) = connection.execute(next_, (number,)).fetchone()
        while found is not None and connection.execute(sql["is_listed"], (found, what)).fetchone()[0]:
            (found,) = connection.execute(next_, (found,)).fetchone()
    return None if found is None else int(found)


def _repeated(connection: sqlite3.Connection, sql: str, *arguments: object) -> Iterator[None]:
    while True:
        with _transaction(connection):
            changed = connection.execute(sql, arguments).rowcount
        if not changed:
            return
        yield


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """One that nobody waits for: after a power cut its rows may be back, and are swept again."""
    with (
        database.faults("swept"),
        database.unsynced(connection),
        database.transaction(connection, kind="immediate"),
    ):
        yield


# Sweeping in the background, and giving checksums to what has none: short jobs on the thread that writes, between
# which others have their turn.

log = logging.getLogger(__name__)


class Sweeper:
    """All but `end` is called on the thread that writes."""

    def __init__(self, connection: sqlite3.Connection, thread: Executor) -> None:
        self._connection = connection
        self._thread = thread
        self._steps: Iterator[None] | None = None
        self._is_again = False  # there is something new since it began
        self._is_ended = False

    def begin(self) -> None:
        """Sweep what there is, soon."""
        self._is_again = True
        if self._steps is None:
            self._steps = self._all()
            self._next()

    def end(self) -> None:
        """Leave the rest to the next start."""
        self._is_ended = True

    def _all(self) -> Iterator[None]:
        while self._is_again:
            self._is_again = False
            yield from sweep_everything(self._connection)
            yield from checksums.judge_all(self._connection)

    def _next(self) -> None:
        if not self._is_ended:
            try:
                self._thread.submit(self._step)
            except RuntimeError:  # the thread was ended just now
                self._is_ended = True

    def _step(self) -> None:
        assert self._steps is not None
        if self._is_ended:
            return
        try:
            next(self._steps)
        except StopIteration:
            self._steps = None
        except StoreFault as fault:
            # Nobody sees what is left; whatever is swept next, or the next start, takes it along.
            log.warning("%s", fault)
            self._steps = None
        except Exception:
            # A fault of ours, which nobody waits for here: what comes later is swept all the same.
            log.exception("Sweeping the store failed.")
            self._steps = None
        else:
            self._next()


# Writing a large change ahead: short jobs on the thread that writes, between which others have their turn.

# What must be free on the disk for every step: the log and as much again. Giving up what is written takes room as well,
# and so do the small changes of others, which a large one must not end by filling the disk.
ROOM_BYTES = 2 * database.WAL_LIMIT_BYTES
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
        with database.faults("measured", OSError):
            room = self._room()
        if room < ROOM_BYTES:
            raise StoreFault(NO_ROOM)
        return staging.stage_step(self._connection, self._staged, coming)

    def _sweeps_before(self) -> bool:
        """Whether rows of changes that were dropped had to be swept: their numbers are smaller than the one to come,
        so that they would be seen with it.
        """
        if self._dropped is None:
            self._dropped = sweep_dropped(self._connection)
        return next(self._dropped, self) is not self

    def _drop(self) -> None:
        if self._staged.number is not None:
            sql = database.load_queries()
            self._staged.is_void = True
            try:
                with database.faults("written"):
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
        sql = database.load_queries()
        with database.faults("written"):
            rows = self._connection.execute(sql["all_staged"]).fetchall()
            others = [row for row in rows if row[0] != self._staged.number]
            if self._staged.number is None or not others:
                return
            staging.mark_others(self._connection, self._staged.number)
        yield from sweep_dropped(self._connection)
