"""Reading queue files: at once when the kernel has the bytes in memory, on a thread when it has to fetch them.

Belongs here: which files are open, and who waits for the disk. Does not: what the bytes mean.
"""

import asyncio
import errno
import os
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from reconciler.queueing.system import PASSING

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
