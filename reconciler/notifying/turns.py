"""Long work in slices: between two of them everything else on the loop has its turn.

Belongs here: that, and how much goes into a slice. Does not: what is done with one, nor what must not change between
two of them, which whoever walks sees to.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TypeVar

SLICE = 20  # that are judged, written, rendered or told late at a stretch: each takes some 50 microseconds
QUICK = 200  # that are only looked at or counted: each takes some 5 microseconds

T = TypeVar("T")


async def in_slices(values: Sequence[T], size: int = SLICE) -> AsyncIterator[Sequence[T]]:
    """So many that the loop is held for about a millisecond, again and again."""
    for start in range(0, len(values), size):
        yield values[start : start + size]
        await asyncio.sleep(0)
