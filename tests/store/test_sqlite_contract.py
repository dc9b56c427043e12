"""SQLite, in a real file, keeps the store's promises."""

import sqlite3
from pathlib import Path

import pytest

from reconciler.store.contract import Store
from reconciler.store.records import Changes, Record, Traces, VersionRow
from tests.store import redacting_process, rows
from tests.store.contract_redactions import SECRET, files_holding, filled
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
        await store.commit([rows.stored("a", "b", "c", padding=secret)], record=Record())
        assert files_holding(tmp_path, "hunter2") != []
        part = Changes(
            rewritten=[VersionRow(rows.PROJECT, rows.KIND, name, 1, rows.body(name, 1), None) for name in "abc"]
        )
        await store.commit([part], record=Record())
        assert await store.erase_traces() is Traces.ERASED
        assert files_holding(tmp_path, "hunter2") == []

    @pytest.mark.anyio
    async def test_copies_that_moving_rows_left_between_others_are_erased_too(
        self, tmp_path: Path, store: Store
    ) -> None:
        await filled(store)
        # Rows that grow move others to another page.
        paths = [("c" * 900, number) for number in range(1, redacting_process.VERSIONS + 1, 3)]
        with sqlite3.connect(tmp_path / "store.db", isolation_level=None) as connection:
            connection.execute("pragma secure_delete = on").fetchone()
            connection.executemany("update version set path = ?, line = 1 where version = ?", paths)
            await store.commit(redacting_process.rewriting(), record=Record())
            # What overwriting what is freed and emptying the log leave.
            assert connection.execute("pragma wal_checkpoint(truncate)").fetchone() == (0, 0, 0)
        assert files_holding(tmp_path, SECRET) == ["store.db"]
        assert await store.erase_traces() is Traces.ERASED
        assert files_holding(tmp_path, SECRET) == []
