"""One daemon for a module, an upstream for each test, and the search for secrets after each."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from tests import daemons
from tests.daemons import Daemon
from tests.scenarios.remote_cases.remote import Remote, Upstream, secrets_shown
from tests.servers.certificates import Authority

_numbers = itertools.count(1)


class Follow(Protocol):
    """Has the daemon follow a URL."""

    def __call__(self, url: str, **settings: object) -> Remote: ...


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemons.running(tmp_path_factory.mktemp("daemon"), is_started=True) as running:
        yield running


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Return who signs the servers' certificates."""
    return Authority.make(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    return Upstream(tmp_path)


@pytest.fixture
def follow(daemon: Daemon, tmp_path: Path) -> Iterator[Follow]:
    """Follow a URL; after the test it is followed no more, and nowhere is a secret of it."""
    begun: list[Remote] = []

    def begin(url: str, **settings: object) -> Remote:
        begun.append(Remote(daemon, name=f"r{next(_numbers)}", url=url, **settings))
        return begun[-1].follow()

    yield begin
    try:
        pairs = (path.with_suffix("") for path in tmp_path.rglob("*.pub"))
        private = [path for path in pairs if path.exists()]  # a test may have moved one
        assert secrets_shown(daemon, [remote.name for remote in begun], keys=private) == []
    finally:
        daemon.follow_nothing()
