"""The promises of a queue, on disk or in memory, and the values that its users see.

A queue belongs to one destination and holds batches: the records of one request for that destination, as they came. It
is used from one event loop. One suite of tests proves the promises:

- **Order.** Batches are numbered from 1 in order of arrival, and claimed in that order. A number is never used again,
  unless the numbers in a damaged file are unreadable.
- **Durability** (on disk, `sync: commit`). `append` is done when the batch is on disk; only then can it be claimed.
  After a crash every such batch is there, unless it was acknowledged; an acknowledged one may be there again.
- **At least once.** A claimed batch leaves the queue by `delivered`, `bury` or `discard` only. After a crash, claimed
  batches are first in line, in the original order.
- **Nothing is dropped to make room.** The caller asks `room` first; `append` itself never refuses for the quota.
- **A quota in full batches.** `max_batches` counts like `load`, not batches as they came: ten thousand small requests
  fill no queue.
- **Bounded.** Memory does not grow with the backlog on disk. Claimed batches, and those that wait for another attempt,
  are held without their bytes.
- **A disk that fails** takes nothing with it: an append that cannot be written fails with `QueueFault` and leaves no
  trace. Readable batches are served. Damaged files are kept in quarantine, counted and told.
- **A disk that hangs** never blocks the event loop.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

from reconciler.model import errors
from reconciler.model.routes import Storage

Piece: TypeAlias = bytes | memoryview

BATCH_RECORDS = 1_000  # of a full batch
BATCH_BYTES = 1 << 20  # of a full batch
HEAD_BYTES = 32 << 10  # of a dead letter that is shown


class QueueFault(errors.Transient):
    """A queue cannot be opened, or did not accept a batch. Nothing of the batch was kept, unless a subclass says so."""


class Shortage(StrEnum):
    """The resource that is too short for another batch."""

    BATCHES = "batches"  # the queue has its number of full batches
    BYTES = "bytes"  # the queue uses all its disk space or memory
    DISK = "disk"  # the disk is down to its reserve, or refused the last append


class Batch(NamedTuple):
    """One batch, without its bytes. Times are Unix milliseconds."""

    number: int
    records: int
    size: int  # bytes of the payload
    taken_at: int


class Reason(StrEnum):
    """The reason for a dead letter."""

    GIVEN_UP = "given-up"  # the longest time of retries is over
    NO_RETRY = "no-retry"  # it failed, and retrying is off
    QUEUE_FULL = "queue-full"  # the queue had no room for it
    UNREADABLE = "unreadable"  # the stored bytes cannot be made into a request


class FinalFailure(NamedTuple):
    """The history of a dead letter. `status` is that of the last answer, None without one. `answer` is at most its
    first kilobyte, untrusted. `cause` is one sentence. `outage`: the failure did not concern the batch, so it is
    replayed when the endpoint is back.
    """

    reason: Reason
    at: int
    attempts: int
    cause: str
    status: int | None = None
    answer: bytes = b""
    outage: bool = False


class DeadLetter(NamedTuple):
    """A dead letter with the beginning of its payload, at most HEAD_BYTES. Times are Unix milliseconds.

    Numbers are used once, as those of batches. If its bytes are damaged, `final_failure` and `taken_at` are None, and
    `size` is that of all stored bytes.
    """

    number: int
    records: int
    size: int  # bytes of the payload
    buried_at: int
    taken_at: int | None = None
    final_failure: FinalFailure | None = None
    head: bytes = b""


class Depth(NamedTuple):
    """The fill level of a queue. Times are Unix milliseconds.

    `batches` includes claimed ones. `size` is bytes of payload, and `disk` bytes on disk. `limited` are the bytes on
    disk that count against `max_bytes`: without dead letters, and without bytes that the queue frees when it needs
    them. `damaged` are the files in quarantine. `lost` counts batches and dead letters that could not be read since the
    queue was opened.
    """

    batches: int = 0
    records: int = 0
    size: int = 0
    disk: int = 0
    limited: int = 0
    claimed: int = 0
    oldest: int | None = None
    dead_batches: int = 0
    dead_records: int = 0
    dead_size: int = 0
    dead_oldest: int | None = None
    damaged: tuple[Path, ...] = ()
    lost: int = 0
    refused: bool = False  # the disk refused the last write

    @property
    def quarantined(self) -> int:
        """The number of damaged files."""
        return len(self.damaged)

    @property
    def load(self) -> float:
        """The queued records in full batches."""
        return load(self.records, self.size)


def load(records: int, size: int) -> float:
    """Return the size of records in full batches: by their number or by their bytes, whichever is more."""
    return max(records / BATCH_RECORDS, size / BATCH_BYTES)


class Queue(Protocol):
    """A queue that keeps the promises of this module."""

    @property
    def label(self) -> str:
        """A name that no other queue of its destination has."""

    def configure(self, *, storage: Storage | None, max_batches: int) -> None:
        """Apply changed settings. `storage` is None for a queue in memory."""

    def room(self, *, size: int) -> Shortage | None:
        """Return why another batch of this size does not fit, or None. Call `append` right after it, without a pause.

        While the load is below `max_batches`, another batch fits, however large.
        """

    def may_hold(self, *, size: int) -> bool:
        """Return True if a batch of this size fits into an empty queue, for which `room` then never returns
        Shortage.BYTES.
        """

    def append(self, payload: Sequence[Piece], *, records: int, at: int, joins: bool = False) -> asyncio.Future[None]:
        """Append a batch, whose bytes are the joined pieces. The order is that of the calls. Small batches with `joins`
        may become one. Cancelling the wait does not undo it. Raises QueueFault when awaited.
        """

    def claim(self, *, most_records: int, most_bytes: int) -> tuple[Batch, ...]:
        """Return the next unclaimed batches within both limits, but at least one if there is one."""

    async def wait(self) -> None:
        """Wait until there is something to claim."""

    async def payload(self, batch: Batch) -> bytes | None:
        """Return the bytes of a claimed batch. None: they cannot be read any more, and the batch is lost."""

    def delivered(self, batches: Sequence[Batch]) -> None:
        """Acknowledge batches: they leave the queue. This is written soon; after a crash before that, they come
        again.
        """

    def give_back(self, batches: Sequence[Batch]) -> None:
        """Release claimed batches: they are first in line again, in their order."""

    def bury(
        self, batch: Batch, payload: Sequence[Piece], final_failure: FinalFailure, *, records: int, leaves: bool = True
    ) -> asyncio.Future[None]:
        """Make a dead letter of these bytes, the batch or a part of it; then the batch leaves the queue.

        If a batch becomes several letters, it leaves with the last one; for the others `leaves` is False. After a crash
        between two of them, letters may exist twice. Raises QueueFault when awaited; then the batch is still claimed.
        """

    def bury_unqueued(
        self, payload: Sequence[Piece], final_failure: FinalFailure, *, records: int, at: int
    ) -> asyncio.Future[None] | None:
        """Make a dead letter of a batch that never was in the queue. Raises QueueFault when awaited; then nothing is
        kept.

        Returns None and keeps nothing if there is no room. The dead letters take at most `max_bytes`, and never so much
        that `expire` would delete older ones for them.
        """

    def dead_letters(self) -> AsyncGenerator[DeadLetter, None]:
        """Return the dead letters, oldest first, and change none: a damaged one is returned as such."""

    async def replay(
        self, *, outages_only: bool, most: int | None = None, number: int | None = None
    ) -> tuple[int, int]:
        """Move dead letters back into the queue, oldest first, and return the numbers of batches and records. With
        `number`, move only that one.

        This stops if there is no room, or the disk does not answer. It skips a letter that can never fit. Like
        `discard` and `expire`, it raises QueueFault if the disk does not answer and nothing was done; but with
        `outages_only` it waits for the disk.
        """

    async def discard(self, *, queued: bool, dead: bool, number: int | None = None) -> tuple[int, int]:
        """Delete unclaimed batches, dead letters, or both, and return the numbers of batches and records. With
        `number`, delete no other dead letter.
        """

    async def expire(self, *, before: int) -> tuple[int, int]:
        """Delete dead letters from before a time, then the oldest ones over the limit of bytes. Return the numbers of
        batches and records.
        """

    def depth(self) -> Depth:
        """Return the fill level; costs microseconds."""

    async def close(self) -> None:
        """Finish all writes. Claimed batches are still queued afterwards."""
