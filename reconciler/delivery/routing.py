"""Routing: which groups of a request go to which destination. Pure.

A route is found by the one of its labels that the fewest routes have. Only pairs of key and value that some route names
matter, so resources that differ elsewhere (a host's name, a process) share one answer.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from reconciler.delivery.otlp.models import Logs, RecordGroup
from reconciler.model.routes import Route, Routes

Match = Callable[[Mapping[str, str]], tuple[str, ...]]
"""The destinations of records whose resource has these attributes, each once."""


class RecordShare(NamedTuple):
    """The part of a request for one destination: pieces which one after another are a request again."""

    pieces: tuple[bytes | memoryview, ...]
    records: int
    size: int


class RequestSplit(NamedTuple):
    """Each destination's share, in the order in which they first occur, and how many records none of them takes."""

    shares: dict[str, RecordShare]
    unrouted: int


def split_request(logs: Logs, match: Match) -> RequestSplit:
    """Divide a request."""
    if len(logs.groups) == 1:  # of nearly every request that is small
        group = logs.groups[0]
        share = RecordShare((group.data,), group.records, len(group.data))
        names = match(group.attributes)
        return RequestSplit(dict.fromkeys(names, share), 0 if names else group.records)
    chosen: dict[str, list[RecordGroup]] = {}
    unrouted = 0
    for group in logs.groups:
        names = match(group.attributes)
        if not names:
            unrouted += group.records
        for name in names:
            chosen.setdefault(name, []).append(group)
    return RequestSplit({name: _share(groups) for name, groups in chosen.items()}, unrouted)


def _share(groups: Sequence[RecordGroup]) -> RecordShare:
    return RecordShare(
        tuple(group.data for group in groups),
        sum(group.records for group in groups),
        sum(len(group.data) for group in groups),
    )


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
