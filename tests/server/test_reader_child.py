"""The worker dies: what it was doing is done by another one."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from reconciler.worker import process as worker_process
from reconciler.worker import sandbox
from tests import daemons
from tests.daemons import Daemon, destination, watched
from tests.repositories import Repository

MANY_FILES = 3_000
STOP_SECONDS = 10.0  # the default of drainTimeout, and five seconds


def reading(
    folder: Path, repositories: Sequence[Mapping[str, object]] = (), *, environment: Mapping[str, str] | None = None
) -> contextlib.AbstractContextManager[Daemon]:
    """A daemon whose reader is the one that people have."""
    return daemons.running(folder / "daemon", repositories=repositories, environment=environment, has_real_reader=True)


def asked(name: str) -> dict[str, Any]:
    return {"apiVersion": "service/v1", "kind": "Destination", "metadata": {"name": name}, "spec": {"type": "otlp"}}


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A repository whose first read takes a while; no test changes it."""
    source = Repository.init(tmp_path_factory.mktemp("many"))
    for number in range(MANY_FILES):
        source.write(f"{number % 50:02}/{number:04}.yaml", destination(f"many-{number:04}"))
    source.commit()
    return source


def test_killed_while_idle_another_one_does_the_work(tmp_path: Path, source: Repository) -> None:
    with reading(tmp_path, [watched("one", source.path)]) as daemon:
        daemon.run_of("one", source.head())
        first = daemon.reader()
        os.kill(first, signal.SIGKILL)
        [update] = daemon.apply(asked("c"))
        assert update["status"] == "created"
        assert daemon.reader() != first
        os.kill(daemon.reader(), signal.SIGKILL)
        source.write("a.yaml", destination("a", "edited"))
        run = daemon.run_of("one", source.commit())
        assert (run["outcome"], run["counts"]) == ("succeeded", {"configured": 1})


@pytest.mark.slow
def test_killed_in_the_middle_of_a_first_read_another_one_reads_it(tmp_path: Path, many: Repository) -> None:
    with reading(tmp_path, [watched("many", many.path)]) as daemon:
        first_read_is_under_way(daemon)
        os.kill(daemon.reader(), signal.SIGKILL)
        daemons.until(lambda: daemon.repository("many")["state"] == "ready", "everything is read", seconds=60)
        newest = daemon.runs("many")[0]
        assert (newest["outcome"], newest["counts"]) == ("succeeded", {"created": MANY_FILES})
        assert len(daemon.resources("Destination")) == MANY_FILES


@pytest.mark.slow
def test_stopped_in_the_middle_of_a_first_read_it_ends_soon_and_reads_at_the_next_start(
    tmp_path: Path, many: Repository
) -> None:
    with reading(tmp_path, [watched("many", many.path)]) as daemon:
        first_read_is_under_way(daemon)
        children = daemon.children()
        begun = time.monotonic()
        assert daemon.stop() == 0
        assert time.monotonic() - begun < STOP_SECONDS
        assert [Path(f"/proc/{child}").exists() for child in children] == [False] * len(children)
        run = daemon.start().run_of("many", many.head())
        assert (run["trigger"], run["counts"]) == ("start", {"created": MANY_FILES})


def test_the_reader_is_confined_and_knows_no_secret(tmp_path: Path) -> None:
    secrets = {"DESTINATION_DEFAULT__TOKEN": "hunter-2-hunter-2", "AWS_SECRET_ACCESS_KEY": "hunter-2-hunter-2"}
    with reading(tmp_path, environment=secrets) as daemon:
        process = Path(f"/proc/{daemon.reader()}")
        daemon.apply(asked("a"))  # it works all the same, and what it does to confine itself is done
        names = {line.partition(b"=")[0] for line in (process / "environ").read_bytes().split(b"\0") if line}
        assert names <= {name.encode() for name in worker_process.ENVIRONMENT} | {b"LC_CTYPE"}
        limits = {line[:26].strip(): line[26:].split()[0] for line in (process / "limits").read_text().splitlines()}
        assert limits["Max file size"] == limits["Max processes"] == limits["Max core file size"] == "0"
        assert limits["Max address space"] == str(sandbox.ADDRESS_SPACE_BYTES)
        assert limits["Max open files"] == str(sandbox.OPEN_FILES)
        status = dict(line.split(":\t") for line in (process / "status").read_text().splitlines())
        assert (status["NoNewPrivs"], status["Umask"], status["Seccomp"]) == ("1", "0077", "2")
        # What these grant is all that it can open (`tests/worker/test_sandbox.py`).
        granted = (process / "cmdline").read_text().split("\0")[-3:-1]
        assert granted == [str(daemon.state / "store.db"), str(daemon.state / "mirrors")]


def test_the_reader_ends_with_a_killed_daemon_even_when_it_hangs(tmp_path: Path) -> None:
    with reading(tmp_path) as daemon:
        reader = daemon.reader()
        daemon.apply(asked("a"))
        os.kill(reader, signal.SIGSTOP)
        daemon.kill()
        daemons.until(lambda: not _lives(reader), "the worker has ended")


def _lives(process: int) -> bool:
    stat = Path(f"/proc/{process}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.slow
def test_applies_during_a_large_first_read_all_succeed_and_the_read_ends(tmp_path: Path, many: Repository) -> None:
    answers: list[int] = []
    with reading(tmp_path, [watched("many", many.path)]) as daemon:

        def apply(thread: int) -> None:
            for number in range(15):
                resources = {"resources": [asked(f"api-{thread}-{number}")]}
                answers.append(daemon.post("/v1/apply", resources).status)

        threads = [threading.Thread(target=apply, args=(thread,)) for thread in range(8)]
        for thread in threads:
            thread.start()
        run = daemon.run_of("many", many.head())
        for thread in threads:
            thread.join()
        assert answers == [202] * (8 * 15)
        assert (run["outcome"], run["counts"]) == ("succeeded", {"created": MANY_FILES})
        assert len(daemon.resources("Destination")) == MANY_FILES + 8 * 15
        assert [run["outcome"] for run in daemon.runs()] == ["succeeded"]


def first_read_is_under_way(daemon: Daemon) -> None:
    """Wait for it."""

    def is_reading() -> bool:
        # Hundredths of a second: starting takes the child fewer.
        return daemon.repository("many")["state"] == "never-read" and _cpu_ticks(daemon.reader()) > started

    started = _cpu_ticks(daemon.reader()) + 10
    daemons.until(is_reading, "the first read is under way")


def _cpu_ticks(process: int) -> int:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
