"""A value that is fetched from somewhere and kept for a while, however many want it at once.

Belongs here: when it is fetched, by one for all who wait. Does not: what it is, how it is fetched.

    fresh (lifetime)     kept
    older                fetched again; when nobody answers, what was kept serves on
    failed just now      the same failure for everybody, for `pause` seconds and no longer
    not good enough      `newer`: fetched at once, but no more often than once in `rotation` seconds

The fetch is a task of its own, so that who asked first may go away without taking it from the others.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from reconciler.model.errors import ReconcilerError, Transient
from reconciler.oidc.faults import STOPPING, ProviderUnreachable
from reconciler.oidc.limits import ProviderLimits

Value = TypeVar("Value")


class CachedFetch(Generic[Value]):
    """Belongs to the running loop; `close` it. `fetch` raises ReconcilerError, and has a limit of time of its own."""

    def __init__(
        self,
        fetch: Callable[[], Awaitable[Value]],
        *,
        name: str,
        limits: ProviderLimits,
        monotonic: Callable[[], float],
    ) -> None:
        self._fetch = fetch
        self._name = name
        self._limits = limits
        self._monotonic = monotonic
        self._under_way: asyncio.Task[Value] | None = None
        self._value: Value | None = None
        self._fetched = 0.0  # seconds on the monotonic clock, as the following two
        self._failure: ReconcilerError | None = None
        self._failed = 0.0
        self._forced: float | None = None
        self._closed = False

    @property
    def at_hand(self) -> Value | None:
        """What is kept, however old."""
        return self._value

    async def get(self) -> Value:
        """The value; an older one when a new one is out of reach. Raises what fetching it raises."""
        if self._value is not None and self._monotonic() - self._fetched < self._limits.lifetime_seconds:
            return self._value
        try:
            return await self._shared()
        except Transient:
            if self._value is None:
                raise
            return self._value

    async def newer(self, than: Value) -> Value:
        """Another value than this one, which was not good enough; the same when it must not be fetched again yet."""
        if self._value is not None and self._value is not than:
            return self._value
        now = self._monotonic()
        if self._under_way is None:
            if self._forced is not None and now - self._forced < self._limits.rotation_seconds:
                return than
            self._heed_failure()
            self._forced = now
        return await self._shared()

    async def close(self) -> None:
        """End what is under way; whoever waits for it gets Unreachable."""
        self._closed = True
        task = self._under_way
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            self._under_way = None  # one that had not begun did not say so itself

    async def _shared(self) -> Value:
        """What one fetch brings to all who want it meanwhile."""
        if self._under_way is None:
            self._heed_failure()
            self._under_way = asyncio.create_task(self._fetch_and_keep(), name=self._name)
            self._under_way.add_done_callback(_noticed)
        try:
            return await asyncio.shield(self._under_way)
        except asyncio.CancelledError:
            if self._closed:
                raise ProviderUnreachable(STOPPING) from None
            raise

    def _heed_failure(self) -> None:
        """Raise what the last fetch raised, when that was a moment ago; anew, since each has a trace of its own."""
        if self._failure is not None and self._monotonic() - self._failed < self._limits.pause_seconds:
            raise type(self._failure)(self._failure.message)

    async def _fetch_and_keep(self) -> Value:
        try:
            value = await self._fetch()
        except ReconcilerError as problem:
            self._failure, self._failed = problem, self._monotonic()
            raise
        else:
            self._value, self._fetched, self._failure = value, self._monotonic(), None
            return value
        finally:
            self._under_way = None


def _noticed(task: asyncio.Task[Value]) -> None:
    """Whoever waited may be gone; then nobody else would take note of how it ended."""
    if not task.cancelled():
        task.exception()
