"""Starting a program."""

import asyncio
import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reconciler.remotes import spawning
from reconciler.remotes.spawning import Child
from tests.servers import processes

pytestmark = pytest.mark.anyio
SECONDS = 10.0


async def start(folder: Path, script: str) -> Child:
    environment = {"PATH": os.environ["PATH"], "WORD": "hello"}
    arguments = ("/bin/sh", "-c", script)
    return await spawning.start(
        arguments, folder=folder, environment=environment, descriptors=(), stdin=asyncio.subprocess.DEVNULL
    )


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a kernel folder


def is_there(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


async def test_its_output_its_folder_and_its_status_are_its_own(tmp_path: Path) -> None:
    before = descriptors()
    async with asyncio.timeout(SECONDS):
        child = await start(tmp_path, "echo $WORD from $PWD; echo trouble >&2; cat; exit 7")
        stdout, stderr = await asyncio.gather(child.stdout.read(), child.stderr.read())
        assert (stdout.decode(), stderr) == (f"hello from {tmp_path}\n", b"trouble\n")
        assert (await child.wait(), await child.wait()) == (7, 7)
    child.close()
    await asyncio.sleep(0)
    assert descriptors() == before
    assert not is_there(child.pid)  # it is no zombie


async def test_what_was_killed_says_by_which_signal(tmp_path: Path) -> None:
    async with asyncio.timeout(SECONDS):
        child = await start(tmp_path, "kill -TERM $$")
        assert await child.wait() == -signal.SIGTERM
        child.close()


async def test_it_has_a_group_of_its_own(tmp_path: Path) -> None:
    async with asyncio.timeout(SECONDS):
        child = await start(tmp_path, "sleep 60 & echo $!; wait")
        number = int(await child.stdout.readline())
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
        await spawning.start(
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
    before = descriptors()
    loop = asyncio.get_running_loop()
    if part == "its end cannot be watched":
        monkeypatch.setattr(os, "pidfd_open", Failing(os.pidfd_open, after=0))
    else:
        after = 0 if part == "no pipe can be read" else 1
        monkeypatch.setattr(loop, "connect_read_pipe", Failing(loop.connect_read_pipe, after=after))
    async with asyncio.timeout(SECONDS):
        with pytest.raises(OSError, match="Too many open files"):
            await start(tmp_path, "sleep 987 & wait")
    await asyncio.sleep(0)
    monkeypatch.undo()
    assert processes.descendants(os.getpid()) == []
    assert descriptors() == before


async def test_a_folder_that_is_not_there_is_what_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        await start(tmp_path / "none", "exit")
    assert Path(caught.value.filename) == tmp_path / "none"
