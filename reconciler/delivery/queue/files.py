"""Access to the files of queues: the system calls that write, reading without blocking the event loop."""

import asyncio
import contextlib
import errno
import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar

from reconciler.delivery.queue.contract import Piece

# These do not concern the content of the file. A person corrects them, or they pass.
PASSING = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR, errno.EACCES, errno.EPERM, errno.ESTALE}
)


class System:
    """The system calls that write. Tests give one whose disk fails. Every method raises OSError."""

    def create(self, path: Path) -> int:
        """Create a file that only its owner may use, and open it for writing. It must not exist."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def open(self, path: Path, *, make: bool = False) -> int:
        """Open a file for writing. With `make`, create a missing one."""
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(path, flags | os.O_CREAT if make else flags, 0o600)

    def write(self, descriptor: int, pieces: Sequence[Piece], offset: int, *, synced: bool) -> int:
        """Write pieces at an offset, and return how many bytes were written; if `synced`, they are on disk then.

        One call writes and synchronises (RWF_DSYNC): the thread takes the interpreter's lock once instead of twice, and
        the kernel waits for this range only.
        """
        return os.pwritev(descriptor, pieces, offset, os.RWF_DSYNC if synced else 0)

    def synchronise(self, descriptor: int) -> None:
        """Force everything that was written to disk."""
        os.fdatasync(descriptor)

    def synchronise_folder(self, path: Path) -> None:
        """Force the names in a folder to disk."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def cut(self, descriptor: int, length: int) -> None:
        """Truncate a file to a length."""
        os.ftruncate(descriptor, length)

    def remove(self, path: Path) -> None:
        """Remove a file, which may be gone."""
        path.unlink(missing_ok=True)

    def close(self, descriptor: int) -> None:
        """Close a file."""
        os.close(descriptor)


Result = TypeVar("Result")

OPEN_FILES = 64  # of all queues
THREADS = 4
AGAIN_SECONDS = 0.5  # after a read that failed for a passing reason
BLOCK_BYTES = 4096  # the unit in which a failing disk returns or refuses data


class QueueReader:
    """Reads queue files: at once when the kernel has the bytes in memory, else on a thread. Used from one loop."""

    def __init__(self) -> None:
        self._open: OrderedDict[Path, int] = OrderedDict()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="queue-reader")

    async def read(self, path: Path, offset: int, size: int) -> bytes:
        """Return bytes of a file, fewer at its end. Raises OSError, except for passing faults, which are tried
        again.
        """
        opened = self._open.get(path)
        if opened is not None:
            data = bytearray(size)
            # The bytes are not in memory, the file system cannot say, or the read failed: the thread reads again.
            with contextlib.suppress(OSError):
                if os.preadv(opened, [data], offset, os.RWF_NOWAIT) == size:
                    return bytes(data)
        while True:
            try:
                found, descriptor = await self.run(lambda: _open_and_read(path, offset, size))
            except OSError as fault:
                if fault.errno not in PASSING:
                    raise
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                self._keep(path, descriptor)
                return found

    def _keep(self, path: Path, descriptor: int) -> None:
        """Keep a file open for the next read, unless it was replaced or removed meanwhile."""
        self.forget(path)
        if os.fstat(descriptor).st_nlink:
            self._open[path] = descriptor
        else:
            os.close(descriptor)
        if len(self._open) > OPEN_FILES:
            self.forget(next(iter(self._open)))

    def forget(self, path: Path) -> None:
        """Close a file: a removed file takes room while it is open."""
        descriptor = self._open.pop(path, None)
        if descriptor is not None:
            os.close(descriptor)

    async def run(self, work: Callable[[], Result]) -> Result:
        """Run something on a thread, because it may wait for the disk."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def close(self) -> None:
        """Close all."""
        for path in [*self._open]:
            self.forget(path)
        self._threads.shutdown(wait=False)


def _open_and_read(path: Path, offset: int, size: int) -> tuple[bytes, int]:
    descriptor = open_file(path)
    try:
        return os.pread(descriptor, size, offset), descriptor
    except BaseException:
        os.close(descriptor)
        raise


def open_file(path: Path) -> int:
    """Open a file for reading. Follows no link and waits for no pipe. Raises OSError."""
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)


class WholeFile(NamedTuple):
    """The bytes of a file. `is_complete`: the disk returned all of them."""

    data: bytes
    is_complete: bool


def read_whole(path: Path, *, limit: int) -> WholeFile:
    """Read a file, or its first `limit` bytes, with zeros for unreadable blocks. Raises other OSErrors."""
    descriptor = open_file(path)
    try:
        length = min(limit, os.fstat(descriptor).st_size)
        found = bytearray()
        is_complete = True
        while len(found) < length:
            try:
                found += _read_some(descriptor, len(found), length - len(found))
            except OSError as fault:
                if fault.errno != errno.EIO:
                    raise
                is_complete = False
                found += bytes(min(length - len(found), BLOCK_BYTES))
        return WholeFile(bytes(found), is_complete)
    finally:
        os.close(descriptor)


def _read_some(descriptor: int, offset: int, size: int) -> bytes:
    """Read as much as the disk returns, at least a block. Raises OSError if the first block is unreadable."""
    try:
        return os.pread(descriptor, size, offset) or bytes(size)
    except OSError as fault:
        if fault.errno != errno.EIO:
            raise
    return os.pread(descriptor, min(size, BLOCK_BYTES), offset)
