"""A lane: one destination with its queue and exporter; small requests gathered, requests split."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from reconciler.delivery.exporter import Exporter
from reconciler.delivery.otlp.models import Logs, RecordGroup
from reconciler.delivery.queue.contract import Obituary, Piece, Queue, QueueFault, Shortage
from reconciler.delivery.reporting import NotTaken
from reconciler.model.routes import Buffering, Destination, OnFull

# Which groups of a request go to which destination; pure.

Match = Callable[[Mapping[str, str]], tuple[str, ...]]
"""The destinations of records whose resource has these attributes, each once."""


class RecordShare(NamedTuple):
    """What one destination gets of a request: pieces which one after another are a request again."""

    pieces: tuple[bytes | memoryview, ...]
    records: int
    size: int


class RequestSplit(NamedTuple):
    """Each destination's share, in the order in which they first occur, and how many records none of them takes."""

    shares: dict[str, RecordShare]
    unrouted: int


def split_request(logs: Logs, match: Match) -> RequestSplit:
    """Divide a request."""
    if len(logs.groups) == 1:  # of nearly every request that is small
        group = logs.groups[0]
        share = RecordShare((group.data,), group.records, len(group.data))
        names = match(group.attributes)
        return RequestSplit(dict.fromkeys(names, share), 0 if names else group.records)
    chosen: dict[str, list[RecordGroup]] = {}
    unrouted = 0
    for group in logs.groups:
        names = match(group.attributes)
        if not names:
            unrouted += group.records
        for name in names:
            chosen.setdefault(name, []).append(group)
    return RequestSplit({name: _share(groups) for name, groups in chosen.items()}, unrouted)


def _share(groups: Sequence[RecordGroup]) -> RecordShare:
    return RecordShare(
        tuple(group.data for group in groups),
        sum(group.records for group in groups),
        sum(len(group.data) for group in groups),
    )


# Small requests for one queue that come at once, put together into one batch.
#
# A batch has its price, at every step from its frame on disk to its acknowledgement, whatever it holds. Senders of
# single records, many at once, would pay it for each. Nobody waits for others: the batch is what has come in the same
# turn of the event loop, or, where the queue still writes what came before, until that is written, for which it would
# wait in any case.
#
# A disk that hangs keeps nobody waiting for ever: who has waited for too long hears so, and nothing more is taken until
# the disk answers. What is under way stays so. One timer looks after all; it ends with the first look that finds
# nothing under way.

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
        """Whether the queue has all that was taken."""
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
        """What is gathered goes to the queue, too: else it would wait for what hangs, and then for as long again."""
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


# A lane: one destination of one project, with its queue and what sends from it.

SHORT = {
    Shortage.BATCHES: "its queue holds as much as `sending_queue_queue_size` allows",
    Shortage.BYTES: "its queue takes as many bytes as it may",
    Shortage.DISK: "the disk has too little room, or takes nothing",
}


@dataclass(slots=True)
class LaneCounts:
    """Records since the start of the service."""

    taken: int = 0
    dropped: int = 0
    discarded: int = 0
    expired: int = 0

    def take(self, records: int) -> None:
        """So many are where the lane promises."""
        self.taken += records

    def add(self, other: "LaneCounts") -> None:
        """Take over what a lane counted that ends."""
        self.taken += other.taken
        self.dropped += other.dropped
        self.discarded += other.discarded
        self.expired += other.expired


@dataclass(eq=False, slots=True)
class Lane:
    """`queue` is None when records are sent while their sender waits, and so is `gathering`, which stands in front of
    it. `exporter` is None for a queue that was found and of whose destination nothing is known: it can be discarded, or
    waits for a destination of this name.

    A lane that is `leaving` takes nothing more: it drains.
    """

    project: str
    name: str
    place: str
    destination: Destination | None
    queue: Queue | None
    exporter: Exporter | None
    gathering: SmallRequests | None = None
    leaving: bool = False
    counts: LaneCounts = field(default_factory=LaneCounts)

    @property
    def sender(self) -> Exporter:
        """The exporter of a lane that has one."""
        assert self.exporter is not None
        return self.exporter

    @property
    def drops(self) -> bool:
        """Whether a request is taken for other lanes where this one has no room: its share is dropped, or buried."""
        return self.destination is not None and self.destination.buffering.on_full is not OnFull.REJECT

    @property
    def buries(self) -> bool:
        """Whether what a full queue cannot take becomes a dead letter, as long as there is room for that."""
        return self.destination is not None and self.destination.buffering.on_full is OnFull.DEAD_LETTER

    @property
    def is_refused(self) -> bool:
        """Whether the disk failed what was written last, or does not answer."""
        if self.queue is None:
            return False
        return self.queue.depth().refused or (self.gathering is not None and self.gathering.is_stuck)

    @property
    def is_without_disk(self) -> bool:
        """Whether it takes nothing, since the disk is down to what queues leave free."""
        return self.queue is not None and not self.leaving and self.queue.room(size=1) is Shortage.DISK

    def exceeds(self, size: int) -> bool:
        """Whether so many bytes would not fit into its queue if that were empty."""
        return self.queue is not None and not self.queue.may_hold(size=size)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is queued, and no dead letter is left."""
        if self.queue is None:
            return True
        if self.gathering is not None and not self.gathering.is_empty:
            return False
        depth = self.queue.depth()
        return not depth.batches and not depth.dead_batches

    @property
    def records(self) -> int:
        """How many records are queued, those of dead letters too."""
        if self.queue is None:
            return 0
        depth = self.queue.depth()
        return depth.records + depth.dead_records


def lane_place(buffering: Buffering) -> str:
    """Where a queue is. With another answer it is another queue."""
    if not buffering.queue:
        return NOWHERE
    return MEMORY if buffering.storage is None else is_on_disk(buffering.storage.directory)


def is_on_disk(directory: str) -> str:
    """The place of a queue on disk."""
    return f"disk {directory}"


NOWHERE = "none"
MEMORY = "memory"
