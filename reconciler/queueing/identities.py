"""Whose a queue's folder is: the small file `queue.json` in it, so that no text of users is ever part of a path.

Belongs here: reading and writing that file, and naming the folder. Does not: what else is in the folder, which folders
there are (`folders`).
"""

import os
import re
import shutil
from pathlib import Path
from typing import NamedTuple

import msgspec

from reconciler.model import ids
from reconciler.queueing.system import PASSING, System
from reconciler.settings import bounded_io

FILE = "queue.json"
GONE = "queue.gone.json"  # of a queue that was removed, and of which damaged files are kept
DEAD_LETTERS = "dead"  # the folder of their segments
PARTIAL = ".new"  # how the name of a folder ends that is being made
VERSION = 1
MOST_BYTES = 64 << 10
DIRECTORY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}")


class QueueIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """`created` is in Unix milliseconds; `mark` is the secret number that checksums begin with."""

    version: int
    project: str
    destination: str
    created: int
    mark: int


class FoundIdentity(NamedTuple):
    """A queue that is on disk. `directory` is the name of the folder that its own folder is in."""

    project: str
    name: str
    directory: str
    folder: Path
    mark: int
    created: int


def read_identity(folder: Path) -> FoundIdentity | None:
    """Whose a folder is; None when that cannot be read. Raises OSError for what passes: then none is made anew."""
    try:
        identity = msgspec.json.decode(bounded_io.read_file(folder / FILE, limit=MOST_BYTES), type=QueueIdentity)
    except (bounded_io.NotAFile, bounded_io.FileTooLarge, msgspec.MsgspecError):
        return None
    except OSError as fault:
        if fault.errno in PASSING:
            raise
        return None
    if identity.version != VERSION:
        return None
    return FoundIdentity(
        identity.project, identity.destination, folder.parent.name, folder, identity.mark, identity.created
    )


def is_partial_identity(folder: Path) -> bool:
    """Whether a folder is what a crash left of making one."""
    return folder.name.startswith(".")


def make_identity(
    directory: Path, *, project: str, name: str, at: int, randomness: bytes, system: System
) -> FoundIdentity:
    """Make a folder for a queue; it is there, with its file, or not at all. Raises OSError.

    `randomness` are 14 bytes, of which the last 4 are the mark.
    """
    mark = int.from_bytes(randomness[ids.RANDOM_BYTES :], "little")
    folder = directory / ids.ulid(milliseconds=at, randomness=randomness[: ids.RANDOM_BYTES])
    identity = QueueIdentity(version=VERSION, project=project, destination=name, created=at, mark=mark)
    partial = folder.with_name(f".{folder.name}{PARTIAL}")
    partial.mkdir(mode=0o700)
    try:
        _fill(partial, identity, system)
        partial.rename(folder)
    except OSError:
        shutil.rmtree(partial, ignore_errors=True)  # whoever wants the queue tries again, with another name
        raise
    system.synchronise_folder(directory)
    return FoundIdentity(project, name, directory.name, folder, mark, at)


def sweep_folders(root: Path) -> None:
    """Remove what a process that ended while it made a folder has left. Nothing is in it."""
    for partial in root.glob(f"*/.*{PARTIAL}"):
        shutil.rmtree(partial, ignore_errors=True)


def _fill(partial: Path, identity: QueueIdentity, system: System) -> None:
    (partial / DEAD_LETTERS).mkdir(mode=0o700)  # now: a disk that is full later must not keep what dies from it
    descriptor = os.open(partial / FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, msgspec.json.format(msgspec.json.encode(identity)) + b"\n")
        system.synchronise(descriptor)
    finally:
        os.close(descriptor)
    system.synchronise_folder(partial)
