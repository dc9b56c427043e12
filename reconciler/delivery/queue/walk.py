"""Reading a journal from its beginning to its end, a few headers at a time, around what is damaged."""

from collections.abc import Callable

from reconciler.delivery.queue import files, segments
from reconciler.delivery.queue.acknowledgements import Totals
from reconciler.delivery.queue.contract import Piece
from reconciler.delivery.queue.journal import Journal
from reconciler.delivery.queue.segments import LONGEST_BYTES, SEGMENT_HEADER_BYTES, QueueEntry, Segment

CHUNK_BYTES = 16 << 10  # of one read: many headers of small batches, and not much more than one of a large batch
MOST_CHUNKS = 4  # at a stretch, when all in them has left


class JournalWalk:
    """A position in a journal. Entries that left are skipped.

    `held` returns how much of a segment the caller has read and not acknowledged: at the end of the segment, the rest
    of what is left is lost. Without it, that is only known when nothing leaves while the segment is read.
    """

    def __init__(self, journal: Journal, *, held: Callable[[Segment], Totals] | None = None) -> None:
        self._journal = journal
        self._held = held
        self._segment: Segment | None = None
        self._offset = SEGMENT_HEADER_BYTES
        self._last = 0  # the number that was read last
        self._seen = Totals()  # of this segment
        self._left = Totals()  # of this segment, when the walk came to it

    def step(self, entry: QueueEntry) -> bool:
        """Take an entry that was just committed, if it is the next one here."""
        if self._arrive() is not entry.segment or self._offset != entry.offset:
            return False
        self._pass(entry)
        return True

    def now(self) -> list[QueueEntry] | None:
        """Return the next entries, as far as the kernel has them in memory; None when the disk has to be asked."""
        found: list[QueueEntry] = []
        for _ in range(MOST_CHUNKS):
            segment = self._arrive()
            if segment is None:
                return found
            chunk = self._journal.reader.now(segment.path, self._offset, self._chunk(segment))
            if chunk is None or not self._take(segment, chunk, found):
                return None
            if found:
                return found
        return None

    async def soon(self) -> list[QueueEntry]:
        """Return the next entries from the disk; none at the end."""
        found: list[QueueEntry] = []
        while not found and (segment := self._arrive()) is not None:
            begins = self._offset
            try:
                chunk = await self._journal.reader.soon(segment.path, begins, self._chunk(segment))
            except OSError:
                chunk = b""
            if self._is_at(segment, begins) and not self._take(segment, chunk, found):
                await self._skip_damage(segment)
        return found

    def discard_rest(self) -> None:
        """Acknowledge everything beyond this position."""
        while (segment := self._arrive()) is not None:
            held = self._held(segment) if self._held is not None else Totals()
            self._journal.acknowledge_rest(segment, first=max(self._last + 1, segment.first), held=held)
            self._offset = segment.end

    def _is_at(self, segment: Segment, offset: int) -> bool:
        """Return true unless somebody went on, or the segment was used up, during a wait."""
        return segment is self._segment and offset == self._offset and not segment.is_spent

    def _chunk(self, segment: Segment) -> int:
        return min(CHUNK_BYTES, segment.end - self._offset)

    def _arrive(self) -> Segment | None:
        """Go to the segment that has the next frame, and return it."""
        if self._segment is None:
            if not self._journal.segments:
                return None
            self._enter(self._journal.segments[0])
        segment = self._segment
        assert segment is not None
        while segment.is_spent or self._offset >= segment.end:
            if segment.following is None:
                return None
            if not segment.is_spent:
                self._settle(segment)
            segment = segment.following
            self._enter(segment)
        return segment

    def _enter(self, segment: Segment) -> None:
        self._segment, self._offset, self._seen, self._left = segment, SEGMENT_HEADER_BYTES, Totals(), segment.left

    def _settle(self, segment: Segment) -> None:
        """All of a segment was read: the entries that were not there are lost."""
        if self._held is not None:
            self._journal.settle(segment, self._held(segment))
        elif segment.left == self._left:
            self._journal.settle(segment, self._seen)

    def _pass(self, entry: QueueEntry) -> None:
        self._offset, self._last = entry.end, entry.number
        self._seen = self._seen.plus(entry.totals)

    def _take(self, segment: Segment, chunk: Piece, found: list[QueueEntry]) -> bool:
        """Read the headers in a chunk that begins here; False when there is none where one should be."""
        begins = self._offset
        while self._offset - begins + segments.FRAME_HEADER_BYTES <= len(chunk):
            frame = segments.decode_frame(chunk, self._offset - begins, mark=self._journal.mark)
            if frame is None or self._offset + frame.length > segment.end:
                return bool(found)
            entry = QueueEntry.of(frame, segment, self._offset)
            # Lower numbers are of frames that the file had before it was emptied.
            if entry.number < segment.first or entry.number <= self._last or entry.has_left:
                self._offset = entry.end
            else:
                self._pass(entry)
                found.append(entry)
        return self._offset > begins

    async def _skip_damage(self, segment: Segment) -> None:
        """Go to the next frame behind unreadable bytes."""
        begins, mark = self._offset, self._journal.mark
        self._journal.report_damage(segment, lost=0)

        def search() -> int | None:
            try:
                region = files.read_whole(segment.path, limit=min(segment.end, LONGEST_BYTES)).data
            except OSError:
                return None
            return segments.find_frame(region, begins + 1, mark=mark)

        following = await self._journal.reader.run(search)
        if self._is_at(segment, begins):
            self._offset = segment.end if following is None else following
