"""Small requests for one queue that come at once, put together into one batch.

Belongs here: which go together, and who hears when they are where the queue keeps them. Does not: the queue, whether a
request may be taken at all (`intake`).

A batch has its price, at every step from its frame on disk to its acknowledgement, whatever it holds. Senders of
single records, many at once, would pay it for each. Nobody waits for others: the batch is what has come in the same
turn of the event loop, or, where the queue still writes what came before, until that is written, for which it would
wait in any case.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from reconciler.delivery.splitting import Share
from reconciler.queueing.contract import Piece, Queue, Shortage

MOST_RECORDS = (
    256  # of what is put together: an endpoint that refuses one of them gets the others in a few requests more
)
MOST_BYTES = 64 << 10  # of the same; a larger request goes alone

Heard = asyncio.Future[None]


class Gathering:
    """In front of one queue; belongs to the running loop."""

    def __init__(self, queue: Queue, *, clock: Callable[[], int], taken: Callable[[int], None]) -> None:
        """`clock` gives Unix milliseconds; `taken` hears how many records it has kept, before any is delivered."""
        self._queue = queue
        self._clock = clock
        self._taken = taken
        self._loop = asyncio.get_running_loop()
        self._pieces: list[Piece] = []
        self._heard: list[Heard] = []
        self._records = 0
        self._at = 0
        self._free = 0  # bytes that may join, for which the queue said that it has room
        self._is_due = False
        self._under_way = 0  # batches that the queue writes

    @property
    def is_empty(self) -> bool:
        """Whether the queue has all that was taken."""
        return not self._heard

    def room(self, share: Share) -> Shortage | None:
        """As of a queue."""
        if self._joins(share):
            return None
        self._flush()  # what is here is another batch than the one that is asked for, and counts
        return self._queue.room(size=share.size)

    def _joins(self, share: Share) -> bool:
        return share.size <= self._free and self._records + share.records <= MOST_RECORDS

    def add(self, share: Share) -> Heard:
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

    def _begin(self, share: Share) -> None:
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
        self._under_way += 1
        written = asyncio.ensure_future(self._queue.append(pieces, records=records, at=at))
        written.add_done_callback(partial(self._written, heard, records))

    def _written(self, heard: list[Heard], records: int, written: Heard) -> None:
        self._under_way -= 1
        failure = asyncio.CancelledError() if written.cancelled() else written.exception()
        if failure is None:
            self._taken(records)
        for one in heard:
            if not one.done():
                one.set_result(None) if failure is None else one.set_exception(failure)
        if not self._under_way:
            self._flush()
