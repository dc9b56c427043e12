"""Where each repository's mirror and git home are, and the removal of those that no repository in the settings has.

All of it can be fetched again, so nothing is lost when a repository comes back. What is in a mirror belongs to `git`.
"""

import hashlib
import itertools
import logging
import re
import shutil
import threading
from collections.abc import Iterable
from pathlib import Path

log = logging.getLogger(__name__)

MIRRORS = "mirrors"
HOMES = "git"
# What we name, and only that: `<name>-<12 hex>.git`, and `.….git.new` or `.….git.old` while a mirror is made anew.
MIRROR = re.compile(r"\.?[^/]+-[0-9a-f]{12}\.git(\.new|\.old)?")
HOME = re.compile(r"[^/]+-[0-9a-f]{12}")
GONE = re.compile(r"\..+\.[0-9]+\.gone")


def place(name: str, url: str) -> str:
    """The name of a repository's folders: another URL is another place."""
    return f"{name}-{hashlib.sha256(url.encode()).hexdigest()[:12]}"


def put_aside(state_directory: Path, *, kept: Iterable[str]) -> list[Path]:
    """Rename what belongs to no place in `kept`; the renamed folders, which are nobody's from now on.

    Renames are quick, and after them a repository that is added again cannot meet its own removal. Call it before
    any repository is followed.
    """
    places = frozenset(kept)
    aside: list[Path] = []
    problems: list[OSError] = []
    for folder, ours in ((state_directory / MIRRORS, MIRROR), (state_directory / HOMES, HOME)):
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if GONE.fullmatch(path.name):
                aside.append(path)  # the start before this one ended before it had removed it
            elif ours.fullmatch(path.name) and _place_of(path.name) not in places and _is_folder(path):
                try:
                    aside.append(path.rename(_unused(path)))
                except OSError as problem:
                    problems.append(problem)
    _tell(problems)
    return aside


def remove(folders: list[Path]) -> None:
    """Remove folders, in a thread that holds up neither the start nor a stop: the next start goes on with the rest."""
    if folders:
        threading.Thread(target=_remove, args=(folders,), name="remove-leftovers", daemon=True).start()


def _remove(folders: list[Path]) -> None:
    problems: list[OSError] = []
    for folder in folders:
        try:
            shutil.rmtree(folder)
        except OSError as problem:
            problems.append(problem)
    _tell(problems)


def _tell(problems: list[OSError]) -> None:
    """One line, however many there are: nothing depends on the removal but the disk's space."""
    if problems:
        log.warning(
            "Folders of repositories that are no longer in the settings could not be removed (%d, the first: %s); "
            "mend the permissions, and the next start removes them.",
            len(problems),
            problems[0],
        )


def _place_of(name: str) -> str:
    return re.sub(r"\.git(\.new|\.old)?$", "", name.removeprefix("."))


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _unused(path: Path) -> Path:
    names = (path.with_name(f".{path.name.removeprefix('.')}.{number}.gone") for number in itertools.count())
    return next(name for name in names if not name.exists())
