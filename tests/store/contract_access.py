"""What a store promises of who may do what: one change whole with its event, and nothing of resources moved by it."""

import json
from dataclasses import replace

import pytest

from reconciler.access.actors import Role
from reconciler.access.amendments import Amendment, Audited, Member
from reconciler.access.models import Directory, Project
from reconciler.store.contract import AuditRow, Record, Store, StoreFault
from tests.access import directories
from tests.store import rows
from tests.store.engines import Engine

AUDITED = Audited("created", "User", "una")
EVENT = rows.audit("una", 1)
KEY = directories.key(directories.text(1), expires_at=directories.LATER)


class AccessPromises:
    """Writing and reading the directory."""

    pytestmark = pytest.mark.anyio

    async def test_what_is_amended_is_in_the_directory_of_every_later_opening(
        self, engine: Engine, store: Store
    ) -> None:
        wanted = directories.directory(KEY)
        await amend(store, whole(wanted))
        assert await store.directory() == wanted
        other = engine.open()
        assert await other.directory() == wanted
        await other.close()

    async def test_an_amendment_leaves_the_revision(self, store: Store) -> None:
        before = await store.revision()
        await amend(store, whole(directories.directory(KEY)))
        assert await store.revision() == before

    async def test_people_change_and_go_with_their_memberships_and_keys_go_when_revoked(self, store: Store) -> None:
        before = directories.directory(KEY)
        await amend(store, whole(before))
        una = replace(before.users["una"], display_name="Una", password="$argon2id$", organization_admin=True)
        await amend(store, Amendment(AUDITED, users=(una,), revoked_keys=(KEY,)))
        await amend(store, Amendment(AUDITED, removed_users=(before.users["vic"],)))
        await amend(store, Amendment(AUDITED, members=(Member("payments", "id-ada", None),)))
        left = await store.directory()
        assert (left.users["una"], "vic" in left.users, left.keys) == (una, False, {})
        assert left.members == {"payments": {"id-una": Role.USER}}

    async def test_a_key_says_when_it_was_used_last(self, store: Store) -> None:
        await amend(store, whole(directories.directory(KEY)))
        await store.touch_keys({KEY.id: directories.LATER, "unknown": directories.LATER})
        assert (await store.directory()).keys == {KEY.prefix: replace(KEY, last_used_at=directories.LATER)}

    async def test_what_breaks_the_store_keeps_nothing_of_an_amendment(self, store: Store) -> None:
        await amend(store, whole(directories.directory()))
        before = await store.directory()
        lost = Member("nowhere", "id-una", Role.USER)
        with pytest.raises(StoreFault):
            await amend(store, Amendment(AUDITED, users=(directories.user("new"),), members=(lost,)))
        assert await store.directory() == before

    async def test_projects_that_repositories_brought_are_in_the_directory(self, store: Store) -> None:
        await store.create_project("search", at=rows.AT)
        assert (await store.directory()).projects["search"] == Project("search", rows.AT)

    async def test_of_some_projects_the_newest_runs_are_told_in_one_order(self, store: Store) -> None:
        # By turns of `a`, `b` and `c`; the repository filled `c` before it filled `a`.
        places = [("a", "telemetry"), ("b", "other"), ("c", "telemetry")] * 40
        for number, (project, repository) in enumerate(places):
            ran = rows.run(f"R{number:03}", repository=repository)._replace(project=project)
            await store.commit((), record=Record(run=ran), planned_at=None)
        assert await runs(store, {"a", "b"}, limit=4) == ["R118", "R117", "R115", "R114"]
        assert await runs(store, {"c"}, limit=2) == ["R119", "R116"]
        assert await runs(store, {"a", "c"}, limit=200) == [f"R{n:03}" for n in range(119, -1, -1) if n % 3 != 1]
        assert await runs(store, {"a"}, limit=2, repository="telemetry") == ["R117", "R114"]
        assert await runs(store, None, limit=2, repository="telemetry") == ["R119", "R117"]
        assert await runs(store, {"b"}, limit=2, repository="telemetry") == []
        assert await runs(store, set(), limit=2) == await runs(store, {"nowhere"}, limit=2) == []


async def runs(store: Store, projects: set[str] | None, *, limit: int, repository: str | None = None) -> list[str]:
    within = None if projects is None else frozenset(projects)
    pages = store.runs_pages(repository=repository, projects=within, limit=limit)
    return [json.loads(run)["id"] async for page in pages for run in page]


async def amend(store: Store, amendment: Amendment, *, audit: AuditRow = EVENT) -> None:
    await store.amend(amendment, audit=audit)


def whole(directory: Directory) -> Amendment:
    """The amendment that makes a directory of an empty one."""
    members = [
        Member(project, user, role) for project, roles in directory.members.items() for user, role in roles.items()
    ]
    return Amendment(
        AUDITED,
        projects=tuple(directory.projects.values()),
        users=tuple(directory.users.values()),
        members=tuple(members),
        keys=tuple(directory.keys.values()),
    )
