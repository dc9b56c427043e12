"""Looking somebody up."""

import pytest

from reconciler.access.actors import Role
from reconciler.access.permissions import Scope
from reconciler.access.principals import EVERY_SCOPE, OF_PEOPLE, Principal
from tests.access import directories

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


def test_nothing_prints_what_is_kept_of_a_secret() -> None:
    kept = directories.key(KEY)
    person = directories.user("una", password="$argon2id$...")
    assert repr(kept.digest) not in repr(kept)
    assert "argon2id" not in repr(person)
