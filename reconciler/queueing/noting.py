"""What is to be written beside a segment: what left it, and what was tried of the rest. Pure.

Belongs here: which records are next, or all anew once that is far less than the file has, and what a write that failed
leaves to be written. Does not: the bytes of records (`acknowledging`), when they are written (`journals`).
"""

from reconciler.queueing import acknowledging
from reconciler.queueing.segments import Segment
from reconciler.queueing.used_files import FileWrite


def pending_acknowledgement(segment: Segment, *, mark: int) -> FileWrite | None:
    """What is to be written of a segment, which counts as written from now on; None when that is nothing."""
    if segment.acknowledged >= acknowledging.rewrite_at(len(segment.progress) + len(segment.died), segment.done.size):
        return _all(segment, mark=mark)
    if not segment.unwritten and not segment.unsaved:
        return None
    return _taken(segment, offset=segment.acknowledged, is_anew=False, mark=mark)


def _all(segment: Segment, *, mark: int) -> FileWrite:
    unwritten, unsaved = segment.unwritten, segment.unsaved  # what the file lacks, if this cannot be written
    segment.unsaved = set(segment.progress)
    segment.unwritten = [acknowledging.several(segment.done.first, segment.done.bits(), segment.gone, mark=mark)]
    segment.unwritten += [
        acknowledging.replayed(number, died, mark=mark) for number, died in sorted(segment.died.items())
    ]
    write = _taken(segment, offset=0, is_anew=True, mark=mark)
    return write._replace(records=unwritten, unsaved=unsaved)


def _taken(segment: Segment, *, offset: int, is_anew: bool, mark: int) -> FileWrite:
    records = [] if offset else [acknowledging.MAGIC]
    records += segment.unwritten
    records += [
        acknowledging.progressed(number, segment.progress[number], mark=mark) for number in sorted(segment.unsaved)
    ]
    data = b"".join(records)
    before, segment.acknowledged = segment.acknowledged, offset + len(data)
    write = FileWrite(segment, offset, data, before, is_anew, segment.unwritten, segment.unsaved)
    segment.unwritten, segment.unsaved = [], set()
    return write


def take_back_acknowledgement(write: FileWrite) -> None:
    """A write failed: what the file lacks is written with what is next."""
    segment = write.segment
    segment.unwritten = write.records + segment.unwritten
    segment.unsaved |= write.unsaved & segment.progress.keys()
    segment.acknowledged = write.before
