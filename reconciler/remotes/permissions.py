"""What of a repository on this machine its reader may not read. Git itself says only that there is no repository."""

import os
import pwd
from collections.abc import Iterator
from pathlib import Path

INSIDE = ("HEAD", "config", "objects", "refs", "packed-refs")  # what git must read, save what it says itself


def unreadable(folder: Path) -> Path | None:
    """The first folder or file on the way into the repository that this process may not read; None when there is none.

    A repository that does not exist is not unreadable.
    """
    try:
        return next(_closed(folder), None)
    except PermissionError as denied:  # behind a link, where no list of parents leads
        return Path(os.fsdecode(denied.filename))


def out_of_reach(url: str, folder: Path) -> str | None:
    """The sentence for a repository that may not be read or is not there; None when it is something else."""
    closed = unreadable(folder)
    if closed is not None:
        return f"{url} cannot be read by this user; let the user {this_user()} read {closed}"
    return None if folder.exists() else f"{url} does not exist; put it there, or correct `url`"


def this_user() -> str:
    """The name of the user that this process runs as, or the number when it has none."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _closed(folder: Path) -> Iterator[Path]:
    # From the root down: what stands below a closed folder cannot even be asked about.
    for parent in reversed(folder.parents):
        if parent.is_dir() and not _allowed(parent, os.X_OK):
            yield parent
    yield from _closed_inside(folder, (".git",))
    inner = folder / ".git"
    yield from _closed_inside(inner if inner.is_dir() else folder, INSIDE)


def _closed_inside(folder: Path, names: tuple[str, ...]) -> Iterator[Path]:
    for place in (folder, *(folder / name for name in names)):
        if place.exists() and not _allowed(place, os.R_OK | os.X_OK if place.is_dir() else os.R_OK):
            yield place


def _allowed(place: Path, mode: int) -> bool:
    return os.access(place, mode, effective_ids=True)
