"""The promises of a queue, on disk or in memory, and the values that its users see."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeAlias

from reconciler.model import errors

# What a queue promises, on disk or in memory, and the values that its users see.
#
# A queue belongs to one destination and holds batches: what one request had for that destination, as it came. It is
# used from one event loop. The promises, which one suite of tests proves:
#
# - **Order.** Batches are numbered from 1 in order of arrival, and claimed in that order. A number is never used again,
#   unless a file was damaged so that nothing in it says which numbers it had.
# - **Durability** (on disk, `sync: commit`). What `append` returned is done when the batch is on disk; only then can it
#   be claimed. After a crash every such batch is there, unless it was acknowledged; one that was may be there again.
# - **At least once.** A claimed batch leaves the queue by `delivered`, `bury` or `discard` alone. What a process that
#   ended had claimed is first in line in the next one, in the original order, with the attempts that it had.
# - **Nothing is dropped to make room.** Who appends asks `room` first; `append` itself never refuses for the quota.
# - **A quota in full batches.** `max_batches` counts what waits as `load` does, not the batches that came: ten thousand
#   small requests fill no queue.
# - **Bounded.** Memory does not grow with what is queued on disk. What is claimed or waits for another attempt is held
#   by its numbers, without its bytes.
# - **A disk that fails** takes nothing with it: an append that cannot be written fails with `QueueFault` and leaves no
#   trace; what is readable is served; what is not is moved to quarantine, counted and told.

Piece: TypeAlias = bytes | memoryview

BATCH_RECORDS = 1_000  # of a full batch
BATCH_BYTES = 1 << 20  # of a full batch


class QueueFault(errors.Transient):
    """A queue cannot be opened, or did not take what was to be appended. A kind of it that says nothing else means that
    nothing of that was kept.
    """


class Shortage(StrEnum):
    """What there is too little of for another batch."""

    BATCHES = "batches"  # the queue holds as much as its number of full batches
    BYTES = "bytes"  # it takes as much disk, or memory, as it may
    DISK = "disk"  # the disk is down to its reserve, or refused the last append


class Batch(NamedTuple):
    """One batch as those who send it see it, without its bytes. Times are Unix milliseconds.

    `spent` is how many milliseconds count against the longest time of retries; `done` are the records, by their place
    in the batch, that need no sending any more (format `single`).
    """

    number: int
    records: int
    size: int  # bytes of the payload
    taken_at: int
    attempts: int = 0
    spent: int = 0
    done: frozenset[int] = frozenset()


class Reason(StrEnum):
    """Why something is a dead letter."""

    GIVEN_UP = "given-up"  # the longest time of retries is over
    NO_RETRY = "no-retry"  # it failed, and retrying is off
    QUEUE_FULL = "queue-full"  # the queue had no room for it
    UNREADABLE = "unreadable"  # what is stored cannot be made into a request


class Obituary(NamedTuple):
    """What is kept of a dead letter besides its bytes.

    `status` is the last answer's, None when none came; `answer` at most its first kilobyte, a stranger's text; `cause`
    one sentence. `outage` says that nothing was wrong with the batch itself: it is replayed when the endpoint is back.
    """

    reason: Reason
    at: int
    attempts: int
    cause: str
    status: int | None = None
    answer: bytes = b""
    outage: bool = False


class DeadLetter(NamedTuple):
    """One dead letter as it is listed, without its bytes. `number` counts dead letters of this queue."""

    number: int
    records: int
    size: int
    taken_at: int
    obituary: Obituary


class Depth(NamedTuple):
    """How full a queue is. `size` is bytes of payload, `disk` bytes that it takes on disk, and `limited` those of them
    that count against its `max_bytes`: not dead letters, nor what it gives back when it needs it. Times are Unix ms.

    `batches` counts claimed ones, too, as they came.
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
    quarantined: int = 0  # files that were moved aside
    lost: int = 0  # batches, dead ones too, that could not be read since it was opened
    refused: bool = False  # whether the disk refused what was written last

    @property
    def load(self) -> float:
        """What is queued in full batches."""
        return load(self.records, self.size)


def load(records: int, size: int) -> float:
    """So many records with so many bytes, in full batches: by records or by bytes, whichever is more."""
    return max(records / BATCH_RECORDS, size / BATCH_BYTES)


class Storage(Protocol):
    """The settings of a queue on disk: a folder below the root, its limit, `commit`, `interval` or `none`."""

    @property
    def directory(self) -> str: ...
    @property
    def max_bytes(self) -> int: ...
    @property
    def sync(self) -> str: ...


class Queue(Protocol):
    """See the module's promises."""

    def configure(self, *, storage: Storage | None, max_batches: int) -> None:
        """Take over changed limits, and when what is taken is forced to disk. `storage` is None for one in memory."""

    def room(self, *, size: int) -> Shortage | None:
        """Why another batch of so many bytes does not fit, or None. Asked right before `append`, without a pause. While
        what waits is less than `max_batches`, another batch fits, however large.
        """

    def may_hold(self, *, size: int) -> bool:
        """Whether a batch of so many bytes fits when the queue is empty; then `room` never says Shortage.BYTES."""

    def append(self, payload: Sequence[Piece], *, records: int, at: int) -> Awaitable[None]:
        """Take a batch, whose bytes are these pieces one after another. The call itself settles the order.

        Whoever gives up waiting does not undo it. Raises QueueFault when awaited.
        """

    def claim(self, *, most_records: int, most_bytes: int) -> tuple[Batch, ...]:
        """The next batches that nobody has claimed, as many as stay within both limits, but one if there is one."""

    async def wait(self) -> None:
        """Until there is something to claim."""

    async def payload(self, batch: Batch) -> bytes | None:
        """The bytes of a claimed batch; None when they cannot be read any more: it is in quarantine and gone."""

    def delivered(self, batches: Sequence[Batch]) -> None:
        """They arrived: they leave the queue. That is written soon; a crash before means that they are sent again."""

    def progressed(self, batch: Batch) -> None:
        """Remember `attempts`, `spent` and `done` of a claimed batch, for the case that the process ends."""

    def give_back(self, batches: Sequence[Batch]) -> None:
        """Claimed no more: they are first in line again, in their order, with the attempts that they have now."""

    def bury(
        self, batch: Batch, payload: Sequence[Piece], obituary: Obituary, *, records: int, leaves: bool = True
    ) -> Awaitable[None]:
        """Make a dead letter of these bytes, which are the batch or some of it; then the batch leaves the queue. One
        that makes several letters leaves with the last: for the others `leaves` is False. A crash between two of them
        may make them twice. Raises QueueFault when awaited; then the batch is still claimed.
        """

    def bury_unqueued(
        self, payload: Sequence[Piece], obituary: Obituary, *, records: int, at: int
    ) -> Awaitable[None] | None:
        """Make a dead letter of a batch that never was in the queue. None, and nothing is kept, where there is no room
        for it: dead letters that are made so take no more than `max_bytes`, nor so much that `expire` would take older
        ones for them. Raises QueueFault when awaited; then nothing is kept either.
        """

    def dead_letters(self, *, after: int = 0) -> AsyncIterator[tuple[DeadLetter, bytes]]:
        """The dead letters in the order of their numbers, with their bytes, read as they are asked for."""

    async def replay(self, *, outages_only: bool, most: int | None = None) -> tuple[int, int]:
        """Append dead letters to the queue again, oldest first, and take them off the dead ones: how many batches and
        records. Stops early when there is no room, and when the disk does not answer; one that never fits is passed
        over. Raises QueueFault when the disk does not answer and nothing was done, as `discard` and `expire` do; but
        with `outages_only` it waits for the disk.
        """

    async def discard(self, *, queued: bool, dead: bool) -> tuple[int, int]:
        """Forget what is queued and not claimed, or dead, or both: how many batches and records."""

    async def expire(self, *, before: int) -> tuple[int, int]:
        """Forget dead letters that died first before a time, and more of them, oldest first, while they are over their
        limit of bytes: how many batches and records.
        """

    def depth(self) -> Depth:
        """How full it is; costs microseconds."""

    async def close(self) -> None:
        """Write what is to be written. What is claimed is still queued afterwards."""


# Those who wait for something to claim.


class Waiters:
    """All of one queue; in the event loop alone."""

    def __init__(self) -> None:
        self._waiters: list[asyncio.Future[None]] = []

    def __len__(self) -> int:
        """How many wait now."""
        return len(self._waiters)

    async def until(self, is_there: Callable[[], bool]) -> None:
        """Return once this holds. It is asked at once, and again whenever somebody wakes all."""
        while not is_there():
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            finally:
                if waiter.cancelled() and waiter in self._waiters:
                    self._waiters.remove(waiter)

    def wake(self) -> None:
        """Let everybody who waits look again."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
