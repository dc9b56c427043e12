"""The system calls that write queues, as an argument: tests give one whose disk fails.

Belongs here: calls without decisions. Does not: what is done when one fails.
"""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from reconciler.queueing.contract import Piece

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
# Nothing is wrong with what a file holds: a person or time mends it.
PASSING = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR, errno.EACCES, errno.EPERM, errno.ESTALE}
)


class System:
    """The kernel's own. Every method raises OSError."""

    def create(self, path: Path) -> int:
        """A file that was not there, of the owner's alone, open for writing."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def open(self, path: Path, *, make: bool = False) -> int:
        """A file that is there, or is made if `make`, open for writing."""
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(path, flags | os.O_CREAT if make else flags, 0o600)

    def write(self, descriptor: int, pieces: Sequence[Piece], offset: int, *, synced: bool) -> int:
        """Write pieces at an offset, as many bytes as are returned; on disk when it returns if `synced`.

        One call writes and synchronises (RWF_DSYNC): the thread takes the interpreter's lock once instead of twice, and
        the kernel waits for this range alone.
        """
        return os.pwritev(descriptor, pieces, offset, os.RWF_DSYNC if synced else 0)

    def synchronise(self, descriptor: int) -> None:
        """All that was written is on disk when it returns."""
        os.fdatasync(descriptor)

    def synchronise_folder(self, path: Path) -> None:
        """The names in a folder are on disk when it returns."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def cut(self, descriptor: int, length: int) -> None:
        """Make a file so short."""
        os.ftruncate(descriptor, length)

    def remove(self, path: Path) -> None:
        """Remove a file, which may be gone."""
        path.unlink(missing_ok=True)

    def close(self, descriptor: int) -> None:
        """Close a file."""
        os.close(descriptor)
