"""Fixtures of the store's tests. A test class for another engine overrides `engine`."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reconciler.store.contract import Operations, Store
from reconciler.store.sqlite import SqliteStore
from tests.store import rows
from tests.store.engines import Engine, SqliteEngine


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new store."""
    path = tmp_path_factory.mktemp("empty") / "store.db"
    asyncio.run(SqliteStore(path).close())
    return path


@pytest.fixture
def engine(tmp_path: Path, empty: Path) -> Engine:
    """With a copy of a new store, since making one takes longer than most tests."""
    return SqliteEngine(Path(shutil.copy(empty, tmp_path / "store.db")))


@pytest.fixture
async def store(engine: Engine) -> AsyncIterator[Store]:
    """An empty store that has one project."""
    opened = engine.open()
    await opened.create_project(rows.PROJECT, at=rows.AT)
    yield opened
    await opened.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where there is no `ops.db` yet."""
    return tmp_path / "ops.db"


@pytest.fixture
async def operations(engine: Engine) -> AsyncIterator[Operations]:
    """No session, no notification."""
    opened = engine.open_operations()
    yield opened
    await opened.close()
