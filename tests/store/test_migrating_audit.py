"""A store from before the chain: its events are one link that is read and goes as any other, and is not checked."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from reconciler.model.audit_chain import ZERO, ChainHead
from reconciler.store import audit, database
from reconciler.store.audit import BrokenChain
from reconciler.store.sqlite import SqliteStore
from tests.store import rows
from tests.store.chains import tamper
from tests.store.contract_audit import names

pytestmark = pytest.mark.anyio

BEFORE = 5  # migrations of the version without a chain
OLD = "2026-11-01T00:00:00.000Z"
SHOWN, AHEAD = 1_048_576, 2_097_152  # the numbers of a large change that is shown, and of one that is not


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Three events that readers see, one of them written ahead, and one of a change that a process left."""
    made = tmp_path / "store.db"
    with closing(database.open_writer(made)) as connection:
        database.migrate(connection, steps=database.migrations()[:BEFORE])
        connection.execute("insert into project values (?, ?)", (rows.PROJECT, rows.AT))
        connection.execute("update fact set value = ? where key = 'revision'", (SHOWN + 1,))
        connection.execute("insert into staged values (?, 0, 0, null, 0)", (AHEAD,))
        for name, since in (("a", 0), ("b", SHOWN), ("left", AHEAD), ("c", 0)):
            connection.execute(
                "insert into audit_row (since, project, action, kind, name, at, actor) values (?, ?, ?, ?, ?, ?, ?)",
                (since, rows.PROJECT, "created", rows.KIND, name, OLD, "user:ana"),
            )
    return made


async def test_it_is_read_in_its_order_and_new_links_follow(path: Path) -> None:
    store = SqliteStore(path)
    assert (await store.audit_ends())[1] == ChainHead(1, ZERO)
    await store.tell([rows.audit("new")])
    assert await names(store) == ["new", "c", "b", "a"]
    await store.close()
    found = audit.verify(path)
    assert (found.links, found.events, found.unchecked) == (2, 1, 3)
    tamper(path, "delete from audit where name = 'b'")
    with pytest.raises(BrokenChain, match=r"Link 1 of .* has 2 of its 3 events"):
        audit.verify(path)


async def test_it_goes_when_its_time_is_over(path: Path) -> None:
    store = SqliteStore(path)
    await store.tell([rows.audit("new")])
    while await store.forget_events(before=rows.AT):
        pass
    assert await names(store) == ["new"]
    await store.close()
    found = audit.verify(path)
    assert (found.anchor.head, found.anchor.events, found.links, found.events) == (ChainHead(1, ZERO), 3, 1, 1)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("select name from audit").fetchall() == [("new",)]


async def test_a_store_without_events_begins_with_nothing(tmp_path: Path) -> None:
    with closing(database.open_writer(tmp_path / "store.db")) as connection:
        database.migrate(connection, steps=database.migrations()[:BEFORE])
    store = SqliteStore(tmp_path / "store.db")
    assert (await store.audit_ends())[1] == ChainHead(0, ZERO)
    await store.close()
    assert audit.verify(tmp_path / "store.db").links == 0
