"""Looking somebody up."""

from dataclasses import replace

import pytest

from reconciler.model.principals import EVERY_SCOPE, OF_PEOPLE, Principal, Role, Scope
from tests.auth import directories

KEY = directories.text(1)


def test_a_person_has_a_role_in_each_project_they_are_a_member_of() -> None:
    found = directories.directory()
    assert found.principal(found.users["una"]) == Principal(
        "user:una", {"payments": Role.USER}, scopes=OF_PEOPLE, user="id-una"
    )
    assert found.principal(found.users["nil"]) == Principal("user:nil", {}, scopes=OF_PEOPLE, user="id-nil")


def test_an_organization_admin_needs_no_membership() -> None:
    found = directories.directory()
    root = found.principal(found.users["root"])
    assert root == Principal("user:root", {}, organization_admin=True, scopes=EVERY_SCOPE, user="id-root")
    assert root.role_in("payments") is Role.ADMIN


def test_a_key_of_a_project_reaches_that_project_alone() -> None:
    holder = directories.directory(directories.key(KEY)).holder(KEY, now=directories.AT)
    assert holder is not None
    assert (holder.name, holder.project, holder.scopes) == ("key:K1", "payments", frozenset({Scope.RESOURCES}))
    assert (holder.role_in("payments"), holder.role_in("default")) == (Role.USER, None)


@pytest.mark.parametrize(("role", "is_admin"), [(Role.ADMIN, True), (Role.USER, False), (Role.VIEWER, False)])
def test_a_key_of_the_organization_has_its_role_everywhere(role: Role, is_admin: bool) -> None:
    holder = directories.directory(directories.key(KEY, project=None, role=role)).holder(KEY, now=directories.AT)
    assert holder is not None
    assert (holder.organization_admin, holder.role_in("payments"), holder.project) == (is_admin, role, None)


@pytest.mark.parametrize(
    ("expires_at", "now", "is_held"),
    [
        (None, directories.LATER, True),
        (directories.LATER, directories.AT, True),
        (directories.LATER, directories.LATER, False),
        (directories.AT, directories.LATER, False),
    ],
)
def test_a_key_ends_when_it_expires(expires_at: str | None, now: str, is_held: bool) -> None:
    found = directories.directory(directories.key(KEY, expires_at=expires_at))
    assert (found.holder(KEY, now=now) is not None) is is_held


def test_a_key_with_the_prefix_of_another_is_nobodys() -> None:
    found = directories.directory(directories.key(KEY))
    forged = KEY[:17] + "B" * 43
    assert (found.holder(forged, now=directories.AT), found.holder("", now=directories.AT)) == (None, None)


@pytest.mark.parametrize(
    ("role", "now", "has"),
    [
        (Role.USER, Role.ADMIN, Role.USER),
        (Role.USER, Role.USER, Role.USER),
        (Role.USER, Role.VIEWER, Role.VIEWER),
        (Role.ADMIN, Role.VIEWER, Role.VIEWER),
        (Role.ADMIN, None, None),
    ],
)
@pytest.mark.parametrize("project", ["payments", None])
def test_a_personal_key_has_at_most_the_role_that_its_person_has_now(
    role: Role, now: Role | None, has: Role | None, project: str | None
) -> None:
    before = directories.directory(directories.key(KEY, role=role, owner="una", project=project))
    found = replace(before, members={"payments": {"id-una": now}} if now is not None else {})
    holder = found.holder(KEY, now=directories.AT)
    assert holder is not None
    assert (holder.name, holder.project, holder.user, holder.scopes) == ("key:K1", project, None, OF_PEOPLE)
    assert (holder.role_in("payments"), holder.role_in("default"), holder.organization_admin) == (has, None, False)
    recognised = before.holder(KEY, now=directories.AT)
    assert recognised is not None
    assert found.still(recognised, since=before, now=directories.AT) == holder


@pytest.mark.parametrize(
    ("role", "project", "reaches", "is_admin"),
    [
        (Role.ADMIN, "payments", (Role.ADMIN, None), False),
        (Role.VIEWER, "payments", (Role.VIEWER, None), False),
        (Role.ADMIN, None, (Role.ADMIN, Role.ADMIN), True),
        (Role.USER, None, (Role.USER, Role.USER), False),
    ],
)
def test_the_personal_key_of_an_organization_admin_reaches_no_further_than_it_says(
    role: Role, project: str | None, reaches: tuple[Role | None, ...], is_admin: bool
) -> None:
    plain = directories.directory(directories.key(KEY, role=role, owner="root", project=project))
    found = replace(plain, members={"payments": {"id-root": Role.VIEWER}})
    holder = found.holder(KEY, now=directories.AT)
    assert holder is not None
    assert (holder.role_in("payments"), holder.role_in("default")) == reaches
    assert (holder.organization_admin, holder.scopes) == (is_admin, OF_PEOPLE)


def test_what_a_key_was_narrowed_to_it_stays_narrowed_to() -> None:
    scopes = frozenset({Scope.RAW, Scope.RESOURCES})
    found = directories.directory(directories.key(KEY, scopes=scopes))
    holder = found.holder(KEY, now=directories.AT)
    assert holder is not None
    narrow = replace(holder, scopes=frozenset({Scope.RAW}))
    assert found.still(narrow, since=found, now=directories.AT) == narrow
    assert found.still(holder, since=found, now=directories.AT) == holder


def test_nothing_prints_what_is_kept_of_a_secret() -> None:
    kept = directories.key(KEY)
    person = directories.user("una", password="$argon2id$...")
    assert repr(kept.digest) not in repr(kept)
    assert "argon2id" not in repr(person)
