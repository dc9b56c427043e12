"""Walking: reading a journal from its beginning to its end, a few headers at a time, around what is damaged.

Belongs here: where a reader is, and what it reads next. Does not: who has claimed what, the bytes of payloads that are
asked for (`payloads`).
"""

from reconciler.queueing import frames, reading
from reconciler.queueing.contract import Piece
from reconciler.queueing.entries import QueueEntry
from reconciler.queueing.journals import Journal
from reconciler.queueing.reading import QueueFiles
from reconciler.queueing.segments import HEADER_BYTES, LONGEST_BYTES, Segment, SegmentTotals

CHUNK_BYTES = (
    16 << 10
)  # of one read: many headers when batches are small, and not much more than one when they are large
MOST_CHUNKS = 4  # at a stretch, when all in them has left


class JournalWalk:
    """A place in a journal. With `claims`, what is read counts as `out` of its segment; what left is skipped."""

    def __init__(self, journal: Journal, files: QueueFiles, *, claims: bool) -> None:
        self._journal = journal
        self._files = files
        self._claims = claims
        self._segment: Segment | None = None
        self._offset = HEADER_BYTES
        self._last = 0  # the number that was read last
        self._seen = SegmentTotals()  # of this segment, what has not left
        self._left = SegmentTotals()  # of this segment, what had not left when one came to it

    @property
    def is_at_end(self) -> bool:
        """Whether nothing is committed beyond this place."""
        return not self._arrive()

    def step(self, entry: QueueEntry) -> bool:
        """Take an entry that was just committed, if it is the next one here."""
        if self._arrive_before(entry):
            self._pass(entry)
            return True
        return False

    def now(self) -> list[QueueEntry] | None:
        """The next entries, as far as the kernel has them in memory; None when the disk has to be asked."""
        found: list[QueueEntry] = []
        for _ in range(MOST_CHUNKS):
            if not self._arrive():
                return found
            segment = self._segment
            assert segment is not None
            chunk = self._files.now(segment.path, self._offset, min(CHUNK_BYTES, segment.end - self._offset))
            if chunk is None or not self._take(chunk, found):
                return None
            if found:
                return found
        return None

    async def soon(self) -> list[QueueEntry]:
        """The next entries from the disk; none at the end."""
        found: list[QueueEntry] = []
        while not found and self._arrive():
            segment = self._segment
            assert segment is not None
            try:
                begins = self._offset
                size = min(CHUNK_BYTES, segment.end - begins)
                chunk = await self._files.soon(segment.path, begins, size)
            except OSError:
                chunk = b""
            if segment is not self._segment or begins != self._offset or segment.is_gone:
                continue  # somebody skipped it meanwhile
            if self._take(chunk, found):
                continue
            if segment.left.batches <= 0:  # it may be being emptied
                self._offset = segment.end
            else:
                await self._skip(segment)
        return found

    def to_end(self) -> Segment | None:
        """Skip all that is committed; the segment that one is in now."""
        while self._arrive():
            assert self._segment is not None
            self._offset = self._segment.end
        return self._segment

    @property
    def next_number(self) -> int:
        """No entry beyond this place has a lower number."""
        return self._last + 1

    @property
    def segment(self) -> Segment | None:
        """Where one is."""
        return self._segment

    def _arrive(self) -> bool:
        """Go to the segment that has the next frame; False when there is none."""
        if self._segment is None:
            if not self._journal.segments:
                return False
            self._enter(self._journal.segments[0])
        segment = self._segment
        assert segment is not None
        while segment.is_gone or self._offset >= segment.end:
            if segment.following is None:
                return False
            if not segment.is_gone:
                self._settle(segment)
            self._enter(segment.following)
            segment = segment.following
        return True

    def _enter(self, segment: Segment) -> None:
        self._segment, self._offset, self._seen, self._left = segment, HEADER_BYTES, SegmentTotals(), segment.left

    def _settle(self, segment: Segment) -> None:
        """All of a segment was read: whatever should have been there and was not is lost."""
        if self._claims:
            self._journal.settle(segment, segment.out)
        elif segment.left == self._left:  # else some left meanwhile, and there is nothing to compare with
            self._journal.settle(segment, self._seen)

    def _arrive_before(self, entry: QueueEntry) -> bool:
        segment = self._segment
        if segment is not entry.segment:
            if segment is not None and not (segment.following is entry.segment and self._offset >= segment.end):
                return False
            if segment is None and self._journal.segments[0] is not entry.segment:
                return False
            if segment is not None:
                self._settle(segment)
            self._enter(entry.segment)
        return self._offset == entry.offset

    def _pass(self, entry: QueueEntry) -> None:
        self._offset, self._last = entry.end, entry.number
        self._seen = self._seen.plus(entry.totals)
        if self._claims:
            entry.segment.out = entry.segment.out.plus(entry.totals)

    def _take(self, chunk: Piece, found: list[QueueEntry]) -> bool:
        """Read the headers in a chunk that begins here; False when there is none where one should be."""
        segment, begins = self._segment, self._offset
        assert segment is not None
        while self._offset - begins + frames.HEADER_BYTES <= len(chunk):
            frame = frames.decode(chunk, self._offset - begins, mark=self._journal.mark)
            if frame is None or self._offset + frame.length > segment.end:
                return bool(found)
            self._see(QueueEntry(frame.number, frame.records, frame.size, frame.taken_at, segment, self._offset), found)
        return self._offset > begins

    def _see(self, entry: QueueEntry, found: list[QueueEntry]) -> None:
        segment = entry.segment
        is_own = entry.number >= segment.first and entry.number > self._last  # else what an emptied file had before
        if not is_own or entry.number in segment.done:
            self._offset = entry.end
            return
        self._pass(entry)
        found.append(entry)

    async def _skip(self, segment: Segment) -> None:
        """Go on behind what cannot be read."""
        begins, mark = self._offset, self._journal.mark
        self._journal.damaged(segment, lost=0)

        def search() -> int | None:
            try:
                limit = min(segment.end, LONGEST_BYTES)
                return frames.find(reading.read_whole(segment.path, limit=limit), begins + 1, mark=mark)
            except OSError:
                return None

        following = await self._files.run(search)
        if segment is self._segment and not segment.is_gone:
            self._offset = segment.end if following is None else following
