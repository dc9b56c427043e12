"""A rendering stays in force through the step that keeps the one before it, of which there is none yet."""

import hashlib
from contextlib import closing
from pathlib import Path

import pytest

from reconciler.store import database
from reconciler.store.sqlite import SqliteStore
from tests.store import rows

pytestmark = pytest.mark.anyio

BEFORE = 15  # migrations of the last version that kept one rendering
BODY = b"a: 1\n"
SAID = b'{"hash":"%s"}' % hashlib.sha256(BODY).hexdigest().encode()
ROWS = [("c", SAID, BODY), ("faulty", b'{"fault":{"reason":"x"}}', None), ("service", None, None)]


async def test_all_stay_and_none_has_one_before_it(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(database.open_writer(path)) as connection:
        database.migrate(connection, steps=database.migrations()[:BEFORE])
        for name, said, body in ROWS:
            row = (rows.PROJECT, name, "1.0", "1 1 1 0", said, body)
            connection.execute("insert into rendering values (?, ?, ?, ?, ?, ?)", row)
    store = SqliteStore(path)
    assert [await store.rendering(rows.PROJECT, name) for name, *_ in ROWS] == [BODY, b"", b""]
    assert [await store.rendering(rows.PROJECT, name, previous=True) for name, *_ in ROWS] == [b""] * len(ROWS)
    await store.close()
    with closing(database.open_reader(path)) as connection:
        kept = connection.execute("select configuration, said, body from rendering order by configuration").fetchall()
    assert [tuple(row) for row in kept] == ROWS
