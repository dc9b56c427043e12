"""Files on a disk that hangs: whoever asks waits for so long, and the next one not at all."""

import asyncio
import subprocess
import sys
import threading

import pytest

from reconciler.model import log_context
from reconciler.settings.bounded_io import NO_THREAD, THREADS, BoundedIO, DiskHangs
from tests import waiting

pytestmark = pytest.mark.anyio

SOON = 0.01
SECONDS = 10.0  # what takes longer does not happen
LARGER_THAN_MEMORY = 1 << 50  # bytes that a thread is to have for its stack


class Disk:
    """A file's answer, which comes once the disk goes on."""

    def __init__(self) -> None:
        self.asked = 0
        self.goes_on = threading.Event()

    def read(self) -> str:
        self.asked += 1
        assert self.goes_on.wait(2 * SECONDS)
        return "read"


async def test_an_answer_is_that_of_the_file_in_the_context_of_who_asks() -> None:
    with log_context.bind_run("R1"):
        assert await BoundedIO("the files").answer(log_context.RUN.get) == "R1"


async def test_a_fault_of_the_file_is_raised() -> None:
    def missing() -> None:
        raise FileNotFoundError

    with pytest.raises(FileNotFoundError):
        await BoundedIO("the files").answer(missing)


async def test_a_disk_that_hangs_costs_one_thread_and_the_first_who_asks_some_seconds() -> None:
    disk, asking = Disk(), BoundedIO("the files of secrets")
    for seconds in (SOON, SECONDS, SECONDS):
        async with asyncio.timeout(SECONDS / 2):
            with pytest.raises(DiskHangs, match=r"^The disk with the files of secrets does not answer; look at it\.$"):
                await asking.answer(disk.read, seconds=seconds)
    assert disk.asked == 1
    disk.goes_on.set()
    async with asyncio.timeout(SECONDS):
        while True:
            try:
                assert await asking.answer(disk.read) == "read"
                break
            except DiskHangs:
                await asyncio.sleep(SOON)
    assert disk.asked == 2


async def test_files_that_hang_keep_no_others_from_answering_nor_what_else_runs_on_threads() -> None:
    disk = Disk()
    for _ in range(100):
        with pytest.raises(DiskHangs):
            await BoundedIO("some files").answer(disk.read, seconds=SOON / 10)
    async with asyncio.timeout(SECONDS):
        assert await BoundedIO("others").answer(lambda: "read") == "read"
        assert await asyncio.to_thread(lambda: "read") == "read"
    disk.goes_on.set()


async def test_many_questions_at_once_wait_for_their_turn_and_are_answered() -> None:
    disk, asking = Disk(), BoundedIO("some files")
    tasks = [asyncio.create_task(asking.answer(disk.read)) for _ in range(20)]
    async with asyncio.timeout(SECONDS):
        await waiting.until(lambda: disk.asked == THREADS)
        disk.goes_on.set()
        assert await asyncio.gather(*tasks) == ["read"] * 20
    assert disk.asked == 20


async def test_questions_that_wait_longer_for_their_turn_than_for_their_answer_make_no_disk_hang() -> None:
    disk, asking = Disk(), BoundedIO("some files")
    first = [asyncio.create_task(asking.answer(disk.read)) for _ in range(THREADS)]
    async with asyncio.timeout(SECONDS):
        await waiting.until(lambda: disk.asked == THREADS)
        behind = [asyncio.create_task(asking.answer(lambda: "read", seconds=20 * SOON)) for _ in range(3)]
        ended, _ = await asyncio.wait(behind, timeout=25 * SOON)
        assert not ended
        disk.goes_on.set()
        assert await asyncio.gather(*first, *behind) == ["read"] * (THREADS + 3)


async def test_who_waits_too_long_for_a_turn_is_told_that_the_disk_is_slow_and_who_has_one_is_answered() -> None:
    disk, asking = Disk(), BoundedIO("the files of secrets", turn=SOON)
    first = [asyncio.create_task(asking.answer(disk.read)) for _ in range(THREADS)]
    async with asyncio.timeout(SECONDS):
        await waiting.until(lambda: disk.asked == THREADS)
        with pytest.raises(DiskHangs) as told:
            await asking.answer(disk.read)
        slow = "The disk with the files of secrets is too slow for all who wait for it; try again in a moment."
        assert told.value.message == slow
        disk.goes_on.set()
        assert await asyncio.gather(*first) == ["read"] * THREADS
        assert await asking.answer(disk.read) == "read"


async def test_where_no_thread_is_left_people_are_told_so_and_the_next_who_ask_are_answered() -> None:
    asking = BoundedIO("the files of secrets")
    before = threading.stack_size(LARGER_THAN_MEMORY)
    try:
        for _ in range(THREADS + 1):
            with pytest.raises(DiskHangs) as told:
                await asking.answer(lambda: "read")
            assert told.value.message == NO_THREAD.format("the files of secrets")
    finally:
        threading.stack_size(before)
    async with asyncio.timeout(SECONDS):
        assert await asking.answer(lambda: "read") == "read"


async def test_questions_that_wait_behind_a_disk_that_hangs_are_told_and_ask_nothing() -> None:
    disk, asking = Disk(), BoundedIO("some files")
    tasks = [asyncio.create_task(asking.answer(disk.read, seconds=5 * SOON)) for _ in range(20)]
    async with asyncio.timeout(SECONDS):
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(end) for end in ends] == [DiskHangs] * 20
    assert disk.asked == THREADS
    disk.goes_on.set()


async def test_who_is_gone_begins_nothing_more_and_what_was_begun_is_owed() -> None:
    disk, asking = Disk(), BoundedIO("some files")
    tasks = [asyncio.create_task(asking.answer(disk.read, seconds=5 * SOON)) for _ in range(5)]
    async with asyncio.timeout(SECONDS):
        await waiting.until(lambda: disk.asked == THREADS)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with pytest.raises(DiskHangs):  # it waits for its turn behind those
            await asking.answer(disk.read)
        with pytest.raises(DiskHangs):
            await asking.answer(disk.read)
    assert disk.asked == THREADS
    disk.goes_on.set()


async def test_who_is_gone_makes_no_disk_hang_that_answers() -> None:
    disk, asking = Disk(), BoundedIO("some files")
    task = asyncio.create_task(asking.answer(disk.read))
    async with asyncio.timeout(SECONDS):
        await waiting.until(lambda: disk.asked == 1)
        task.cancel()
        await asyncio.wait([task])
        assert await asking.answer(lambda: "read") == "read"
    disk.goes_on.set()


async def test_another_disk_in_the_place_of_one_that_hangs_is_found_out_by_few_threads() -> None:
    gone, asking = Disk(), BoundedIO("some files", again=SOON)
    while gone.asked < 4:
        with pytest.raises(DiskHangs):
            await asking.answer(gone.read, seconds=SOON)
        await asyncio.sleep(0)
    assert threading.active_count() < 20
    async with asyncio.timeout(SECONDS):
        while True:
            try:
                assert await asking.answer(lambda: "read") == "read"
                break
            except DiskHangs:
                await asyncio.sleep(SOON)
        for _ in range(20):  # though the others hang as before
            assert await asyncio.gather(*(asking.answer(lambda: "read") for _ in range(5))) == ["read"] * 5
    assert gone.asked == 4
    gone.goes_on.set()


HANGING = """
import asyncio, threading
from reconciler.settings.bounded_io import BoundedIO as Asking, DiskHangs as Hangs
async def main():
    try:
        await Asking("some files").answer(threading.Event().wait, seconds=0.01)
    except Hangs:
        print("told")
asyncio.run(main())
"""


def test_a_process_ends_although_a_disk_hangs() -> None:
    ran = subprocess.run([sys.executable, "-c", HANGING], capture_output=True, text=True, check=False, timeout=SECONDS)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "told\n", "")
