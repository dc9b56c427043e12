"""Quarantine: damaged queue files, kept for people to look at.

Belongs here: putting a file there. Does not: what is readable of it, which is served all the same.

A file that is served still is linked, which takes no room; one of which nothing can be served is moved.
"""

import contextlib
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from reconciler.queueing import segments

log = logging.getLogger(__name__)

FOLDER = "quarantine"
DEAD = "dead-"  # before the name of a segment of dead letters


def folder(path: Path, *, kind: int) -> Path:
    """Where a segment of this kind is put: beside its own folder, or in its queue's."""
    return (path.parent.parent if kind == segments.DEAD else path.parent) / FOLDER


def copy(path: Path, *, kind: int) -> None:
    """Put a second name, or a copy, of a file there. Raises OSError."""
    place = _place(path, kind=kind)
    try:
        os.link(path, place)
    except FileExistsError:
        pass  # an earlier process did
    except OSError:  # a file system without links
        shutil.copyfile(path, place)


def move(path: Path, *, kind: int) -> None:
    """Put a file there, and what was acknowledged of it. Raises OSError."""
    place = _place(path, kind=kind)
    path.rename(place)
    with contextlib.suppress(FileNotFoundError):
        path.with_suffix(segments.ACKNOWLEDGED).rename(place.with_suffix(segments.ACKNOWLEDGED))


def count(segments_folder: Path, *, kind: int) -> int:
    """How many segments of a journal are in quarantine."""
    place = folder(segments_folder / segments.name(0), kind=kind)
    try:
        names = [one.name for one in place.iterdir() if one.suffix == segments.SUFFIX]
    except FileNotFoundError:
        return 0
    return sum(name.startswith(DEAD) == (kind == segments.DEAD) for name in names)


def told(path: Path) -> Callable[[Exception | None], None]:
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
    place = folder(path, kind=kind)
    place.mkdir(mode=0o700, exist_ok=True)
    return place / (f"{DEAD}{path.name}" if kind == segments.DEAD else path.name)
