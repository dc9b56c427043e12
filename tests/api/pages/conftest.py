"""Parts of the tests of the pages: a daemon with a provider in which the first person is, and one with passwords."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import daemons
from tests.api.pages import worlds
from tests.api.pages.browsers import PROXY, WEB_URL
from tests.api.pages.worlds import World
from tests.auth.oidc.hostile import Behaviour
from tests.daemons import Daemon

PASSWORD = "canary-correct-horse-battery"


@pytest.fixture(scope="package")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with worlds.standing(tmp_path_factory.mktemp("pages")) as standing:
        yield standing


@pytest.fixture
def world(shared: World) -> World:
    """The shared one, whose provider is honest."""
    shared.provider.behaviour = Behaviour()
    return shared


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """For a daemon of a test's own."""
    return tmp_path


@pytest.fixture(scope="package")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon whose people have passwords: Ana is an admin of `default`, Bob has no role."""
    folder = tmp_path_factory.mktemp("local")
    with daemons.running(folder / "daemon", settings={"trustedProxies": [PROXY], "webURL": WEB_URL}) as daemon:
        for name in ("ana", "bob"):
            made = daemon.post("/v1/users", {"name": name, "password": PASSWORD, "displayName": f"{name.title()} Ruiz"})
            assert made.status == 201, made
        assert daemon.request("PUT", "/v1/projects/default/members/ana", b'{"role":"admin"}').status == 200
        yield daemon
