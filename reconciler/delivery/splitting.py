"""Which groups of a request go to which destination; pure.

Belongs here: dividing one request by what a matcher says. Does not: matching (`routing.matching`), queues (`manager`).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from reconciler.otlp.models import Logs, RecordGroup

Match = Callable[[Mapping[str, str]], tuple[str, ...]]
"""The destinations of records whose resource has these attributes, each once."""


class RecordShare(NamedTuple):
    """What one destination gets of a request: pieces which one after another are a request again."""

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
