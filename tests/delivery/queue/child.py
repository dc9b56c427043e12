"""A process that appends to a queue, delivers and buries what it claims, and says so, until somebody kills it.

Each line is written whole and at once: `appended TEXT` once the queue says so, `delivering TEXT` before a batch leaves.
"""

import asyncio
import itertools
import os
import random
import sys
from pathlib import Path

from reconciler.delivery.queue.contract import QueueFault
from reconciler.delivery.queue.disk import DiskQueue
from tests.delivery.queue import places
from tests.delivery.queue.places import FINAL_FAILURE, NOW, Wanted

WANTED = Wanted().with_storage(max_bytes=1 << 20)  # small segments, which begin and go all the time
SIZES = (1, 50, 3_000, 30_000)
APPENDERS = 4


def tell(*words: str) -> None:
    os.write(1, f"{' '.join(words)}\n".encode())


async def append(queue: DiskQueue, *, life: str, number: int, chance: random.Random) -> None:
    for count in itertools.count():
        text = f"{life}-{number}-{count}"
        data = f"{text}|{'x' * chance.choice(SIZES)}".encode()
        if queue.room(size=len(data)) is not None:
            await asyncio.sleep(0.001)
            continue
        try:
            await queue.append([data[:5], memoryview(data)[5:]], records=1, at=NOW)
        except QueueFault:
            continue
        tell("appended", text)


async def deliver(queue: DiskQueue, *, chance: random.Random) -> None:
    while True:
        await queue.wait()
        for batch in queue.claim(most_records=8, most_bytes=1 << 20):
            payload = await queue.payload(batch)
            assert payload is not None
            text = payload.split(b"|")[0].decode()
            match chance.randrange(6):
                case 0:
                    await queue.bury(batch, [payload], FINAL_FAILURE, records=1)
                case 1:
                    queue.give_back([batch])
                    await asyncio.sleep(0)
                case _:
                    tell("delivering", text)
                    queue.delivered([batch])
        if chance.random() < 0.05:
            await queue.replay(outages_only=False, most=5)


async def main(root: Path, life: str) -> None:
    chance = random.Random(life)  # noqa: S311 - sizes and turns
    async with places.opened(root, WANTED) as queue:
        tell("ready", str(queue.depth().lost))
        await asyncio.gather(
            deliver(queue, chance=chance),
            *(append(queue, life=life, number=number, chance=chance) for number in range(APPENDERS)),
        )


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
