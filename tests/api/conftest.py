"""The parts that the tests of the API share: the real parts, started once, and a project of its own for each test."""

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import httpx2
import pytest
from starlette.types import ASGIApp

import api.app
from api.calls import Services
from reconciler.auth import changes
from reconciler.model import directory
from reconciler.model.principals import Role, Scope
from reconciler.settings import repositories as settings_repositories
from tests.api import callers, contracts, parts
from tests.api.callers import Caller
from tests.api.parts import Parts
from tests.auth import directories
from tests.repositories import Repository

SECONDS = 30.0  # what takes longer does not happen
T = TypeVar("T")
_numbers = itertools.count(1)


class Populated(NamedTuple):
    """Parts with projects and every sort of caller, by name."""

    parts: Parts
    callers: Mapping[str, Caller]


@pytest.fixture(scope="package")
def anyio_backend() -> str:
    """One loop for all of these tests, since the worker's pipes belong to the loop that started it."""
    return "asyncio"


@pytest.fixture(scope="package")
async def everything(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Parts]:
    async with parts.started(tmp_path_factory.mktemp("api")) as started:
        yield started


@pytest.fixture(scope="package")
async def populated(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Populated]:
    """Parts of their own, with every sort of caller, so that nobody else's people and projects are among them."""
    async with parts.started(tmp_path_factory.mktemp("populated")) as started:
        yield Populated(started, await callers.settle(started.services))


@pytest.fixture
def services(everything: Parts) -> Services:
    everything.clock.instant = parts.START
    return everything.services


@pytest.fixture
async def project(services: Services) -> str:
    """A project that holds nothing."""
    name = f"p{next(_numbers)}"
    await services.accounts.ensure_project(name)
    return name


@asynccontextmanager
async def connect(
    services: Services, *, key: str = parts.KEY, project: str | None = None
) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of an application that serves `services`. Whatever is answered is held against the contract."""
    transport = httpx2.ASGITransport(app=_application(services))
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    if project is not None:
        headers["X-Service-Project"] = project
    hooks: dict[str, list[Any]] = {"response": [contracts.check]}
    async with httpx2.AsyncClient(
        transport=transport, base_url="http://service", headers=headers, event_hooks=hooks
    ) as client:
        yield client


@lru_cache(maxsize=4)
def _applications(identity: int) -> list[tuple[Services, ASGIApp]]:  # noqa: ARG001 - the key
    return []


def _application(services: Services) -> ASGIApp:
    """One for each set of parts: building it takes longer than most tests do."""
    known = _applications(id(services))
    if not known:
        known.append((services, api.app.build(services)))  # kept together, so that the identity stays theirs
    return known[0][1]


@pytest.fixture
async def client(services: Services, project: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with connect(services, project=project) as client:
        yield client


async def make_key(
    services: Services,
    role: Role,
    *,
    project: str | None,
    scopes: frozenset[Scope] = frozenset({Scope.RESOURCES}),
    expires_at: str | None = None,
) -> str:
    """A new key, as text."""
    text = directory.make_key(os.urandom(directory.RANDOM_BYTES))
    key = directories.key(
        text, identifier=f"K{next(_numbers)}", project=project, role=role, scopes=scopes, expires_at=expires_at
    )
    await services.accounts.amend(lambda directory: changes.create_key(directory, key), actor="user:root", request=None)
    return text


class Follow:
    """Repositories under watch."""

    def __init__(self, everything: Parts) -> None:
        self.everything = everything
        self.wanted: dict[str, settings_repositories.Repository] = {}

    async def __call__(self, name: str, source: Repository, *, project: str, **settings: Any) -> dict[str, Any]:
        """Watch one more repository, whose name no other test uses; its first run, which has ended."""
        self.wanted[name] = parts.watched(name, source.path, project=project, **settings)
        await self.everything.repositories.start(self.wanted.values())
        return await self.run_of(name)

    async def run_of(self, name: str) -> dict[str, Any]:
        """The newest recorded run, waited for."""

        async def look() -> list[dict[str, Any]]:
            return list((await self._get(f"/v1/runs?limit=1&repository={name}"))["runs"])

        (run,) = await until(look)
        return await self.finished(str(run["id"]))

    async def finished(self, run: str) -> dict[str, Any]:
        """A run, once it has ended."""

        async def look() -> dict[str, Any] | None:
            shown = dict((await self._get(f"/v1/runs/{run}"))["run"])
            return shown if shown["phase"] == "finished" else None

        return await until(look)

    async def _get(self, path: str) -> dict[str, Any]:
        async with connect(self.everything.services) as client:
            return dict((await client.get(path)).json())


@pytest.fixture
async def follow(everything: Parts) -> AsyncIterator[Follow]:
    follow = Follow(everything)
    yield follow
    await everything.repositories.start(())


@pytest.fixture
def source(tmp_path: Path) -> Repository:
    """A repository without a commit."""
    return Repository.init(tmp_path / "source")


async def explained(client: httpx2.AsyncClient, path: str) -> dict[str, Any]:
    """A resource of Git, once it says which commit changed it: that may come a moment after a read."""

    async def look() -> dict[str, Any] | None:
        found: dict[str, Any] = (await client.get(path)).json()["resource"]
        return found if "changedBy" in found["status"]["source"] else None

    return await until(look)


async def until(look: Callable[[], Awaitable[T | None]]) -> T:
    """Return what a look finds, tried again and again until it is something."""
    async with asyncio.timeout(SECONDS):
        while True:
            found = await look()
            if found:
                return found
            await asyncio.sleep(0.01)
