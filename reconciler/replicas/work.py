"""Work that one replica does for all: the holder of the lease `~work`.

A replica that takes over the lease does the work that the former holder may have left. So the work must be safe to
repeat.
"""

import asyncio
import math
from typing import Protocol

from reconciler.replicas.keeper import WORK

POLL_SECONDS = 2.0


class Holder(Protocol):
    """Knows the leases of this replica."""

    def holds(self, name: str) -> bool:
        """Return True while this replica holds a lease: the name of a repository, or `WORK`."""


class Alone:
    """The only process of a store, which holds every lease."""

    def holds(self, name: str) -> bool:  # noqa: ARG002 - see the protocol
        return True


class Work:
    """The work that is done once: it is this replica's turn, or not."""

    def __init__(self, leases: Holder) -> None:
        self._leases = leases

    @property
    def is_mine(self) -> bool:
        """True while it is this replica's turn."""
        return self._leases.holds(WORK)

    async def turn(self) -> None:
        """Wait for this replica's turn."""
        while not self.is_mine:  # noqa: ASYNC110 - a lease also ends by the clock alone
            await asyncio.sleep(POLL_SECONDS)

    async def end_of_turn(self, *, seconds: float = math.inf) -> None:
        """Wait for the end of this replica's turn, but at most this number of seconds."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while self.is_mine and (left := until - loop.time()) > 0:  # noqa: ASYNC110 - see above
            await asyncio.sleep(min(POLL_SECONDS, left))


ALONE = Work(Alone())
