"""A store of the time when no key was a person's: each is nobody's own, and opens what it did."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.model.principals import Role, Scope
from reconciler.store import database
from reconciler.store.sqlite import SqliteStore
from tests.auth import directories
from tests.store import rows

pytestmark = pytest.mark.anyio

BEFORE = 9  # the last step of that time
ENDLESS, ENDING = directories.text(1), directories.text(2)
INSERT = """
insert into api_key (id, name, prefix, digest, project, role, scopes, created_at, created_by, expires_at, last_used_at)
values (:id, :name, :prefix, :digest, :project, :role, :scopes, :created_at, :created_by, :expires_at, :last_used_at)
"""


async def test_keys_stay_as_they_are_and_are_nobody_s_own(tmp_path: Path) -> None:
    scopes = frozenset({Scope.LOGS, Scope.RESOURCES})
    endless = directories.key(ENDLESS, role=Role.ADMIN, scopes=scopes, created_by="user:gone")
    ending = directories.key(ENDING, identifier="K2", project=None, expires_at=directories.LATER)
    there = [endless, replace(ending, last_used_at=rows.AT)]
    with closing(database.open_writer(tmp_path / "store.db")) as connection:
        database.migrate(connection, steps=database.migrations()[:BEFORE])
        connection.execute("insert into project (name, created_at) values ('payments', ?)", (rows.AT,))
        for one in there:
            known = {name: getattr(one, name) for name in one.__slots__}
            connection.execute(INSERT, {**known, "scopes": " ".join(sorted(one.scopes))})
    store = SqliteStore(tmp_path / "store.db")
    found = await store.directory()
    await store.close()
    assert found.keys == {one.prefix: one for one in there}
    assert None not in [found.holder(text, now=rows.AT) for text in (ENDLESS, ENDING)]
