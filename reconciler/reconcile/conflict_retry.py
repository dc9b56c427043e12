"""Retry after a conflict, and the locks that let the last attempt through."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TypeAlias, TypeVar

from reconciler.store.contract import Moved

# Gates: many inside at once, or one alone. Who comes in, and why alone, is not here.

LOOKS = 10  # at which some lock was shut, until who goes everywhere waits inside those that are open


class ProjectLock:
    """Any number of changes at once, or one alone. Whoever wants to be alone is not overtaken by newcomers."""

    def __init__(self) -> None:
        self._entering = asyncio.Lock()
        self._inside = 0
        self._empty = asyncio.Event()
        self._empty.set()

    @contextlib.asynccontextmanager
    async def shared(self) -> AsyncIterator[None]:
        """Be inside together with others."""
        async with self._entering:
            self.enter()
        try:
            yield
        finally:
            self.leave()

    @contextlib.asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        """Be inside alone: wait for those inside, and keep newcomers waiting."""
        async with self._entering:
            await self._empty.wait()
            yield

    @contextlib.asynccontextmanager
    async def idle(self) -> AsyncIterator[None]:
        """Be inside alone, and keep nobody waiting for that: whoever comes before it is empty goes first."""
        while True:
            await self._empty.wait()
            async with self._entering:
                if self._inside == 0:
                    yield
                    return

    @property
    def is_shut(self) -> bool:
        """Newcomers wait: somebody holds the lock exclusive, or waits for that."""
        return self._entering.locked()

    async def opened(self) -> None:
        """Wait as a newcomer does, and stay outside."""
        async with self._entering:
            pass

    def enter(self) -> None:
        """Hold the lock shared; it must not be shut. `leave` releases it."""
        self._inside += 1
        self._empty.clear()

    def leave(self) -> None:
        """Release the shared lock."""
        self._inside -= 1
        if self._inside == 0:
            self._empty.set()


class ProjectLocks:
    """A lock for each project, and a way to hold all of them at once."""

    def __init__(self) -> None:
        self._locks: defaultdict[str, ProjectLock] = defaultdict(ProjectLock)
        self._going_in = asyncio.Lock()  # two who wait for each other's locks would wait for ever

    def of(self, place: str) -> ProjectLock:
        """Return the lock of one project."""
        return self._locks[place]

    @contextlib.asynccontextmanager
    async def everywhere(self) -> AsyncIterator[None]:
        """Hold all of them shared. A project without a lock yet is held exclusive by nobody."""
        # Whoever waits inside one for the next keeps out of the one all who wait for somebody alone there. So that is
        # for who would wait for ever otherwise, since there is always one that is shut.
        for _ in range(LOOKS):
            shut = [lock for _, lock in sorted(self._locks.items()) if lock.is_shut]
            if not shut:
                break
            await shut[0].opened()
        with contextlib.ExitStack() as inside:
            await self._go_in(inside)
            yield

    async def _go_in(self, inside: contextlib.ExitStack) -> None:
        """Enter one after the other, at once where none is shut, and those that are new meanwhile."""
        entered: set[str] = set()
        async with self._going_in:
            while left := sorted(self._locks.keys() - entered):
                lock = self._locks[left[0]]
                if lock.is_shut:
                    await lock.opened()
                lock.enter()
                inside.callback(lock.leave)
                entered.add(left[0])


# Rounds: a change is planned and stored, and once more when others were quicker, until these are kept out.

OPTIMISTIC = 2  # rounds that others may overtake, before one that they may not
ALONE = 3  # rounds of who is alone: what is stored in other projects, or by another process, may still overtake it

T = TypeVar("T")

Round: TypeAlias = Callable[[], Coroutine[None, None, T]]


class ConflictRetry:
    """Whoever changes something holds the lock of its project, or those of all projects. Before that, requests and
    commits hold a lock of their own kind.

    A plan looks at nothing of another project, and whatever concerns several goes through all locks. So whoever is
    alone in its project is overtaken by few: who rewrites what is stored elsewhere while a change is written ahead, who
    stores so much there that the store forgets what, and other processes.
    """

    def __init__(self) -> None:
        self._changes = ProjectLocks()
        self._requests = ProjectLocks()
        self._commits = ProjectLocks()

    def beside(self, project: str) -> AbstractAsyncContextManager[None]:
        """Change something of a project beside others."""
        return self._changes.of(project).shared()

    def everywhere(self) -> AbstractAsyncContextManager[None]:
        """Change what plans of several projects may look at."""
        return self._changes.everywhere()

    def when_idle(self, project: str) -> AbstractAsyncContextManager[None]:
        """Change something of a project when nobody else does."""
        return self._changes.of(project).idle()

    async def of_request(self, project: str, round_: Round[T]) -> T:
        """Requests that overtake each other keep out requests at first: they would all wait for a large commit
        otherwise, that of them which wants to be alone among all, and the others behind it.
        """
        beside = partial(_beside, self._changes.of(project), round_)
        last = partial(_shared_then_exclusive, round_, lock=self._changes.of(project), last=partial(_again, round_))
        return await _shared_then_exclusive(beside, lock=self._requests.of(project), last=last)

    async def of_commit(self, project: str, round_: Round[T]) -> T:
        """A commit that is overtaken waits for the commits that are under way before it keeps requests out: these
        would wait for whatever takes longest of them.
        """
        lock = self._changes.of(project)
        beside, last = partial(_beside, lock, round_), partial(_alone, lock, round_)
        return await _shared_then_exclusive(beside, lock=self._commits.of(project), last=last)

    async def alone(self, project: str, round_: Round[T]) -> T:
        """Change something that others may tell of beside any revision: as the last round of a commit, at once."""
        async with self._commits.of(project).exclusive():
            return await _alone(self._changes.of(project), round_)


async def to_its_end(work: Coroutine[None, None, T]) -> T:
    """Finish a write that was begun although its caller is gone, however often it is cancelled: its thread cannot be
    called back, and whoever waits at the lock must not be let in before it is done.
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
            task.exception()  # the caller is gone: nobody is told of it
        raise cancelled
    return task.result()


async def _beside(lock: ProjectLock, round_: Round[T]) -> T:
    """Run a round with the lock shared."""
    async with lock.shared():
        return await round_()


async def _alone(lock: ProjectLock, round_: Round[T]) -> T:
    """Run rounds with the lock exclusive, until one has no conflict. Raises Moved."""
    async with lock.exclusive():
        return await _again(round_)


async def _shared_then_exclusive(round_: Round[T], *, lock: ProjectLock, last: Round[T]) -> T:
    """Return the first round's result without a conflict: some rounds hold the lock shared, the `last` exclusive."""
    for _ in range(OPTIMISTIC):
        async with lock.shared():
            with contextlib.suppress(Moved):
                return await round_()
    async with lock.exclusive():
        return await last()


async def _again(round_: Round[T]) -> T:
    """Run a few rounds until one has no conflict. Raises Moved when each had one."""
    for _ in range(ALONE - 1):
        with contextlib.suppress(Moved):
            return await round_()
    return await round_()
