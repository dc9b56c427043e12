"""Parts of a change on their way from the worker to the store.

A small change waits in memory, in bytes, and is stored in one transaction. A large one is written ahead while it is
still being planned, so that neither the thread that writes nor the memory has all of it at once.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TypeAlias

import msgspec

from reconciler.model import errors
from reconciler.store.contract import Ahead, Changes

log = logging.getLogger(__name__)

# A change is large when more than this waits of it.
LARGE_BYTES = 4 * 2**20
LARGE_PARTS = 8
# Written at a stretch, and at least one part: whoever gives up waits for it, since the thread cannot be called back.
STRETCH_BYTES = 4 * 2**20
DROP_SECONDS = 10.0  # until nobody waits any more for what was written ahead to be dropped; it goes on by itself

GIBIBYTE = 2**30
CHANGE_BYTES = GIBIBYTE  # of one change, as far as it waits in memory until it is written
WHOLE_BYTES = 4 * CHANGE_BYTES  # of one change together with what is written ahead
TOO_LARGE = "This would change more than {} GiB at once; commit or send it in parts."

Begin: TypeAlias = Callable[[], Ahead | None]
"""`Store.ahead`."""

_changes = msgspec.msgpack.Decoder(Changes)


class ChangeStream:
    """Bracket its use with `async with`: whatever was not handed over when that ends is dropped.

    It belongs to the event loop. Parts are decoded where they are written, one at a time.
    """

    def __init__(self, begin: Begin | None = None) -> None:
        """Without `begin` all of it waits in memory."""
        self._begin = begin
        self._kept: deque[bytes] = deque()
        self._waiting = 0  # bytes in memory, with those that are being written
        self._whole = 0
        self._ahead: Ahead | None = None
        self._fault: Exception | None = None
        self._writing: asyncio.Task[None] | None = None
        self._dropping: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "ChangeStream":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.drop()

    def take(self, part: bytes) -> None:
        """Keep one more part, behind all others, or have it written ahead.

        Raises Refused when the change is too large, and what went wrong when an earlier part could not be written.
        """
        if self._fault is not None:
            raise self._fault
        self._whole += len(part)
        self._waiting += len(part)
        self._kept.append(part)
        for size, most in ((self._waiting, CHANGE_BYTES), (self._whole, WHOLE_BYTES)):
            if size > most:
                raise errors.Refused(TOO_LARGE.format(most // GIBIBYTE))
        self._write_on()

    async def written(self) -> None:
        """Wait until all of a large change that came is written ahead. Raises what went wrong with that."""
        while self._write_on() and self._writing is not None:
            # Waited for, not awaited: it goes on when the caller is cancelled.
            await asyncio.wait({self._writing})
        if self._fault is not None:
            raise self._fault

    def handed_over(self) -> tuple[Iterator[Changes], Ahead | None]:
        """What was not written ahead, once the rest is, and what was, which the caller is to commit or to drop."""
        ahead, self._ahead = self._ahead, None
        return self.rest(), ahead

    def rest(self) -> Iterator[Changes]:
        """What waits, decoded one at a time, and forgotten then."""
        kept, self._kept = self._kept, deque()
        return _decoded(kept)

    def forget(self) -> None:
        """Nothing of what was taken will be stored; what is written of it is dropped from here on."""
        self._kept.clear()
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            before = {task for task in (self._writing, self._dropping) if task is not None}
            self._dropping = asyncio.create_task(_drop(ahead, before), name="drop-written-ahead")
        self._writing, self._fault = None, None
        self._waiting = self._whole = 0

    async def drop(self) -> None:
        """The same, and wait for it, also when the caller is cancelled, but not for ever."""
        self.forget()
        if self._dropping is None:
            return
        clock = asyncio.get_running_loop().time
        end = clock() + DROP_SECONDS
        cancelled: asyncio.CancelledError | None = None
        while not self._dropping.done() and clock() < end:
            try:
                await asyncio.wait({self._dropping}, timeout=end - clock())
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled

    def _write_on(self) -> bool:
        """Have written what may be; whether that goes on."""
        if self._writing is not None and not self._writing.done():
            return True
        if self._fault is not None or not self._is_due():
            return False
        if self._ahead is None:
            # Nobody but one at a time may; this one's turn comes with a later part, or never.
            self._ahead = None if self._begin is None else self._begin()
        if self._ahead is None:
            return False
        self._writing = asyncio.create_task(self._write(self._ahead), name="write-ahead")
        return True

    def _is_due(self) -> bool:
        """Whether there is something to write of a change of which more came than one short transaction should hold."""
        is_large = self._ahead is not None or self._waiting > LARGE_BYTES or len(self._kept) > LARGE_PARTS
        return is_large and bool(self._kept)

    async def _write(self, ahead: Ahead) -> None:
        while self._kept and self._ahead is ahead:
            stretch, size = self._stretch()
            fault: Exception | None = None
            try:
                await ahead.write(_decoded(stretch))
            except Exception as error:  # whatever it is: who stores the change gets to know
                fault = error
            if self._ahead is not ahead:
                return  # it was forgotten meanwhile, and what is counted here is another attempt's
            self._waiting -= size
            self._fault = fault
            if fault is not None:
                return

    def _stretch(self) -> tuple[deque[bytes], int]:
        stretch, size = deque[bytes](), 0
        while self._kept and (not stretch or size + len(self._kept[0]) <= STRETCH_BYTES):
            stretch.append(self._kept.popleft())
            size += len(stretch[-1])
        return stretch, size


async def _drop(ahead: Ahead, before: set[asyncio.Task[None]]) -> None:
    if before:
        await asyncio.wait(before)
    try:
        await ahead.drop()
    except Exception as fault:  # nobody sees it all the same, and the next start has none of it
        log.warning("What was written of a change that is not stored could not be taken back: %s", fault)


def _decoded(parts: deque[bytes]) -> Iterator[Changes]:
    while parts:
        yield _changes.decode(parts.popleft())
