"""A store of the time when people had passwords alone: whoever was there is there, as they were."""

from contextlib import closing
from pathlib import Path

import pytest

from reconciler.model.directory import Directory, Project, User
from reconciler.model.principals import Role
from reconciler.store import database
from reconciler.store.sqlite import SqliteStore
from tests.store import rows

pytestmark = pytest.mark.anyio

BEFORE = 4  # the last step of that time
PEOPLE = """
insert into project (name, created_at) values ('payments', '2026-11-21T06:12:00.000Z');
insert into user (id, name, display_name, organization_admin, password, created_at)
values ('U1', 'ana', 'Ana', 1, '$argon2id$', '2026-11-21T06:12:00.000Z'),
       ('U2', 'ben', '', 0, null, '2026-11-21T06:12:00.000Z');
insert into member (project, user, role) values ('payments', 'U2', 'viewer');
"""


def old(path: Path) -> None:
    with closing(database.open_writer(path)) as connection:
        database.migrate(connection, steps=database.migrations()[:BEFORE])
        connection.executescript(PEOPLE)


async def test_people_stay_as_they_are_and_nobody_is_of_a_provider(tmp_path: Path) -> None:
    old(tmp_path / "store.db")
    store = SqliteStore(tmp_path / "store.db")
    found, auth_type = await store.directory(), await store.auth_type()
    await store.close()
    ana = User("U1", "ana", rows.AT, display_name="Ana", organization_admin=True, password="$argon2id$")
    assert (found, auth_type) == (
        Directory(
            projects={"payments": Project("payments", rows.AT)},
            users={"ana": ana, "ben": User("U2", "ben", rows.AT)},
            members={"payments": {"U2": Role.VIEWER}},
        ),
        None,
    )
