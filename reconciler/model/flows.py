"""Flows: the changes of delivery, in words. Pure.

A flow leads from a Configuration to a destination. Flows are compared as compiled routes, never as text, because two
versions of a Configuration may write the same flow differently.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from functools import partial
from typing import NamedTuple

import msgspec


class FlowChange(StrEnum):
    """A change of one flow, the gravest first."""

    STOPPED = "stopped"
    STALE = "stale"  # this version cannot deliver; the last one that could goes on
    MOVED = "moved"  # the destination has another endpoint
    FILTERED = "filtered"  # another selector: other records
    RESUMED = "resumed"  # the present version delivers again, after a stale one
    STARTED = "started"


ENDS = frozenset({FlowChange.STOPPED, FlowChange.STALE})
"""The changes after which a version that is in Git does not deliver."""

MOST = 100  # flows that a run or an answer names; the counts have all

_RANK = {change: rank for rank, change in enumerate(FlowChange)}


class Flow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change of delivery.

    `configuration` is '' for a destination that moves with all its flows; `destination` is '' for all destinations of
    the Configuration. `reason` is one sentence, '' if the change explains itself. `also`: the Configuration delivered
    to another destination before. `version` is the one whose route continues. `queued` is the number of records that
    wait for the destination, None if it is unknown.
    """

    change: FlowChange
    configuration: str = ""
    destination: str = ""
    reason: str = ""
    also: bool = False
    version: int = 0
    queued: int | None = None

    def sentence(self) -> str:
        """Return the change in words, without a full stop."""
        match self.change:
            case FlowChange.STOPPED:
                told = f"{self.configuration} stops delivering to {self.destination}"
            case FlowChange.STALE:
                told = (
                    f"{self.configuration} goes on delivering to {self.destination} by its old version {self.version}"
                )
            case FlowChange.MOVED:
                told = f"{self.destination}: endpoint changes"
                if self.queued:
                    told += f"; {self.queued:,} queued {'record follows' if self.queued == 1 else 'records follow'}"
            case FlowChange.FILTERED:
                told = f"{self.configuration} delivers other records: its selector changes"
            case FlowChange.RESUMED:
                told = f"{self.configuration} delivers to {self.destination} by its present version again"
            case FlowChange.STARTED:
                told = f"{self.configuration} {'also delivers' if self.also else 'delivers'} to {self.destination}"
        return f"{told}: {self.reason.removesuffix('.')}" if self.reason else told


class Delivering(NamedTuple):
    """The flows of a Configuration. `version` is that of the last good route, 0 for the present version."""

    destinations: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    version: int = 0


NOTHING = Delivering()


def compare(configuration: str, before: Delivering, after: Delivering, *, reason: str) -> Iterator[Flow]:
    """Yield the changes for a Configuration; `reason` says why its new version does not deliver, '' if it does."""
    flow = partial(Flow, configuration=configuration)
    for name in before.destinations:
        if name not in after.destinations:
            yield flow(change=FlowChange.STOPPED, destination=name, reason=reason)
        elif after.version and not before.version:
            yield flow(change=FlowChange.STALE, destination=name, reason=reason, version=after.version)
        elif before.version and not after.version:
            yield flow(change=FlowChange.RESUMED, destination=name)
    if before.destinations and after.destinations and before.labels != after.labels:
        yield flow(change=FlowChange.FILTERED)
    for name in after.destinations:
        if name not in before.destinations:
            yield flow(change=FlowChange.STARTED, destination=name, also=bool(before.destinations))


def in_order(flows: Iterable[Flow]) -> tuple[Flow, ...]:
    """Return the gravest first, then by name."""
    return tuple(sorted(flows, key=lambda one: (_RANK[one.change], one.configuration, one.destination)))


def with_queued(flows: Iterable[Flow], queued: Callable[[str], int]) -> tuple[Flow, ...]:
    """Add the number of records that wait for each moved destination, because they follow it."""
    return tuple(
        msgspec.structs.replace(flow, queued=queued(flow.destination)) if flow.change is FlowChange.MOVED else flow
        for flow in flows
    )


def count(flows: Iterable[Flow]) -> dict[str, int]:
    """Count the flows by their change, the gravest first."""
    found = Counter(flow.change for flow in flows)
    return {change.value: found[change] for change in FlowChange if found[change]}


def shown(flow: Flow) -> dict[str, str | int]:
    """Return a flow as a JSON object, with its sentence as `text`."""
    return {**msgspec.to_builtins(flow, builtin_types=()), "text": flow.sentence()}
