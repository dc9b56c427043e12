"""Small requests for one queue that come at once, put together into one batch; and a disk that hangs.

A batch has its price, at every step from its frame on disk to its acknowledgement, whatever it holds. Senders of single
records, many at once, would pay it for each. Nobody waits for others: the batch is what came in the same turn of the
event loop, or, while the queue still writes an earlier one, until that is written.

A disk that hangs keeps nobody waiting for ever: a sender that has waited for too long is told so, and nothing more is
taken until the disk answers. One timer looks after all; it ends when nothing is being written.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from reconciler.delivery.contract import NotTaken
from reconciler.delivery.queue.contract import Obituary, Piece, Queue, QueueFault, Shortage
from reconciler.delivery.routing import RecordShare

log = logging.getLogger(__name__)

MOST_RECORDS = (
    256  # of what is put together: an endpoint that refuses one of them gets the others in a few requests more
)
MOST_BYTES = 64 << 10  # of the same; a larger request goes alone
LOOK_SECONDS = 15.0  # between two looks who waits; whoever does at two of them hears that the disk does not answer

HANGS = "The disk does not answer what is written to the queue of %s; until it does, nothing more is taken for it."
ANSWERS = "The disk answers what is written to the queue of %s again."
KEEP = "Keep the records and send them again."

Heard = asyncio.Future[None]
"""Ends when a lane has a share where it promises; its exception is `NotTaken`."""


class LateRecords(NotTaken):
    """The disk has not answered in time. What was to be appended may still be kept: `written` ends when that is known,
    as the append does.
    """

    def __init__(self, written: Heard) -> None:
        super().__init__(f"The disk of the queues does not answer. {KEEP}")
        self.written = written


class SmallRequests:
    """In front of one queue; belongs to the running loop."""

    def __init__(
        self,
        queue: Queue,
        *,
        who: str,
        clock: Callable[[], int],
        taken: Callable[[int], None],
        hung: Callable[[], None],
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        """`who` is whose queue it is, as the log names it; `clock` gives Unix milliseconds; `taken` hears how many
        records it has kept, before any is delivered; `hung` is called when the disk begins to hang. Nobody waits for
        more than twice `look_seconds`.
        """
        self._queue = queue
        self._who = who
        self._hung = hung
        self._clock = clock
        self._taken = taken
        self._loop = asyncio.get_running_loop()
        self._pieces: list[Piece] = []
        self._heard: list[Heard] = []
        self._records = 0
        self._at = 0
        self._free = 0  # bytes that may join, for which the queue said that it has room
        self._is_due = False
        self._under_way: dict[Heard, list[Heard]] = {}  # who waits for each batch and dead letter that is written
        self._waited: list[Heard] = []  # those batches, as they were at the last look
        self._look_seconds = look_seconds
        self._timer: asyncio.TimerHandle | None = None
        self.is_stuck = False  # somebody waited for too long, and the disk has answered nothing since

    @property
    def is_empty(self) -> bool:
        """Tell whether the queue has all that was taken."""
        return not self._heard

    def room(self, share: RecordShare) -> Shortage | None:
        """As of a queue."""
        if self.is_stuck:
            return Shortage.DISK
        if self._joins(share):
            return None
        self._flush()  # what is here is another batch than the one that is asked for, and counts
        return self._queue.room(size=share.size)

    def _joins(self, share: RecordShare) -> bool:
        return share.size <= self._free and self._records + share.records <= MOST_RECORDS

    def add(self, share: RecordShare) -> Heard:
        """Take what a request has for the queue. The call itself settles the order; see `Queue.append`."""
        if self._joins(share):
            self._free -= share.size
        else:
            self._flush()
            self._begin(share)
        self._pieces += share.pieces
        self._records += share.records
        heard: Heard = self._loop.create_future()
        self._heard.append(heard)
        return heard

    def _begin(self, share: RecordShare) -> None:
        self._at = self._clock()
        has_room = share.size < MOST_BYTES and self._queue.room(size=MOST_BYTES) is None
        self._free = MOST_BYTES - share.size if has_room else 0
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_due = False
        if not self._under_way:
            self._flush()

    def _flush(self) -> None:
        """The batch is whole."""
        if not self._heard:
            return
        pieces, heard, records, at = self._pieces, self._heard, self._records, self._at
        self._pieces, self._heard = [], []
        self._records = self._free = 0
        self._await(self._queue.append(pieces, records=records, at=at), heard, partial(self._taken, records))

    def bury(self, share: RecordShare, obituary: Obituary, *, buried: Callable[[], None]) -> Heard | None:
        """Make a dead letter of what a request has for the queue, and call `buried` once it is one; None, and nothing
        is kept, where there is no room for that either.
        """
        if self.is_stuck:
            return None
        written = self._queue.bury_unqueued(share.pieces, obituary, records=share.records, at=obituary.at)
        if written is None:
            return None

        def kept() -> None:
            self._taken(share.records)
            buried()

        heard: Heard = self._loop.create_future()
        self._await(written, [heard], kept)
        return heard

    def _await(self, writing: Awaitable[None], heard: list[Heard], kept: Callable[[], None]) -> None:
        """`kept` is called once it is written, even after those who wait were told that the disk does not answer."""
        written = asyncio.ensure_future(writing)
        self._under_way[written] = heard
        if self._timer is None:
            self._timer = self._loop.call_later(self._look_seconds, self._look)
        written.add_done_callback(partial(self._written, kept))

    def _written(self, kept: Callable[[], None], written: Heard) -> None:
        heard = self._under_way.pop(written)
        self._recover()
        failure = _failure(written)
        if failure is None:
            kept()
        for one in heard:
            if not one.done():
                one.set_result(None) if failure is None else one.set_exception(failure)
        if not self._under_way:
            self._flush()

    def _look(self) -> None:
        """Tell senders that waited too long. What is gathered is queued, too: it would wait for as long again."""
        self._timer = None
        for written in self._waited:
            if written in self._under_way:
                self._stick()
                for one in self._under_way[written]:
                    if not one.done():
                        one.set_exception(LateRecords(written))
        self._flush()
        self._waited = [*self._under_way]
        if self._waited and self._timer is None:
            self._timer = self._loop.call_later(self._look_seconds, self._look)

    def _stick(self) -> None:
        if not self.is_stuck:
            self.is_stuck = True
            self._hung()
            log.error(HANGS, self._who)

    def _recover(self) -> None:
        if self.is_stuck:
            self.is_stuck = False
            log.warning(ANSWERS, self._who)


def _failure(written: Heard) -> BaseException | None:
    failure = asyncio.CancelledError() if written.cancelled() else written.exception()
    return NotTaken(f"{failure.message} {KEEP}") if isinstance(failure, QueueFault) else failure
