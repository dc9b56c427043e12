"""Reading small files of other people: bounded, with a timeout, and without waiting for a pipe.

Links are followed: Kubernetes and systemd provide secrets behind links. The file may be on a disk that hangs: then only
a few threads wait for it. Nothing joins these threads, neither the end of the event loop nor the interpreter, which
would wait for threads of Python's own executors as long as the disk hangs.
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
    """The path is not a file, but a folder, a pipe or a device."""


class FileTooLarge(Exception):
    """The file is larger than the limit."""


def read_file(path: Path | str, *, limit: int) -> bytes:
    """Return all bytes of a regular file, at most `limit`. Raises OSError, NotAFile, FileTooLarge."""
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
    """Return the fields that change when a file is replaced or written; None if it is missing or cannot be reached."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


SECONDS = 10.0  # until an operation times out; only its thread still waits
TURN_SECONDS = 60.0  # for which a caller waits for a thread, even if all earlier operations answer
AGAIN_SECONDS = 60.0  # until the disk is tried again, which may have been replaced; twice as long each time
THREADS = 2  # at once for each kind of files, without abandoned ones; further operations wait
NO_THREAD = "There is no thread left to read {}; look at the machine's memory, and at its limits of processes."

T = TypeVar("T")


class DiskHangs(errors.Transient):
    """A file operation did not answer in time, or could not start. It works again when the disk does."""


def on_thread(work: Callable[[], T]) -> asyncio.Future[T]:
    """Run an operation on its own thread, which nothing joins, in the context of the caller."""
    asked: Future[T] = Future()
    context = contextvars.copy_context()

    def run() -> None:
        asked.set_running_or_notify_cancel()  # from here on it cannot be cancelled
        try:
            asked.set_result(context.run(work))
        except BaseException as fault:
            asked.set_exception(fault)

    threading.Thread(target=run, name="files", daemon=True).start()
    return asyncio.wrap_future(asked)


class BoundedIO:
    """Operations on one kind of files. While an operation that timed out still hangs, others fail at once, except for
    rare attempts.
    """

    def __init__(self, what: str, *, again: float = AGAIN_SECONDS, turn: float = TURN_SECONDS) -> None:
        """`what` names these files in messages: "the files of secrets"; `again` and `turn` are in seconds."""
        self._what = what
        self._again = again
        self._turn_seconds = turn
        self._free = asyncio.Semaphore(THREADS)
        self._owed: set[asyncio.Future[Any]] = set()  # abandoned operations; each has a thread beside the counted ones
        self._try_at: float | None = None  # on the loop's clock; None: the disk answered last

    async def answer(self, work: Callable[[], T], *, seconds: float = SECONDS) -> T:
        """Return what `work` returns, in the context of the caller, within so many seconds from its start.

        Raises DiskHangs, and what `work` raises.
        """
        loop = asyncio.get_running_loop()
        await self._wait_for_thread()
        try:
            asked = on_thread(work)
        except (RuntimeError, MemoryError) as fault:  # the errors of `Thread.start`
            self._free.release()
            raise DiskHangs(NO_THREAD.format(self._what)) from fault
        asked.add_done_callback(self._answered)
        late = loop.call_later(seconds, self._abandon, asked)  # even if the caller is cancelled
        asked.add_done_callback(lambda _: late.cancel())
        await asyncio.wait([asked], timeout=seconds)
        if asked.done():
            return asked.result()
        raise self._hanging()

    async def _wait_for_thread(self) -> None:
        """Wait for a free thread. Raises DiskHangs if the disk hangs, or too many operations are before this one.

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
            self._postpone_retry()  # this operation tries the disk; the others fail without waiting for it

    def _hanging(self) -> DiskHangs:
        return DiskHangs(f"The disk with {self._what} does not answer; look at it.")

    def _hangs(self) -> bool:
        return self._try_at is not None and asyncio.get_running_loop().time() < self._try_at

    def _postpone_retry(self) -> None:
        # Doubled with each thread that hangs, so that there are only a few, however long the disk hangs.
        self._try_at = asyncio.get_running_loop().time() + self._again * 2.0 ** len(self._owed)

    def _abandon(self, asked: asyncio.Future[Any]) -> None:
        """Mark this operation as abandoned, unless it has ended."""
        if not asked.done():
            self._free.release()
            self._postpone_retry()
            self._owed.add(asked)

    def _answered(self, asked: asyncio.Future[Any]) -> None:
        asked.exception()  # mark it as retrieved: the caller may be gone
        if asked in self._owed:
            self._owed.remove(asked)
        else:
            self._free.release()
        self._try_at = None  # the disk answers; abandoned operations may hang on a former one
