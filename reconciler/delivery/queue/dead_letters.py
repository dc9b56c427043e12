"""The dead letters of one queue.

The time in a letter's frame is that of its death; of one that was replayed and died again, of its first: its age does
not begin anew. Whatever is to be appended to the queue again is on disk there before
it leaves here: a crash between the two makes two of it.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from reconciler.delivery.queue import committer, frames, journal
from reconciler.delivery.queue.contract import DeadLetter, Obituary, Piece, QueueFault, Shortage
from reconciler.delivery.queue.files import QueueFiles
from reconciler.delivery.queue.frames import DeadLetterFrame, QueueEntry
from reconciler.delivery.queue.journal import Journal
from reconciler.delivery.queue.line import JournalWalk
from reconciler.model.text import counted

log = logging.getLogger(__name__)

ROUND_BATCHES = 64  # that are appended together
ROUND_BYTES = 4 << 20

NEVER_FIT = "Of the dead letters in %s, %s never fit into their queue: raise its `max_bytes`, or discard them."
HANGS = "The disk of the queues does not answer; try again when it does."

Item = TypeVar("Item")

Append = Callable[[QueueEntry, DeadLetterFrame], asyncio.Future[None]]
"""Appends a letter's payload to the queue, on disk."""


class DeadLetters:
    """See the module. Mutations wait for each other; listing sees what is there when it comes to it."""

    def __init__(self, journal: Journal, files: QueueFiles, *, limit: int) -> None:
        """`limit` is how many bytes they may take before `expire` takes the oldest."""
        self.journal = journal
        self.limit = limit
        self.oldest: int | None = None
        self._files = files
        self._changing = asyncio.Lock()
        # Letters that are being appended to the queue, whoever waits for it: their numbers, and how large they are.
        self._moving: dict[int, int] = {}

    def committed(self, entries: Sequence[QueueEntry]) -> None:
        """The journal has some more."""
        oldest = min(entry.taken_at for entry in entries)
        self.oldest = oldest if self.oldest is None else min(self.oldest, oldest)

    def bury(
        self, payload: Sequence[Piece], obituary: Obituary, *, records: int, taken_at: int, died: int | None
    ) -> asyncio.Future[None]:
        """Append one; on disk when it is done. `died` is when it died first, if it did before."""
        return self._append(frames.encode_dead_letter(obituary, payload, taken_at=taken_at), obituary, records, died)

    def bury_within(
        self, most: int, payload: Sequence[Piece], obituary: Obituary, *, records: int, taken_at: int
    ) -> asyncio.Future[None] | None:
        """The same; None where all of them would take more than so many bytes."""
        pieces = frames.encode_dead_letter(obituary, payload, taken_at=taken_at)
        if self.size + frames.HEADER_BYTES + sum(map(len, pieces)) > most:
            return None
        return self._append(pieces, obituary, records, None)

    def _append(
        self, pieces: Sequence[Piece], obituary: Obituary, records: int, died: int | None
    ) -> asyncio.Future[None]:
        return self.journal.appender.append(
            pieces,
            records=records,
            at=obituary.at if died is None else died,
            keep=False,
            synced=True,
            flags=frames.DEAD_LETTER,
        )

    @property
    def size(self) -> int:
        """Bytes that they take, with those that wait to be written."""
        return self.journal.left.size + self.journal.appender.waiting_size

    def was_refused(self, *, within: float) -> bool:
        """Whether the disk took none in so many seconds."""
        refused = self.journal.appender.refused_at
        return refused is not None and asyncio.get_running_loop().time() < refused + within

    async def letters(self, *, after: int) -> AsyncIterator[tuple[QueueEntry, DeadLetterFrame]]:
        """In the order of their numbers, with their bytes. What cannot be read is left out, counted, in quarantine."""
        last = self.journal.last
        async for entry in self._entries():
            if entry.number > last:
                return
            if entry.number <= after or entry.number in entry.segment.done:
                continue
            data = await journal.read_payload(entry, self.journal, self._files)
            if entry.number in entry.segment.done:
                continue  # it left meanwhile
            letter = frames.decode_dead_letter(data) if data is not None else None
            if letter is not None:
                yield entry, letter
            elif not entry.segment.is_gone:
                self.journal.acknowledge([entry])
                self.journal.damaged(entry.segment, lost=1)

    async def _entries(self) -> AsyncIterator[QueueEntry]:
        walk = JournalWalk(self.journal, self._files, claims=False)
        while found := await walk.soon():
            for entry in found:
                yield entry

    async def look(self) -> None:
        """Learn when the oldest died, of those that come first: whatever was replayed may come later, and be older."""
        self.oldest = None
        walk = JournalWalk(self.journal, self._files, claims=False)
        found = await walk.soon()
        if found:
            self.oldest = min(entry.taken_at for entry in found)

    async def replay(
        self,
        append: Append,
        room: Callable[[int], Shortage | None],
        may_hold: Callable[[int], bool],
        *,
        outages_only: bool,
        most: int | None,
    ) -> tuple[int, int]:
        """Append them to the queue and take them off, as many as there is room for. What never fits is passed over, and
        told. Raises QueueFault when nothing was moved since the disk does not answer; but those of an outage wait for
        it, since nobody waits for them.
        """
        limit = None if outages_only else committer.END_SECONDS
        done = _Done()
        too_large = 0
        async with self._change(done, limit):
            waiting: list[tuple[QueueEntry, asyncio.Future[None]]] = []
            size = 0
            async for entry, letter in _in_time(self.letters(after=0), limit):
                if entry.number in self._moving or (outages_only and not letter.obituary.outage):
                    continue
                if most is not None and done.batches + len(waiting) >= most:
                    break
                shortage = room(len(letter.payload))
                if shortage is Shortage.BYTES and not may_hold(len(letter.payload)):
                    too_large += 1
                    continue
                if shortage is not None:
                    break
                waiting.append((entry, self._move(entry, append(entry, letter))))
                size += len(letter.payload)
                if len(waiting) >= ROUND_BATCHES or size >= ROUND_BYTES:
                    is_whole = done.add(await _moved(waiting, limit)) == len(waiting)
                    waiting, size = [], 0
                    if not is_whole:
                        break
            done.add(await _moved(waiting, limit))
        if too_large and not outages_only:  # who replays those of an outage asks often, and nobody reads the answer
            log.warning(NEVER_FIT, self.journal.folder, counted(too_large, "letter"))
        return done.batches, done.records

    @contextlib.asynccontextmanager
    async def _change(self, done: "_Done", limit: float | None) -> AsyncIterator[None]:
        """One change at a time. Each wait for the disk has so many seconds, or no end; what was done before one that
        was too long is `done`. Raises QueueFault when that is nothing.
        """
        try:
            async with asyncio.timeout(limit):
                await self._changing.acquire()
            try:
                yield
                async with asyncio.timeout(limit):
                    await self.look()
            finally:
                self._changing.release()
        except TimeoutError:
            if not done.batches:
                raise QueueFault(HANGS) from None

    def _move(self, entry: QueueEntry, written: asyncio.Future[None]) -> asyncio.Future[None]:
        """Take a letter off once it is in the queue, also when nobody waits for that any more."""
        self._moving[entry.number] = entry.size

        def hear(done: asyncio.Future[None]) -> None:
            del self._moving[entry.number]
            if done.exception() is None:
                self.journal.acknowledge([entry])
            if self.journal.left.batches <= 0:
                self.oldest = None  # nobody may wait any more who would look

        written.add_done_callback(hear)
        return written

    async def discard(self) -> tuple[int, int]:
        """Forget all."""
        return await self._forget(lambda _: True)

    async def expire(self, *, before: int) -> tuple[int, int]:
        """Forget those that died before a time, and more, oldest first, while they are over their limit."""
        return await self._forget(lambda entry: entry.taken_at < before or self._staying > self.limit)

    @property
    def _staying(self) -> int:
        """Bytes of those that are not on their way to the queue."""
        return self.journal.left.size - sum(self._moving.values())

    async def _forget(self, is_wanted: Callable[[QueueEntry], bool]) -> tuple[int, int]:
        done = _Done()
        async with self._change(done, committer.END_SECONDS):
            last = self.journal.last
            async for entry in _in_time(self._entries(), committer.END_SECONDS):
                if entry.number > last:
                    break
                is_there = entry.number not in entry.segment.done and entry.number not in self._moving
                if is_there and is_wanted(entry):
                    self.journal.acknowledge([entry])
                    done.add([entry])
        return done.batches, done.records


@dataclass(slots=True)
class _Done:
    """How many left."""

    batches: int = 0
    records: int = 0

    def add(self, entries: Sequence[QueueEntry]) -> int:
        """Count these; how many they are."""
        self.batches += len(entries)
        self.records += sum(entry.records for entry in entries)
        return len(entries)


async def _in_time(items: AsyncIterator[Item], limit: float | None) -> AsyncIterator[Item]:
    """The same; raises TimeoutError where one takes longer than so many seconds. All together may take any time."""
    while True:
        try:
            async with asyncio.timeout(limit):
                item = await anext(items)
        except StopAsyncIteration:
            return
        yield item


async def _moved(waiting: Sequence[tuple[QueueEntry, asyncio.Future[None]]], limit: float | None) -> list[QueueEntry]:
    """Those that are in the queue now. Who gives up waiting cancels none of the appends. Raises TimeoutError when none
    is written in time.
    """
    if waiting:
        await asyncio.wait([written for _, written in waiting], timeout=limit)
    if waiting and not any(written.done() for _, written in waiting):
        raise TimeoutError
    return [entry for entry, written in waiting if written.done() and written.exception() is None]


def listed(entry: QueueEntry, letter: DeadLetterFrame) -> DeadLetter:
    """A letter as it is listed."""
    return DeadLetter(entry.number, entry.records, len(letter.payload), letter.taken_at, letter.obituary)
