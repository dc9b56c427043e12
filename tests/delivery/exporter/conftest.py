"""Both kinds of queue, for tests that hold for either."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reconciler.delivery.queue.contract import Queue
from reconciler.delivery.queue.memory import MemoryQueue
from tests.delivery.queue import places


@pytest.fixture(params=["memory", "disk"])
async def queue(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Queue]:
    """One in memory, and one on disk."""
    if request.param == "memory":
        yield MemoryQueue(max_batches=1_000, max_bytes=1 << 26)
        return
    async with places.opened(tmp_path) as on_disk:
        yield on_disk
