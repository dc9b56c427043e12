"""Promises of a store about who may do what: one change whole with its event, and nothing of resources moved by it."""

import json
from dataclasses import replace

import pytest

from reconciler.model.directory import Amendment, Audited, Directory, Invitation, Member, Project, ProviderIdentity
from reconciler.model.principals import Role
from reconciler.store.contract import StaleChange, Store, StoreFault
from reconciler.store.records import AuditRow, Record
from tests.auth import directories
from tests.store import rows
from tests.store.engines import Engine

AUDITED = Audited("created", "User", "una")
EVENT = rows.audit("una", 1)
KEY = directories.key(directories.text(1), expires_at=directories.LATER)
PROVED = replace(
    directories.user("pia"), identity=ProviderIdentity("https://id.example", "1"), email="pia@example.com", losses=2
)
CODE = Invitation(
    id="I1",
    project="payments",
    role=Role.USER,
    created_at=directories.AT,
    created_by="user:root",
    expires_at=directories.LATER,
    digest=b"\0" * 32,
)
ADDRESS = replace(CODE, id="I2", digest=None, email="noa@example.com")


class AccessPromises:
    """Writing and reading the directory."""

    pytestmark = pytest.mark.anyio

    async def test_what_is_amended_is_in_the_directory_of_every_later_opening(
        self, engine: Engine, store: Store
    ) -> None:
        plain = directories.directory(KEY)
        wanted = replace(
            plain, users={**plain.users, PROVED.name: PROVED}, invitations={CODE.id: CODE, ADDRESS.id: ADDRESS}
        )
        await amend(store, whole(wanted))
        assert await store.directory() == wanted
        other = engine.open()
        assert await other.directory() == wanted
        await other.close()

    async def test_an_amendment_leaves_the_revision(self, store: Store) -> None:
        before = await store.revision()
        await amend(store, whole(directories.directory(KEY)))
        assert await store.revision() == before

    async def test_an_amendment_that_follows_an_older_one_is_not_stored(self, store: Store) -> None:
        before = await store.directory()
        await amend(store, whole(directories.directory(KEY)))
        present = await store.directory()
        assert present.number == before.number + 1
        with pytest.raises(StaleChange):
            await store.amend(Amendment(AUDITED, revoked_keys=(KEY,)), after=before.number, audit=EVENT)
        unchanged = await store.directory()
        assert (unchanged, unchanged.number) == (present, present.number)

    async def test_people_change_and_go_with_their_memberships_and_keys_go_when_revoked(self, store: Store) -> None:
        before = directories.directory(KEY)
        await amend(store, whole(before))
        una = replace(before.users["una"], display_name="Una", password="$argon2id$", organization_admin=True, losses=1)
        await amend(store, Amendment(AUDITED, users=(una,), revoked_keys=(KEY,)))
        await amend(store, Amendment(AUDITED, removed_users=(before.users["vic"],)))
        await amend(store, Amendment(AUDITED, members=(Member("payments", "id-ada", None),)))
        left = await store.directory()
        assert (left.users["una"], "vic" in left.users, left.keys) == (una, False, {})
        assert left.members == {"payments": {"id-una": Role.USER}}

    async def test_a_person_s_own_keys_go_with_the_person(self, store: Store) -> None:
        own = directories.key(directories.text(2), identifier="K2", owner="vic")
        other = directories.key(directories.text(3), identifier="K3", owner="una")
        before = directories.directory(KEY, own, other)
        await amend(store, whole(before))
        assert (await store.directory()).keys == before.keys
        await amend(store, Amendment(AUDITED, removed_users=(before.users["vic"],)))
        assert (await store.directory()).keys == {KEY.prefix: KEY, other.prefix: other}

    async def test_an_invitation_goes_when_it_is_ended_and_one_in_its_place_may_come_with_that(
        self, store: Store
    ) -> None:
        await amend(store, whole(replace(directories.directory(), invitations={CODE.id: CODE, ADDRESS.id: ADDRESS})))
        again = replace(ADDRESS, id="I3", role=Role.VIEWER)
        await amend(store, Amendment(AUDITED, invitations=(again,), ended_invitations=(CODE, ADDRESS)))
        assert (await store.directory()).invitations == {"I3": again}

    @pytest.mark.parametrize(
        "second",
        [
            Amendment(AUDITED, users=(replace(PROVED, id="other", name="other"),)),
            Amendment(AUDITED, invitations=(replace(CODE, id="other"),)),
            Amendment(AUDITED, invitations=(replace(ADDRESS, id="other"),)),
            Amendment(AUDITED, invitations=(replace(CODE, id="other", digest=None),)),
            Amendment(AUDITED, invitations=(replace(ADDRESS, id="other", digest=b"1" * 32),)),
        ],
        ids=["a person of a provider", "a code", "an address in a project", "neither of both", "both"],
    )
    async def test_what_must_be_there_once_is_not_taken_again(self, store: Store, second: Amendment) -> None:
        await amend(store, whole(replace(directories.directory(), invitations={CODE.id: CODE, ADDRESS.id: ADDRESS})))
        await amend(store, Amendment(AUDITED, users=(PROVED,)))
        before = await store.directory()
        with pytest.raises(StoreFault):
            await amend(store, second)
        assert await store.directory() == before

    async def test_an_address_may_wait_for_several_projects_and_be_of_several_people(self, store: Store) -> None:
        elsewhere = replace(ADDRESS, id="I3", project="default")
        invited = {one.id: one for one in (ADDRESS, elsewhere)}
        await amend(store, whole(replace(directories.directory(), invitations=invited)))
        other = replace(PROVED, id="other", name="other", identity=ProviderIdentity("https://other.example", "1"))
        await amend(store, Amendment(AUDITED, users=(PROVED, other)))
        found = await store.directory()
        assert (found.invitations, found.users["pia"], found.users["other"]) == (invited, PROVED, other)

    async def test_how_people_sign_in_is_recorded_alone_or_with_what_goes(self, engine: Engine, store: Store) -> None:
        found = [await store.auth_type()]
        await store.put_auth_type("none")
        found.append(await store.auth_type())
        await amend(store, whole(directories.directory(KEY)))
        everybody = tuple((await store.directory()).users.values())
        await amend(store, Amendment(AUDITED, removed_users=everybody, revoked_keys=(KEY,), auth_type="oidc"))
        other = engine.open()
        found.append(await other.auth_type())
        left = await other.directory()
        await other.close()
        assert (found, left.users, left.members, left.keys) == ([None, "none", "oidc"], {}, {}, {})

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
            await store.commit((), record=Record(run=ran))
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
    await store.amend(amendment, after=(await store.directory()).number, audit=audit)


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
        invitations=tuple(directory.invitations.values()),
    )
