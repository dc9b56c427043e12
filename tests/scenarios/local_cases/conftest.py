"""One daemon for all, with a `git` that writes down its calls; a repository of two resources for each test."""

from collections.abc import Iterator

import pytest

from tests import daemons
from tests.daemons import Daemon, Followed, destination
from tests.following import Follow, follow, source
from tests.repositories import Repository
from tests.scenarios.local_cases.expectations import OFTEN
from tests.scenarios.local_cases.programs import Git

__all__ = ["daemon", "filled", "follow", "followed", "git", "source"]


@pytest.fixture(scope="package")
def git(tmp_path_factory: pytest.TempPathFactory) -> Git:
    return Git.before(tmp_path_factory.mktemp("programs") / "git")


@pytest.fixture(scope="package")
def daemon(tmp_path_factory: pytest.TempPathFactory, git: Git) -> Iterator[Daemon]:
    with daemons.running(tmp_path_factory.mktemp("daemon"), environment=git.environment) as running:
        yield running


@pytest.fixture
def filled(source: Repository) -> Repository:
    """Two resources, committed, and nobody follows them yet."""
    source.write("teams/a.yaml", destination("a"))
    source.write("b.yaml", destination("b"))
    source.commit()
    return source


@pytest.fixture
def followed(filled: Repository, follow: Follow) -> Followed:
    """Both are stored; looks are made often, so that nothing waits for a poll."""
    followed = follow(filled, interval=OFTEN)
    assert followed.head()["counts"] == {"created": 2}
    return followed
