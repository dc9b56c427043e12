"""The observer of replicas: those that ended without leaving, and whose queues therefore wait on their disks."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import timedelta

from reconciler.model.notification_types import NotificationType, Severity
from reconciler.notifications.models import Cause, Domain, Finding, Observation
from reconciler.replicas.work import Work

GONE = timedelta(minutes=2)  # without a beat; a restart takes less
EVERY_SECONDS = 10.0  # between two questions
FORGOTTEN = timedelta(days=7)  # then a missing replica is forgotten

Ages = Callable[[], Awaitable[Mapping[str, timedelta]]]
"""Returns the time since the last beat of each replica that has not left."""


class ReplicaObserver:
    """Remembers when each replica was alive last."""

    def __init__(
        self,
        ages: Ages,
        instances: Callable[[], Collection[str]],
        *,
        forget: Callable[[timedelta], Awaitable[None]],
        monotonic: Callable[[], float],
        work: Work,
        gone: timedelta = GONE,
    ) -> None:
        """`instances` returns the replicas that have open notifications of their own. `forget` forgets the replicas
        that have not beaten for so long.
        """
        self._ages = ages
        self._instances = instances
        self._forget = forget
        self._monotonic = monotonic
        self._work = work
        self._gone = gone
        self._alive_at: dict[str, float] = {}
        self._last: tuple[float, Observation] | None = None

    async def observe(self) -> Observation:
        """Return the replicas that are gone. One replica looks. Raises StoreFault."""
        now = self._monotonic()
        if not self._work.is_mine:
            self._alive_at.clear()
            self._last = None
            return Observation(Domain.REPLICAS, (), frozenset())
        if self._last is None or now - self._last[0] >= EVERY_SECONDS:
            self._last = now, await self._ask()
        return self._last[1]

    async def _ask(self) -> Observation:
        await self._forget(FORGOTTEN)
        ages, now = await self._ages(), self._monotonic()
        # A replica that left normally also has time to return, so that a restart resolves nothing.
        known = {name: self._alive_at.get(name, now) for name in self._instances()}
        self._alive_at = {**known, **{name: now - age.total_seconds() for name, age in ages.items()}}
        return Observation(
            Domain.REPLICAS, tuple(_finding(name) for name, age in sorted(ages.items()) if age >= self._gone)
        )

    def is_gone(self, instance: str) -> bool:
        """Return True if no replica of this name has lived for a while, as far as this replica knows."""
        alive_at = self._alive_at.get(instance)
        return alive_at is not None and self._monotonic() - alive_at >= self._gone.total_seconds()


def _finding(name: str) -> Finding:
    title = f"The replica {name} is gone"
    return Finding(Cause(NotificationType.REPLICA_GONE, name), Severity.ERROR, title)
