"""Which destinations the records of one resource go to, out of thousands of routes in microseconds.

Belongs here: holding a resource's attributes against frozen routes. Does not: where the routes come from.

A route is found by the one of its labels that the fewest routes have; only pairs of key and value that some route names
matter, so resources that differ elsewhere (a host's name, a process) share one answer.
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from reconciler.model.routes import Route, Routes

MOST_ANSWERS = 4096  # that are remembered; the oldest one makes room

Pair: TypeAlias = tuple[str, str]


class _Entry(NamedTuple):
    rank: int  # of the route among all
    labels: frozenset[Pair]
    destinations: tuple[str, ...]


class Matcher:
    """Holds attributes against the routes of one project. Used from one thread."""

    def __init__(self, routes: Routes) -> None:
        self._always = [_entry(rank, route) for rank, route in enumerate(routes.routes) if not route.labels]
        self._by_pair: dict[Pair, list[_Entry]] = {}
        self._index(routes)
        self._pairs = frozenset(pair for route in routes.routes for pair in route.labels)
        self._known: dict[frozenset[Pair], tuple[str, ...]] = {}

    def of(self, attributes: Mapping[str, str]) -> tuple[str, ...]:
        """The names of the destinations, each once, in the order of their routes."""
        held = self._pairs.intersection(attributes.items())
        known = self._known.get(held)
        if known is None:
            known = self._matched(held)
            if len(self._known) >= MOST_ANSWERS:
                del self._known[next(iter(self._known))]
            self._known[held] = known
        return known

    def _index(self, routes: Routes) -> None:
        common = Counter(pair for route in routes.routes for pair in set(route.labels))
        for rank, route in enumerate(routes.routes):
            if route.labels:
                rarest = min(route.labels, key=lambda pair: (common[pair], pair))
                self._by_pair.setdefault(rarest, []).append(_entry(rank, route))

    def _matched(self, held: frozenset[Pair]) -> tuple[str, ...]:
        found = [entry for pair in held for entry in self._by_pair.get(pair, ()) if entry.labels <= held]
        entries = sorted([*self._always, *found])
        return tuple(dict.fromkeys(name for entry in entries for name in entry.destinations))


def _entry(rank: int, route: Route) -> _Entry:
    return _Entry(rank, frozenset(route.labels), route.destinations)
