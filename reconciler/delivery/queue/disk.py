"""A queue on disk."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from reconciler.delivery.queue import dead_letters, folders, frames, journal
from reconciler.delivery.queue.appending import Mode
from reconciler.delivery.queue.committer import Committer
from reconciler.delivery.queue.contract import (
    Batch,
    DeadLetter,
    Depth,
    Obituary,
    Piece,
    QueueFault,
    Shortage,
    Storage,
    load,
)
from reconciler.delivery.queue.dead_letters import DeadLetters
from reconciler.delivery.queue.files import QueueFiles, Space
from reconciler.delivery.queue.frames import DeadLetterFrame, QueueEntry
from reconciler.delivery.queue.journal import Journal, KeptPayloads
from reconciler.delivery.queue.line import QueueLine, progress_of
from reconciler.delivery.queue.recovery import Recovered

REFUSED_SECONDS = 1.0  # for which a disk that took nothing is not asked again
SMALLEST_ROLL = 64 << 10
MOST_BYTES = frames.MOST_BYTES - (64 << 10)  # of a batch, which fits in a dead letter then
ROLLS = 16  # segments of a queue that is full, at least: space comes back in such parts


class SharedParts(NamedTuple):
    """What all queues share."""

    committer: Committer
    files: QueueFiles
    kept: KeptPayloads
    clock: Callable[[], int]
    space: Space


class QueueLimits(NamedTuple):
    """Of one queue."""

    max_batches: int
    max_bytes: int
    dead_bytes: int


class DiskQueue:
    """See the contract."""

    def __init__(
        self, folder: Path, *, queued: Recovered, buried: Recovered, shared: SharedParts, limits: QueueLimits, sync: str
    ) -> None:
        self.folder = folder
        self._shared = shared
        self._journal = Journal(
            folder,
            recovered=queued,
            committer=shared.committer,
            clock=shared.clock,
            space=shared.space,
            committed=self._committed,
            refused=self._refused,
            forget=shared.files.forget,
        )
        dead_journal = Journal(
            folder / folders.DEAD_LETTERS,
            recovered=buried,
            committer=shared.committer,
            clock=shared.clock,
            space=shared.space,
            committed=self._buried,
            refused=lambda _: None,
            forget=shared.files.forget,
        )
        self._dead = DeadLetters(dead_journal, shared.files, limit=limits.dead_bytes)
        self._line = QueueLine(self._journal, shared.files)
        self._limits = limits
        self._kept = 0
        self._replayed: dict[int, int] = {}  # by numbers of batches that are being written: when they died first
        self._configure(limits, sync)

    def configure(self, *, storage: Storage | None, max_batches: int) -> None:
        """Take over changed settings."""
        if storage is not None:
            self._configure(self._limits._replace(max_batches=max_batches, max_bytes=storage.max_bytes), storage.sync)

    def _configure(self, limits: QueueLimits, sync: str) -> None:
        self._limits = limits
        self._dead.limit = limits.dead_bytes
        self._journal.appender.mode = Mode(synced=sync == "commit", interval=sync == "interval")
        self._journal.appender.roll_bytes = _roll(limits.max_bytes)
        self._dead.journal.appender.roll_bytes = _roll(limits.dead_bytes)

    async def start(self) -> None:
        """Learn what only the files say; from then on files that were used up go."""
        await self._dead.look()
        self._journal.start()
        self._dead.journal.start()

    def room(self, *, size: int) -> Shortage | None:
        """See the contract."""
        appender, left = self._journal.appender, self._journal.left
        if load(left.records + appender.waiting_records, left.size + appender.waiting_size) >= self._limits.max_batches:
            return Shortage.BATCHES
        if self._journal.kept + self._coming(size) > self._limits.max_bytes:
            return Shortage.BYTES
        refused = appender.refused_at
        if refused is not None and asyncio.get_running_loop().time() < refused + REFUSED_SECONDS:
            return Shortage.DISK
        return Shortage.DISK if self._shared.space.spare() + self._journal.spare < size else None

    def may_hold(self, *, size: int) -> bool:
        """See the contract."""
        return frames.SEGMENT_HEADER_BYTES + frames.HEADER_BYTES + size <= self._limits.max_bytes

    def _is_tight(self, size: int) -> bool:
        """Whether the limit or the disk may have no room for it; a quota of the disk shows only when it refuses."""
        journal = self._journal
        is_beyond = journal.disk + self._coming(size) > self._limits.max_bytes
        return is_beyond or self._shared.space.spare() < size or journal.appender.refused_at is not None

    def _coming(self, size: int) -> int:
        """The bytes on disk of what waits to be written, and of another batch."""
        return self._journal.appender.waiting_size + frames.HEADER_BYTES + size

    def append(self, payload: Sequence[Piece], *, records: int, at: int) -> asyncio.Future[None]:
        """See the contract."""
        return self._append(payload, records=records, at=at)

    def _append(
        self, payload: Sequence[Piece], *, records: int, at: int, died: int | None = None
    ) -> asyncio.Future[None]:
        """`died` is when a dead letter that is queued again died first; it is on disk then, whatever the mode."""
        size = sum(map(len, payload))
        if size > MOST_BYTES:
            return _refusal(size)
        if self._is_tight(size):
            self._journal.make_room()
        keep = self._line.has_room and self._kept + size <= journal.KEPT_OF_ONE and self._shared.kept.take(size)
        if keep:
            self._kept += size
        self._shared.space.take(size)
        if died is not None:
            self._replayed[self._journal.appender.next_number] = died
        return self._journal.appender.append(payload, records=records, at=at, keep=keep, synced=died is not None)

    def _committed(self, entries: Sequence[QueueEntry]) -> None:
        for entry in self._line.add(entries):
            self._drop(entry)
        for entry in entries if self._replayed else ():
            died = self._replayed.pop(entry.number, None)
            if died is not None:
                self._journal.replayed(entry, died)

    def _buried(self, entries: Sequence[QueueEntry]) -> None:
        self._dead.committed(entries)

    def _refused(self, entries: Sequence[QueueEntry]) -> None:
        for entry in entries:
            self._drop(entry)
            self._replayed.pop(entry.number, None)

    def _drop(self, entry: QueueEntry) -> None:
        """Keep the bytes of an entry in memory no more."""
        if entry.kept is not None:
            entry.kept = None
            self._kept -= entry.size
            self._shared.kept.give(entry.size)

    def claim(self, *, most_records: int, most_bytes: int) -> tuple[Batch, ...]:
        """See the contract."""
        return self._line.claim(most_records=most_records, most_bytes=most_bytes)

    async def wait(self) -> None:
        """See the contract."""
        await self._line.wait()

    async def payload(self, batch: Batch) -> bytes | None:
        """See the contract."""
        held = self._line.claimed.get(batch.number)
        if held is None:
            return None
        kept = held.entry.kept
        if kept is not None:
            self._drop(held.entry)
            return kept
        data = await journal.read_payload(held.entry, self._journal, self._shared.files)
        if data is None and batch.number in self._line.claimed:
            self._leave([batch.number])
            self._journal.damaged(held.entry.segment, lost=1)
        return data

    def delivered(self, batches: Sequence[Batch]) -> None:
        """See the contract."""
        self._leave([batch.number for batch in batches])

    def _leave(self, numbers: Sequence[int]) -> None:
        self._forget(self._line.leave(numbers))

    def _forget(self, entries: Sequence[QueueEntry]) -> None:
        for entry in entries:
            self._drop(entry)
        self._journal.acknowledge(entries)

    def progressed(self, batch: Batch) -> None:
        """See the contract."""
        held = self._line.claimed.get(batch.number)
        if held is not None:
            held.batch = batch
            self._journal.progressed(held.entry, progress_of(batch))

    def give_back(self, batches: Sequence[Batch]) -> None:
        """See the contract."""
        self._line.give_back(batches)

    def bury(
        self, batch: Batch, payload: Sequence[Piece], obituary: Obituary, *, records: int, leaves: bool = True
    ) -> asyncio.Future[None]:
        """See the contract."""
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        held = self._line.claimed.get(batch.number)
        died = None if held is None else held.entry.segment.died.get(batch.number)
        written = self._dead.bury(payload, obituary, records=records, taken_at=batch.taken_at, died=died)

        def hear(done: asyncio.Future[None]) -> None:
            failure = done.exception()
            if failure is None and leaves:
                self._leave([batch.number])
            if not told.done():
                told.set_exception(failure) if failure is not None else told.set_result(None)

        written.add_done_callback(hear)
        return told

    def bury_unqueued(
        self, payload: Sequence[Piece], obituary: Obituary, *, records: int, at: int
    ) -> asyncio.Future[None] | None:
        """See the contract."""
        most = min(self._limits.max_bytes, self._limits.dead_bytes, self._dead.size + self._shared.space.spare())
        if sum(map(len, payload)) > MOST_BYTES or self._dead.was_refused(within=REFUSED_SECONDS):
            return None
        return self._dead.bury_within(most, payload, obituary, records=records, taken_at=at)

    async def dead_letters(self, *, after: int = 0) -> AsyncIterator[tuple[DeadLetter, bytes]]:
        """See the contract."""
        async for entry, letter in self._dead.letters(after=after):
            yield dead_letters.listed(entry, letter), letter.payload

    async def replay(self, *, outages_only: bool, most: int | None = None) -> tuple[int, int]:
        """See the contract."""

        def append(entry: QueueEntry, letter: DeadLetterFrame) -> asyncio.Future[None]:
            return self._append([letter.payload], records=entry.records, at=letter.taken_at, died=entry.taken_at)

        return await self._dead.replay(
            append,
            lambda size: self.room(size=size),
            lambda size: self.may_hold(size=size),
            outages_only=outages_only,
            most=most,
        )

    async def discard(self, *, queued: bool, dead: bool) -> tuple[int, int]:
        """See the contract."""
        batches, records = self._discard_queued() if queued else (0, 0)
        if dead:
            more = await self._dead.discard()
            batches, records = batches + more[0], records + more[1]
        return batches, records

    def _discard_queued(self) -> tuple[int, int]:
        before = self._journal.left
        self._forget(self._line.leave_unclaimed())
        walk = self._line.walk
        if not walk.is_at_end:
            segment, first = walk.segment, walk.next_number
            while segment is not None:
                following = segment.following
                if not segment.is_gone:
                    last = following.first - 1 if following is not None else self._journal.last
                    self._journal.acknowledge_rest(segment, max(first, segment.first), last)
                segment = following
            walk.to_end()
        gone = before.minus(self._journal.left)
        return gone.batches, gone.records

    async def expire(self, *, before: int) -> tuple[int, int]:
        """See the contract."""
        return await self._dead.expire(before=before)

    def depth(self) -> Depth:
        """See the contract."""
        queued, buried = self._journal, self._dead.journal
        return Depth(
            batches=queued.left.batches + queued.appender.waiting,  # else it would seem empty while they are written
            records=queued.left.records,
            size=queued.left.size,
            disk=queued.disk + buried.disk,
            limited=queued.kept + queued.appender.waiting_size,
            claimed=len(self._line.claimed),
            oldest=self._line.oldest(),
            dead_batches=buried.left.batches,
            dead_records=buried.left.records,
            dead_size=buried.left.size,
            dead_oldest=self._dead.oldest,
            quarantined=queued.quarantined + buried.quarantined,
            lost=queued.lost + buried.lost,
            refused=any(one.appender.refused_at is not None for one in (queued, buried)),
        )

    async def close(self) -> None:
        """See the contract."""
        self._line.close()
        await self._journal.close()
        await self._dead.journal.close()
        for kept in (self._journal, self._dead.journal):
            for segment in kept.segments:
                self._shared.files.forget(segment.path)


def _refusal(size: int) -> asyncio.Future[None]:
    refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    refused.set_exception(QueueFault(f"A batch of {size} bytes is over the {MOST_BYTES} that a queue takes."))
    return refused


def _roll(most: int) -> int:
    """From how many bytes on another segment is begun, of a journal that may have `most`."""
    return max(SMALLEST_ROLL, min(frames.ROLL_BYTES, most // ROLLS))
