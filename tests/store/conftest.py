"""Fixtures of the store's tests. A test class for another engine overrides `engine`."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reconciler.store.contract import Store
from tests.store import rows
from tests.store.engines import Engine, SqliteEngine


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return SqliteEngine(tmp_path / "store.db")


@pytest.fixture
async def store(engine: Engine) -> AsyncIterator[Store]:
    """An empty store that has one project."""
    opened = engine.open()
    await opened.create_project(rows.PROJECT, at=rows.AT)
    yield opened
    await opened.close()
