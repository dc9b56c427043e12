"""People who lose something by a change."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.auth import accounts
from reconciler.model.directory import (
    Amendment,
    Audited,
    Directory,
    Key,
    Member,
    Project,
    ProviderIdentity,
    User,
    amended,
)
from reconciler.model.principals import OF_ROLE, Role
from tests.auth import directories

AUDITED = Audited("configured", "User", "somebody")
PROJECTS = ("a", "b", "c")
NAMES = ("una", "vic")
Roles = Mapping[str, Role]


def standing(
    roles: Roles, *, is_admin: bool = False, password: str | None = None, identity: ProviderIdentity | None = None
) -> Directory:
    """A directory in which `una` has these roles."""
    una = replace(directories.user("una", organization_admin=is_admin, password=password), identity=identity)
    return Directory(
        projects={name: Project(name, directories.AT) for name in PROJECTS},
        users={"una": una},
        members={project: {una.id: role} for project, role in roles.items()},
    )


def has_lost(before: Directory, after: Directory) -> bool:
    return accounts.has_lost_access(before.users["una"], before=before, after=after)


VIEWER, USER, ADMIN = Role.VIEWER, Role.USER, Role.ADMIN
ID = ProviderIdentity("https://id.example", "1")
NOBODY = Directory()


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        (standing({}), standing({}), False),
        (standing({"a": VIEWER}), standing({"a": VIEWER}), False),
        (standing({"a": VIEWER}), standing({"a": USER, "b": VIEWER}), False),
        (standing({"a": ADMIN}), standing({"a": USER}), True),
        (standing({"a": USER}), standing({"a": VIEWER}), True),
        (standing({"a": VIEWER}), standing({}), True),
        (standing({"a": VIEWER}), standing({"b": ADMIN}), True),
        (standing({}, is_admin=True), standing({"a": ADMIN, "b": ADMIN, "c": ADMIN}), True),
        (standing({"a": ADMIN}), standing({}, is_admin=True), False),
        (standing({"a": ADMIN}, is_admin=True), standing({}, is_admin=True), False),
        (standing({}, password="x"), standing({}, password="y"), True),
        (standing({}, password="x"), standing({}), True),
        (standing({}), standing({}, password="y"), True),
        (standing({}, is_admin=True, password="x"), standing({}, is_admin=True, password="y"), True),
        (standing({}, identity=ID), standing({}, identity=ProviderIdentity("https://id.example", "2")), True),
        (standing({}, identity=ID), standing({}, identity=ID), False),
        (standing({}), NOBODY, True),
    ],
)
def test_somebody_lost_something(before: Directory, after: Directory, lost: bool) -> None:
    assert has_lost(before, after) is lost


roles = st.dictionaries(st.sampled_from(PROJECTS), st.sampled_from(Role))


@given(roles, roles)
def test_more_roles_and_higher_ones_never_lose(before: Roles, more: Roles) -> None:
    after = {**more, **{project: _higher(role, more.get(project)) for project, role in before.items()}}
    assert not has_lost(standing(before), standing(after))


@given(roles, roles, st.booleans(), st.booleans())
def test_somebody_lost_exactly_when_something_is_permitted_no_more(
    before: Roles, after: Roles, was_admin: bool, is_admin: bool
) -> None:
    first, second = standing(before, is_admin=was_admin), standing(after, is_admin=is_admin)
    less = _permitted(first) - _permitted(second)
    assert has_lost(first, second) is bool(less)


@given(roles, roles, st.booleans())
def test_the_way_back_brings_no_session_back(before: Roles, after: Roles, is_admin: bool) -> None:
    """Whatever the steps: each loss counts, so that what began before one is of nobody afterwards."""
    there, away = standing(before, is_admin=is_admin), standing(after)
    middle = amended(there, accounts.count_lost(there, _towards(away)))
    back = amended(middle, accounts.count_lost(middle, _towards(there)))
    lost = [has_lost(there, away), has_lost(away, there)]
    assert [directory.users["una"].losses for directory in (middle, back)] == [lost[0], sum(lost)]


def test_what_is_counted_is_that_of_the_present_directory_whatever_the_amendment_says() -> None:
    present = standing({"a": ADMIN})
    counted_before = replace(present, users={"una": replace(present.users["una"], losses=7)})
    renamed = replace(present.users["una"], display_name="Una")  # by somebody who saw an older directory
    kept = accounts.count_lost(counted_before, Amendment(AUDITED, users=(renamed,)))
    assert kept.users == (replace(renamed, losses=7),)
    lowered = (Member("a", "id-una", Role.VIEWER),)
    both = accounts.count_lost(counted_before, Amendment(AUDITED, users=(renamed,), members=lowered))
    assert both == Amendment(AUDITED, users=(replace(renamed, losses=8),), members=lowered)


def test_whoever_loses_a_role_is_written_too_and_nobody_else() -> None:
    directory = directories.directory()
    ended = (
        Member("payments", "id-una", None),
        Member("payments", "id-vic", Role.ADMIN),
        Member("default", "id-ada", ADMIN),
    )
    counted = accounts.count_lost(directory, Amendment(AUDITED, members=ended))
    assert counted == Amendment(AUDITED, members=ended, users=(replace(directory.users["una"], losses=1),))


def test_what_takes_nothing_from_anybody_stays_as_it_is() -> None:
    directory = directories.directory()
    new, gone = directories.user("new"), directory.users["vic"]
    key: Key = directories.key(directories.text(1))
    for amendment in (
        Amendment(AUDITED, users=(new,), members=(Member("payments", new.id, ADMIN),)),
        Amendment(AUDITED, removed_users=(gone,)),
        Amendment(AUDITED, keys=(key,)),
        Amendment(AUDITED, members=(Member("payments", "id-nobody", None),)),
    ):
        assert accounts.count_lost(directory, amendment) is amendment


def _higher(role: Role, other: Role | None) -> Role:
    return role if other is None or OF_ROLE[other] <= OF_ROLE[role] else other


def _permitted(directory: Directory) -> frozenset[object]:
    """Return the permissions of `una`, and where she has them; in the organization, and in what comes later, too."""
    una: User = directory.users["una"]
    principal = directory.principal(una)
    found = {(project, principal.role_in(project)) for project in PROJECTS}
    allowed: set[object] = {(project, one) for project, role in found if role is not None for one in OF_ROLE[role]}
    return frozenset(allowed | ({"the organization"} if una.organization_admin else set()))


def _towards(after: Directory) -> Amendment:
    """The amendment that makes this directory of any."""
    una = after.users["una"]
    members = tuple(Member(project, una.id, after.members.get(project, {}).get(una.id)) for project in PROJECTS)
    return Amendment(AUDITED, users=(una,), members=members)
