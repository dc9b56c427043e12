"""The dead letters of one queue on disk.

The time in a letter's frame is that of its death. A letter that was replayed and died again keeps the time of its first
death: its age does not begin anew. A replayed letter is on disk in the queue before it leaves here: a crash between the
two makes two of it.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from reconciler.delivery.queue import committer, segments
from reconciler.delivery.queue.contract import Obituary, Piece, QueueFault, Shortage
from reconciler.delivery.queue.journal import Journal, Shared
from reconciler.delivery.queue.recovery import Recovered
from reconciler.delivery.queue.segments import DeadLetterFrame, QueueEntry
from reconciler.delivery.queue.walk import JournalWalk
from reconciler.model.text import counted

log = logging.getLogger(__name__)

ROUND_BATCHES = 64  # that are appended together
ROUND_BYTES = 4 << 20

NEVER_FIT = "Of the dead letters in %s, %s never fit into their queue: raise its `max_bytes`, or discard them."
HANGS = "The disk of the queues does not answer; try again when it does."

Append = Callable[[QueueEntry, DeadLetterFrame], asyncio.Future[None]]
"""Appends a letter's payload to the queue, on disk."""


class DeadLetters:
    """Changes wait for each other; listing sees what is there when it comes to it."""

    def __init__(self, folder: Path, *, recovered: Recovered, shared: Shared) -> None:
        self.journal = Journal(folder, recovered=recovered, shared=shared, committed=self._committed)
        self.limit = 0  # in bytes; `expire` deletes the oldest letters that are over it
        self.oldest: int | None = None  # when the first letters died
        self._changing = asyncio.Lock()
        self._moving: dict[int, int] = {}  # letters that are being appended to the queue: numbers, and sizes

    def _committed(self, entries: Sequence[QueueEntry]) -> None:
        """Take note of new letters."""
        oldest = min(entry.taken_at for entry in entries)
        self.oldest = oldest if self.oldest is None else min(self.oldest, oldest)

    def bury(
        self,
        payload: Sequence[Piece],
        obituary: Obituary,
        *,
        records: int,
        taken_at: int,
        died: int | None = None,
        most: int | None = None,
    ) -> asyncio.Future[None] | None:
        """Append a letter, which is on disk when the future is done. `died` is when it died first, if it did before.

        Returns None when all letters would then take more than `most` bytes.
        """
        pieces = segments.encode_dead_letter(obituary, payload, taken_at=taken_at)
        appender = self.journal.appender
        size = self.journal.left.size + appender.waiting_size + segments.FRAME_HEADER_BYTES + sum(map(len, pieces))
        if most is not None and size > most:
            return None
        at = obituary.at if died is None else died
        return appender.append(pieces, records=records, at=at, synced=True, flags=segments.DEAD_LETTER)

    async def letters(self, *, after: int = 0) -> AsyncIterator[tuple[QueueEntry, DeadLetterFrame]]:
        """Return the letters in the order of their numbers, with their bytes. An unreadable one is lost."""
        last = self.journal.last
        async for entry in self._entries():
            if entry.number > last:
                return
            if entry.number <= after or entry.has_left:
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
        while found := await walk.soon():
            for entry in found:
                yield entry

    async def find_oldest(self) -> None:
        """Find when the first letters died. A replayed letter may come later, and be older."""
        self.oldest = min((entry.taken_at for entry in await JournalWalk(self.journal).soon()), default=None)

    async def replay(
        self,
        append: Append,
        *,
        room: Callable[[int], Shortage | None],
        may_hold: Callable[[int], bool],
        outages_only: bool,
        most: int | None,
    ) -> tuple[int, int]:
        """See the contract."""
        too_large = begun = 0
        async with self._change(limit=None if outages_only else committer.END_SECONDS) as done:
            waiting: list[asyncio.Future[None]] = []
            size = 0
            async for entry, letter in self.letters():
                if entry.number in self._moving or (outages_only and not letter.obituary.outage):
                    continue
                shortage = room(len(letter.payload)) if most is None or begun < most else Shortage.BATCHES
                if shortage is Shortage.BYTES and not may_hold(len(letter.payload)):
                    too_large += 1
                    continue
                if shortage is not None:
                    break
                waiting.append(self._move(entry, append(entry, letter), done))
                begun, size = begun + 1, size + len(letter.payload)
                if len(waiting) >= ROUND_BATCHES or size >= ROUND_BYTES:
                    await asyncio.wait(waiting)
                    if len(done) < begun:
                        break
                    waiting, size = [], 0
            if waiting:
                await asyncio.wait(waiting)
        if too_large and not outages_only:  # those of an outage are replayed often, and nobody reads the answer
            log.warning(NEVER_FIT, self.journal.folder, counted(too_large, "letter"))
        return len(done), sum(done)

    def _move(self, entry: QueueEntry, written: asyncio.Future[None], done: list[int]) -> asyncio.Future[None]:
        """Take a letter off once it is in the queue, even if nobody waits for that any more."""
        self._moving[entry.number] = entry.size

        def hear(future: asyncio.Future[None]) -> None:
            del self._moving[entry.number]
            if future.exception() is None:
                self.journal.acknowledge([entry])
                done.append(entry.records)
            if self.journal.left.batches <= 0:
                self.oldest = None  # nobody may wait any more who would find out

        written.add_done_callback(hear)
        return written

    async def delete(self, is_wanted: Callable[[QueueEntry], bool]) -> tuple[int, int]:
        """Delete the wanted letters that are not on their way to the queue; how many batches and records."""
        last = self.journal.last
        async with self._change(limit=committer.END_SECONDS) as done:
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
        """See the contract. Letters that are on their way to the queue do not count against the limit."""

        def is_old(entry: QueueEntry) -> bool:
            return entry.taken_at < before or self.journal.left.size - sum(self._moving.values()) > self.limit

        return await self.delete(is_old)

    @contextlib.asynccontextmanager
    async def _change(self, *, limit: float | None) -> AsyncIterator[list[int]]:
        """Make one change at a time, in so many seconds. Its body adds the records of each letter that left to a list.

        A change that takes longer ends early. Raises QueueFault when no letter left by then.
        """
        done: list[int] = []
        try:
            async with asyncio.timeout(limit), self._changing:
                yield done
                await self.find_oldest()
        except TimeoutError:
            if not done:
                raise QueueFault(HANGS) from None
