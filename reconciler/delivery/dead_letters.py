"""The dead letters of a destination for a person: the oldest ones with a preview of their records, and their ids.

The read bytes and the time are bounded. The records are text from strangers.
"""

import asyncio
import contextlib
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from reconciler.delivery.contract import QueueFull
from reconciler.delivery.lanes import LATER_SECONDS, Lane
from reconciler.delivery.otlp import preview
from reconciler.delivery.queue.contract import DeadLetter, Queue
from reconciler.model.clock import rfc3339

MOST = 100  # letters of an answer
USUAL = 20
RECORDS = 3  # of each that are shown
READ_SECONDS = 5.0

ID = re.compile(r"(memory|[0-9A-HJKMNP-TV-Z]{26})-([0-9]{1,20})")
"""The label of a queue, and the number of a letter in it."""

HANGS = "The disk of the queues does not answer; try again when it does."
DAMAGED = "Its bytes on disk are damaged; a replay drops it and counts it as lost."


async def oldest(queues: Sequence[Queue], *, most: int) -> list[dict[str, Any]]:
    """Return the oldest dead letters of some queues as the API shows them. If reading takes too long, these are fewer.

    Raises QueueFull if the disk does not answer.
    """
    found: list[tuple[int, dict[str, Any]]] = []
    try:
        async with asyncio.timeout(READ_SECONDS):
            for queue in queues:
                await _read(queue, found, most=most)
    except TimeoutError:
        if not found:
            raise QueueFull(HANGS, seconds=LATER_SECONDS) from None
    found.sort(key=lambda one: one[0])
    return [shown for _, shown in found[:most]]


async def _read(queue: Queue, found: list[tuple[int, dict[str, Any]]], *, most: int) -> None:
    """Add the letters of a queue, with the times at which they became dead."""
    async with contextlib.aclosing(queue.dead_letters()) as letters:
        left = most
        async for letter in letters:
            found.append((letter.buried_at, _shown(letter, queue)))
            left -= 1
            if not left:
                return
            await asyncio.sleep(0)  # a preview may take 4 ms


def chosen(found: Sequence[tuple[Lane, Queue]], letter: str | None) -> tuple[Sequence[tuple[Lane, Queue]], int | None]:
    """Return the queues that a letter may be in, and its number; all queues and None if no letter is chosen."""
    if letter is None:
        return found, None
    label, _, number = letter.partition("-")
    return [(lane, queue) for lane, queue in found if queue.label == label], int(number)


def _shown(letter: DeadLetter, queue: Queue) -> dict[str, Any]:
    final_failure = letter.final_failure
    records = preview.preview_records(letter.head, most=RECORDS)
    return {
        "id": f"{queue.label}-{letter.number}",
        "buriedAt": _instant(letter.buried_at),
        "takenAt": None if letter.taken_at is None else _instant(letter.taken_at),
        "records": letter.records,
        "bytes": letter.size,
        "damaged": final_failure is None,
        "reason": None if final_failure is None else final_failure.reason.value,
        "attempts": None if final_failure is None else final_failure.attempts,
        "status": None if final_failure is None else final_failure.status,
        "cause": DAMAGED if final_failure is None else final_failure.cause,
        "answer": "" if final_failure is None else final_failure.answer.decode("utf-8", "replace"),
        "preview": [
            {
                "time": _instant(one.time // 1_000_000) if one.time else None,
                "severity": one.severity,
                "body": one.body,
                "truncated": one.is_cut,
            }
            for one in records
        ],
    }


def _instant(milliseconds: int) -> str:
    return rfc3339(datetime.fromtimestamp(milliseconds / 1000, UTC))
