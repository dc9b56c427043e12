"""Starting a program."""

import asyncio
import errno
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from reconciler.git.remotes import processes
from reconciler.git.remotes.processes import Child, ChildPipe
from tests.servers import processes as servers_processes

pytestmark = pytest.mark.anyio
SECONDS = 10.0
PROGRAMS = 300  # enough to meet it nearly always


async def start(folder: Path, script: str) -> Child:
    environment = {"PATH": os.environ["PATH"], "WORD": "hello"}
    arguments = ("/bin/sh", "-c", script)
    return await processes.start_child(
        arguments, folder=folder, environment=environment, descriptors=(), stdin=asyncio.subprocess.DEVNULL
    )


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a kernel folder


async def everything(pipe: ChildPipe) -> bytes:
    found = b""
    while part := await pipe.read():
        found += part
    return found


def is_there(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


async def test_its_output_its_folder_and_its_status_are_its_own(tmp_path: Path) -> None:
    before = descriptors()
    async with asyncio.timeout(SECONDS):
        child = await start(tmp_path, "echo $WORD from $PWD; echo trouble >&2; cat; exit 7")
        stdout, stderr = await asyncio.gather(everything(child.stdout), everything(child.stderr))
        assert (stdout.decode(), stderr) == (f"hello from {tmp_path}\n", b"trouble\n")
        assert (await child.wait(), await child.wait()) == (7, 7)
    child.close()
    await asyncio.sleep(0)
    assert descriptors() == before
    assert not is_there(child.pid)  # it is no zombie


async def test_what_it_writes_waits_until_somebody_reads(tmp_path: Path) -> None:
    written = 1 << 20
    async with asyncio.timeout(SECONDS):
        child = await start(tmp_path, f"head -c {written} /dev/zero; echo written >&2")
        assert await child.stdout.read(1) == b"\0"
        writing = asyncio.create_task(everything(child.stderr))
        assert len(await everything(child.stdout)) == written - 1
        assert (await writing, await child.wait()) == (b"written\n", 0)
    child.close()


async def test_a_reader_whose_pipe_is_closed_meanwhile_gets_no_more(tmp_path: Path) -> None:
    before = descriptors()
    async with asyncio.timeout(SECONDS):
        child = await start(tmp_path, "sleep 60")
        reading = asyncio.create_task(everything(child.stdout))
        await asyncio.sleep(0)
        child.close()
        assert (await reading, await everything(child.stderr)) == (b"", b"")
        os.killpg(child.pid, signal.SIGKILL)
        assert await child.wait() == -signal.SIGKILL
    assert descriptors() == before


async def test_a_reader_that_is_cancelled_leaves_the_pipe_to_the_next_one(tmp_path: Path) -> None:
    async with asyncio.timeout(SECONDS):
        os.mkfifo(tmp_path / "fifo")
        child = await start(tmp_path, "read line < fifo; echo $line")
        reading = asyncio.create_task(child.stdout.read())
        await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        (tmp_path / "fifo").write_text("later\n")
        assert await everything(child.stdout) == b"later\n"
        await child.wait()
    child.close()


async def test_what_was_killed_says_by_which_signal(tmp_path: Path) -> None:
    async with asyncio.timeout(SECONDS):
        child = await start(tmp_path, "kill -TERM $$")
        assert await child.wait() == -signal.SIGTERM
        child.close()


async def test_it_has_a_group_of_its_own(tmp_path: Path) -> None:
    async with asyncio.timeout(SECONDS):
        child = await start(tmp_path, "sleep 60 & echo $!; wait")
        number = int(await child.stdout.read())
        assert os.getpgid(number) == child.pid
        os.killpg(child.pid, signal.SIGKILL)
        assert await child.wait() == -signal.SIGKILL
        child.close()


async def test_its_end_is_seen_though_a_child_of_its_own_keeps_the_pipes(tmp_path: Path) -> None:
    before = descriptors()
    async with asyncio.timeout(SECONDS):
        child = await start(tmp_path, "sleep 60 & exit 3")
        assert await child.wait() == 3
        os.killpg(child.pid, signal.SIGKILL)
        child.close()
        await asyncio.sleep(0)
    assert descriptors() == before


async def test_a_hundred_at_a_time(tmp_path: Path) -> None:
    async with asyncio.timeout(SECONDS):
        children = await asyncio.gather(*(start(tmp_path, f"exit {number}") for number in range(100)))
        assert await asyncio.gather(*(child.wait() for child in children)) == list(range(100))
    for child in children:
        child.close()


async def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    before = descriptors()
    with pytest.raises(FileNotFoundError):
        await processes.start_child(
            ("no-such-program",), folder=tmp_path, environment={"PATH": "/bin"}, descriptors=(), stdin=-3
        )
    assert descriptors() == before


class Failing:
    """The part of a start that fails as it does when no descriptor is left, after `after` that succeed."""

    def __init__(self, real: Callable[..., Any], *, after: int) -> None:
        self._real = real
        self._left = after

    def __call__(self, *arguments: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return self._real(*arguments)


@pytest.mark.parametrize("part", ["its end cannot be watched", "no pipe can be read", "one pipe alone can be read"])
async def test_nothing_stays_of_a_start_that_fails_half_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    before, others = descriptors(), servers_processes.descendants(os.getpid())  # what other tests of this process share
    if part == "its end cannot be watched":
        monkeypatch.setattr(os, "pidfd_open", Failing(os.pidfd_open, after=0))
    else:
        after = 0 if part == "no pipe can be read" else 1
        monkeypatch.setattr(os, "set_blocking", Failing(os.set_blocking, after=after))
    async with asyncio.timeout(SECONDS):
        with pytest.raises(OSError, match="Too many open files"):
            await start(tmp_path, "sleep 987 & wait")
    await asyncio.sleep(0)
    monkeypatch.undo()
    assert servers_processes.descendants(os.getpid()) == others
    assert descriptors() == before


async def test_a_folder_that_is_not_there_is_what_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        await start(tmp_path / "none", "exit")
    assert Path(caught.value.filename) == tmp_path / "none"


def test_no_file_that_another_thread_opens_is_closed_with_a_pipe(tmp_path: Path) -> None:
    """A number that was given back is another file's at once; who closes it a second time closes that."""
    faults: list[OSError] = []
    is_over = threading.Event()
    kept, interval = os.open(os.devnull, os.O_RDONLY), sys.getswitchinterval()

    def open_files() -> None:
        while not is_over.is_set():
            try:
                os.close(os.dup(kept))
            except OSError as fault:
                faults.append(fault)

    async def start_programs() -> None:
        for _ in range(PROGRAMS):
            child = await start(tmp_path, "exit")
            await asyncio.gather(child.stdout.read(), child.stderr.read(), child.wait())
            child.close()

    sys.setswitchinterval(1e-6)
    others = [threading.Thread(target=open_files) for _ in range(3)]
    for other in others:
        other.start()
    try:
        uvloop.run(start_programs())  # as the daemon runs
    finally:
        is_over.set()
        for other in others:
            other.join()
        sys.setswitchinterval(interval)
        os.close(kept)
    assert faults == []
