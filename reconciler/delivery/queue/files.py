"""Files of queues: system calls, free space, and reading without blocking the loop."""

import asyncio
import errno
import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from reconciler.delivery.queue.contract import Piece

# The system calls that write queues, as an argument: tests give one whose disk fails.

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


# Reading queue files: at once when the kernel has the bytes in memory, on a thread when it has to fetch them.

Result = TypeVar("Result")

OPEN_FILES = 64  # of all queues
THREADS = 4
AGAIN_SECONDS = 0.5  # after a read that failed for what passes
AHEAD_BYTES = 4 << 20  # that the kernel is asked to fetch beyond what is read
SCRATCH_BYTES = 1 << 20
BLOCK_BYTES = 4096  # what a disk that fails gives or does not give


class QueueFiles:
    """Files that are read. Used from one loop; the threads open files of their own."""

    def __init__(self) -> None:
        self._open: OrderedDict[Path, int] = OrderedDict()
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="queue-reader")

    def now(self, path: Path, offset: int, size: int) -> memoryview | None:
        """Bytes that are in memory, fewer at the end of the file; None when that would wait, or fails. They are good
        until the next call: fresh memory for each would cost more than the reading.
        """
        buffer = self._scratch[:size] if size <= SCRATCH_BYTES else memoryview(bytearray(size))
        try:
            read = os.preadv(self._descriptor(path), [buffer], offset, os.RWF_NOWAIT)
        except OSError:  # not in memory; or a file system that cannot say; or a fault, which the thread meets again
            return None
        if read == size:
            return buffer
        # Short: the end of the file, or of what is in memory.
        return None if read == 0 or offset + read < self._length(path) else buffer[:read]

    async def soon(self, path: Path, offset: int, size: int) -> bytes:
        """The same, from the disk. Raises OSError, but waits until the process may open files again."""
        while True:
            try:
                return await self.run(lambda: _read(path, offset, size))
            except OSError as fault:
                if fault.errno not in PASSING:
                    raise
            await asyncio.sleep(AGAIN_SECONDS)

    async def run(self, work: Callable[[], Result]) -> Result:
        """Do something that waits for the disk on a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def forget(self, path: Path) -> None:
        """Close a file: a removed one takes room while it is open."""
        descriptor = self._open.pop(path, None)
        if descriptor is not None:
            os.close(descriptor)

    def close(self) -> None:
        """Close all."""
        for path in [*self._open]:
            self.forget(path)
        self._threads.shutdown(wait=False)

    def _length(self, path: Path) -> int:
        return os.fstat(self._open[path]).st_size

    def _descriptor(self, path: Path) -> int:
        descriptor = self._open.get(path)
        if descriptor is None:
            descriptor = open_files(path)
            self._open[path] = descriptor
            if len(self._open) > OPEN_FILES:
                os.close(self._open.popitem(last=False)[1])
        else:
            self._open.move_to_end(path)
        return descriptor


def open_files(path: Path) -> int:
    """A file, open for reading. No link is followed, and no pipe waited for. Raises OSError."""
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)


def _read(path: Path, offset: int, size: int) -> bytes:
    descriptor = open_files(path)
    try:
        os.posix_fadvise(descriptor, offset, size + AHEAD_BYTES, os.POSIX_FADV_WILLNEED)
        return os.pread(descriptor, size, offset)
    finally:
        os.close(descriptor)


def read_whole(path: Path, *, limit: int) -> bytes:
    """All bytes of a file, or the first `limit`; zeros for blocks that the disk does not give. Raises OSError for any
    other fault.
    """
    return read_gathered(path, limit=limit)[0]


def read_gathered(path: Path, *, limit: int) -> tuple[bytes, bool]:
    """The same, and whether the disk gave them all."""
    descriptor = open_files(path)
    try:
        length = min(limit, os.fstat(descriptor).st_size)
        found = bytearray()
        is_given = True
        while len(found) < length:
            blocks = _blocks(descriptor, len(found), length - len(found))
            is_given = is_given and blocks is not None
            found += bytes(min(length - len(found), BLOCK_BYTES)) if blocks is None else blocks
        return bytes(found), is_given
    finally:
        os.close(descriptor)


def _blocks(descriptor: int, offset: int, size: int) -> bytes | None:
    """As many bytes as the disk gives at once; None when it does not give the block here."""
    try:
        return os.pread(descriptor, size, offset) or bytes(size)
    except OSError as fault:
        if fault.errno != errno.EIO:
            raise
    try:
        return os.pread(descriptor, min(size, BLOCK_BYTES), offset)
    except OSError as fault:
        if fault.errno != errno.EIO:
            raise
        return None


# How much may be written before the disk is down to its reserve.

LOOK_SECONDS = 1.0  # between two looks at the disk
PLENTY = 1 << 62


class Space:
    """The room of the file system that a folder is on. In between two looks, what was taken is counted."""

    def __init__(self, folder: Path, *, reserve: int, monotonic: Callable[[], float]) -> None:
        """`reserve` is in bytes."""
        self._folder = folder
        self._reserve = reserve
        self._monotonic = monotonic
        self._spare = 0
        self._looked_at: float | None = None

    def spare(self) -> int:
        """Bytes; below zero when the disk is beyond its reserve."""
        now = self._monotonic()
        if self._looked_at is None or now >= self._looked_at + LOOK_SECONDS:
            self._looked_at = now
            try:
                found = os.statvfs(self._folder)
            except OSError:  # the append will say what is wrong
                self._spare = PLENTY
            else:
                self._spare = found.f_bavail * found.f_frsize - self._reserve
        return self._spare

    def look_again(self) -> None:
        """Something was given back: the next one who asks hears of it."""
        self._looked_at = None

    def take(self, size: int) -> None:
        """So much is about to be written."""
        self._spare -= size
