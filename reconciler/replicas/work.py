"""Work that is done once, whatever the number of replicas: by the one that holds the lease `~work`.

A replica that takes the lease over does what the former holder may have left. So the work must bear to be done twice.
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
    """The only process of a store holds everything."""

    def holds(self, name: str) -> bool:  # noqa: ARG002 - see the protocol
        return True


class Work:
    """The turn of this replica at such work."""

    def __init__(self, leases: Holder) -> None:
        self._leases = leases

    @property
    def is_mine(self) -> bool:
        """True while this replica does it."""
        return self._leases.holds(WORK)

    async def turn(self) -> None:
        """Wait until this replica does it."""
        while not self.is_mine:  # noqa: ASYNC110 - a lease also ends by the clock alone
            await asyncio.sleep(POLL_SECONDS)

    async def end_of_turn(self, *, seconds: float = math.inf) -> None:
        """Wait until another replica may do it, but at most so many seconds."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while self.is_mine and (left := until - loop.time()) > 0:  # noqa: ASYNC110 - see above
            await asyncio.sleep(min(POLL_SECONDS, left))


ALONE = Work(Alone())
