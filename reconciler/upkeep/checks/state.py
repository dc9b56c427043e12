"""Whether the state directory is the service's own: whose it is, and who else may look into it."""

import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from reconciler.upkeep.findings import DoctorFinding, error, ok, warning

NAME = "state directory"
MOST_ENTRIES = 1000
FOR_OTHERS = 0o077
PRIVATE = (".db", "lock", "-password")  # how names end of what holds secrets, or keeps others out
ROOT = 0


class StateEntry(NamedTuple):
    """A file or folder: whose it is, and its mode."""

    path: Path
    owner: int
    mode: int


class StateFacts(NamedTuple):
    """The folder, None when there is none, what is in it, sorted, and the user that looks."""

    path: Path
    folder: StateEntry | None
    entries: tuple[StateEntry, ...]
    user: int


def gather_state(path: Path) -> StateFacts:
    """Look. Raises OSError."""
    try:
        folder = _entry(path)
    except FileNotFoundError:
        return StateFacts(path, None, (), os.geteuid())
    if not stat.S_ISDIR(folder.mode) or not os.access(path, os.R_OK | os.X_OK):
        return StateFacts(path, folder, (), os.geteuid())
    names = sorted(path.iterdir())[:MOST_ENTRIES]
    return StateFacts(path, folder, tuple(_entry(name) for name in names), os.geteuid())


def judge_state(facts: StateFacts) -> list[DoctorFinding]:
    """What is wrong with it."""
    if facts.folder is None:
        return [ok(NAME, f"{facts.path} is not there yet; the first start makes it")]
    if not stat.S_ISDIR(facts.folder.mode):
        return [error(NAME, f"{facts.path} is no folder", "move it away, or name another with `stateDir`")]
    wrong = list(_wrong(facts, facts.folder))
    return wrong or [ok(NAME, f"{facts.path} belongs to {user(facts.folder.owner)}, who alone may enter it")]


def user(number: int) -> str:
    """A user's name, or the number of one that has none."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _wrong(facts: StateFacts, folder: StateEntry) -> Iterator[DoctorFinding]:
    owner = user(folder.owner)
    if facts.user not in (folder.owner, ROOT):
        told = f"{facts.path} belongs to {owner}, and this is {user(facts.user)}"
        yield error(NAME, told, _looking_as(owner, facts.path))
    elif facts.user != folder.owner:
        told = f"this is root, and the service is {owner}: which files {owner} may not read does not show"
        yield warning(NAME, told, _looking_as(owner, facts.path))
    if folder.mode & FOR_OTHERS:
        told = f"{facts.path} is open to others than its owner (mode {folder.mode & 0o777:04o})"
        yield warning(NAME, told, f"`chmod 700 {facts.path}`")
    for entry in facts.entries:
        yield from _of_entry(entry, folder)


def _looking_as(owner: str, path: Path) -> str:
    return f"look as {owner}: `runuser -u {owner} -- reconciler doctor --state-dir {path}`"


def _of_entry(entry: StateEntry, folder: StateEntry) -> Iterator[DoctorFinding]:
    if entry.owner != folder.owner:
        told = f"{entry.path} belongs to {user(entry.owner)}, so that the service of {user(folder.owner)} cannot use it"
        yield error(NAME, told, f"`chown -R --reference={folder.path} {entry.path}`")
    if entry.path.name.endswith(PRIVATE) and stat.S_ISREG(entry.mode) and entry.mode & FOR_OTHERS:
        told = f"{entry.path} may be read by others than its owner (mode {entry.mode & 0o777:04o})"
        yield error(NAME, told, f"`chmod 600 {entry.path}`")


def _entry(path: Path) -> StateEntry:
    found = path.lstat() if path.is_symlink() else path.stat()
    return StateEntry(path, found.st_uid, found.st_mode)
