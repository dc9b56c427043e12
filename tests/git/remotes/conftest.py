"""Fixtures of the tests of Git."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reconciler.git.remotes.following import Remotes
from tests.git.remotes.followings import place
from tests.git.remotes.shims import Shim
from tests.repositories import Repository


@pytest.fixture
def served(tmp_path: Path) -> Path:
    """A folder for a server, with the bare repository `telemetry.git` of one commit in it."""
    source = Repository.init(tmp_path / "source")
    source.write("a.yaml", "kind: Destination")
    source.commit()
    source.bare(tmp_path / "served" / "telemetry.git")
    return tmp_path / "served"


@pytest.fixture
async def remotes(tmp_path: Path) -> AsyncIterator[Remotes]:
    """All remotes, of which nothing may be left."""
    remotes = Remotes(lambda source: place(tmp_path / "state", source), clock=time.monotonic)
    yield remotes
    await remotes.close()
    assert [task for task in asyncio.all_tasks() if task.get_name().startswith("round")] == []


@pytest.fixture
def origin(tmp_path: Path) -> Repository:
    """A repository with one commit of one file."""
    origin = Repository.init(tmp_path / "origin")
    origin.write("a.yaml", "a")
    origin.commit()
    return origin


@pytest.fixture
def shim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shim:
    """A `git` that writes down its calls."""
    return Shim(tmp_path / "shim", monkeypatch)
