"""How many requests of one credential are under way at a time, on every listener.

Belongs here: counting them. Does not: what they are, the room for their bodies (`reconciler.delivery.intake`).
"""

from typing import TypeAlias

MOST = 32  # of one credential

Counts: TypeAlias = dict[str, int]
"""By the names of who asks; nobody who has none stands in it."""


def enter_request(counts: Counts, name: str) -> bool:
    """Count one more; False, and nothing is counted, where there are as many as may be."""
    before = counts.get(name, 0)
    if before >= MOST:
        return False
    counts[name] = before + 1
    return True


def leave_request(counts: Counts, name: str) -> None:
    """One that entered has ended."""
    left = counts[name] - 1
    if left:
        counts[name] = left
    else:
        del counts[name]
