"""Folders that nobody uses any more, mirrors above all: renamed at once, and removed in their own time.

Belongs here: how. Does not: which ones, when a remote is followed no more (`following`) and at a start
(`daemon/leftovers`, which removes what a former process has not).
"""

import itertools
import logging
import re
import shutil
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

log = logging.getLogger(__name__)

GONE = re.compile(r"\..+\.[0-9]+\.gone")


def retire_folder(folders: Iterable[Path]) -> list[Path]:
    """Rename those that are there; under which names. What comes again under its own name cannot meet its removal."""
    aside: list[Path] = []
    problems: list[OSError] = []
    for folder in folders:
        if folder.is_dir() and not folder.is_symlink():
            try:
                aside.append(folder.rename(_unused(folder)))
            except OSError as problem:
                problems.append(problem)
    _tell(problems)
    return aside


def remove_retired(folders: Sequence[Path]) -> None:
    """Remove folders, in a thread that holds up neither the start nor a stop: the next start goes on with the rest."""
    if folders:
        threading.Thread(target=_remove, args=(folders,), name="remove-leftovers", daemon=True).start()


def _remove(folders: Sequence[Path]) -> None:
    problems: list[OSError] = []
    for folder in folders:
        try:
            shutil.rmtree(folder)
        except OSError as problem:
            problems.append(problem)
    _tell(problems)


def _tell(problems: Sequence[OSError]) -> None:
    """One line, however many there are: nothing depends on the removal but the disk's space."""
    if problems:
        log.warning(
            "Folders of repositories that are no longer in the settings could not be removed (%d, the first: %s); "
            "mend the permissions, and the next start removes them.",
            len(problems),
            problems[0],
        )


def _unused(path: Path) -> Path:
    names = (path.with_name(f".{path.name.removeprefix('.')}.{number}.gone") for number in itertools.count())
    return next(name for name in names if not name.exists())
