"""A queue on disk: two journals, one of batches and one of dead letters, and the line of what can be claimed.

The front of the line is in memory, without payloads; the rest is read from the journal when the front is used up.

The time in the frame of a dead letter is the time at which it was given up. A replayed letter is on disk in the queue
before it leaves the dead letters: after a crash between the two, it exists twice.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from reconciler.delivery.queue import appender, folders, segments
from reconciler.delivery.queue.contract import (
    HEAD_BYTES,
    Batch,
    DeadLetter,
    Depth,
    FinalFailure,
    Piece,
    QueueFault,
    Shortage,
    load,
)
from reconciler.delivery.queue.folders import FoundIdentity
from reconciler.delivery.queue.journal import Journal, JournalWalk, Shared
from reconciler.delivery.queue.memory import QueuedBatch, QueueLine
from reconciler.delivery.queue.recovery import Recovered
from reconciler.delivery.queue.segments import DeadLetterFrame, QueueEntry, Segment, Totals
from reconciler.model.routes import Storage, Sync
from reconciler.model.text import counted

log = logging.getLogger(__name__)

ROUND_BATCHES = 64  # that are appended together
ROUND_BYTES = 4 << 20

NEVER_FIT = "Of the dead letters in %s, %s never fit into their queue: raise its `max_bytes`, or discard them."
HANGS = "The disk of the queues does not answer; try again when it does."


class DeadLetters:
    """The dead letters of one queue. Changes are made one at a time. A listing does not wait for them."""

    def __init__(self, folder: Path, *, recovered: Recovered, shared: Shared) -> None:
        self.journal = Journal(folder, recovered=recovered, shared=shared, committed=self._committed)
        self.limit = 0  # in bytes; `expire` deletes the oldest letters that are over it
        self.oldest: int | None = None  # the time of the oldest letters
        self._changing = asyncio.Lock()
        self._moving: dict[int, int] = {}  # letters that are being appended to the queue: numbers, and sizes

    def _committed(self, entries: Sequence[QueueEntry]) -> None:
        """Record new letters."""
        oldest = min(entry.taken_at for entry in entries)
        self.oldest = oldest if self.oldest is None else min(self.oldest, oldest)

    def bury(
        self,
        payload: Sequence[Piece],
        final_failure: FinalFailure,
        *,
        records: int,
        taken_at: int,
        most: int | None = None,
    ) -> asyncio.Future[None] | None:
        """Append a letter, which is on disk when the future is done. Return None if all letters would then take more
        than `most` bytes.
        """
        pieces = segments.encode_dead_letter(final_failure, payload, taken_at=taken_at)
        appender = self.journal.appender
        size = self.journal.left.size + appender.waiting_size + segments.FRAME_HEADER_BYTES + sum(map(len, pieces))
        if most is not None and size > most:
            return None
        return appender.append(pieces, records=records, at=final_failure.at, synced=True, flags=segments.DEAD_LETTER)

    async def heads(self) -> AsyncGenerator[DeadLetter, None]:
        """Return the letters in the order of their numbers, with the beginnings of their bytes."""
        async for entry in self._entries():
            data = await self.journal.payload(entry, most=HEAD_BYTES)
            if entry.has_left or self.is_moving(entry):
                continue
            letter = segments.decode_dead_letter(data) if data is not None else None
            shown = DeadLetter(entry.number, entry.records, entry.size, entry.taken_at)
            if data is not None and letter is not None:
                size = entry.size - len(data) + len(letter.payload)
                shown = shown._replace(
                    size=size, taken_at=letter.taken_at, final_failure=letter.final_failure, head=letter.payload
                )
            yield shown

    async def letters(self, *, number: int | None) -> AsyncIterator[tuple[QueueEntry, DeadLetterFrame]]:
        """Return the letters in the order of their numbers, or one of them, with their bytes. An unreadable one is
        lost.
        """
        last = self.journal.last
        async for entry in self._entries():
            if entry.number > last:
                return
            if entry.has_left or number not in (None, entry.number):
                continue
            data = await self.journal.payload(entry)
            if entry.has_left:
                continue  # meanwhile
            letter = segments.decode_dead_letter(data) if data is not None else None
            if letter is not None:
                yield entry, letter
            else:
                self.journal.acknowledge([entry])
                self.journal.report_damage(entry.segment, lost=1)

    async def _entries(self) -> AsyncIterator[QueueEntry]:
        walk = JournalWalk(self.journal)
        while found := await walk.next():
            for entry in found:
                yield entry

    async def find_oldest(self) -> None:
        """Find the time of the oldest letters."""
        self.oldest = min((entry.taken_at for entry in await JournalWalk(self.journal).next()), default=None)

    def is_moving(self, entry: QueueEntry) -> bool:
        """Return True if a letter is being appended to the queue."""
        return entry.number in self._moving

    def move(self, entry: QueueEntry, written: asyncio.Future[None], done: list[int]) -> None:
        """Remove a letter once it is in the queue, even if the caller is cancelled."""
        self._moving[entry.number] = entry.size

        def hear(future: asyncio.Future[None]) -> None:
            del self._moving[entry.number]
            if future.exception() is None:
                self.journal.acknowledge([entry])
                done.append(entry.records)
            if self.journal.left.batches <= 0:
                self.oldest = None  # the caller that would find it may be cancelled

        written.add_done_callback(hear)

    async def delete(self, is_wanted: Callable[[QueueEntry], bool]) -> tuple[int, int]:
        """Delete the wanted letters, except those that are being moved. Return the numbers of batches and records."""
        last = self.journal.last
        async with self.change(limit=appender.END_SECONDS) as done:
            async for entry in self._entries():
                if (
                    entry.number <= last
                    and not entry.has_left
                    and entry.number not in self._moving
                    and is_wanted(entry)
                ):
                    self.journal.acknowledge([entry])
                    done.append(entry.records)
        return len(done), sum(done)

    async def expire(self, *, before: int) -> tuple[int, int]:
        """See the contract. Letters that are being moved to the queue do not count against the limit."""

        def is_old(entry: QueueEntry) -> bool:
            return entry.taken_at < before or self.journal.left.size - sum(self._moving.values()) > self.limit

        return await self.delete(is_old)

    @contextlib.asynccontextmanager
    async def change(self, *, limit: float | None) -> AsyncIterator[list[int]]:
        """Make one change at a time, within a number of seconds. The block adds the records of each removed letter to
        the list. A change that takes longer ends early. Raises QueueFault if no letter was removed by then.
        """
        done: list[int] = []
        try:
            async with asyncio.timeout(limit), self._changing:
                yield done
                await self.find_oldest()
        except TimeoutError:
            if not done:
                raise QueueFault(HANGS) from None


REFUSED_SECONDS = 1.0  # until a disk that refused a write is tried again
READY = 1024  # entries in the front of the line, or some more when they were read together
AGAIN_SECONDS = 1.0  # after a bug in reading
SMALLEST_ROLL = 64 << 10
ROLLS = 16  # segments of a full queue, at least: disk space is freed in such parts
MOST_BYTES = segments.MOST_BYTES - (64 << 10)  # of a batch, so that it fits into a dead letter


class WholeLetter(NamedTuple):
    """A dead letter with all of its bytes. `buried_at` is Unix milliseconds."""

    number: int
    records: int
    buried_at: int
    letter: DeadLetterFrame


class QueueLimits(NamedTuple):
    """The limits of one queue."""

    max_batches: int
    max_bytes: int
    dead_bytes: int


class DiskQueue(QueueLine[QueueEntry]):
    """See the contract."""

    def __init__(
        self,
        identity: FoundIdentity,
        *,
        queued: Recovered,
        buried: Recovered,
        shared: Shared,
        limits: QueueLimits,
        sync: Sync,
    ) -> None:
        super().__init__()
        self.identity = identity
        self.folder = folder = identity.folder
        self._committer = shared.committer
        self._journal = Journal(folder, recovered=queued, shared=shared, committed=self._committed)
        self._dead = DeadLetters(folder / folders.DEAD_LETTERS, recovered=buried, shared=shared)
        self._walk = JournalWalk(self._journal, held=self._totals_in_memory)
        self._filling: asyncio.Task[None] | None = None
        self._configure(limits, sync)

    @property
    def label(self) -> str:
        """See the contract."""
        return self.folder.name

    def configure(self, *, storage: Storage | None, max_batches: int) -> None:
        """See the contract."""
        if storage is not None:
            self._configure(self._limits._replace(max_batches=max_batches, max_bytes=storage.max_bytes), storage.sync)

    def _configure(self, limits: QueueLimits, sync: Sync) -> None:
        self._limits = limits
        self._dead.limit = limits.dead_bytes
        self._journal.appender.sync = sync
        self._journal.appender.roll_bytes = _roll_bytes(limits.max_bytes)
        self._dead.journal.appender.roll_bytes = _roll_bytes(limits.dead_bytes)

    async def start(self) -> None:
        """Find the oldest dead letter, and allow writes."""
        await self._dead.find_oldest()
        self._journal.start()
        self._dead.journal.start()

    # Appending.

    def room(self, *, size: int) -> Shortage | None:
        """See the contract."""
        appender, left = self._journal.appender, self._journal.left
        if load(left.records + appender.waiting_records, left.size + appender.waiting_size) >= self._limits.max_batches:
            return Shortage.BATCHES
        kept = self._journal.kept
        if kept + self._coming(size) > self._limits.max_bytes:
            return Shortage.BYTES
        has_space = self._committer.has_space(self._coming(size) + kept - self._journal.disk)
        return Shortage.DISK if not has_space or appender.was_refused(within=REFUSED_SECONDS) else None

    def may_hold(self, *, size: int) -> bool:
        """See the contract."""
        return segments.SEGMENT_HEADER_BYTES + segments.FRAME_HEADER_BYTES + size <= self._limits.max_bytes

    def _coming(self, size: int) -> int:
        """Return the bytes that wait to be written, together with another batch."""
        return self._journal.appender.waiting_size + segments.FRAME_HEADER_BYTES + size

    def append(
        self, payload: Sequence[Piece], *, records: int, at: int, joins: bool = False, synced: bool = False
    ) -> asyncio.Future[None]:
        """See the contract. If `synced`, it is on disk then, whatever the setting."""
        size = sum(map(len, payload))
        if size > MOST_BYTES:
            refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            refused.set_exception(QueueFault(f"A batch of {size} bytes is over the {MOST_BYTES} that a queue takes."))
            return refused
        is_beyond = self._journal.disk + self._coming(size) > self._limits.max_bytes
        # A quota of the disk shows only when the disk refuses.
        if is_beyond or self._committer.spare < self._coming(size) or self._journal.appender.refused_at is not None:
            self._journal.make_room()
        return self._journal.appender.append(payload, records=records, at=at, synced=synced, joins=joins)

    def _committed(self, entries: Sequence[QueueEntry]) -> None:
        for entry in entries:
            if len(self.ready) < READY and self._filling is None and self._walk.step(entry):
                self.ready.append(_queued(entry))
        self.wake()

    # The line.

    def _fill(self) -> None:
        if self._filling is None and not self._walk.is_at_end:
            self._filling = asyncio.create_task(self._read_on(), name="queue-reading")

    async def _read_on(self) -> None:
        try:
            self.ready.extend(map(_queued, await self._walk.next()))
        except Exception:
            log.exception("Reading the queue in %s met a fault of the program; it is read again soon.", self.folder)
            await asyncio.sleep(AGAIN_SECONDS)
        finally:
            self._filling = None
            self.wake()

    def _totals_in_memory(self, segment: Segment) -> Totals:
        """Return the part of a segment that is in memory."""
        held = Totals()
        for one in self.all():
            if one.source.segment is segment:
                held = held.plus(one.source.totals)
        return held

    async def payload(self, batch: Batch) -> bytes | None:
        """See the contract."""
        held = self.find_claimed(batch.number)
        if held is None:
            return None
        data = await self._journal.payload(held.source)
        if data is None and self.find_claimed(batch.number) is not None:
            self.delivered([batch])
            self._journal.report_damage(held.source.segment, lost=1)
        return data

    def delivered(self, batches: Sequence[Batch]) -> None:
        """See the contract."""
        left = [self.leave(batch.number) for batch in batches]
        self._journal.acknowledge(entry for entry in left if entry is not None)

    # Dead letters.

    def bury(
        self, batch: Batch, payload: Sequence[Piece], final_failure: FinalFailure, *, records: int, leaves: bool = True
    ) -> asyncio.Future[None]:
        """See the contract."""
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        written = self._dead.bury(payload, final_failure, records=records, taken_at=batch.taken_at)
        assert written is not None  # without a limit

        def hear(done: asyncio.Future[None]) -> None:
            failure = done.exception()
            if failure is None and leaves:
                self.delivered([batch])
            if not told.done():
                told.set_exception(failure) if failure is not None else told.set_result(None)

        written.add_done_callback(hear)
        return told

    def bury_unqueued(
        self, payload: Sequence[Piece], final_failure: FinalFailure, *, records: int, at: int
    ) -> asyncio.Future[None] | None:
        """See the contract."""
        dead = self._dead.journal
        is_refused = self._committer.is_hanging or dead.appender.was_refused(within=REFUSED_SECONDS)
        if is_refused or sum(map(len, payload)) > MOST_BYTES:
            return None
        spare = dead.left.size + dead.appender.waiting_size + self._committer.spare
        most = min(self._limits.max_bytes, self._limits.dead_bytes, spare)
        return self._dead.bury(payload, final_failure, records=records, taken_at=at, most=most)

    def dead_letters(self) -> AsyncGenerator[DeadLetter, None]:
        """See the contract."""
        return self._dead.heads()

    async def replay(
        self, *, outages_only: bool, most: int | None = None, number: int | None = None
    ) -> tuple[int, int]:
        """See the contract."""

        too_large = begun = 0
        async with self._dead.change(limit=None if outages_only else appender.END_SECONDS) as done:
            waiting: list[asyncio.Future[None]] = []
            size = 0
            async for entry, letter in self._dead.letters(number=number):
                if self._dead.is_moving(entry) or (outages_only and not letter.final_failure.outage):
                    continue
                length = len(letter.payload)
                shortage = self.room(size=length) if most is None or begun < most else Shortage.BATCHES
                if shortage is Shortage.BYTES and not self.may_hold(size=length):
                    too_large += 1
                    continue
                if shortage is not None:
                    break
                written = self.append([letter.payload], records=entry.records, at=letter.taken_at, synced=True)
                self._dead.move(entry, written, done)
                waiting.append(written)
                begun, size = begun + 1, size + length
                if len(waiting) >= ROUND_BATCHES or size >= ROUND_BYTES:
                    await asyncio.wait(waiting)
                    if len(done) < begun:
                        break
                    waiting, size = [], 0
            if waiting:
                await asyncio.wait(waiting)
        if too_large and not outages_only:  # replays after an outage are frequent, and nobody reads their result
            log.warning(NEVER_FIT, self._dead.journal.folder, counted(too_large, "letter"))
        return len(done), sum(done)

    async def hand_letters(self, give: Callable[[Sequence[WholeLetter]], Awaitable[None]]) -> None:
        """Hand over all dead letters, oldest first, some at a time. They are removed after `give` returns. Raises its
        errors. No other change of dead letters happens meanwhile.
        """
        async with self._dead.change(limit=None) as done:
            waiting: list[QueueEntry] = []
            given: list[WholeLetter] = []

            async def leave() -> None:
                if given:
                    await give(given)
                self._dead.journal.acknowledge(waiting)
                done.extend(entry.records for entry in waiting)
                waiting.clear()
                given.clear()

            async for entry, letter in self._dead.letters(number=None):
                if not self._dead.is_moving(entry):
                    waiting.append(entry)
                    given.append(WholeLetter(entry.number, entry.records, entry.taken_at, letter))
                if len(waiting) >= ROUND_BATCHES or sum(one.size for one in waiting) >= ROUND_BYTES:
                    await leave()
            await leave()

    def take_letter(self, letter: DeadLetterFrame, *, records: int) -> asyncio.Future[None] | None:
        """Take a dead letter of another queue, as `bury_unqueued` does."""
        return self.bury_unqueued([letter.payload], letter.final_failure, records=records, at=letter.taken_at)

    async def discard(self, *, queued: bool, dead: bool, number: int | None = None) -> tuple[int, int]:
        """See the contract."""
        before = self._journal.left
        if queued:
            self._journal.acknowledge(held.source for held in self.leave_unclaimed())
            self._walk.discard_rest()
        gone = before.minus(self._journal.left)
        batches, records = await self._dead.delete(lambda one: number in (None, one.number)) if dead else (0, 0)
        return gone.batches + batches, gone.records + records

    async def expire(self, *, before: int) -> tuple[int, int]:
        """See the contract."""
        return await self._dead.expire(before=before)

    def depth(self) -> Depth:
        """See the contract."""
        queued, buried = self._journal, self._dead.journal
        return Depth(
            batches=queued.left.batches + queued.appender.waiting,  # with those being written
            records=queued.left.records,
            size=queued.left.size,
            disk=queued.disk + buried.disk,
            limited=queued.kept + queued.appender.waiting_size,
            claimed=len(self._claims),
            oldest=self._oldest(),
            dead_batches=buried.left.batches,
            dead_records=buried.left.records,
            dead_size=buried.left.size,
            dead_oldest=self._dead.oldest,
            damaged=(*queued.damaged, *buried.damaged),
            lost=queued.lost + buried.lost,
            refused=self._committer.is_hanging or any(one.appender.refused_at is not None for one in (queued, buried)),
        )

    async def close(self) -> None:
        """See the contract."""
        if self._filling is not None:
            self._filling.cancel()
        await self._journal.close()
        await self._dead.journal.close()


def _queued(entry: QueueEntry) -> QueuedBatch[QueueEntry]:
    return QueuedBatch(Batch(entry.number, entry.records, entry.size, entry.taken_at), entry)


def _roll_bytes(most: int) -> int:
    """Return the length at which a segment ends, in a journal of at most `most` bytes."""
    return max(SMALLEST_ROLL, min(segments.ROLL_BYTES, most // ROLLS))
