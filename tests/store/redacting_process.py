"""A process that redacts a store holding a secret, until it is killed: `python -m tests.store.redacting_process URL`.

It says `begun` before it commits, `committed` after, and `erased` when no trace is left.
"""

import asyncio
import sys
from collections.abc import Iterator

from reconciler.store.records import Changes, QuoteRow, Record, VersionRow
from tests.store import engines, rows

SECRET = "hunter2-"
NAME = "a"
RUN = "R1"
VERSIONS = 200
PART = 20


def padding(number: int) -> str:
    """A secret and more, of many lengths: a few to a page, and some over several."""
    return SECRET + "x" * (number * 37 % 1_500)


def storing() -> Iterator[Changes]:
    """Many versions that hold a secret, and what a run says that quotes one."""
    for number in range(1, VERSIONS + 1):
        yield rows.stored(NAME, number=number, padding=padding(number))
    yield Changes(statuses=[rows.run_status(RUN, 0, name=NAME, reason=f"it says {SECRET}")])


def rewriting() -> Iterator[Changes]:
    """Return what takes the secret out of all of it."""
    for start in range(1, VERSIONS + 1, PART):
        numbers = range(start, start + PART)
        bodies = [rows.body(NAME, number, "(redacted)") for number in numbers]
        rewritten = [
            VersionRow(rows.PROJECT, rows.KIND, NAME, number, body, None)
            for number, body in zip(numbers, bodies, strict=True)
        ]
        yield Changes(rewritten=rewritten)
    yield Changes(quotes=[QuoteRow("reason", RUN, 0, "it says (redacted)")])


async def redact(url: str) -> None:
    store = engines.engine(url).open()
    print("begun", flush=True)
    await store.commit(rewriting(), record=Record(redacts=True))
    print("committed", flush=True)
    await store.erase_traces()
    print("erased", flush=True)


if __name__ == "__main__":
    asyncio.run(redact(sys.argv[1]))
