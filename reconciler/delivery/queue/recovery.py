"""Recovery of a journal after a crash, and quarantine of damaged files."""

import contextlib
import itertools
import logging
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.delivery.queue import acknowledgements, files, frames
from reconciler.delivery.queue.files import PASSING, System
from reconciler.delivery.queue.frames import NumberSet, Segment, SegmentHeader, SegmentTotals
from reconciler.model.text import counted

# Quarantine: damaged queue files, kept for people to look at.
#
# A file that is served still is linked, which takes no room; one of which nothing can be served is moved. What is there
# is never written over: another file of its name has a number behind it.

log = logging.getLogger(__name__)

FOLDER = "quarantine"
DEAD = "dead-"  # before the name of a segment of dead letters


def quarantine_folder(path: Path, *, kind: int) -> Path:
    """Where a segment of this kind is put: beside its own folder, or in its queue's."""
    return (path.parent.parent if kind == frames.DEAD else path.parent) / FOLDER


def copy_to_quarantine(path: Path, *, kind: int) -> None:
    """Put a second name, or a copy, of a file there. Raises OSError."""
    for place in _places(path, kind=kind):
        try:
            os.link(path, place)
        except FileExistsError:
            if not _is_same(path, place):
                continue
            # An earlier process did it.
        except OSError:  # a file system without links: of each name the first file alone, else each start would add one
            if place == _place(path, kind=kind):
                shutil.copyfile(path, place)
        return


def move_to_quarantine(path: Path, *, kind: int) -> None:
    """Put a file there, and what was acknowledged of it. Raises OSError."""
    place = next(one for one in _places(path, kind=kind) if _is_free(one) or _is_same(path, one))
    path.replace(place)
    path.unlink(missing_ok=True)  # it stays where both names are of the same file
    with contextlib.suppress(FileNotFoundError):
        path.with_suffix(frames.ACKNOWLEDGED).rename(place.with_suffix(frames.ACKNOWLEDGED))


def quarantined_segments(segments_folder: Path, *, kind: int) -> list[Path]:
    """The segments of a journal that are in quarantine."""
    place = quarantine_folder(segments_folder / frames.segment_name(0), kind=kind)
    try:
        found = [one for one in place.iterdir() if one.suffix == frames.SUFFIX]
    except FileNotFoundError:
        return []
    return [one for one in found if one.name.startswith(DEAD) == (kind == frames.DEAD)]


def first_number(path: Path) -> int | None:
    """With which number a segment in quarantine begins, by its name."""
    return frames.segment_number(path.name.removeprefix(DEAD)[: frames.NAME_DIGITS])


def quarantine_note(path: Path) -> Callable[[Exception | None], None]:
    """Tells what became of putting a file there."""

    def tell(failure: Exception | None) -> None:
        if failure is None:
            log.error(
                "The queue file %s is damaged; what is readable is served, and the file kept in %s.", path, FOLDER
            )
        else:
            log.error("The queue file %s is damaged and could not be put in quarantine (%s).", path, failure)

    return tell


def _place(path: Path, *, kind: int) -> Path:
    place = quarantine_folder(path, kind=kind)
    place.mkdir(mode=0o700, exist_ok=True)
    return place / (f"{DEAD}{path.name}" if kind == frames.DEAD else path.name)


def _places(path: Path, *, kind: int) -> Iterator[Path]:
    """Where a file may be put, in the order in which that is tried."""
    first = _place(path, kind=kind)
    yield first
    yield from (first.with_stem(f"{first.stem}-{more}") for more in itertools.count(2))


def _is_free(place: Path) -> bool:
    return not any(os.path.lexists(one) for one in (place, place.with_suffix(frames.ACKNOWLEDGED)))


def _is_same(path: Path, place: Path) -> bool:
    return os.path.lexists(place) and os.path.samestat(path.lstat(), place.lstat())


# What a journal finds in its folder when it is opened: what is queued, and what a crash or the disk did to it.
#
# It always gives something to go on with, but for what passes: then it raises, to be tried again, since a segment that
# was not read would count as used up, and be removed. Of all segments but the last one only the header, the length and
# the file of acknowledgements are read. A file is read whole when its length is not what the headers say.


@dataclass(slots=True)
class Recovered:
    """A journal as it was found. `header` is that of the next segment; `lost` counts batches that cannot be read."""

    header: SegmentHeader
    segments: list[Segment] = field(default_factory=list)
    quarantined: int = 0
    lost: int = 0


@dataclass(slots=True)
class _Found:
    """A file: `header` is None when it cannot be read; `content` what is in it when it was read whole."""

    path: Path
    first: int
    length: int
    header: SegmentHeader | None = None
    content: "_Content | None" = None
    highest: int = 0
    is_foreign: bool = False  # no file, or one of a newer service, or of another journal


@dataclass(slots=True)
class _Content:
    totals: SegmentTotals
    end: int
    is_damaged: bool
    missing: int  # numbers that are between those of its frames
    own: list[frames.Frame]


def recover(folder: Path, *, kind: int, mark: int, system: System) -> Recovered:
    """Read a folder, which may be missing; mend what a crash left. Raises OSError when the folder cannot be used, or a
    file not be read for what passes.
    """
    found = [_look(path, kind=kind, mark=mark) for path in _files(folder)]
    recovered = Recovered(SegmentHeader(kind, mark, 1, SegmentTotals(), 0))
    served: list[_Found] = []
    highest = 0
    for one in reversed(found):
        if _is_known(one, served[0] if served else None, mark=mark):
            served.insert(0, one)
        else:
            highest = max(highest, frames.highest_number(one.first, one.length))
            _put_away(one, kind=kind)
    if served and served[-1] is found[-1]:
        _mend_end(served[-1], system)
    _settle(served, recovered, kind=kind, mark=mark)
    kept = quarantined_segments(folder, kind=kind)
    highest = max([highest, _highest_of(kept), *(one.highest for one in served)])
    recovered.header = recovered.header._replace(first=highest + 1)
    recovered.quarantined = len(kept)
    _sweep(folder)
    return recovered


def _files(folder: Path) -> list[Path]:
    try:
        names = [path for path in folder.iterdir() if path.suffix == frames.SUFFIX]
    except FileNotFoundError:
        return []
    return sorted(path for path in names if frames.segment_number(path.stem) is not None)


def _highest_of(kept: list[Path]) -> int:
    """No number is given out again that a file in quarantine may have, also where an earlier start put it there and
    nothing was appended since.
    """
    numbers = [0]
    for path in kept:
        first = first_number(path)
        if first is not None:
            with contextlib.suppress(FileNotFoundError):  # somebody has looked, and removed it
                numbers.append(frames.highest_number(first, path.lstat().st_size))
    return max(numbers)


def _look(path: Path, *, kind: int, mark: int) -> _Found:
    first = frames.segment_number(path.stem)
    assert first is not None
    status = path.lstat()
    found = _Found(path, first, status.st_size, is_foreign=not stat.S_ISREG(status.st_mode))
    try:
        header = _header(path)
    except frames.UnknownVersion:
        found.is_foreign = True
        return found
    except OSError as fault:
        if fault.errno in PASSING:
            raise
        return found
    if header is not None and (header.kind, header.mark) != (kind, mark):
        found.is_foreign = True
    elif header is not None:
        found.header = header
        found.first = max(first, header.first)
        # The number in the name counts as used: a segment without frames keeps its name to itself.
        found.highest = max(first, header.first - 1)
    return found


def _header(path: Path) -> SegmentHeader | None:
    descriptor = files.open_files(path)
    try:
        return frames.decode_segment(os.pread(descriptor, frames.SEGMENT_HEADER_BYTES, 0))
    finally:
        os.close(descriptor)


def _is_drained(one: _Found) -> bool:
    return one.header is not None and bool(one.header.flags & frames.DRAINED)


def _is_known(one: _Found, following: _Found | None, *, mark: int) -> bool:
    """Whether something of a file can be served, and how much: it is read whole where no next header says that. A file
    without a header may have frames of this queue all the same. Raises OSError for what passes.
    """
    if _is_drained(one):
        return True
    if one.header is None and (one.is_foreign or one.length <= frames.SEGMENT_HEADER_BYTES):
        return False
    if one.header is not None and following is not None and following.header is not None:
        return True
    try:
        one.content = _read(one, mark=mark)
    except OSError as fault:
        if fault.errno in PASSING:
            raise
        return False
    return one.header is not None or one.content.totals.batches > 0


def _read(one: _Found, *, mark: int) -> _Content:
    """What is readable of a file. Raises OSError."""
    region, is_given = files.read_gathered(one.path, limit=frames.LONGEST_BYTES)
    scanned = frames.scan(region, frames.SEGMENT_HEADER_BYTES, mark=mark)
    own = [found.frame for found in scanned.frames if found.frame.number >= one.first]
    totals = _totals(own)
    one.highest = max([one.highest, *(frame.number for frame in own)])
    is_longer = one.length > len(region)  # than any that was written here
    # Zeros for what the disk does not give look like a torn end, and are none: nothing of that may be cut off.
    is_damaged = scanned.gaps > 0 or not scanned.torn or one.header is None or is_longer or not is_given
    missing = one.highest - one.first + 1 - len(own) if own and scanned.gaps else 0
    return _Content(totals, scanned.end, is_damaged, missing, own)


def _totals(own: list[frames.Frame]) -> SegmentTotals:
    return SegmentTotals(len(own), sum(frame.records for frame in own), sum(frame.size for frame in own))


def _mend_end(one: _Found, system: System) -> None:
    """Cut off what a crash left at the end of the last segment. A damaged one stays as it is: the bytes in quarantine
    are the same ones.
    """
    if one.content is None or one.content.is_damaged or one.content.end >= one.length:
        return
    try:
        descriptor = system.open(one.path)
        try:
            system.cut(descriptor, one.content.end)
        finally:
            system.close(descriptor)
        log.warning("Of the queue file %s, %d bytes were cut off.", one.path, one.length - one.content.end)
        one.length = one.content.end
    except OSError as fault:
        log.error("The end of the queue file %s cannot be mended (%s).", one.path, fault.strerror)


def _put_away(one: _Found, *, kind: int) -> None:
    """Nothing can be served of it."""
    try:
        if one.length <= frames.SEGMENT_HEADER_BYTES and not one.is_foreign:
            one.path.unlink()  # a crash came before the first frame
            return
        move_to_quarantine(one.path, kind=kind)
    except OSError as fault:
        log.error("The queue file %s cannot be read, nor moved away (%s).", one.path, fault.strerror)
    else:
        log.error("Nothing of the queue file %s can be read; it was moved to %s.", one.path, FOLDER)


def _copy(one: _Found, *, kind: int) -> None:
    tell = quarantine_note(one.path)
    try:
        copy_to_quarantine(one.path, kind=kind)
    except OSError as fault:
        tell(fault)
    else:
        tell(None)


def _settle(served: list[_Found], recovered: Recovered, *, kind: int, mark: int) -> None:
    """Make segments of files: how much is in each says the header of the next one, or its content."""
    before = SegmentTotals()
    for place, one in enumerate(served):
        following = served[place + 1] if place + 1 < len(served) else None
        begins = _begins(one, before if place else None, following)
        if place and begins.batches > before.batches:
            _lose(begins.minus(before).batches, one, recovered)
        expected = following.header.before.minus(begins) if following is not None and following.header else None
        held = _held(one, expected, recovered, kind=kind, mark=mark)
        recovered.segments.append(_segment(one, begins, held, kind=kind, mark=mark))
        before = begins.plus(held)
        if expected is not None:
            before = begins.plus(expected)
        if place:
            recovered.segments[-2].following = recovered.segments[-1]
    recovered.header = recovered.header._replace(before=before)


def _begins(one: _Found, before: SegmentTotals | None, following: _Found | None) -> SegmentTotals:
    """How much was appended before a segment, which may have no header."""
    if one.header is not None:
        return one.header.before
    if before is None and following is not None and following.header is not None and one.content is not None:
        return following.header.before.minus(one.content.totals).at_least_nothing()
    return before or SegmentTotals()


def _held(one: _Found, expected: SegmentTotals | None, recovered: Recovered, *, kind: int, mark: int) -> SegmentTotals:
    """How much is in a segment, of which so much is expected."""
    if _is_drained(one):
        return SegmentTotals()
    if one.content is None and expected is not None and frames.segment_length(expected) == one.length:
        return expected
    if one.content is None:
        try:
            one.content = _read(one, mark=mark)
        except OSError as fault:
            if expected is None or fault.errno in PASSING:
                raise
            return expected
    held = one.content.totals
    if expected is None:
        _lose(one.content.missing, one, recovered)
    elif held.batches != expected.batches:
        _lose(expected.batches - held.batches, one, recovered)
    if one.content.is_damaged:
        _copy(one, kind=kind)
    return held


def _lose(batches: int, one: _Found, recovered: Recovered) -> None:
    if batches > 0:
        recovered.lost += batches
        log.error("The queue file %s lacks %s, lost for good.", one.path, counted(batches, "batch", "batches"))


def _segment(one: _Found, before: SegmentTotals, held: SegmentTotals, *, kind: int, mark: int) -> Segment:
    end = one.content.end if one.content is not None else one.length
    segment = Segment(one.path, one.first, before, end=end, is_sealed=True)
    segment.is_damaged = one.content is not None and one.content.is_damaged
    segment.made_at = one.header.made_at if one.header else 0
    segment.is_gone = _is_drained(one)
    segment.done = NumberSet(one.first)
    if segment.is_gone:
        with contextlib.suppress(OSError):  # a crash may have come before it was removed
            segment.acknowledged = segment.acknowledgements.lstat().st_size
        return segment
    said = acknowledgements.read_acknowledgements(
        _acknowledged(segment.acknowledgements, held, kind=kind), first=one.first, mark=mark
    )
    segment.done, segment.progress, segment.died, segment.acknowledged = said.done, said.progress, said.died, said.end
    segment.gone = said.totals
    segment.left = held.minus(said.totals).at_least_nothing()
    if one.content is not None:  # some of what left may be unreadable now: it must not be counted off the rest
        segment.left = _totals([frame for frame in one.content.own if frame.number not in said.done])
    one.highest = max(one.highest, said.done.highest() or 0)
    return segment


def _acknowledged(path: Path, held: SegmentTotals, *, kind: int) -> bytes:
    """What is missing or cannot be read is sent again. What is no file goes out of the way of the next one."""
    with contextlib.suppress(OSError):
        if not stat.S_ISREG(path.lstat().st_mode):
            move_to_quarantine(path, kind=kind)
        return files.read_whole(path, limit=acknowledgements.longest(held))
    return b""


def _sweep(folder: Path) -> None:
    """Remove files of acknowledgements whose segment is gone."""
    with contextlib.suppress(OSError):
        for path in folder.glob(f"*{frames.ACKNOWLEDGED}"):
            if not path.with_suffix(frames.SUFFIX).exists():
                path.unlink()
        for path in folder.glob("*.new"):
            path.unlink()
