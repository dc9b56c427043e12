"""Many repositories and one slow remote: how late the others are polled, without it and with it; threads and memory.

All are followed over git:// from one `git daemon`; the slow one is behind a proxy that stalls. The daemon says of each
look at the level `debug` that there was nothing new, with the time: a poll is as late as it ends after the interval,
its tenth of jitter included, has passed since the one before.
"""

import contextlib
import itertools
import math
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks import processes
from benchmarks.figures import Figure
from benchmarks.idle import MAIN_LIMIT_MB
from tests import daemons
from tests.daemons import Daemon, destination, until
from tests.servers import chaos, gitd
from tests.servers.chaos import Proxy

PROJECTS = 10
JITTER = 0.1
START_SECONDS = 600.0
SLOW = "slow"
NOTHING_NEW = ": nothing new."
SECOND = 1_700_000_000


@dataclass(frozen=True, slots=True)
class Late:
    """By how much polls came after their interval with its jitter, in seconds."""

    polls: int
    percentile: float  # the 99th
    worst: float


def measure(*, repositories: int, interval: float) -> list[Figure]:
    """Over three intervals without the slow one, and as many with it.

    The interval is to leave two cores time for all: a poll of git:// takes some ten milliseconds of CPU at either end.
    """
    with tempfile.TemporaryDirectory() as temporary, contextlib.ExitStack() as stack:
        folder = Path(temporary)
        served = folder / "served"
        _make(served, repositories)
        server = stack.enter_context(gitd.serving(served, log=folder / "served.log"))
        proxy = stack.enter_context(chaos.before(server.port))
        running = stack.enter_context(_daemon(folder, server, proxy, repositories=repositories, interval=interval))
        time.sleep(interval)  # until each has a phase of its own
        alone = _late(running, interval=interval)
        proxy.fault = chaos.stall()
        until(lambda: proxy.stalled, "the slow one is asked", seconds=2 * interval + 10)
        beside = _late(running, interval=interval)
        if not proxy.stalled:
            raise RuntimeError("the slow remote was not slow")
        memory, threads = processes.pss_mb(running.process.pid), processes.threads(running.process.pid)
    what = f"{repositories:,} repositories, interval {interval:.0f} s"
    return [
        _figure(f"{what}, lateness of {beside.polls:,} polls beside a stalling remote, p99", beside.percentile, alone),
        _figure(f"{what}, the same, worst", beside.worst, alone, worst=True),
        Figure(
            f"{what}, main process",
            f"{memory:.0f} MB, {threads} threads",
            f"limit {MAIN_LIMIT_MB} MB, as when idle",
            f"{memory / MAIN_LIMIT_MB:.2f}",
        ),
    ]


@contextlib.contextmanager
def _daemon(folder: Path, server: gitd.Server, proxy: Proxy, *, repositories: int, interval: float) -> Iterator[Daemon]:
    """A daemon that has read them all."""
    followed = [
        {
            "name": f"r{number}",
            "url": server.url(f"r{number}.git"),
            "branch": f"b{number}",
            "project": f"p{number % PROJECTS}",
            "interval": f"{interval:.0f}s",
        }
        for number in range(repositories)
    ]
    slow = {**followed[0], "name": SLOW, "url": server.url("r0.git", port=proxy.port), "project": SLOW}
    settings = {"log": {"level": "debug"}}
    with daemons.running(
        folder / "daemon", repositories=[slow, *followed], settings=settings, is_started=True
    ) as running:
        until(lambda: _ready(running) == repositories + 1, "all are read", seconds=START_SECONDS)
        yield running


def _ready(running: Daemon) -> int:
    time.sleep(1)  # a list of a thousand takes time on the processors of the daemon
    return sum(one["state"] == "ready" for one in running.get("/v1/repositories").body["repositories"])


def _late(running: Daemon, *, interval: float) -> Late:
    """Of three intervals from now."""
    since = time.time()
    time.sleep(3 * interval)
    ended: dict[str, list[float]] = {}
    for line in running.lines():
        if line["message"].endswith(NOTHING_NEW) and line["repository"] != SLOW and _seconds(line) >= since:
            ended.setdefault(line["repository"], []).append(_seconds(line))
    gaps = (later - earlier for times in ended.values() for earlier, later in itertools.pairwise(times))
    late = sorted(max(0.0, gap - interval * (1 + JITTER)) for gap in gaps)
    return Late(len(late), late[math.ceil(0.99 * len(late)) - 1], late[-1])


def _seconds(line: dict[str, Any]) -> float:
    return datetime.fromisoformat(line["time"]).timestamp()


def _make(served: Path, repositories: int) -> None:
    """One bare repository with a branch for each, under as many names: every name is a remote of its own."""
    served.mkdir()
    everything = served / "all.git"
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=b0", str(everything)], check=True)
    stream = b"".join(_branch(number) for number in range(repositories))
    subprocess.run(["git", "-C", str(everything), "fast-import", "--quiet"], input=stream, check=True)
    subprocess.run(["git", "-C", str(everything), "pack-refs", "--all"], check=True)
    for number in range(repositories):
        (served / f"r{number}.git").symlink_to(everything)


def _branch(number: int) -> bytes:
    text = destination(f"d{number}").encode()
    head = f"commit refs/heads/b{number}\ncommitter Bench <bench@localhost> {SECOND} +0000\ndata 5\nfirst\n"
    return f"{head}M 644 inline a.yaml\ndata {len(text)}\n".encode() + text + b"\n\n"


def _figure(what: str, seconds: float, alone: Late, *, worst: bool = False) -> Figure:
    without = alone.worst if worst else alone.percentile
    ratio = "none" if without < 0.001 else f"{seconds / without:.2f}"
    return Figure(what, f"{seconds * 1000:.0f} ms", f"without it {without * 1000:.0f} ms", ratio)
