"""Segments of which every batch left the queue: their files are removed or rewritten.

A segment of which all left is removed when it is the first one; elsewhere, or behind one that the disk does not remove,
it is emptied to its header, which then says so, so that a file that is missing is never taken for one that was used up.
The last one stays, for its numbers: when all that is queued has left, it is emptied in place, once it is long or its
room is needed. None of that needs room on the disk.
"""

import itertools
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from reconciler.delivery.queue import acknowledgements, frames
from reconciler.delivery.queue.appending import Appender
from reconciler.delivery.queue.committer import CommitFile, Committer
from reconciler.delivery.queue.files import Space, System
from reconciler.delivery.queue.frames import Segment

log = logging.getLogger(__name__)

EMPTY_BYTES = 8 << 20  # from which on the last segment is emptied when nothing is queued
SMALL_BYTES = 64 << 10  # the same on a disk with little room, of which it may have the share below
SHARES = 16

NOT_GIVEN_BACK = "The queue file %s could not be %s (%s)."


class UsedSegments:
    """Those of one journal, whose `segments` are changed in place: a segment stays there until its file is gone."""

    def __init__(
        self,
        segments: list[Segment],
        *,
        header: frames.SegmentHeader,
        appender: Appender,
        committer: Committer,
        space: Space,
        forget: Callable[[Path], None],
        is_used_up: Callable[[], bool],
        freed: Callable[[int], None],
        stay: Callable[[Sequence[Segment]], None],
        note: Callable[[Sequence[Segment]], None],
    ) -> None:
        """`header` has the kind and mark; `forget` hears of files that go, `freed` of bytes that are on the disk no
        more, `stay` of segments whose files stay for now: it has them tidied again later, and `note` of those of which
        has to be written down what left. `is_used_up` says whether nothing is queued at all.
        """
        self._segments = segments
        self._header = header
        self._appender = appender
        self._committer = committer
        self._space = space
        self._forget = forget
        self._is_used_up = is_used_up
        self._freed = freed
        self._stay = stay
        self._note = note
        self._going: Counter[Segment] = Counter()  # files that are being removed or emptied: by how many chores
        # Gone, though their files could not be removed or emptied, or a crash came in the middle of that.
        self._staying = {segment: None for segment in self._segments[:-1] if segment.is_gone and _holds(segment)}
        self._stuck: Segment | None = None  # the last one, if it could not be emptied

    @property
    def is_busy(self) -> bool:
        """Whether a file is being removed or emptied."""
        return bool(self._going) or self._appender.is_held

    @property
    def is_staying(self) -> bool:
        """Whether files that should be gone stay there."""
        return bool(self._staying)

    @property
    def is_stuck(self) -> bool:
        """Whether the last one could not be emptied: it goes when there is another one."""
        return bool(self._segments) and self._stuck is self._segments[-1]

    def may_note(self, segment: Segment) -> bool:
        """Whether its file of acknowledgements is there, and stays there for now."""
        is_going = segment in self._going or (self._appender.is_held and segment is self._segments[-1])
        return not is_going and (not segment.is_gone or segment in self._staying)

    def tidy(self, dirty: Iterable[Segment]) -> None:
        """Begin with those of these of which all left."""
        used_up = [segment for segment in dirty if segment in self._staying or self._is_spent(segment)]
        for segment in used_up:
            segment.is_gone = True
        first = self._first()
        removable = {*first[:1]} if first and first[0] in self._staying else {*first}
        for segment in used_up:
            if segment not in removable and segment not in self._going and _holds(segment):
                self._empty(segment)
        if self._may_empty_last() and self._is_last_long():
            self._empty_last()
            return
        self._remove_first()
        if self.is_stuck:  # something is under way to another file, and may be refused
            self._stay(self._segments[-1:])

    def make_room(self, dirty: Iterable[Segment]) -> None:
        """Give back all that nothing is queued in, before what is appended next is written."""
        self.tidy(dirty)
        if self._may_empty_last():
            self._empty_last()
        elif self._segments and self._segments[-1].is_damaged:
            self._appender.let_go()  # the next append begins another segment, and this one goes

    def _is_spent(self, segment: Segment) -> bool:
        """Whether all that was in it left, just now."""
        is_last = segment is self._segments[-1]
        return segment.is_sealed and not segment.is_gone and segment.left.batches <= 0 and not is_last

    def _first(self) -> list[Segment]:
        """Those that may be removed: no file stands before them that stays."""
        return [*itertools.takewhile(lambda segment: segment.is_gone, self._segments[:-1])]

    # Removing the first ones.

    def _remove_first(self) -> None:
        if self._segments and self._segments[0] in self._going:
            return  # the end of what is under way comes back to this
        used_up = self._first()
        if not used_up:
            return
        self._begin_to_remove(used_up)
        removed: list[Segment] = []  # which the chore fills

        def ended(failure: Exception | None) -> None:
            self._end_to_remove(used_up, removed, failure)
            self._space.look_again()
            if failure is None:
                self.tidy(())

        self._committer.do(lambda system: acknowledgements.remove_segment(system, used_up, removed), ended)

    def _begin_to_remove(self, used_up: Sequence[Segment]) -> None:
        self._going.update(used_up)
        for segment in used_up:
            self._forget(segment.path)  # an open file keeps its room

    def _end_to_remove(self, used_up: Sequence[Segment], removed: Sequence[Segment], failure: Exception | None) -> None:
        self._came(used_up)
        known = {*self._segments}  # an earlier chore may have removed some
        gone = [segment for segment in removed if segment in known]
        del self._segments[: len(gone)]
        for segment in gone:
            self._freed(segment.end + segment.acknowledged)
            self._staying.pop(segment, None)
        if len(removed) < len(used_up):
            self._keep(self._first(), "removed", failure)

    def _came(self, gone: Sequence[Segment]) -> None:
        """The end of a chore that was to do something to these."""
        for segment in gone:
            self._going[segment] -= 1
            if not self._going[segment]:
                del self._going[segment]

    def _keep(self, used_up: Sequence[Segment], what: str, failure: Exception | None) -> None:
        """Files that could not be removed, or emptied. None behind them is removed before: it would look lost."""
        # Another chore may do it yet, or has done it.
        known = {*self._segments}
        stuck = [segment for segment in used_up if segment in known and segment not in self._going]
        if not stuck:
            return
        if stuck[0] not in self._staying:
            log.warning(NOT_GIVEN_BACK, stuck[0].path, what, _reason(failure))
        self._staying.update(dict.fromkeys(stuck))
        self._stay(stuck)

    # Emptying those in the middle.

    def _empty(self, segment: Segment) -> None:
        header = self._header._replace(
            first=segment.first, before=segment.before, made_at=segment.made_at, flags=frames.DRAINED
        )
        act = acknowledgements.replace_segment if segment.is_damaged else acknowledgements.empty_segment
        file, data = CommitFile(segment.path), frames.encode_segment(header)
        self._going.update([segment])

        def ended(failure: Exception | None) -> None:
            self._came([segment])
            if failure is None:
                self._freed(segment.end - frames.SEGMENT_HEADER_BYTES + segment.acknowledged)
                segment.end, segment.acknowledged = frames.SEGMENT_HEADER_BYTES, 0
                segment.unwritten, segment.unsaved = [], set()  # the header says it
                self._staying.pop(segment, None)
            else:
                self._keep([segment], "emptied", failure)
            self._space.look_again()
            self._remove_first()

        self._committer.do(lambda system: act(system, file, data), ended)

    # Emptying the last one in place.

    def _may_empty_last(self) -> bool:
        if not self._segments or not self._is_used_up() or self._appender.is_held:
            return False
        *others, last = self._segments
        is_alone = all(segment.is_gone and segment not in self._staying for segment in others)
        return is_alone and last.end > frames.SEGMENT_HEADER_BYTES and not last.is_damaged

    def _is_last_long(self) -> bool:
        long = min(EMPTY_BYTES, self._appender.roll_bytes, max(SMALL_BYTES, self._space.spare() // SHARES))
        last = self._segments[-1]
        return last.end >= long or last is self._stuck or self._appender.refused_at is not None

    def _empty_last(self) -> None:
        *others, last = self._segments  # the others go first: its header will not say what was in them
        file = self._appender.file or CommitFile(last.path)
        self._appender.is_held = True
        header = self._appender.emptied()
        unwritten, last.unwritten = last.unwritten, []
        self._begin_to_remove(others)
        removed: list[Segment] = []

        def chore(system: System) -> None:
            acknowledgements.remove_segment(system, others, removed)
            acknowledgements.empty_segment(system, file, header)

        def ended(failure: Exception | None) -> None:
            self._appender.is_held = False
            self._end_to_remove(others, removed, failure)
            if failure is None:
                last.is_gone = True
                last.following = self._appender.restart(last)
                self._segments[:], self._stuck = [last.following], None
                self._freed(last.end - frames.SEGMENT_HEADER_BYTES + last.acknowledged)
                self._space.look_again()
            else:
                last.unwritten = unwritten + last.unwritten
                if len(removed) < len(others):
                    self._note([last])  # nothing was done to it
                else:
                    self._not_emptied(last, failure)
            self._committer.wants(self._appender)

        self._committer.do(chore, ended)

    def _not_emptied(self, last: Segment, failure: Exception) -> None:
        """What is in the file now, and of which header, is unknown: nothing is appended to it any more. It is emptied
        later, or removed when there is another one.
        """
        self._committer.faults += 1
        if self._stuck is not last:
            log.warning(NOT_GIVEN_BACK, last.path, "emptied", _reason(failure))
        self._stuck = last
        self._appender.let_go()
        last.is_sealed = True
        self._stay([last])


def _holds(segment: Segment) -> bool:
    """Whether there is more of it on disk than a header."""
    return segment.end > frames.SEGMENT_HEADER_BYTES or segment.acknowledged > 0


def _reason(failure: Exception | None) -> str:
    return os.strerror(getattr(failure, "errno", None) or 0)
