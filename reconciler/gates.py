"""A gate: many inside at once, or one alone. Who comes in, and why alone, is not here."""

import asyncio
import contextlib
from collections.abc import AsyncIterator


class Gate:
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
            self._enter()
        try:
            yield
        finally:
            self._leave()

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

    def _enter(self) -> None:
        self._inside += 1
        self._empty.clear()

    def _leave(self) -> None:
        self._inside -= 1
        if self._inside == 0:
            self._empty.set()
