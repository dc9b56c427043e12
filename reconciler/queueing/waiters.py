"""Those who wait for something to claim.

Belongs here: waiting, and being told to look again. Does not: what there is to look at.
"""

import asyncio
from collections.abc import Callable


class Waiters:
    """All of one queue; in the event loop alone."""

    def __init__(self) -> None:
        self._waiters: list[asyncio.Future[None]] = []

    def __len__(self) -> int:
        """How many wait now."""
        return len(self._waiters)

    async def until(self, is_there: Callable[[], bool]) -> None:
        """Return once this holds. It is asked at once, and again whenever somebody wakes all."""
        while not is_there():
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            finally:
                if waiter.cancelled() and waiter in self._waiters:
                    self._waiters.remove(waiter)

    def wake(self) -> None:
        """Let everybody who waits look again."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
