"""A lane: one destination of one project, with its queue and its exporter."""

from dataclasses import dataclass, field

from reconciler.delivery.exporter import Exporter
from reconciler.delivery.queue.contract import Queue, Shortage
from reconciler.delivery.small_requests import SmallRequests
from reconciler.model.routes import Buffering, Destination, OnFull

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
        """Tell whether other lanes get a request if this one has no room: its share is dropped, or buried."""
        return self.destination is not None and self.destination.buffering.on_full is not OnFull.REJECT

    @property
    def buries(self) -> bool:
        """Tell whether what a full queue cannot take becomes a dead letter, as long as there is room for that."""
        return self.destination is not None and self.destination.buffering.on_full is OnFull.DEAD_LETTER

    @property
    def is_refused(self) -> bool:
        """Tell whether the disk failed what was written last, or does not answer."""
        if self.queue is None:
            return False
        return self.queue.depth().refused or (self.gathering is not None and self.gathering.is_stuck)

    @property
    def is_without_disk(self) -> bool:
        """Tell whether it takes nothing, since the disk is down to what queues leave free."""
        return self.queue is not None and not self.leaving and self.queue.room(size=1) is Shortage.DISK

    def exceeds(self, size: int) -> bool:
        """Tell whether so many bytes would not fit into its queue if that were empty."""
        return self.queue is not None and not self.queue.may_hold(size=size)

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing is queued, and no dead letter is left."""
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
    """Return the place of a queue. With another place it is another queue."""
    if not buffering.queue:
        return NOWHERE
    return MEMORY if buffering.storage is None else is_on_disk(buffering.storage.directory)


def is_on_disk(directory: str) -> str:
    """The place of a queue on disk."""
    return f"disk {directory}"


NOWHERE = "none"
MEMORY = "memory"
