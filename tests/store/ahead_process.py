"""A process that writes changes ahead, and small ones between, until it is killed.

`python -m tests.store.ahead_process URL`.
It says `ahead` when a part is written ahead, the name of a small commit's resource when that is committed, and `shown`
when a large change is.
"""

import asyncio
import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator

from reconciler.store.contract import Changes, Record
from tests.store import engines, rows

PARTS = 6
PART = 20  # resources
SIZE = PARTS * PART  # of a large change
PADDING = "x" * 2_000
BETWEEN, LARGE, SHOWN = "between", "large", "shown"


def parts(turn: int) -> Iterator[Changes]:
    for part in range(PARTS):
        names = [f"{LARGE}-{turn:03}-{part:02}-{number:02}" for number in range(PART)]
        yield rows.stored(*names, padding=PADDING)


async def write(url: str) -> None:
    store = engines.engine(url).open()
    await store.create_project(rows.PROJECT, at=rows.AT)
    for turn in itertools.count():
        ahead = store.ahead()
        assert ahead is not None
        for number, part in enumerate(parts(turn)):
            await ahead.write([part])
            print("ahead", flush=True)
            name = f"{BETWEEN}-{turn:03}-{number:02}"
            await store.commit([rows.stored(name)], record=Record(), planned_at=None)
            print(name, flush=True)
        await store.commit((), record=Record(), planned_at=None, ahead=ahead)
        print(SHOWN, flush=True)


def killed(start: Callable[..., "subprocess.Popen[str]"], url: str, *, after: int) -> tuple[list[str], int]:
    """What the process acknowledged until it was killed: its small commits, and how many large ones."""
    with start("ahead_process", url) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(after)]
        process.kill()
        lines += process.stdout.readlines()
    told = [line.strip() for line in lines if line.endswith("\n")]
    return [line for line in told if line.startswith(BETWEEN)], told.count(SHOWN)


if __name__ == "__main__":
    asyncio.run(write(sys.argv[1]))
