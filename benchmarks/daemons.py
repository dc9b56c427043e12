"""A real daemon in a folder of its own, for as long as a measurement lasts: that of the tests, with one repository."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests import daemons
from tests.daemons import COMMAND, Daemon

__all__ = ["COMMAND", "Daemon", "daemon", "first_run", "resource", "until_read"]

RUN_SECONDS = 900.0
STEP_SECONDS = 0.1
BENCH, FOLLOWED = "bench", "followed"


@contextlib.contextmanager
def daemon(folder: Path, *, repository: Path | None, prefix: Sequence[str] = ()) -> Iterator[Daemon]:
    """Start it, by the command `prefix` if there is one, wait until it is ready, and stop it."""
    repositories = [] if repository is None else [daemons.watched(BENCH, repository)]
    with daemons.running(folder, repositories=repositories, prefix=prefix, is_started=True) as running:
        yield running


def first_run(running: Daemon, repository: Path, *, files: int) -> float:
    """Follow a repository from now on, and wait for its first run: its own duration in seconds, from the look at the
    repository to the commit of the store.
    """
    running.follow(daemons.watched(FOLLOWED, repository, interval="1h"))
    return until_read(running, FOLLOWED, files=files)


def until_read(running: Daemon, name: str = BENCH, *, files: int) -> float:
    """Wait for the first run of a repository: its own duration in seconds. Raises RuntimeError when it did not create
    as many resources as there are files.
    """
    until = time.monotonic() + RUN_SECONDS
    while not (runs := running.runs(name)):
        if time.monotonic() > until:
            raise TimeoutError(f"no run within {RUN_SECONDS:g} seconds")
        time.sleep(STEP_SECONDS)
    if runs[0]["counts"] != {"created": files}:
        raise RuntimeError(f"the run did something else: {runs[0]}")
    return float(runs[0]["durationMs"]) / 1000


def resource(name: str, description: str = "") -> dict[str, object]:
    """A small one, to be applied."""
    metadata = {"name": name, "description": description}
    return {"apiVersion": "service/v1", "kind": "Destination", "metadata": metadata, "spec": {"type": "otlp"}}
