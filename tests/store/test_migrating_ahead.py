"""A store of the time before changes were written ahead: its tables read the same as views, and take changes on."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.store import database
from reconciler.store.contract import Changes, HeldRow, Record
from reconciler.store.planning_view import PlanningView
from reconciler.store.sqlite import SqliteStore
from tests.store import looking, rows

pytestmark = pytest.mark.anyio

BEFORE, AFTER = 2, 3
VIEWS = {
    "version": "select * from version",
    "audit": "select * from audit",
    "resource": "select * from resource",
    "reference": "select * from reference",
    "source_file": "select * from source_file",
    "wanted": "select * from wanted",
    "held": "select * from held",
}
FILLED = """
insert into project values ('default', 't'), ('empty', 't');
insert into version (project, kind, name, version, resource_id, digest, body, secrets, source, actor, run, request,
                     created_at)
values ('default', 'Destination', 'a', 1, 'id-a', x'00', x'7b7d', null, x'7b7d', 'x', null, 'q', 't'),
       ('default', 'Destination', 'a', 2, 'id-a', x'01', x'7b7d', x'05', x'7b7d', 'x', null, 'q', 't'),
       ('default', 'Destination', 'b', 1, 'id-b', x'02', x'7b7d', null, x'7b7d', 'x', 'R1', null, 't'),
       ('default', 'Destination', 'gone', 1, 'id-g', x'03', x'7b7d', null, x'7b7d', 'x', null, 'q', 't');
update version set body = cast('{"metadata":{"name":"' || name || '","version":' || version || '}}' as blob),
                   source = cast('{"type":"api"}' as blob);
insert into resource values
  ('default', 'Destination', 'a', 2, 'id-a', x'01', null, null, null, 0, 0, x'7b7d', 0),
  ('default', 'Destination', 'b', 1, 'id-b', x'02', 'telemetry', 'b.yaml', 1, 1, 1, x'7b7d', 1);
update resource set status = cast('{"latest":true,"source":{"type":"api"}}' as blob);
insert into reference values ('default', 'Destination', 'b', 'Destination', 'a');
insert into audit (at, project, actor, action, kind, name, version_before, version_after, run, request)
values ('t', 'default', 'x', 'created', 'Destination', 'a', null, 1, null, 'q'),
       ('t', 'default', 'x', 'updated', 'Destination', 'a', 1, 2, null, 'q');
insert into source_file values ('telemetry', 'b.yaml', 'blob', null, null), ('telemetry', 'v', 'blob', 'empty', '[]'),
                               ('files-only', 'x.yaml', 'blob', null, null);
insert into wanted values ('telemetry', 'b.yaml', 0, 'Destination', 'b', x'02', null),
                          ('telemetry', 'b.yaml', 1, null, null, null, 'refused'),
                          ('wanted-only', 'w.yaml', 0, 'Destination', 'w', x'09', 'waiting');
insert into held values ('telemetry', 'held', 'Destination', 'b'), ('held-only', 'in-use', 'Destination', 'z');
update fact set value = 7 where key = 'revision';
"""


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A store of that time, with a row of each kind."""
    opened = database.open_writer(tmp_path / "store.db")
    database.migrate(opened, steps=database.migrations()[:BEFORE])
    opened.executescript(FILLED)
    yield opened
    opened.close()


def dump(connection: sqlite3.Connection) -> dict[str, list[tuple[object, ...]]]:
    return {name: sorted(connection.execute(sql).fetchall(), key=repr) for name, sql in VIEWS.items()}


def test_what_was_in_the_tables_is_in_the_views(connection: sqlite3.Connection) -> None:
    before = dump(connection)
    assert all(before.values())
    database.migrate(connection, steps=database.migrations()[:AFTER])
    assert dump(connection) == before
    assert connection.execute("pragma foreign_key_check").fetchall() == []
    assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]


def test_the_lists_of_repositories_have_numbers_of_their_own(connection: sqlite3.Connection) -> None:
    database.migrate(connection, steps=database.migrations()[:AFTER])
    numbers = [number for (number,) in connection.execute("select number from listing order by number")]
    (reserved,) = connection.execute("select value from fact where key = 'reserved'").fetchone()
    assert (numbers, reserved) == ([1, 2, 3, 4, 5], 5)


async def test_a_migrated_store_takes_changes_the_ordinary_way_and_ahead(
    tmp_path: Path, connection: sqlite3.Connection
) -> None:
    connection.close()
    store = SqliteStore(tmp_path / "store.db")
    assert await looking.names(store) == ["a", "b"]
    await store.commit([rows.stored("c"), rows.removed("b")], record=Record(), planned_at=7)
    ahead = store.ahead()
    assert ahead is not None
    whole = Changes(files=(rows.file("n.yaml"),), wanted=(rows.wanted("n.yaml", "n"),), whole_index=True)
    await ahead.write([rows.stored("a", number=3), whole, rows.held("a")])
    record = Record(forget_files_of="telemetry", forget_held_of="telemetry")
    await store.commit((), record=record, planned_at=8, ahead=ahead)
    with contextlib.closing(PlanningView.open(store.path)) as view:
        assert view.index("telemetry") == ([*whole.files], [*whole.wanted])
        assert len(view.index("files-only")[0]) == len(view.index("wanted-only")[1]) == 1
        assert view.stays("telemetry") == {HeldRow("telemetry", rows.KIND, "a", "held")}
        assert view.stays("held-only") == {HeldRow("held-only", "Destination", "z", "in-use")}
    assert (await looking.names(store), await looking.versions(store, "a")) == (["a", "c"], [3, 2, 1])
    await store.close()
