"""The access that claims grant: a row for each rule of the interface, and for what the interface leaves open."""

import time
from collections.abc import Mapping

import pytest

from reconciler.auth import claims
from reconciler.auth.claims import ClaimRule, GrantedRoles, UnreadableClaims
from reconciler.model.principals import Role
from reconciler.settings.models import CustomClaims
from tests.auth import claim_rows
from tests.auth.claim_rows import (
    ADMIN,
    NAMES,
    NOTHING,
    ORGANIZATION_ADMIN,
    PAYMENTS,
    PROJECTS,
    UNREADABLE,
    USER,
    VIEWER,
    Row,
    direct,
    in_groups,
)

CLAIMS = {
    "groups": NAMES.groups,
    "group_ids": NAMES.group_ids,
    "roles": NAMES.roles,
    "service_org_admin": NAMES.organization_admin,
    "service_projects": NAMES.projects,
    "service_default_role": NAMES.default_role,
}
TEXTS = {"service_org_admin", "service_projects", "service_default_role"}


def outcome(found: GrantedRoles | UnreadableClaims) -> Mapping[str, Role] | str:
    if isinstance(found, UnreadableClaims):
        return UNREADABLE
    assert list(found.roles) == sorted(found.roles) == list(found.because)
    return ORGANIZATION_ADMIN if found.organization_admin else found.roles


def reasons(found: GrantedRoles | UnreadableClaims) -> tuple[str, ...]:
    return (found.reason,) if isinstance(found, UnreadableClaims) else found.reasons


@pytest.mark.parametrize("row", [*claim_rows.DIRECT, *claim_rows.GROUPS, *claim_rows.GROUP_IDS], ids=lambda row: row.id)
def test_a_rule(row: Row) -> None:
    found = claims.granted_roles(row.claims, NAMES, projects=PROJECTS)
    assert outcome(found) == row.outcome
    assert [reason for reason in reasons(found) if row.rule in reason] != []


def test_every_rule_has_a_row() -> None:
    rows = [row.id for row in (*claim_rows.DIRECT, *claim_rows.GROUPS)]
    for number in range(1, 8):
        assert [row for row in rows if row.startswith(f"direct-{number}-")] != []
    for number in range(1, 7):
        assert [row for row in rows if row.startswith(f"groups-{number}-")] != []


RENAMED = CustomClaims.model_validate(
    {
        "groups": "https://claims.example.com/teams",
        "groupIds": "team_ids",
        "roles": "realm_roles",
        "organizationAdmin": "boss",
        "projects": "places",
        "defaultRole": "rank",
        "orgAdminGroupName": "Bosses",
        "projectsGroupPrefix": "place:",
        "adminGroupName": "Leads",
        "userGroupName": "Makers",
        "viewerGroupName": "Stra\xdfe",
    }
)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        pytest.param({"boss": "true"}, ORGANIZATION_ADMIN, id="organizationAdmin"),
        pytest.param({"service_org_admin": "true"}, NOTHING, id="organizationAdmin-by-its-default"),
        pytest.param({"Boss": "true"}, NOTHING, id="a-claim-in-another-case"),
        pytest.param({"places": "user:shop"}, {"shop": USER}, id="projects"),
        pytest.param({"service_projects": "user:shop"}, NOTHING, id="projects-by-its-default"),
        pytest.param({"places": "shop", "rank": "user"}, {"shop": USER}, id="defaultRole"),
        pytest.param(
            {"places": "shop", "service_default_role": "user"}, {"shop": VIEWER}, id="defaultRole-by-its-default"
        ),
        pytest.param({RENAMED.groups: ["place:shop"]}, {"shop": VIEWER}, id="groups"),
        pytest.param({"groups": ["place:shop"]}, NOTHING, id="groups-by-its-default"),
        pytest.param({"https://claims": {"example": {"com/teams": ["bosses"]}}}, NOTHING, id="a-name-is-no-path"),
        pytest.param({"team_ids": ["place:shop"]}, {"shop": VIEWER}, id="groupIds"),
        pytest.param({"group_ids": ["place:shop"]}, NOTHING, id="groupIds-by-its-default"),
        pytest.param({"places": "shop", "realm_roles": ["makers"]}, {"shop": USER}, id="roles"),
        pytest.param({"places": "shop", "roles": ["makers"]}, {"shop": VIEWER}, id="roles-by-its-default"),
        pytest.param({"team_ids": ["BOSSES"]}, ORGANIZATION_ADMIN, id="orgAdminGroupName"),
        pytest.param({"team_ids": ["service-org-admin"]}, NOTHING, id="orgAdminGroupName-by-its-default"),
        pytest.param({"team_ids": ["PLACE:User:shop"]}, {"shop": USER}, id="projectsGroupPrefix"),
        pytest.param({"team_ids": ["service-projects-shop"]}, NOTHING, id="projectsGroupPrefix-by-its-default"),
        pytest.param({"places": "shop", "team_ids": ["LEADS"]}, {"shop": ADMIN}, id="adminGroupName"),
        pytest.param(
            {"places": "shop", "team_ids": ["service-admin"]}, {"shop": VIEWER}, id="adminGroupName-by-its-default"
        ),
        pytest.param({"places": "shop", "team_ids": ["makers"]}, {"shop": USER}, id="userGroupName"),
        pytest.param({"places": "shop", "team_ids": ["STRA\xdfE", "leads"]}, {"shop": VIEWER}, id="viewerGroupName"),
        pytest.param({"places": "shop", "team_ids": ["STRASSE", "leads"]}, {"shop": ADMIN}, id="another-spelling"),
        pytest.param({"places": "shop", "team_ids": ["admin"]}, {"shop": ADMIN}, id="bare-names-stay"),
        pytest.param({"places": "shop", "_claim_names": {"rank": "x"}}, UNREADABLE, id="a-renamed-claim-elsewhere"),
    ],
)
def test_claims_and_groups_are_called_as_the_settings_say(
    given: Mapping[str, object], wanted: Mapping[str, Role] | str
) -> None:
    assert outcome(claims.granted_roles(given, RENAMED, projects=PROJECTS)) == wanted


def test_where_names_meet_the_one_of_the_settings_counts_and_then_the_least_privileged() -> None:
    def role(names: Mapping[str, str], group: str) -> Role:
        found = claims.granted_roles(
            {"groups": [group], "service_projects": "shop"}, CustomClaims.model_validate(names), projects=PROJECTS
        )
        assert isinstance(found, GrantedRoles)
        return found.roles["shop"]

    assert role({"adminGroupName": "user"}, "user") is ADMIN
    assert role({"adminGroupName": "team", "viewerGroupName": "Team"}, "team") is VIEWER


def test_a_group_that_is_a_role_s_or_the_admins_names_no_project() -> None:
    names = CustomClaims.model_validate({"projectsGroupPrefix": "service-"})
    given = {"groups": ["service-user", "service-shop", "service-admin"]}
    found = claims.granted_roles(given, names, projects=(*PROJECTS, "user", "admin"))
    assert outcome(found) == {"shop": USER}
    assert outcome(claims.granted_roles({"groups": ["service-org-admin"]}, names, projects=["org-admin"])) == (
        ORGANIZATION_ADMIN
    )


WRONG: list[object] = [True, False, 0, 1, 1.5, {}, {"a": "b"}, {"0": "true"}]
WRONG_LISTS: list[object] = [[1, 2], ["a", 1], [None], [True], [["a"]], [{}], ["a", ["b"]]]


@pytest.mark.parametrize("value", [*WRONG, *WRONG_LISTS], ids=repr)
@pytest.mark.parametrize("name", CLAIMS)
def test_a_value_of_the_wrong_type_cannot_be_parsed(name: str, value: object) -> None:
    found = claims.granted_roles({name: value}, NAMES, projects=PROJECTS)
    wanted = "a text" if name in TEXTS else "a text or a list of texts"
    assert found == UnreadableClaims(f"The claim {name} must be {wanted} ({ClaimRule.DIRECT_7}).")


@pytest.mark.parametrize("value", [[], ["true"], ["payments"], ["admin"]], ids=repr)
@pytest.mark.parametrize("name", sorted(TEXTS))
def test_a_list_is_no_text(name: str, value: object) -> None:
    assert outcome(claims.granted_roles({name: value}, NAMES, projects=PROJECTS)) == UNREADABLE


@pytest.mark.parametrize("value", [None, "", " ", "\t\n"], ids=repr)
@pytest.mark.parametrize("name", CLAIMS)
def test_null_and_blank_are_as_if_missing(name: str, value: object) -> None:
    others = {"service_projects": "user:payments"} if name != "service_projects" else in_groups(PAYMENTS)
    assert claims.granted_roles({**others, name: value}, NAMES, projects=PROJECTS) == claims.granted_roles(
        others, NAMES, projects=PROJECTS
    )


def test_everything_that_is_granted_is_told_with_its_rule() -> None:
    given = direct("admin:payments,search,ghost,,owner:shop", groups=["service-projects-user:payments"])
    found = claims.granted_roles(given, NAMES, projects=PROJECTS)
    assert isinstance(found, GrantedRoles)
    assert found.reasons == (
        "payments: user, the least privileged of its own roles (direct claims 6).",
        "search: viewer, the least privileged of the projects' own roles (direct claims 6).",
        "shop: viewer, its own role does not exist, which counts as viewer (direct claims 5).",
        "Skipped: there is no project ghost.",
        "No other project is opened (direct claims 4).",
    )
    assert found == GrantedRoles(
        organization_admin=False,
        roles={"payments": USER, "search": VIEWER, "shop": VIEWER},
        unknown=("ghost",),
        because={
            "payments": "the least privileged of its own roles (direct claims 6)",
            "search": "the least privileged of the projects' own roles (direct claims 6)",
            "shop": "its own role does not exist, which counts as viewer (direct claims 5)",
        },
        notes=(
            "Skipped: there is no project ghost.",
            "No other project is opened (direct claims 4).",
        ),
    )


def test_groups_that_are_not_there_are_not_told_to_be_ignored() -> None:
    found = claims.granted_roles(direct("user:shop", service_default_role="user", groups=[]), NAMES, projects=PROJECTS)
    assert isinstance(found, GrantedRoles)
    assert found.notes == ("No other project is opened (direct claims 4).",)


def test_no_reason_repeats_a_value() -> None:
    secret = "canary-claim"
    hostile = "\x1b[2J\u202e"
    for given in (
        {"service_org_admin": secret},
        {"service_projects": f"{secret}:{secret}:{secret}"},
        direct(f"{secret}:payments,{hostile}", service_default_role=secret, roles=[secret, hostile]),
        in_groups(secret, hostile, f"service-projects-{secret}/x", f"service-projects-{secret}:shop"),
        {"groups": {secret: secret}},
    ):
        told = " ".join(reasons(claims.granted_roles(given, NAMES, projects=PROJECTS)))
        assert (secret in told, "\x1b" in told, "\u202e" in told) == (False, False, False)


def test_the_reasons_for_many_projects_are_few() -> None:
    given = direct(",".join(f"p-{number:03}" for number in range(200)), roles=["user"])
    found = claims.granted_roles(given, NAMES, projects=[f"p-{number:03}" for number in range(100)])
    assert isinstance(found, GrantedRoles)
    assert (len(found.roles), len(found.unknown)) == (100, 100)
    first = ", ".join(f"p-{number:03}" for number in range(10))
    assert found.reasons == (
        f"{first} and 90 more: user, the first of groups and roles that names a role (groups and roles 2).",
        f"Skipped: there is no project {first.replace('p-0', 'p-1')} and 90 more.",
        "No other project is opened (direct claims 4).",
    )


def test_two_hundred_groups_are_read() -> None:
    groups = [*(f"team-{number}" for number in range(198)), "service-user", PAYMENTS]
    assert outcome(claims.granted_roles({"groups": groups}, NAMES, projects=PROJECTS)) == {"payments": USER}


@pytest.mark.parametrize("shape", ["list", "text"])
@pytest.mark.parametrize("name", ["groups", "group_ids", "roles", "service_projects"])
def test_more_entries_than_are_looked_at_cannot_be_parsed(name: str, shape: str) -> None:
    if (name, shape) == ("service_projects", "list"):
        return
    for count, is_readable in ((claims.MOST_ENTRIES, True), (claims.MOST_ENTRIES + 1, False)):
        entries = [f"project-{number}" for number in range(count)]
        given = entries if shape == "list" else ",".join(entries)
        found = claims.granted_roles({name: given}, NAMES, projects=PROJECTS)
        assert isinstance(found, GrantedRoles) is is_readable
    assert reasons(found) == (f"The claim {name} must not have more than 10,000 entries (direct claims 7).",)


def test_a_hundred_thousand_groups_take_no_time() -> None:
    groups = [f"service-projects-user:team-{number}" for number in range(100_000)]
    before = time.process_time()
    refused = claims.granted_roles({"groups": groups}, NAMES, projects=PROJECTS)
    most = claims.granted_roles({"groups": groups[: claims.MOST_ENTRIES]}, NAMES, projects=PROJECTS)
    seconds = time.process_time() - before
    assert (outcome(refused), outcome(most), seconds < 1.0) == (UNREADABLE, NOTHING, True)
