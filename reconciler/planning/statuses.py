"""The ten update statuses and what each means for the answer. How a status is chosen is in `planner`."""

from collections.abc import Iterable
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
