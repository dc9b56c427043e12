"""A real daemon in a folder of its own, for as long as a measurement lasts: that of the tests, with one repository."""

import contextlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import corpus, delivery_pacing
from benchmarks.asking import Connection
from tests import daemons
from tests.daemons import COMMAND, Daemon

__all__ = ["COMMAND", "Daemon", "daemon", "first_run", "resource", "until_read"]

RUN_SECONDS = 900.0
STEP_SECONDS = 0.1
POLL_SECONDS = 0.01  # a GET that finds nothing costs the daemon some hundredths of that
BENCH, FOLLOWED = "bench", "followed"


@contextlib.contextmanager
def daemon(folder: Path, *, repository: Path | None, program: Path = COMMAND) -> Iterator[Daemon]:
    """Start the installation of `program`, wait until it is ready, and stop it."""
    repositories = [] if repository is None else [daemons.watched(BENCH, repository)]
    with daemons.running(folder, repositories=repositories, program=program, is_started=True) as running:
        yield running


def first_run(running: Daemon, repository: Path, *, files: int) -> float:
    """Follow a corpus from now on, and wait for its first run: the seconds from the signal by which the daemon reads
    its settings again to the first answer that shows a resource of the run, which all are there with.

    A client asks every ten milliseconds on one connection.
    """
    followed = daemons.watched(FOLLOWED, repository, interval="1h")
    running.configure([*running.repositories.values(), followed])
    request = delivery_pacing.request("GET", f"/v1/resources/Destination/{corpus.name(0)}", key=running.key)
    with Connection(running.port) as connection:
        begun = time.perf_counter()
        running.process.send_signal(signal.SIGHUP)
        while connection.ask(request).status != 200:
            if time.perf_counter() - begun > RUN_SECONDS:
                raise TimeoutError(f"no run within {RUN_SECONDS:g} seconds")
            time.sleep(POLL_SECONDS)
        seconds = time.perf_counter() - begun
    until_read(running, FOLLOWED, files=files)
    return seconds


def until_read(running: Daemon, name: str = BENCH, *, files: int) -> None:
    """Wait for the first run of a repository. Raises RuntimeError when it did not create as many resources as there
    are files.
    """
    until = time.monotonic() + RUN_SECONDS
    while not (runs := running.runs(name)):
        if time.monotonic() > until:
            raise TimeoutError(f"no run within {RUN_SECONDS:g} seconds")
        time.sleep(STEP_SECONDS)
    if runs[0]["counts"] != {"created": files}:
        raise RuntimeError(f"the run did something else: {runs[0]}")


def resource(name: str, description: str = "") -> dict[str, object]:
    """A small one, to be applied."""
    metadata = {"name": name, "description": description}
    return {"apiVersion": "service/v1", "kind": "Destination", "metadata": metadata, "spec": {"type": "otlp"}}
