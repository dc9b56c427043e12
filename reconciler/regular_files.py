"""Reading a small file that somebody else puts there, whole and bounded, and telling it from one that takes its place.

Belongs here: opening it so that a pipe or a device makes nobody wait. Does not: what is in it, and what people are told
when it cannot be read.

A link is followed: Kubernetes and systemd hand secrets out behind links.
"""

import os
import stat
from pathlib import Path
from typing import TypeAlias

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

FileIdentity: TypeAlias = tuple[int, int, int, int]


class NotAFile(Exception):
    """There is something else: a folder, a pipe, a device."""


class FileTooLarge(Exception):
    """There is more in it than may be read."""


def read_file(path: Path | str, *, limit: int) -> bytes:
    """All bytes of a regular file, of which it may have `limit`. Raises OSError, NotAFile, TooLarge."""
    descriptor = os.open(path, _FLAGS)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotAFile
        return _bounded(descriptor, limit)
    finally:
        os.close(descriptor)


def file_identity(path: Path) -> FileIdentity | None:
    """What changes when somebody replaces or writes a file; None when it is not there, or cannot be reached."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def _bounded(descriptor: int, limit: int) -> bytes:
    kept = bytearray()
    while chunk := os.read(descriptor, limit + 1 - len(kept)):
        kept += chunk
        if len(kept) > limit:
            raise FileTooLarge
    return bytes(kept)
