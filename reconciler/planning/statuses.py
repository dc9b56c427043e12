"""The ten update statuses and what each means for the answer. How a status is chosen is in `planner`."""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum


class UpdateStatus(StrEnum):
    """The outcome for one resource (interface, Resource status)."""

    UNCHANGED = "unchanged"
    CONFIGURED = "configured"
    CREATED = "created"
    DELETED = "deleted"
    NOT_FOUND = "not-found"
    INVALID = "invalid"
    ERROR = "error"
    IN_USE = "in-use"
    FORBIDDEN = "forbidden"
    DEPRECATED = "deprecated"


STORED = frozenset({UpdateStatus.CREATED, UpdateStatus.CONFIGURED, UpdateStatus.DELETED})
"""The statuses that change what is stored."""

REFUSED = frozenset({UpdateStatus.INVALID, UpdateStatus.ERROR, UpdateStatus.IN_USE, UpdateStatus.FORBIDDEN})
"""The statuses that say: what was asked for is not what is stored."""

WITH_REASON = frozenset({UpdateStatus.INVALID, UpdateStatus.ERROR})
"""`reason` is present for these alone (interface, Resource status)."""


def count(statuses: Iterable[UpdateStatus]) -> dict[str, int]:
    """How often each status occurs, in the order of the enumeration; statuses that do not occur are left out."""
    counts = dict.fromkeys(UpdateStatus, 0)
    for status in statuses:
        counts[status] += 1
    return {status.value: number for status, number in counts.items() if number}


def by_kind(found: Iterable[tuple[str | None, UpdateStatus]]) -> dict[str, dict[str, int]]:
    """How often each status occurs with each kind, the kinds sorted, the statuses as in `count`; empty for no kind."""
    counted = Counter(found)
    kinds = sorted({kind or "" for kind, _ in counted})
    named = [(kind, [(one.value, counted[kind or None, one]) for one in UpdateStatus]) for kind in kinds]
    return {kind: {status: number for status, number in each if number} for kind, each in named}


def summed(kinds: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """The same whatever the kind, as `count` gives it."""
    numbers = [(status.value, sum(each.get(status.value, 0) for each in kinds.values())) for status in UpdateStatus]
    return {status: number for status, number in numbers if number}
