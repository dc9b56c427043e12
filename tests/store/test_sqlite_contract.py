"""SQLite, in a real file, keeps the store's promises."""

from pathlib import Path

import pytest

from tests.store.contract_suite import StoreContract
from tests.store.engines import Engine, SqliteEngine


class TestSqlite(StoreContract):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> Engine:
        return SqliteEngine(tmp_path / "store.db")
