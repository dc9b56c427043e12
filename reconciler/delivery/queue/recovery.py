"""Recovery of a journal at its opening, and the quarantine of damaged files.

Recovery always returns a usable journal, except after passing faults. Then it raises, and is tried again: a segment
that was not read would otherwise count as empty and be removed. Only the header, the length and the acknowledgements of
a segment are read, except for the last one. A file whose length differs from the headers is read whole. An incomplete
frame at the end, after a crash, is ignored: nothing is appended to a file of an earlier process.

Damaged files are kept in quarantine, where people can examine them. A file with readable batches is linked there, which
takes no space; a file without any is moved. Nothing in quarantine is ever overwritten: another file of the same name
gets a number.
"""

import contextlib
import itertools
import logging
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.delivery.queue import files, segments
from reconciler.delivery.queue.files import PASSING
from reconciler.delivery.queue.folders import QUARANTINE
from reconciler.delivery.queue.segments import Acknowledgements, Frame, Segment, SegmentHeader, Totals
from reconciler.model.text import counted

log = logging.getLogger(__name__)

DEAD_PREFIX = "dead-"  # before the name of a dead-letter segment


@dataclass(slots=True)
class Recovered:
    """A recovered journal. `header` is that of the next segment; `lost` counts unreadable batches."""

    header: SegmentHeader
    segments: list[Segment] = field(default_factory=list)
    damaged: list[Path] = field(default_factory=list)
    lost: int = 0


@dataclass(slots=True)
class _Found:
    """A file. `header` is None if it is unreadable, `frames` is None if the file was not read whole. A foreign file is
    not a regular file, or belongs to a newer service or another journal. `missing` counts the numbers that are absent
    between its frames; `end` is the end of the last frame.
    """

    path: Path
    first: int
    length: int
    highest: int
    header: SegmentHeader | None = None
    is_foreign: bool = False
    frames: list[Frame] | None = None
    end: int = 0
    is_damaged: bool = False
    missing: int = 0

    @property
    def is_drained(self) -> bool:
        return self.header is not None and bool(self.header.flags & segments.DRAINED)


def recover(folder: Path, *, kind: int, mark: int) -> Recovered:
    """Read a folder, which may be missing. Raises OSError if it is unreadable, or for passing faults of a file."""
    recovered = Recovered(SegmentHeader(kind, mark, 1, Totals(), 0))
    served: list[_Found] = []
    highest = 0
    for path in reversed(_files(folder)):
        one = _read_file_header(path, kind=kind, mark=mark)
        if _is_known(one, served[0] if served else None, mark=mark):
            served.insert(0, one)
        else:
            highest = max(highest, segments.highest_number(one.first, one.length))
            _put_away(one, kind=kind)
    before = Totals()
    for one, following in itertools.zip_longest(served, served[1:]):
        before = _add(recovered, one, following, before)
    recovered.damaged += quarantined(folder, kind=kind)
    highest = max([highest, *map(_highest_of, recovered.damaged), *(one.highest for one in served)])
    recovered.header = recovered.header._replace(first=highest + 1, before=before)
    with contextlib.suppress(OSError):
        for path in [*folder.glob(f"*{segments.ACKNOWLEDGED}"), *folder.glob("*.new")]:
            if path.suffix == ".new" or not path.with_suffix(segments.SUFFIX).exists():
                path.unlink()
    return recovered


def _files(folder: Path) -> list[Path]:
    try:
        found = [path for path in folder.iterdir() if path.suffix == segments.SUFFIX]
    except FileNotFoundError:
        return []
    return sorted(path for path in found if segments.segment_number(path.stem) is not None)


def _read_file_header(path: Path, *, kind: int, mark: int) -> _Found:
    """Read the header of a file. Raises OSError for passing faults."""
    first = segments.segment_number(path.stem) or 0
    status = path.lstat()
    found = _Found(path, first, status.st_size, highest=first, is_foreign=not stat.S_ISREG(status.st_mode))
    try:
        header = segments.decode_segment(files.read_whole(path, limit=segments.SEGMENT_HEADER_BYTES).data)
    except segments.UnknownVersion:
        found.is_foreign = True
        return found
    except OSError as fault:
        _raise_passing(fault)
        return found
    if header is not None and (header.kind, header.mark) != (kind, mark):
        found.is_foreign = True
    elif header is not None:
        # The number in the name counts as used: a segment without frames keeps its name to itself.
        found.header, found.first, found.highest = header, max(first, header.first), max(first, header.first - 1)
    return found


def _raise_passing(fault: OSError) -> None:
    if fault.errno in PASSING:
        raise fault


def _is_known(one: _Found, following: _Found | None, *, mark: int) -> bool:
    """Return True if a file has readable batches. It is read whole if no next header has its sums. A file without a
    header may still have frames of this queue. Raises OSError for passing faults.
    """
    if one.header is None and (one.is_foreign or one.length <= segments.SEGMENT_HEADER_BYTES):
        return False
    if one.is_drained or (one.header is not None and following is not None and following.header is not None):
        return True
    try:
        _read(one, mark=mark)
    except OSError as fault:
        _raise_passing(fault)
        return False
    return one.header is not None or bool(one.frames)


def _read(one: _Found, *, mark: int) -> None:
    """Read a whole file. Raises OSError."""
    region, is_complete = files.read_whole(one.path, limit=segments.LONGEST_BYTES)
    scanned = segments.scan(region, segments.SEGMENT_HEADER_BYTES, mark=mark)
    own = [frame for frame in scanned.frames if frame.number >= one.first]
    one.highest = max([one.highest, *(frame.number for frame in own)])
    is_longer = one.length > len(region)  # longer than any file that is written here
    one.frames, one.end = own, scanned.end
    one.is_damaged = scanned.gaps > 0 or not scanned.torn or one.header is None or is_longer or not is_complete
    one.missing = one.highest - one.first + 1 - len(own) if own and scanned.gaps else 0


def _add(recovered: Recovered, one: _Found, following: _Found | None, before: Totals) -> Totals:
    """Add the segment of a file, and return the totals before the next one.

    The header of the next file, or the content, gives the totals of the segment. A file in the middle without a header
    begins where the previous one ends.
    """
    kind, mark = recovered.header.kind, recovered.header.mark
    end = following.header.before if following is not None and following.header is not None else None
    if one.header is not None:
        begins = one.header.before
        if recovered.segments:
            _lose(recovered, one, begins.batches - before.batches)
    elif not recovered.segments and end is not None and one.frames is not None:
        begins = end.minus(segments.sum_frames(one.frames))
    else:
        begins = before
    held = _file_totals(recovered, one, end.minus(begins) if end is not None else None, mark=mark)
    if one.is_damaged:
        failure = None
        try:
            put_in_quarantine(one.path, kind=kind, is_served=True)
        except OSError as fault:
            failure = fault
            recovered.damaged.append(one.path)
        report_quarantine(one.path, failure)
    segment = _segment(one, begins, held, kind=kind, mark=mark)
    if recovered.segments:
        recovered.segments[-1].following = segment
    recovered.segments.append(segment)
    return end if end is not None else begins.plus(held)


def _file_totals(recovered: Recovered, one: _Found, expected: Totals | None, *, mark: int) -> Totals:
    """Return the totals of a file, given the expected ones."""
    if one.is_drained:
        return Totals()
    if one.frames is None and expected is not None:
        if segments.segment_length(expected) == one.length:
            return expected
        try:
            _read(one, mark=mark)
        except OSError as fault:
            _raise_passing(fault)
            return expected
    assert one.frames is not None  # the last file, and one before a file without a header, are read whole
    held = segments.sum_frames(one.frames)
    _lose(recovered, one, one.missing if expected is None else expected.batches - held.batches)
    return held


def _lose(recovered: Recovered, one: _Found, batches: int) -> None:
    if batches > 0:
        recovered.lost += batches
        log.error("The queue file %s lacks %s, lost for good.", one.path, counted(batches, "batch", "batches"))


def _segment(one: _Found, before: Totals, held: Totals, *, kind: int, mark: int) -> Segment:
    acknowledged = Acknowledgements(one.first, mark=mark)
    made_at = one.header.made_at if one.header is not None else 0
    segment = Segment(one.path, one.first, before, acknowledged, made_at, end=one.length, is_sealed=True)
    segment.is_drained = one.is_drained
    if one.is_drained:
        with contextlib.suppress(OSError):  # after a crash before the file was removed
            acknowledged.length = segment.acknowledgements_path.lstat().st_size
        return segment
    acknowledged.read(_acknowledgements(segment.acknowledgements_path, kind=kind))
    segment.left = held.minus(acknowledged.gone)
    if one.frames is not None:
        segment.end, segment.is_damaged = one.end, one.is_damaged
        # Some acknowledged batches may be unreadable now. They must not be subtracted from the rest.
        segment.left = segments.sum_frames([frame for frame in one.frames if frame.number not in acknowledged])
    one.highest = max(one.highest, acknowledged.highest())
    return segment


def _acknowledgements(path: Path, *, kind: int) -> bytes:
    """Read the file of acknowledgements; batches without a readable one are sent again. Anything that is no file is
    moved away.
    """
    with contextlib.suppress(OSError):
        if not stat.S_ISREG(path.lstat().st_mode):
            put_in_quarantine(path, kind=kind, is_served=False)
        return files.read_whole(path, limit=segments.MOST_ACKNOWLEDGEMENT_BYTES).data
    return b""


def _put_away(one: _Found, *, kind: int) -> None:
    """Move away a file without readable batches."""
    try:
        if one.length <= segments.SEGMENT_HEADER_BYTES and not one.is_foreign:
            one.path.unlink()  # a crash came before the first frame
            return
        put_in_quarantine(one.path, kind=kind, is_served=False)
    except OSError as fault:
        log.error("The queue file %s cannot be read, nor moved away (%s).", one.path, fault.strerror)
    else:
        log.error("Nothing of the queue file %s can be read; it was moved to %s.", one.path, QUARANTINE)


# Quarantine.


def put_in_quarantine(path: Path, *, kind: int, is_served: bool) -> Path:
    """Move a file into quarantine, or link it there while it is in use; return the path there. Raises OSError. A file
    that an earlier process put there is not added again.
    """
    folder = _quarantine(path.parent, kind=kind)
    folder.mkdir(mode=0o700, exist_ok=True)
    first = folder / (f"{DEAD_PREFIX}{path.name}" if kind == segments.DEAD else path.name)
    for place in itertools.chain([first], (first.with_stem(f"{first.stem}-{more}") for more in itertools.count(2))):
        beside = place.with_suffix(segments.ACKNOWLEDGED)
        if os.path.lexists(place) and os.path.samestat(path.lstat(), place.lstat()):
            if not is_served:
                path.unlink()
        elif os.path.lexists(place) or os.path.lexists(beside):
            continue
        elif not is_served:
            path.rename(place)
        else:
            os.link(path, place)
        if not is_served:
            with contextlib.suppress(FileNotFoundError):
                path.with_suffix(segments.ACKNOWLEDGED).rename(beside)
        return place
    raise AssertionError


def report_quarantine(path: Path, failure: Exception | None) -> None:
    """Log that a file is in quarantine, or the failure of that."""
    if failure is None:
        log.error(
            "The queue file %s is damaged; what is readable is served, and the file kept in %s.", path, QUARANTINE
        )
    else:
        log.error("The queue file %s is damaged and could not be put in quarantine (%s).", path, failure)


def quarantined(folder: Path, *, kind: int) -> list[Path]:
    """Return the segments of a journal that are in quarantine."""
    try:
        found = sorted(one for one in _quarantine(folder, kind=kind).iterdir() if one.suffix == segments.SUFFIX)
    except FileNotFoundError:
        return []
    return [one for one in found if one.name.startswith(DEAD_PREFIX) == (kind == segments.DEAD)]


def _highest_of(path: Path) -> int:
    """Return the highest number that a file in quarantine may contain, because no number may be used again."""
    first = segments.segment_number(path.name.removeprefix(DEAD_PREFIX)[: segments.NAME_DIGITS])
    try:
        return segments.highest_number(first, path.lstat().st_size) if first is not None else 0
    except FileNotFoundError:  # a person may have removed it
        return 0


def _quarantine(folder: Path, *, kind: int) -> Path:
    return (folder.parent if kind == segments.DEAD else folder) / QUARANTINE
