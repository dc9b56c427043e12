"""An entry: one frame of a segment as it is known in memory, with or without its bytes.

Belongs here: what is known of a frame that was read or written. Does not: the bytes of one (`frames`), who holds it.
"""

from dataclasses import dataclass

from reconciler.queueing import frames
from reconciler.queueing.segments import HEADER_BYTES, Segment, SegmentTotals


@dataclass(eq=False, slots=True)
class QueueEntry:
    """`offset` is where its header begins in the segment; `kept` its payload, while there is room for it."""

    number: int
    records: int
    size: int
    taken_at: int
    segment: Segment
    offset: int = HEADER_BYTES
    kept: bytes | None = None

    @property
    def totals(self) -> SegmentTotals:
        """What it counts for."""
        return SegmentTotals(1, self.records, self.size)

    @property
    def end(self) -> int:
        """Where the next frame begins."""
        return self.offset + frames.HEADER_BYTES + self.size
