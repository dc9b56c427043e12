"""Limits on calls to remotes, and their counts."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from reconciler.git.faults import GitFault


class ConcurrencyLimit:
    """Allows `at_once` calls to all remotes together, and at most `each` to one host (None: no other limit).

    If a person waits for a call and no slot is free, the call gets one of `beyond` additional slots.
    """

    def __init__(self, at_once: int, *, each: int | None = None, beyond: int = 0) -> None:
        self._all = asyncio.Semaphore(at_once)
        self._hosts = defaultdict[str, asyncio.Semaphore](lambda: asyncio.Semaphore(each or at_once))
        self._beyond = asyncio.Semaphore(beyond)

    @asynccontextmanager
    async def slot(self, host: str, *, insists: bool = False) -> AsyncIterator[None]:
        """Wait for a slot, in the order of arrival, and hold it. `insists`: a person waits."""
        of_host = self._hosts[host]
        if insists and (of_host.locked() or self._all.locked()):
            async with self._beyond:
                yield
        else:
            async with of_host, self._all:  # in this order: what waits for its host takes no other host's slot
                yield


class RemoteCall(StrEnum):
    """The kinds of calls to a remote."""

    LOOK = "look"
    FETCH = "fetch"


@dataclass(slots=True)
class RemoteTally:
    """Calls since the start, and failures by the state of the repository after them; empty for failures without one."""

    calls: dict[RemoteCall, int] = field(default_factory=lambda: dict.fromkeys(RemoteCall, 0))
    failures: Counter[tuple[RemoteCall, str]] = field(default_factory=Counter)

    @contextmanager
    def counting(self, call: RemoteCall) -> Iterator[None]:
        """Count a call, and its failure."""
        self.calls[call] += 1
        try:
            yield
        except Exception as fault:
            self.failed(call, fault)
            raise

    def failed(self, call: RemoteCall, fault: Exception) -> None:
        """Count a failure."""
        self.failures[call, fault.state.value if isinstance(fault, GitFault) else ""] += 1
