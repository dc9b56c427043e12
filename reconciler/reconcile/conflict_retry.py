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

LOOKS = 10  # at which some gate was shut, until who goes everywhere waits inside those that are open


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
        """Whether newcomers wait, for somebody is alone inside or wants to be."""
        return self._entering.locked()

    async def opened(self) -> None:
        """Wait as a newcomer does, and stay outside."""
        async with self._entering:
            pass

    def enter(self) -> None:
        """Be inside together with others, of a gate that is not shut; `leave` it again."""
        self._inside += 1
        self._empty.clear()

    def leave(self) -> None:
        """Be inside no more."""
        self._inside -= 1
        if self._inside == 0:
            self._empty.set()


class ProjectLocks:
    """A lock for each project, and a way to hold all of them at once."""

    def __init__(self) -> None:
        self._gates: defaultdict[str, ProjectLock] = defaultdict(ProjectLock)
        self._going_in = asyncio.Lock()  # two who wait for each other's gates would wait for ever

    def of(self, place: str) -> ProjectLock:
        """The gate of one place."""
        return self._gates[place]

    @contextlib.asynccontextmanager
    async def everywhere(self) -> AsyncIterator[None]:
        """Be inside all of them together with others; of places that nobody entered yet nobody is alone in."""
        # Whoever waits inside one for the next keeps out of the one all who wait for somebody alone there. So that is
        # for who would wait for ever otherwise, since there is always one that is shut.
        for _ in range(LOOKS):
            shut = [gate for _, gate in sorted(self._gates.items()) if gate.is_shut]
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
            while left := sorted(self._gates.keys() - entered):
                gate = self._gates[left[0]]
                if gate.is_shut:
                    await gate.opened()
                gate.enter()
                inside.callback(gate.leave)
                entered.add(left[0])


# Rounds: a change is planned and stored, and once more when others were quicker, until these are kept out.

OPTIMISTIC = 2  # rounds that others may overtake, before one that they may not
ALONE = 3  # rounds of who is alone: what is stored in other projects, or by another process, may still overtake it

T = TypeVar("T")

Round: TypeAlias = Callable[[], Coroutine[None, None, T]]


class ConflictRetry:
    """Everybody who changes something is inside the gate of its project, or inside all of them. Before that, requests
    and commits are inside one among their like.

    A plan looks at nothing of another project, and whatever concerns several goes through all gates. So whoever is
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
        last = partial(_shared_then_exclusive, round_, gate=self._changes.of(project), last=partial(_again, round_))
        return await _shared_then_exclusive(beside, gate=self._requests.of(project), last=last)

    async def of_commit(self, project: str, round_: Round[T]) -> T:
        """A commit that is overtaken waits for the commits that are under way before it keeps requests out: these
        would wait for whatever takes longest of them.
        """
        gate = self._changes.of(project)
        beside, last = partial(_beside, gate, round_), partial(_alone, gate, round_)
        return await _shared_then_exclusive(beside, gate=self._commits.of(project), last=last)

    async def alone(self, project: str, round_: Round[T]) -> T:
        """Change something that others may tell of beside any revision: as the last round of a commit, at once."""
        async with self._commits.of(project).exclusive():
            return await _alone(self._changes.of(project), round_)


async def to_its_end(work: Coroutine[None, None, T]) -> T:
    """Finish a write that was begun although its caller is gone, however often it is cancelled: its thread cannot be
    called back, and whoever waits at the gate must not be let in before it is done.
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


async def _beside(gate: ProjectLock, round_: Round[T]) -> T:
    """Run a round with the lock shared."""
    async with gate.shared():
        return await round_()


async def _alone(gate: ProjectLock, round_: Round[T]) -> T:
    """Run rounds with the lock exclusive, until one has no conflict. Raises Moved."""
    async with gate.exclusive():
        return await _again(round_)


async def _shared_then_exclusive(round_: Round[T], *, gate: ProjectLock, last: Round[T]) -> T:
    """Return the first round's result without a conflict: some rounds hold the lock shared, the `last` exclusive."""
    for _ in range(OPTIMISTIC):
        async with gate.shared():
            with contextlib.suppress(Moved):
                return await round_()
    async with gate.exclusive():
        return await last()


async def _again(round_: Round[T]) -> T:
    """Run a few rounds until one has no conflict. Raises Moved when each had one."""
    for _ in range(ALONE - 1):
        with contextlib.suppress(Moved):
            return await round_()
    return await round_()
