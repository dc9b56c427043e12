"""The bytes of one entry, read and checked.

Belongs here: reading a payload, and how many bytes of fresh ones are kept. Does not: which entries there are.
"""

import zlib

from reconciler.queueing import frames
from reconciler.queueing.contract import Piece
from reconciler.queueing.entries import QueueEntry
from reconciler.queueing.journals import Journal
from reconciler.queueing.reading import QueueFiles

KEPT_BYTES = 32 << 20  # of all queues
KEPT_OF_ONE = 4 << 20  # of one queue


class KeptPayloads:
    """How many bytes of payloads are kept in memory from their arrival until they are sent for the first time."""

    def __init__(self, limit: int = KEPT_BYTES) -> None:
        self._room = limit

    def take(self, size: int) -> bool:
        """Whether so many more may be kept; then they count."""
        if size > self._room:
            return False
        self._room -= size
        return True

    def give(self, size: int) -> None:
        """So many are kept no more."""
        self._room += size


async def read_payload(entry: QueueEntry, journal: Journal, files: QueueFiles) -> bytes | None:
    """The payload of a frame; None when it is not there as it was written."""
    length = frames.HEADER_BYTES + entry.size
    data = files.now(entry.segment.path, entry.offset, length)
    found = _checked(data, entry, mark=journal.mark) if data is not None else None
    if found is not None:
        return found
    try:
        return _checked(await files.soon(entry.segment.path, entry.offset, length), entry, mark=journal.mark)
    except OSError:
        return None


def _checked(data: Piece, entry: QueueEntry, *, mark: int) -> bytes | None:
    if len(data) != frames.HEADER_BYTES + entry.size:
        return None
    frame = frames.decode(data, 0, mark=mark)
    if frame is None or (frame.number, frame.size) != (entry.number, entry.size):
        return None
    found = memoryview(data)[frames.HEADER_BYTES :]
    return bytes(found) if zlib.crc32(found) == frame.checksum else None
