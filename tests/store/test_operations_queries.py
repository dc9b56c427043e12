"""The statements of `ops.db`: each is right, and each is used."""

from pathlib import Path

import pytest

from reconciler.store import database, files, operations
from reconciler.store.operations import SqliteOperations
from tests.store.test_queries import named_in_code

pytestmark = pytest.mark.anyio

STATEMENTS = database.load_queries(operations.PACKAGE)


def test_every_statement_is_used_and_every_one_used_exists() -> None:
    named = named_in_code([Path(operations.__file__), Path(files.__file__)])
    assert sorted(named.union(files.OPERATIONS.forgotten)) == sorted(STATEMENTS)


@pytest.mark.parametrize("name", sorted(STATEMENTS))
async def test_every_statement_prepares_against_the_schema(tmp_path: Path, name: str) -> None:
    operations = SqliteOperations(tmp_path / "ops.db")
    sql = STATEMENTS[name]
    explained = operations._connection.execute(f"explain {sql}", [None] * sql.count("?")).fetchone()
    await operations.close()
    assert explained is not None
