"""Fixtures for tests of what a daemon does with a repository: one daemon for a module, a project for each test."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from tests import daemons
from tests.daemons import Daemon, Followed, destination
from tests.repositories import Repository

_numbers = itertools.count(1)


class Follow(Protocol):
    """Has the daemon follow a repository."""

    def __call__(self, source: Repository, **settings: object) -> Followed: ...


@pytest.fixture(scope="module")
def daemon(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A module whose tests stop the process that reads has `STOPS_THE_READER`."""
    real = getattr(request.module, "STOPS_THE_READER", False)
    with daemons.running(tmp_path_factory.mktemp("daemon"), has_real_reader=real) as running:
        yield running


@pytest.fixture
def source(tmp_path: Path) -> Repository:
    """A repository without a commit."""
    return Repository.init(tmp_path / "source")


@pytest.fixture
def follow(daemon: Daemon) -> Iterator[Follow]:
    def begin(source: Repository, **settings: object) -> Followed:
        return Followed(daemon, source, name=f"r{next(_numbers)}", **settings)

    yield begin
    # Else the looks at what earlier tests have followed would take the time of the later ones.
    daemon.follow_nothing()


def holding(source: Repository, follow: Follow, *names: str) -> Followed:
    """The repository with these Destinations, each in a file of its own, once all of them are stored."""
    for name in names:
        source.write(f"{name}.yaml", destination(name))
    source.commit()
    followed = follow(source)
    assert followed.head()["counts"] == {"created": len(names)}
    return followed
