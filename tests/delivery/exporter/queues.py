"""The product's queue in memory, with what was asked of it noted, and faults that a disk has."""

import asyncio
from collections.abc import Sequence

from reconciler.delivery.queue.contract import Batch, FinalFailure, Piece, QueueFault
from reconciler.delivery.queue.memory import HeldLetter, MemoryQueue

PLENTY = 1 << 40


class ListQueue(MemoryQueue):
    """`bury_faults` is how many more times burying fails; `lost` numbers have no payload. Whatever is acknowledged or
    buried must be claimed.
    """

    def __init__(self) -> None:
        super().__init__(max_batches=PLENTY, max_bytes=PLENTY)
        self.lost: set[int] = set()
        self.bury_faults = 0

    @property
    def batches(self) -> dict[int, Batch]:
        """All that is queued, by number."""
        return {one.batch.number: one.batch for one in sorted(self.all(), key=lambda one: one.batch.number)}

    @property
    def claimed(self) -> set[int]:
        """The numbers of what is claimed."""
        return {number for number in self.batches if self.find_claimed(number) is not None}

    @property
    def unclaimed(self) -> list[int]:
        """The numbers of what is not, in their order."""
        return sorted(self.batches.keys() - self.claimed)

    @property
    def dead(self) -> dict[int, tuple[HeldLetter, bytes]]:
        """Dead letters by their place, counted from 1."""
        return {place: (one, one.payload) for place, one in enumerate(self.letters, start=1)}

    async def payload(self, batch: Batch) -> bytes | None:
        self._check(batch)
        if batch.number in self.lost:
            super().delivered([batch])
        return await super().payload(batch)

    def delivered(self, batches: Sequence[Batch]) -> None:
        self._check(*batches)
        super().delivered(batches)

    def give_back(self, batches: Sequence[Batch]) -> None:
        self._check(*batches)
        super().give_back(batches)

    def bury(
        self, batch: Batch, payload: Sequence[Piece], final_failure: FinalFailure, *, records: int, leaves: bool = True
    ) -> asyncio.Future[None]:
        self._check(batch)
        if not self.bury_faults:
            return super().bury(batch, payload, final_failure, records=records, leaves=leaves)
        self.bury_faults -= 1
        failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        failed.set_exception(QueueFault("The disk is full."))
        return failed

    def _check(self, *batches: Batch) -> None:
        assert {batch.number for batch in batches} <= self.claimed
