"""Fixtures: where the service will be, the providers that know it, and somebody in Chromium."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.providers import chromium, services
from tests.providers.certified import Certified
from tests.providers.chromium import Visitor
from tests.providers.dex import Dex
from tests.providers.people import Person
from tests.providers.second import Second
from tests.providers.services import Client, Service, Starting
from tests.servers import processes


@pytest.fixture(scope="module")
def url() -> str:
    """Return where the service of each test is: the providers of a module know this address."""
    return f"http://127.0.0.1:{processes.free_port()}"


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory, url: str) -> Iterator[Certified]:
    """The certified provider, which runs before and after each test."""
    provider = Certified(tmp_path_factory.mktemp("certified"), service=url).start()
    yield provider
    provider.stop()


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory, url: str) -> Iterator[Second]:
    """The second provider, which runs before and after each test."""
    provider = Second(tmp_path_factory.mktemp("second"), service=url).start()
    yield provider
    provider.stop()


@pytest.fixture
def dex(tmp_path: Path, url: str) -> Iterator[Dex]:
    """The third provider."""
    provider = Dex(tmp_path, service=url).start()
    yield provider
    provider.stop()


@pytest.fixture
def starting(tmp_path: Path, url: str) -> Iterator[Starting]:
    """Starts the service, which ends with the test."""
    with ExitStack() as stack:

        def start(provider: Client | None, *projects: str, **oidc: object) -> Service:
            auth = {"type": "local"} if provider is None else services.auth(provider, **oidc)
            return stack.enter_context(services.running(tmp_path / "service", url, auth, projects=projects))

        yield start


@pytest.fixture
def ada() -> Iterator[Person]:
    """Somebody without a browser."""
    with Person("ada") as person:
        yield person


@pytest.fixture
def bob() -> Iterator[Person]:
    """Somebody else."""
    with Person("bob") as person:
        yield person


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, until the module ends: no loop of it is left for tests that have one of their own."""
    with chromium.running() as one:
        yield one


@pytest.fixture
def visiting(browser: Browser) -> Iterator[Callable[[], Visitor]]:
    """Gives somebody a browser of their own; at the end nothing may have gone wrong on any page they saw."""
    visitors: list[Visitor] = []

    def visit() -> Visitor:
        visitors.append(Visitor(browser))
        return visitors[-1]

    yield visit
    for visitor in visitors:
        visitor.close()
    assert [complaint for visitor in visitors for complaint in visitor.complaints] == []


@pytest.fixture
def visitor(visiting: Callable[[], Visitor]) -> Visitor:
    """Somebody at a desk."""
    return visiting()
