"""The lock of each project: one writer at a time, in the order of arrival."""

import asyncio
import contextlib
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TypeVar

from reconciler.model import errors

T = TypeVar("T")


class Locked(errors.Transient):
    """A request waited for its project's lock for as long as one may."""

    def __init__(self) -> None:
        super().__init__("Other changes of the project take long, so this one was not begun; send it again.")


class Writer(Enum):
    """The kind of a writer, which decides how it queues."""

    REQUEST = auto()  # a person or a program waits for the answer
    POLL = auto()  # a run, or work in the background


@dataclass(eq=False, slots=True)
class _Waiter:
    writer: Writer
    gave_way: bool = False
    turn: "asyncio.Future[None]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class ProjectLock:
    """First come, first served, with one exception: when a poll's turn comes, the requests that wait at that moment go
    first. Then the poll goes, whatever arrived since, so that requests cannot starve it.
    """

    def __init__(self) -> None:
        self._is_held = False
        self._waiting: deque[_Waiter] = deque()

    async def acquire(self, writer: Writer) -> None:
        """Wait for the lock and hold it."""
        if not self._is_held:  # nobody waits either: `release` passes the lock on
            self._is_held = True
            return
        waiter = _Waiter(writer)
        self._waiting.append(waiter)
        try:
            await waiter.turn
        except asyncio.CancelledError:
            if not waiter.turn.cancelled():  # the lock was passed on in the moment of the cancellation
                self.release()
            raise

    def release(self) -> None:
        """Pass the lock on to the next writer, if one waits."""
        waiting = [one for one in self._waiting if not one.turn.cancelled()]
        if waiting and waiting[0].writer is Writer.POLL and not waiting[0].gave_way:
            waiting[0].gave_way = True
            waiting.sort(key=lambda one: one.writer is Writer.POLL)  # requests first, each kind in its order
        self._waiting = deque(waiting)
        self._is_held = bool(waiting)
        if waiting:
            self._waiting.popleft().turn.set_result(None)


class ProjectLocks:
    """The locks of all projects."""

    def __init__(self) -> None:
        self._locks: defaultdict[str, ProjectLock] = defaultdict(ProjectLock)

    @contextlib.asynccontextmanager
    async def hold(
        self, *projects: str, writer: Writer = Writer.POLL, until: float | None = None
    ) -> AsyncIterator[None]:
        """Hold the locks of these projects, taken in the order of their names so that two writers cannot wait for each
        other. `until` is an instant of the loop's clock. Raises Locked when it passes before the locks are held.
        """
        with contextlib.ExitStack() as held:
            try:
                async with asyncio.timeout_at(until):
                    for project in sorted(set(projects)):
                        await self._locks[project].acquire(writer)
                        held.callback(self._locks[project].release)
            except TimeoutError:
                raise Locked from None
            yield


async def to_its_end(work: Coroutine[None, None, T]) -> T:
    """Finish a write even if the caller is cancelled, however often: its thread cannot be stopped, and the next writer
    must not get the lock before the write ends.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # the caller is gone: nobody gets the result
        raise cancelled
    return task.result()
