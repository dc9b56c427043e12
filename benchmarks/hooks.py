"""From the delivery of a hook to the commit being readable, beside what `git` alone takes to look and fetch by hand.

The repository is followed over git:// with a day between polls, so that only the hook tells. Whoever pushes has done so
when the clock begins; by turns the service fetches the commit, and a plain clone does.
"""

import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure
from tests import daemons, forges
from tests.daemons import Daemon, destination
from tests.repositories import Repository
from tests.servers import gitd

DELIVERIES = 40
LIMIT_SECONDS = 2.0
POLL_SECONDS = 0.002
FIRST_SECONDS = 20.0
NAME = "telemetry"


def measure() -> Figure:
    """The 95th percentile of each."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        source = Repository.init(folder / "source")
        source.write("siem.yaml", destination("siem", "0"))
        source.commit()
        bare = source.bare(folder / "served" / "telemetry.git")
        secret = folder / "secret"
        secret.write_bytes(forges.SECRET)
        with gitd.serving(bare.path.parent, log=folder / "log") as server:
            by_hand = Repository.init(folder / "by-hand", bare=True)
            hook = {"secretFile": str(secret)}
            watched = {"name": NAME, "url": server.url(), "branch": "main", "interval": "24h", "hook": hook}
            with daemons.running(folder / "daemon", repositories=[watched], is_started=True) as running:
                _until_readable(running, "0", seconds=FIRST_SECONDS)
                ours, floor = [], []
                for number in range(1, DELIVERIES + 1):
                    source.write("siem.yaml", destination("siem", str(number)))
                    source.commit()
                    source.push()
                    floor.append(_by_hand(by_hand, server.url()))
                    ours.append(_delivered(running, number))
    mine, git = _percentile(ours), _percentile(floor)
    return Figure(
        f"from a hook to the commit being readable, 95th percentile of {DELIVERIES}",
        f"{mine * 1000:.0f} ms",
        f"limit {LIMIT_SECONDS * 1000:.0f} ms; `git ls-remote` and `git fetch` by hand {git * 1000:.0f} ms",
        f"{mine / LIMIT_SECONDS:.2f}",
    )


def _delivered(running: Daemon, number: int) -> float:
    delivery = forges.github(identity=str(number))
    begun = time.perf_counter()
    answer = running.ask("POST", f"/hooks/{NAME}", delivery.body, delivery.headers)
    if answer.status != 202:
        raise RuntimeError(f"the delivery was answered {answer.status}: {answer.body}")
    _until_readable(running, str(number), seconds=FIRST_SECONDS)
    return time.perf_counter() - begun


def _until_readable(running: Daemon, description: str, *, seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        found = running.resource("Destination", "siem")
        if found is not None and found["metadata"]["description"] == description:
            return
        time.sleep(POLL_SECONDS)
    raise RuntimeError(f"the commit {description} was not readable within {seconds:g} s: {running.output()[-2000:]}")


def _by_hand(clone: Repository, url: str) -> float:
    begun = time.perf_counter()
    for command in (
        ["ls-remote", url, "refs/heads/main"],
        ["fetch", "--quiet", url, "+refs/heads/main:refs/heads/main"],
    ):
        subprocess.run(["git", *command], cwd=clone.path, check=True, capture_output=True)
    return time.perf_counter() - begun


def _percentile(seconds: list[float]) -> float:
    return sorted(seconds)[max(0, -(-len(seconds) * 95 // 100) - 1)]
