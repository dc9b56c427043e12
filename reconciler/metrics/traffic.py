"""Requests, counted as they end.

Belongs here: counting, which every request pays for, so that it is integers in slots and nothing else. Does not: who
calls it (the edge of the API), how it is shown (`requests`).
"""

from bisect import bisect_left
from collections.abc import Mapping

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER = "other"  # any other method: a client may send what it likes
UNMATCHED = "unmatched"  # refused before it was looked for where the path leads, or it leads nowhere


class TrafficSlot:
    """The requests of one route and method: `statuses` by class, of which 0 is for those that were not answered."""

    __slots__ = ("buckets", "method", "route", "seconds", "statuses")

    def __init__(self, route: str, method: str) -> None:
        self.route = route
        self.method = method
        self.statuses = [0] * 6
        self.buckets = [0] * (len(SECONDS) + 1)
        self.seconds = 0.0


class Traffic:
    """All requests since the start. What leads a request to its handler stands for its route: `know` says of which."""

    __slots__ = ("_routes", "_slots", "_unmatched")

    def __init__(self) -> None:
        self._routes: dict[object, str] = {}
        self._slots: dict[tuple[object, str], TrafficSlot] = {}
        self._unmatched: dict[str, TrafficSlot] = {}

    def know(self, routes: Mapping[object, str]) -> None:
        """These lead to requests of those paths, with their parameters in braces."""
        self._routes.update(routes)

    def note(self, leads: object, method: str, status: int, seconds: float) -> None:
        """A request ended. `status` is 0 when it was not answered."""
        slot = self._slots.get((leads, method)) or self._slot(leads, method)
        slot.statuses[status // 100] += 1
        slot.buckets[bisect_left(SECONDS, seconds)] += 1
        slot.seconds += seconds

    def slots(self) -> list[TrafficSlot]:
        """By route and method, in their order."""
        every = [*self._slots.values(), *self._unmatched.values()]
        return sorted(every, key=lambda slot: (slot.route, slot.method))

    def _slot(self, leads: object, method: str) -> TrafficSlot:
        """The slot of a pair that has none yet; one for all methods that nobody knows, however many there are."""
        route, told = self._routes.get(leads), method if method in METHODS else OTHER
        if route is not None and told is not OTHER:
            return self._slots.setdefault((leads, method), TrafficSlot(route, method))
        return self._unmatched.setdefault(f"{route} {told}", TrafficSlot(route or UNMATCHED, told))
