"""A commit holds the lock of its project while it is planned and stored: who waits for it, and for how long.

The worker is one that hangs under the lock, or rests there for a moment; the limits of time are those of the product,
only shorter.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from unittest.mock import ANY

from tests import daemons
from tests.daemons import Answer, Daemon, asked, destination, watched
from tests.repositories import Repository
from tests.worker import dying
from tests.worker.dying import Harm, Step

FILES = 3
OTHER = "other"
DAEMON = """\
import runpy, sys
from reconciler.reconcile import apply
from reconciler.worker import process
from reconciler.worker.client import WorkerClient
from reconciler.worker.messages import CommitJob

apply.LOCK_SECONDS = {wait}
seconds = {{**process.SECONDS, CommitJob: process.WorkerSeconds(run=60.0, locked={locked})}}
WorkerClient.__init__.__kwdefaults__ |= {{"command": {command!r}, "seconds": seconds}}
sys.argv[:] = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


class Locked:
    """A daemon whose worker has taken the lock of the project `default` for a first read, and keeps it."""

    def __init__(self, daemon: Daemon, source: Repository, marks: Path, pool: ThreadPoolExecutor) -> None:
        self.daemon, self._source, self._marks, self._pool = daemon, source, marks, pool

    def apply(self, name: str, *, project: str | None = None) -> Answer:
        """The answer to an apply of one resource."""
        return self.daemon.post("/v1/apply", {"resources": [asked(name)]}, project=project)

    def applying(self, name: str) -> "Future[Answer]":
        """An apply under way."""
        return self._pool.submit(self.apply, name)

    def kill_worker(self) -> None:
        """Kill the process that holds the lock."""
        [worker] = [mark.name for mark in self._marks.iterdir() if mark.name != dying.ARMED]
        os.kill(int(worker), signal.SIGKILL)

    def wake_worker(self) -> None:
        """Have the process that holds the lock go on."""
        dying.wake(self._marks)

    def outcomes(self) -> list[str]:
        """The outcomes of the repository's runs, once its head is applied; the latest first."""
        head = self._source.head()
        daemons.until(lambda: self.daemon.repository("one")["commit"] == head, "it is applied", seconds=60)
        return [run["outcome"] for run in self.daemon.runs("one")]

    def names(self) -> list[str]:
        """All Destinations of the project."""
        return [one["metadata"]["name"] for one in self.daemon.resources("Destination")]


@contextlib.contextmanager
def locked(folder: Path, harm: Harm, *, wait: float = 60.0, limit: float = 300.0) -> Iterator[Locked]:
    """`wait`: seconds that a request waits for the lock; `limit`: that a commit may hold it."""
    source = Repository.init(folder / "source")
    for number in range(FILES):
        source.write(f"{number}.yaml", destination(f"git-{number}"))
    source.commit()
    marks = folder / "marks"
    command = dying.command(Step.PART, 1, marks=marks, harm=harm)
    program = DAEMON.format(wait=wait, locked=limit, command=command)
    with (
        daemons.running(folder / "daemon", prefix=(sys.executable, "-c", program)) as daemon,
        ThreadPoolExecutor() as pool,
    ):
        assert daemon.post("/v1/projects", {"name": OTHER}).status == 201
        daemon.apply(asked("before"))
        dying.arm(marks)
        daemon.follow(watched("one", source.path, interval="1s"))
        daemons.until(lambda: dying.ends(marks) == 1, "the worker has the lock")
        yield Locked(daemon, source, marks, pool)


def test_a_request_that_comes_during_a_commit_is_answered_when_it_ends(tmp_path: Path) -> None:
    with locked(tmp_path, Harm.REST) as scene:
        waiting = scene.applying("waiting")
        assert scene.apply("elsewhere", project=OTHER).status == 202
        assert scene.names() == ["before"]  # readers wait for nobody
        assert not waiting.done()
        scene.wake_worker()
        assert waiting.result().status == 202
        assert scene.names() == ["before", "git-0", "git-1", "git-2", "waiting"]
        assert scene.outcomes() == ["succeeded"]


def test_a_commit_that_hangs_under_the_lock_is_ended_and_requests_are_busy_until_then(tmp_path: Path) -> None:
    with locked(tmp_path, Harm.HANG, wait=0.3, limit=4.0) as scene:
        begun = time.monotonic()
        busy = scene.apply("waiting")
        assert time.monotonic() - begun < 4.0
        told = "Other changes of the project take long, so this one was not begun; send it again."
        assert busy == Answer(503, {"errors": [told], "codes": ANY})
        assert busy.headers["retry-after"] == "5"
        daemons.until(lambda: scene.apply("waiting").status == 202, "the lock is released")
        assert scene.outcomes() == ["succeeded", "failed"]
        assert scene.names() == ["before", "git-0", "git-1", "git-2", "waiting"]


def test_a_worker_that_is_killed_under_the_lock_releases_it(tmp_path: Path) -> None:
    with locked(tmp_path, Harm.HANG) as scene:
        waiting = scene.applying("waiting")
        scene.kill_worker()
        assert waiting.result().status == 202
        assert scene.outcomes() == ["succeeded"]
        assert scene.names() == ["before", "git-0", "git-1", "git-2", "waiting"]
