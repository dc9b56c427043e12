"""A real daemon in a folder of its own, for as long as a measurement lasts: that of the tests, with one repository."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests import daemons
from tests.daemons import COMMAND, Daemon

__all__ = ["COMMAND", "Daemon", "daemon"]


@contextlib.contextmanager
def daemon(folder: Path, *, repository: Path | None) -> Iterator[Daemon]:
    """Start it, wait until it is ready, and stop it."""
    repositories = [] if repository is None else [daemons.watched("bench", repository)]
    with daemons.running(folder, repositories=repositories, is_started=True) as running:
        yield running
