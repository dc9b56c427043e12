"""A process that is killed at any moment, again and again: accepted is delivered, queued or dead, for each batch."""

import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.delivery.queue import child, places
from tests.delivery.queue.places import claimed

pytestmark = pytest.mark.anyio

LONGEST_LIFE = 0.15  # seconds after it is ready; some end while they start
START_SECONDS = 30


class Told:
    """The outputs of all children."""

    def __init__(self) -> None:
        self.appended: set[str] = set()
        self.delivered: set[str] = set()
        self.lost: set[str] = set()

    def live(self, root: Path, life: int, *, seconds: float | None) -> None:
        """A life of so many seconds after it was ready; None kills it at some moment of its start."""
        command = [sys.executable, "-m", "tests.delivery.queue.child", str(root), str(life)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            timer = threading.Timer(START_SECONDS if seconds is not None else 0.12, process.kill)
            timer.start()
            for line in process.stdout:
                word, _, text = line.removesuffix("\n").partition(" ")
                if word == "ready" and seconds is not None:
                    self.lost.add(text)
                    timer.cancel()
                    timer = threading.Timer(seconds, process.kill)
                    timer.start()
                elif line.endswith("\n"):
                    {"appended": self.appended, "delivering": self.delivered, "ready": self.lost}[word].add(text)
            timer.cancel()


async def survive(root: Path, *, kills: int, seed: int) -> None:
    told = Told()
    chance = random.Random(seed)  # noqa: S311 - moments
    for life in range(kills):
        told.live(root, life, seconds=None if chance.random() < 0.1 else chance.uniform(0, LONGEST_LIFE))
    async with places.opened(root, child.WANTED) as queue:
        texts = [(payload or b"").split(b"|")[0].decode() for payload in await places.payloads(queue)]
        dead = [(letter.data or b"").split(b"|")[0].decode() for letter in await places.letters(queue)]
        depth = queue.depth()
        assert (depth.lost, depth.quarantined, depth.batches, depth.dead_batches) == (
            0,
            0,
            len(texts),
            len(dead),
        )
        assert told.appended - told.delivered - {*texts} - {*dead} == set()
        assert (len(told.appended) > kills, told.lost) == (True, {"0"})
        queue.delivered(await claimed(queue))


async def test_killed_some_times_a_queue_keeps_what_it_accepted(tmp_path: Path) -> None:
    await survive(tmp_path, kills=5, seed=1)


@pytest.mark.slow
async def test_killed_three_hundred_times_a_queue_keeps_what_it_accepted(tmp_path: Path) -> None:
    await survive(tmp_path, kills=300, seed=2)
