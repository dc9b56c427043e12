"""A queue on a small disk that is really full: refused, drained, and used again."""

import asyncio
import subprocess
import sys
from pathlib import Path

from reconciler.delivery.queue.contract import QueueFault, Shortage
from reconciler.delivery.queue.disk import DiskQueue
from tests import needs
from tests.delivery.queue import places
from tests.delivery.queue.places import FINAL_FAILURE, NOW, claimed

SMALL_DISK = 'mount -t tmpfs -o size=4m tmpfs "$0" && exec "$@"'
SECONDS = 60


async def append_all(queue: DiskQueue, size: int) -> int:
    """Append until the disk refuses; how many it took."""
    for count in range(10_000):
        try:
            await queue.append([b"%05d" % count + b"x" * size], records=1, at=NOW)
        except QueueFault:
            return count
    raise AssertionError


async def on_a_small_disk(root: Path) -> None:
    """Run in the process that has the small disk; an error ends it."""
    async with places.opened(root) as queue:
        taken = await append_all(queue, 100_000) + await append_all(queue, 1_000)
        taken += await append_all(queue, 1)  # a disk gives whole pages, so small ones find the last of them
        assert queue.room(size=1) == Shortage.DISK
        assert queue.depth().batches == taken
        batches = await claimed(queue)
        assert [batch.number for batch in batches] == sorted(batch.number for batch in batches)
        try:
            await queue.bury(batches[0], [b"x" * 100_000], FINAL_FAILURE, records=1)
        except QueueFault:
            assert queue.depth().claimed == taken
        else:
            raise AssertionError
        for batch in batches:
            assert await queue.payload(batch) is not None
        queue.delivered(batches[:-1])
        queue.give_back(batches[-1:])
    async with places.opened(root) as queue:  # what could not be written down is sent again
        left = await claimed(queue)
        assert (batches[-1].number in {batch.number for batch in left}, queue.depth().lost) == (True, 0)
        queue.delivered(left)
        async with asyncio.timeout(SECONDS):
            while await append_all(queue, 100_000) < 10:  # noqa: ASYNC110 - the space comes back
                await asyncio.sleep(0.2)
        again = await claimed(queue)
        assert again[0].number > batches[-1].number
        queue.delivered(again)
    async with places.opened(root) as queue:
        assert (queue.depth().batches, queue.depth().lost, queue.depth().quarantined) == (0, 0, 0)


def test_a_queue_on_a_full_disk_refuses_drains_and_takes_again(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    command = [*needs.require_mount_namespace(), "sh", "-c", SMALL_DISK, str(disk)]
    command += [sys.executable, "-m", "tests.delivery.queue.test_full_disk", str(disk / "queues")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


if __name__ == "__main__":
    asyncio.run(on_a_small_disk(Path(sys.argv[1])))
