"""A process that writes to a store until it is killed: `python -m tests.store.writing_process URL`.

Commit n stores version n of every resource and run n; the line `n` on standard output acknowledges it.
"""

import asyncio
import sys
from collections.abc import Iterator

from reconciler.store.records import Changes, Record
from tests.store import engines, rows

PARTS = 5
NAMES = [f"resource-{number:02}" for number in range(20)]
PADDING = "x" * 2_000  # so that a commit is many pages, and a kill likely in the midst of one


def run_id(number: int) -> str:
    return f"R{number:08}"


def parts(number: int) -> Iterator[Changes]:
    size = len(NAMES) // PARTS
    for start in range(0, len(NAMES), size):
        yield rows.stored(*NAMES[start : start + size], number=number, padding=PADDING)


async def write(url: str) -> None:
    store = engines.engine(url).open()
    await store.create_project(rows.PROJECT, at=rows.AT)
    while True:
        number = await store.revision() + 1
        await store.commit(parts(number), record=Record(run=rows.run(run_id(number))))
        print(number, flush=True)


if __name__ == "__main__":
    asyncio.run(write(sys.argv[1]))
