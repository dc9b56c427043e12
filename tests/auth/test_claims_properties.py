"""Properties of any claims: nothing raises, order and names mean nothing, and more said never gives more."""

import random
from collections.abc import Mapping
from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from reconciler.auth import claims
from reconciler.auth.claims import GrantedRoles, UnreadableClaims
from reconciler.model.principals import Role
from reconciler.settings.models import CustomClaims
from reconciler.settings.scalars import topic_key

NAMES = CustomClaims()
PROJECTS = ("a", "b", "c", "d")
NAMED = [*PROJECTS, "ghost"]
RENAMED = CustomClaims.model_validate({topic_key(name): f"renamed {name}" for name in CustomClaims.model_fields})
CLAIM_NAMES = tuple(name for name in CustomClaims.model_fields if "group_" not in name or name == "group_ids")

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
anything = st.recursive(scalars, lambda inside: st.lists(inside) | st.dictionaries(st.text(), inside), max_leaves=8)

role_names = st.sampled_from([*Role, "owner", "ADMIN"]).map(str)
plain = st.sampled_from(NAMED)
explicit = st.builds("{}:{}".format, role_names, plain)
malformed = st.sampled_from(["", ":", "admin:", ":a", "a:b:c", "a b"])
entries = st.lists(plain | explicit | malformed, max_size=6)
project_groups = st.builds("{}{}".format, st.just(NAMES.projects_group_prefix), plain | explicit | malformed)
ROLE_GROUPS = ("admin_group_name", "user_group_name", "viewer_group_name")
role_groups = st.sampled_from([*(getattr(NAMES, name) for name in ROLE_GROUPS), "admin", "USER", "others"])
groups = st.lists(project_groups | role_groups | st.just(NAMES.org_admin_group_name) | st.text(max_size=3), max_size=6)
listed = groups | groups.map(",".join)
likely = st.fixed_dictionaries(
    {},
    optional={
        NAMES.groups: listed,
        NAMES.group_ids: listed,
        NAMES.roles: listed,
        NAMES.organization_admin: st.sampled_from(["false", "", None]),
        NAMES.projects: entries.map(",".join),
        NAMES.default_role: role_names,
    },
)
any_claims = st.dictionaries(st.sampled_from([getattr(NAMES, name) for name in CLAIM_NAMES]) | st.text(), anything)


def decided(given: Mapping[str, object], names: CustomClaims = NAMES) -> GrantedRoles | UnreadableClaims:
    return claims.granted_roles(given, names, projects=PROJECTS)


def is_at_most(role: Role, other: Role) -> bool:
    return claims.least_role([role, other]) is role


@given(any_claims | likely)
def test_no_json_raises_and_the_same_gives_the_same(given: dict[str, object]) -> None:
    found = decided(given)
    assert found == decided(given)


@given(likely)
def test_roles_are_in_projects_that_exist_in_their_order_each_with_its_reason(given: dict[str, object]) -> None:
    found = decided(given)
    assume(isinstance(found, GrantedRoles))
    assert isinstance(found, GrantedRoles)
    assert list(found.roles) == sorted(set(found.roles) & set(PROJECTS)) == list(found.because)
    assert (set(found.unknown) & set(PROJECTS), list(found.unknown)) == (set(), sorted(found.unknown))
    assert found.reasons != ()
    assert not (found.organization_admin and found.roles)


@given(likely)
def test_which_projects_exist_decides_about_themselves_alone(given: dict[str, object]) -> None:
    here, everywhere = decided(given), claims.granted_roles(given, NAMES, projects=NAMED)
    if isinstance(everywhere, UnreadableClaims):
        assert here == everywhere
    else:
        assert isinstance(here, GrantedRoles)
        assert here.organization_admin is everywhere.organization_admin
        assert here.roles == {project: role for project, role in everywhere.roles.items() if project in PROJECTS}


@given(likely, entries, st.randoms(use_true_random=False))
def test_the_order_of_projects_means_nothing(
    given: dict[str, object], listed: list[str], chance: random.Random
) -> None:
    turned = chance.sample(listed, len(listed))
    assert decided({**given, NAMES.projects: ",".join(listed)}) == decided({**given, NAMES.projects: ",".join(turned)})


@given(likely, st.lists(project_groups, max_size=6), role_groups, st.randoms(use_true_random=False))
def test_the_order_of_projects_groups_means_nothing(
    given: dict[str, object], listed: list[str], last: str, chance: random.Random
) -> None:
    turned = chance.sample(listed, len(listed))
    assert decided({**given, NAMES.groups: [*listed, last]}) == decided({**given, NAMES.groups: [*turned, last]})


@given(likely, entries, st.sampled_from(PROJECTS), role_names)
def test_another_role_for_a_project_that_has_one_never_raises_anything(
    given: dict[str, object], listed: list[str], project: str, role: str
) -> None:
    """One more explicit role makes a fallback of the roles where there was one alone; so there are two before."""
    before = decided({**given, NAMES.projects: ",".join([*listed, f"user:{project}", "user:ghost"])})
    after = decided(
        {**given, NAMES.projects: ",".join([*listed, f"user:{project}", "user:ghost", f"{role}:{project}"])}
    )
    assert isinstance(before, GrantedRoles)
    assert isinstance(after, GrantedRoles)
    assert before.organization_admin is after.organization_admin
    assert before.roles.keys() == after.roles.keys()
    assert [each for each in after.roles if not is_at_most(after.roles[each], before.roles[each])] == []


@given(likely, entries, plain, role_names)
def test_a_further_project_with_a_role_raises_no_other(
    given: dict[str, object], listed: list[str], project: str, role: str
) -> None:
    two = [*listed, "admin:ghost", "admin:a"]
    before = decided({**given, NAMES.projects: ",".join(two)})
    after = decided({**given, NAMES.projects: ",".join([*two, f"{role}:{project}"])})
    assert isinstance(before, GrantedRoles)
    assert isinstance(after, GrantedRoles)
    others = before.roles.keys() - {project}
    assert [each for each in others if not is_at_most(after.roles[each], before.roles[each])] == []


@given(likely)
def test_claims_and_groups_by_other_names_grant_the_same(given: dict[str, object]) -> None:
    before, after = decided(given), decided(renamed(given), RENAMED)
    assert type(before) is type(after)
    if isinstance(before, GrantedRoles) and isinstance(after, GrantedRoles):
        assert replace(before, because={}, notes=()) == replace(after, because={}, notes=())


def renamed(given: Mapping[str, object]) -> dict[str, object]:
    """The same claims as somebody with other names would send them."""
    fresh = {getattr(NAMES, name): getattr(RENAMED, name) for name in CLAIM_NAMES}
    return {fresh[claim]: _renamed(value, claim) for claim, value in given.items()}


def _renamed(value: object, claim: str) -> object:
    if claim not in (NAMES.groups, NAMES.group_ids, NAMES.roles):
        return value
    if isinstance(value, str):
        return ",".join(_group(one.strip()) for one in value.split(","))
    assert isinstance(value, list)
    return [_group(one) for one in value]


def _group(group: str) -> str:
    for name in ("org_admin_group_name", *ROLE_GROUPS):
        if group == getattr(NAMES, name):
            return str(getattr(RENAMED, name))
    prefix = NAMES.projects_group_prefix
    return RENAMED.projects_group_prefix + group.removeprefix(prefix) if group.startswith(prefix) else group


@given(any_claims)
def test_an_organization_admin_by_claim_is_one_whatever_else_is_claimed(given: dict[str, object]) -> None:
    found = decided({**given, NAMES.organization_admin: "true"})
    assert found == decided({NAMES.organization_admin: "true"})
    assert isinstance(found, GrantedRoles)
    assert found.organization_admin


@given(likely)
def test_nobody_is_an_organization_admin_without_one_of_the_two_ways(given: dict[str, object]) -> None:
    text = str([given.get(NAMES.groups), given.get(NAMES.group_ids)]).casefold()
    found = decided(given)
    assert not (isinstance(found, GrantedRoles) and found.organization_admin and NAMES.org_admin_group_name not in text)
