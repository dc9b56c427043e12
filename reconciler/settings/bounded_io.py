"""Reading small files that other people provide: bounded, with a timeout, and never waiting for a pipe.

Links are followed: Kubernetes and systemd provide secrets behind links. The file may be on a disk that hangs: then few
threads wait for it, and nobody else does. Nobody joins these threads, neither the event loop at its end nor the
interpreter, which would wait for a thread of Python's own executors as long as the disk hangs.
"""

import asyncio
import contextvars
import os
import stat
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from reconciler.model import errors

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

FileIdentity: TypeAlias = tuple[int, int, int, int]


class NotAFile(Exception):
    """There is something else: a folder, a pipe, a device."""


class FileTooLarge(Exception):
    """There is more in it than may be read."""


def read_file(path: Path | str, *, limit: int) -> bytes:
    """Return all bytes of a regular file, of which it may have `limit`. Raises OSError, NotAFile, TooLarge."""
    descriptor = os.open(path, _FLAGS)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotAFile
        kept = bytearray()
        while chunk := os.read(descriptor, limit + 1 - len(kept)):
            kept += chunk
            if len(kept) > limit:
                raise FileTooLarge
        return bytes(kept)
    finally:
        os.close(descriptor)


def file_identity(path: Path) -> FileIdentity | None:
    """Return the fields that change when somebody replaces or writes a file; None when it is missing or cannot be
    reached.
    """
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


SECONDS = 10.0  # until nobody waits any more for an answer but its thread
TURN_SECONDS = 60.0  # until who waits for a thread is told, though all who came before are answered
AGAIN_SECONDS = 60.0  # until the disk is tried once more, in case another stands there now; twice as long each time
THREADS = 2  # at once, for each kind of files and until they are given up; a question more waits for its turn
NO_THREAD = "There is no thread left to read {}; look at the machine's memory, and at its limits of processes."

T = TypeVar("T")


class DiskHangs(errors.Transient):
    """A file operation did not answer in time, or none could start; it recovers when its disk does."""


def on_thread(work: Callable[[], T]) -> asyncio.Future[T]:
    """Run an operation on a thread that ends with it, and that nobody joins, in the context of the caller."""
    asked: Future[T] = Future()
    context = contextvars.copy_context()

    def run() -> None:
        asked.set_running_or_notify_cancel()  # from here on nobody cancels it
        try:
            asked.set_result(context.run(work))
        except BaseException as fault:
            asked.set_exception(fault)

    threading.Thread(target=run, name="files", daemon=True).start()
    return asyncio.wrap_future(asked)


class BoundedIO:
    """Operations on some files. While one that timed out has not ended, others fail at once, but for a rare try."""

    def __init__(self, what: str, *, again: float = AGAIN_SECONDS, turn: float = TURN_SECONDS) -> None:
        """`what` is how people are told of these files: "the files of secrets"; `again` and `turn` in seconds."""
        self._what = what
        self._again = again
        self._turn_seconds = turn
        self._free = asyncio.Semaphore(THREADS)
        self._owed: set[asyncio.Future[Any]] = set()  # given up; each has a thread beside those that are awaited
        self._try_at: float | None = None  # on the loop's clock; None: the disk answered last

    async def answer(self, work: Callable[[], T], *, seconds: float = SECONDS) -> T:
        """Return what `work` returns, in the context of the caller, within so many seconds from its start.

        Raises DiskHangs, and what `work` raises.
        """
        loop = asyncio.get_running_loop()
        await self._turn()
        try:
            asked = on_thread(work)
        except (RuntimeError, MemoryError) as fault:  # as `Thread.start` tells it
            self._free.release()
            raise DiskHangs(NO_THREAD.format(self._what)) from fault
        asked.add_done_callback(self._answered)
        late = loop.call_later(seconds, self._owe, asked)  # even if the caller is cancelled
        asked.add_done_callback(lambda _: late.cancel())
        await asyncio.wait([asked], timeout=seconds)
        if asked.done():
            return asked.result()
        raise self._hanging()

    async def _turn(self) -> None:
        """Wait for a free thread. Raises DiskHangs when the disk does, and when too many are before.

        Who has a thread waits for so long, and all who wait for a turn hear of a disk that hangs from that one.
        """
        if self._hangs():
            raise self._hanging()
        try:
            async with asyncio.timeout(self._turn_seconds):
                await self._free.acquire()
        except TimeoutError:
            raise DiskHangs(
                f"The disk with {self._what} is too slow for all who wait for it; try again in a moment."
            ) from None
        if self._hangs():
            self._free.release()
            raise self._hanging()
        if self._try_at is not None:
            self._put_off()  # one question tries the disk; the others need not wait for it

    def _hanging(self) -> DiskHangs:
        return DiskHangs(f"The disk with {self._what} does not answer; look at it.")

    def _hangs(self) -> bool:
        return self._try_at is not None and asyncio.get_running_loop().time() < self._try_at

    def _put_off(self) -> None:
        # Doubled with each thread that hangs, so that these stay few however long it lasts.
        self._try_at = asyncio.get_running_loop().time() + self._again * 2.0 ** len(self._owed)

    def _owe(self, asked: asyncio.Future[Any]) -> None:
        """Mark this operation as abandoned, unless it has ended."""
        if not asked.done():
            self._free.release()
            self._put_off()
            self._owed.add(asked)

    def _answered(self, asked: asyncio.Future[Any]) -> None:
        asked.exception()  # what it raised is no news when nobody waits for it
        if asked in self._owed:
            self._owed.remove(asked)
        else:
            self._free.release()
        self._try_at = None  # it does answer; what is owed still may hang on another disk that stood there
