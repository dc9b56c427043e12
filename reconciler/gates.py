"""Gates: many inside at once, or one alone. Who comes in, and why alone, is not here."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator

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
    """A gate for each of some places, and a way into all of them at once."""

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
