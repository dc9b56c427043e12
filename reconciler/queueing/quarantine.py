"""Quarantine: damaged queue files, kept for people to look at.

Belongs here: putting a file there. Does not: what is readable of it, which is served all the same.

A file that is served still is linked, which takes no room; one of which nothing can be served is moved. What is there
is never written over: another file of its name has a number behind it.
"""

import contextlib
import itertools
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from reconciler.queueing import segments

log = logging.getLogger(__name__)

FOLDER = "quarantine"
DEAD = "dead-"  # before the name of a segment of dead letters


def quarantine_folder(path: Path, *, kind: int) -> Path:
    """Where a segment of this kind is put: beside its own folder, or in its queue's."""
    return (path.parent.parent if kind == segments.DEAD else path.parent) / FOLDER


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
        path.with_suffix(segments.ACKNOWLEDGED).rename(place.with_suffix(segments.ACKNOWLEDGED))


def quarantined_segments(segments_folder: Path, *, kind: int) -> list[Path]:
    """The segments of a journal that are in quarantine."""
    place = quarantine_folder(segments_folder / segments.segment_name(0), kind=kind)
    try:
        found = [one for one in place.iterdir() if one.suffix == segments.SUFFIX]
    except FileNotFoundError:
        return []
    return [one for one in found if one.name.startswith(DEAD) == (kind == segments.DEAD)]


def first_number(path: Path) -> int | None:
    """With which number a segment in quarantine begins, by its name."""
    return segments.segment_number(path.name.removeprefix(DEAD)[: segments.NAME_DIGITS])


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
    return place / (f"{DEAD}{path.name}" if kind == segments.DEAD else path.name)


def _places(path: Path, *, kind: int) -> Iterator[Path]:
    """Where a file may be put, in the order in which that is tried."""
    first = _place(path, kind=kind)
    yield first
    yield from (first.with_stem(f"{first.stem}-{more}") for more in itertools.count(2))


def _is_free(place: Path) -> bool:
    return not any(os.path.lexists(one) for one in (place, place.with_suffix(segments.ACKNOWLEDGED)))


def _is_same(path: Path, place: Path) -> bool:
    return os.path.lexists(place) and os.path.samestat(path.lstat(), place.lstat())
