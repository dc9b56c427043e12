"""The committer: one thread that writes for all queues, one piece of work after another.

The loop prepares lists of buffers and the thread makes system calls, which release the interpreter's lock; between two
of them it runs next to no Python. A disk that hangs holds this thread, never the event loop.
"""

import asyncio
import errno
import os
import queue
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from reconciler.delivery.queue.contract import Piece
from reconciler.delivery.queue.files import Space, System

MOST_PIECES = 1000  # of one call; the kernel takes 1024
END_SECONDS = 30.0  # for all writes at the end; a disk that hangs does not keep the service from ending

Work: TypeAlias = Callable[[System], None]
Ended: TypeAlias = Callable[[Exception | None], None]


class _Request(NamedTuple):
    loop: asyncio.AbstractEventLoop
    work: Work
    ended: Ended


class Committer:
    """Used from one loop. The thread starts with the first piece of work."""

    def __init__(self, system: System, space: Space) -> None:
        self.faults = 0  # writes that the disk failed
        self.space = space  # as it was after the last work
        self._system = system
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_looking = False

    def do(self, work: Work, ended: Ended) -> None:
        """Run something on the thread after all earlier work; `ended` is called on the loop, with the error if any."""
        if self._thread is None:
            # A daemon: the process ends although a call hangs.
            self._thread = threading.Thread(target=self._work, args=(self._requests,), name="queues", daemon=True)
            self._thread.start()
        self._requests.put(_Request(asyncio.get_running_loop(), work, ended))

    async def done(self, work: Work) -> None:
        """Run something on the thread and wait for it. Raises what it raises."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def hear(failure: Exception | None) -> None:
            if not done.done():
                done.set_exception(failure) if failure else done.set_result(None)

        self.do(work, hear)
        await done

    async def idle(self) -> None:
        """Wait for all earlier work."""
        await self.done(lambda _: None)

    def has_space(self, size: int) -> bool:
        """Return true if so many bytes may be written. The disk is asked again when it may not."""
        if self.space.spare >= size:
            return True
        if not self._is_looking:
            self._is_looking = True
            self.do(lambda _: None, self._looked)
        return False

    def _looked(self, _: Exception | None) -> None:
        self._is_looking = False

    def stop(self) -> None:
        """End the thread after its present work. Callers wait for their work with `done`."""
        if self._thread is not None:
            self._requests.put(None)
            self._thread = None

    def _work(self, requests: "queue.SimpleQueue[_Request | None]") -> None:
        while (request := requests.get()) is not None:
            failure: Exception | None = None
            try:
                request.work(self._system)
            except Exception as fault:  # the caller hears of it; the thread serves all queues
                failure = fault
            self.space.look()
            try:
                request.loop.call_soon_threadsafe(request.ended, failure)
            except RuntimeError:  # the loop ended and did not close the queues
                return
            del request  # it has the bytes of its records


def write_all(system: System, descriptor: int, buffers: Sequence[Piece], offset: int, *, synced: bool) -> None:
    """Write buffers at an offset, with one call if the kernel takes them at once. Raises OSError."""
    is_one_call = len(buffers) <= MOST_PIECES
    left = buffers
    while left:
        written = system.write(descriptor, left[:MOST_PIECES], offset, synced=synced and is_one_call)
        if written == 0 and any(map(len, left[:MOST_PIECES])):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        left, offset = rest(left, written), offset + written
        if is_one_call and not left:
            return
        is_one_call = False
    if synced:
        system.synchronise(descriptor)


def rest(buffers: Sequence[Piece], written: int) -> list[Piece]:
    """Return what is left of buffers when so many bytes of them are written."""
    for place, buffer in enumerate(buffers):
        if written < len(buffer):
            return [memoryview(buffer)[written:], *buffers[place + 1 :]]
        written -= len(buffer)
    return []
