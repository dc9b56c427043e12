"""SQLite, in a real file, keeps the store's promises."""

from pathlib import Path

import pytest

from reconciler.store.contract import Changes, Record, RewrittenRow, Store
from tests.store import rows
from tests.store.contract_suite import StoreContract
from tests.store.engines import Engine, SqliteEngine


class TestSqlite(StoreContract):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> Engine:
        return SqliteEngine(tmp_path / "store.db")

    @pytest.mark.parametrize("padding", [20, 3_000, 100_000], ids=["in a cell", "most of a page", "in many pages"])
    @pytest.mark.anyio
    async def test_what_is_rewritten_is_in_none_of_its_files_afterwards(
        self, tmp_path: Path, store: Store, padding: int
    ) -> None:
        secret = "hunter2-" + "x" * padding
        await store.commit([rows.stored("a", "b", "c", padding=secret)], record=Record(), planned_at=0)
        assert _holding(tmp_path, b"hunter2") != []
        part = Changes(
            rewritten=tuple(RewrittenRow(rows.PROJECT, rows.KIND, name, 1, rows.body(name, 1), None) for name in "abc")
        )
        await store.commit([part], record=Record(), planned_at=1)
        assert _holding(tmp_path, b"hunter2") == []


def _holding(folder: Path, text: bytes) -> list[str]:
    """The files in a folder that hold a text."""
    return [file.name for file in folder.iterdir() if text in file.read_bytes()]
