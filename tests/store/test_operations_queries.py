"""The statements of `ops.db`: each is right."""

from pathlib import Path

import pytest

from reconciler.store import database, operations
from reconciler.store.operations import SqliteOperations
from tests.store.engines import writer

pytestmark = pytest.mark.anyio

STATEMENTS = database.load_queries(operations.PACKAGE)


@pytest.mark.parametrize("name", sorted(STATEMENTS))
async def test_every_statement_prepares_against_the_schema(tmp_path: Path, name: str) -> None:
    operations = SqliteOperations(tmp_path / "ops.db")
    sql = STATEMENTS[name]
    explained = writer(tmp_path / "ops.db").execute(f"explain {sql}", [None] * sql.count("?")).fetchone()
    await operations.close()
    assert explained is not None
