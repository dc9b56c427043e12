"""The crew of the reader child as processes: confined like it, and never there without it."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.worker import crew
from tests import daemons
from tests.waiting import is_alive
from tests.worker import crews


@contextlib.contextmanager
def child() -> Iterator[tuple["subprocess.Popen[bytes]", list[int]]]:
    """A reader child, and its two helpers once they are what they are to be."""
    pipe = subprocess.PIPE
    with subprocess.Popen(crews.CHILD, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            helpers = daemons.until(lambda: ready(process.pid, 2), "there are two helpers")
            yield process, helpers
        finally:
            process.kill()


def ready(process: int, number: int) -> list[int] | None:
    """The helpers of a reader child, once they are so many and all is confined."""
    found = [helper for helper in children(process) if waits(helper)]
    confined = all(limits(each)["Max processes"] == "0" for each in (process, *found))
    return found if len(found) == number and confined else None


def waits(process: int) -> bool:
    """Whether it has left the pipes, the last thing it does before it waits for its socket."""
    held = set()
    for file in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it closes some meanwhile
            held |= {file.name} if file.readlink().name == "null" else set()
    return held == {"0"}


def children(process: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def limits(process: int) -> dict[str, str]:
    lines = Path(f"/proc/{process}/limits").read_text().splitlines()
    return {line[:26].strip(): line[26:].split()[0] for line in lines}


def test_a_helper_is_confined_as_the_child_is_and_holds_no_pipe_of_the_daemon() -> None:
    with child() as (process, helpers):
        for helper in helpers:
            assert limits(helper) == limits(process.pid)
            status = dict(line.split(":\t") for line in Path(f"/proc/{helper}/status").read_text().splitlines())
            assert (status["NoNewPrivs"], status["Umask"], status["Threads"]) == ("1", "0077", "1")
            files = {int(file.name): str(file.readlink()) for file in Path(f"/proc/{helper}/fd").iterdir()}
            said = str(Path(f"/proc/{process.pid}/fd/2").readlink())
            assert (files.pop(0), files.pop(1), files.pop(2)) == (os.devnull, said, said)
            assert [name.partition(":")[0] for name in files.values()] == ["socket"]


@pytest.mark.parametrize("how", ["killed", "left"])
def test_no_helper_is_left_behind_even_when_it_hangs(how: str) -> None:
    with child() as (process, helpers):
        os.kill(helpers[0], signal.SIGSTOP)
        if how == "killed":
            process.kill()
        else:
            assert process.stdin is not None
            process.stdin.close()
        assert process.wait(10) == (-signal.SIGKILL if how == "killed" else 0)
        daemons.until(lambda: not any(map(is_alive, helpers)), "the helpers have ended")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
def test_the_child_ends_as_its_helper_does(number: signal.Signals) -> None:
    with child() as (process, helpers):
        os.kill(helpers[1], number)
        assert process.wait(10) == -number
        daemons.until(lambda: not any(map(is_alive, helpers)), "the helpers have ended")


def test_helpers_end_with_a_killed_daemon(tmp_path: Path) -> None:
    with daemons.running(tmp_path / "daemon", has_real_reader=True) as daemon:
        reader = daemon.reader()
        helpers = daemons.until(lambda: ready(reader, crew.most_helpers()), "the crew is there")
        for each in (reader, *helpers):
            os.kill(each, signal.SIGSTOP)
        daemon.kill()
        daemons.until(lambda: not any(map(is_alive, (reader, *helpers))), "the reader and its crew have ended")


def printed(script: str) -> str:
    """What a process prints that ends well: at once, and with its helpers, as the reader child does. One that lets go
    of them first is ended by their end.
    """
    script += "\nimport os, sys\nsys.stdout.flush()\nos._exit(0)"
    return subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout


def test_whoever_has_threads_has_no_crew() -> None:
    begin = "import threading; from reconciler.worker import crew; "
    wait = "stop = threading.Event(); threading.Thread(target=stop.wait).start(); "
    tell = "kept = crew.start_crew(2); print(kept.of('mirror', 'commit') is None); "
    assert (printed(f"{begin}{wait}{tell}stop.set()"), printed(f"{begin}{tell}")) == ("True\n", "False\n")


def test_where_no_process_may_be_started_there_are_fewer_helpers() -> None:
    refuse = "import os, errno; fork = os.fork; left = [fork]; "
    few = "os.fork = lambda: left.pop()() if left else (_ for _ in ()).throw(BlockingIOError(errno.EAGAIN, 'no')); "
    count = "from reconciler.worker import crew; kept = crew.start_crew(3); print(len(kept))"
    assert printed(f"{refuse}{few}{count}") == "1\n"


def test_a_helper_whose_parent_is_gone_already_is_over() -> None:
    assert (
        printed(
            f"from reconciler.worker import limits as confining; confining.end_with_parent({os.getpid()}); print('on')"
        )
        == "on\n"
    )
    assert printed("from reconciler.worker import limits as confining; confining.end_with_parent(1); print('on')") == ""


@pytest.mark.parametrize(("cores", "helpers"), [(1, 0), (2, 1), (4, 3), (64, 3)])
def test_a_helper_for_each_core_but_the_child_s_own(cores: int, helpers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    assert crew.most_helpers() == helpers
