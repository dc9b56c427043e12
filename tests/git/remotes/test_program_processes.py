"""One run of a program, however it ends."""

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.git.remotes import program as ours
from reconciler.git.remotes.program import Command
from reconciler.model.errors import Refused, Transient
from tests.servers import processes
from tests.waiting import until

pytestmark = pytest.mark.anyio
TURNS = 12  # of the event loop, within which a start is done


def command(folder: Path, *arguments: str) -> Command:
    return Command(
        arguments=arguments, folder=folder, environment=ours.base_environment(folder), seconds=10, output_bytes=10_000
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


async def test_a_process_that_left_the_group_and_holds_the_pipes_keeps_nobody_waiting(tmp_path: Path) -> None:
    before, number = descriptors(), tmp_path / "number"
    script = f"setsid sh -c 'echo $$ > {tmp_path}/new; mv {tmp_path}/new {number}; exec sleep 987' & wait"
    task = asyncio.create_task(ours.run_command(command(tmp_path, "/bin/sh", "-c", script)))
    await until(number.exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    try:
        await until(lambda: descriptors() == before)
    finally:
        os.kill(int(number.read_text()), signal.SIGKILL)


async def test_too_long_and_too_much_end_the_whole_group(tmp_path: Path) -> None:
    others = processes.descendants(os.getpid())
    with pytest.raises(TimeoutError):
        await ours.run_command(replace(command(tmp_path, "sh", "-c", "sleep 987 & wait"), seconds=0.2))
    much = await ours.run_command(replace(command(tmp_path, "sh", "-c", "yes & sleep 987"), output_bytes=3))
    assert (much.stdout, much.truncated) == (b"y\ny", True)
    assert processes.descendants(os.getpid()) == others


async def test_what_was_killed_says_by_which_signal(tmp_path: Path) -> None:
    assert (await ours.run_command(command(tmp_path, "sh", "-c", "kill -TERM $$"))).status == -signal.SIGTERM


async def test_a_hundred_run_at_a_time(tmp_path: Path) -> None:
    before = descriptors()
    runs = [ours.run_command(command(tmp_path, "sh", "-c", f"echo {number}; exit {number}")) for number in range(100)]
    ended = await asyncio.gather(*runs)
    assert [(one.status, int(one.stdout)) for one in ended] == [(number, number) for number in range(100)]
    assert descriptors() == before


@pytest.mark.parametrize("data_bytes", [None, 1 << 30], ids=["by itself", "by the shell"])
async def test_says_whether_the_program_or_its_folder_is_missing(tmp_path: Path, data_bytes: int | None) -> None:
    with pytest.raises(Refused) as caught:
        await ours.run_command(replace(command(tmp_path, "no-such-program"), data_bytes=data_bytes))
    assert caught.value.message == "the program no-such-program is not on PATH; install it"
    finished = await ours.run_command(replace(command(tmp_path, "sh", "-c", "exit 127"), data_bytes=data_bytes))
    assert finished.status == 127
    with pytest.raises(Transient) as gone:
        await ours.run_command(replace(command(tmp_path / "none", "true"), data_bytes=data_bytes))
    assert gone.value.message == "the program true cannot be started (No such file or directory); it is tried again"


async def test_a_program_sees_no_variable_but_what_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_API_KEY", "canary-key")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    finished = await ours.run_command(command(tmp_path, "env"))
    assert set(finished.stdout.decode().splitlines()) == {"PATH=/usr/bin:/bin", f"HOME={tmp_path}", "LC_ALL=C"}
