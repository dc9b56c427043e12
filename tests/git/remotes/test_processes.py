"""One run of a program, however it ends."""

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.git.remotes import processes as ours
from reconciler.git.remotes.processes import Child, Command, FolderGone
from reconciler.model.errors import Refused
from tests.servers import processes
from tests.waiting import until

pytestmark = pytest.mark.anyio
TURNS = 12  # of the event loop, within which a start is done


def command(folder: Path, *arguments: str) -> Command:
    return Command(
        arguments=arguments, folder=folder, environment=ours.environment(folder), seconds=10, output_bytes=10_000
    )


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a kernel folder


@pytest.mark.parametrize("turns", range(TURNS))
async def test_nothing_stays_of_a_run_that_is_cancelled_as_it_begins(tmp_path: Path, turns: int) -> None:
    before, others = descriptors(), processes.descendants(os.getpid())  # what other tests of this process share
    task = asyncio.create_task(ours.run_command(command(tmp_path, "/bin/sh", "-c", "sleep 987 & wait")))
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert processes.descendants(os.getpid()) == others
    await until(lambda: descriptors() == before)


@pytest.mark.parametrize("between", range(3))
@pytest.mark.parametrize("turns", range(TURNS))
async def test_nothing_stays_of_a_run_that_is_cancelled_twice(tmp_path: Path, turns: int, between: int) -> None:
    before, others = descriptors(), processes.descendants(os.getpid())
    task = asyncio.create_task(ours.run_command(command(tmp_path, "/bin/sh", "-c", "sleep 987 & wait")))
    for count in (turns, between):  # as by a limit of time, and by who does not wait any more
        for _ in range(count):
            await asyncio.sleep(0)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: (processes.descendants(os.getpid()), descriptors()) == (others, before))


async def test_no_pipe_stays_open_of_a_start_that_was_cancelled_though_another_process_holds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, real, number = descriptors(), ours.start_child, tmp_path / "number"

    async def start(*arguments: Any, **named: Any) -> Child:
        child = await real(*arguments, **named)
        await until(number.exists)
        return child

    monkeypatch.setattr(ours, "start_child", start)
    script = f"setsid sh -c 'echo $$ > {tmp_path}/new; mv {tmp_path}/new {number}; exec sleep 987' & wait"
    task = asyncio.create_task(ours.run_command(command(tmp_path, "/bin/sh", "-c", script)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    try:
        await asyncio.sleep(0)
        assert descriptors() == before
    finally:
        os.kill(int(number.read_text()), signal.SIGKILL)


@pytest.mark.parametrize("data_bytes", [None, 1 << 30], ids=["by itself", "by the shell"])
async def test_says_whether_the_program_or_its_folder_is_missing(tmp_path: Path, data_bytes: int | None) -> None:
    with pytest.raises(Refused) as caught:
        await ours.run_command(replace(command(tmp_path, "no-such-program"), data_bytes=data_bytes))
    assert caught.value.message == "the program no-such-program is not on PATH; install it"
    finished = await ours.run_command(replace(command(tmp_path, "sh", "-c", "exit 127"), data_bytes=data_bytes))
    assert finished.status == 127
    with pytest.raises(FolderGone) as gone:
        await ours.run_command(replace(command(tmp_path / "none", "true"), data_bytes=data_bytes))
    assert gone.value.message == f"the folder {tmp_path / 'none'} is gone; it is made again"


async def test_a_program_sees_no_variable_but_what_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_API_KEY", "canary-key")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    finished = await ours.run_command(command(tmp_path, "env"))
    assert set(finished.stdout.decode().splitlines()) == {"PATH=/usr/bin:/bin", f"HOME={tmp_path}", "LC_ALL=C"}
