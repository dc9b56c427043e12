"""The roles that claims grant, as a table: rows for each rule of the interface, by its name."""

from collections.abc import Mapping
from typing import NamedTuple

from reconciler.auth.claims import ClaimRule
from reconciler.model.principals import Role
from reconciler.settings.models import CustomClaims

ADMIN, USER, VIEWER = Role
NAMES = CustomClaims()
PROJECTS = ("default", "payments", "search", "shop")
ORGANIZATION_ADMIN = "organization admin"
UNREADABLE = "unreadable"
NOTHING: Mapping[str, Role] = {}


class Row(NamedTuple):
    """The access that claims grant: roles, or one of the two words above; `rule` stands in the reasons."""

    id: str
    claims: Mapping[str, object]
    outcome: Mapping[str, Role] | str
    rule: ClaimRule | str


def direct(projects: str, **others: object) -> dict[str, object]:
    return {"service_projects": projects, **others}


def in_groups(*groups: str, **others: object) -> dict[str, object]:
    return {"groups": list(groups), **others}


PAYMENTS = "service-projects-payments"  # a group that names a project and no role

DIRECT = [
    Row("direct-1-without-a-default-role-it-is-viewer", direct("payments"), {"payments": VIEWER}, ClaimRule.DIRECT_1),
    Row(
        "direct-1-a-blank-default-role-is-not-set",
        direct("payments", service_default_role=" "),
        {"payments": VIEWER},
        ClaimRule.DIRECT_1,
    ),
    Row(
        "direct-2-true-makes-an-organization-admin",
        {"service_org_admin": "true"},
        ORGANIZATION_ADMIN,
        ClaimRule.DIRECT_2,
    ),
    Row(
        "direct-2-true-ignores-projects-and-default-role",
        direct("viewer:payments", service_org_admin="true", service_default_role="viewer"),
        ORGANIZATION_ADMIN,
        ClaimRule.DIRECT_2,
    ),
    Row(
        "direct-2-true-ignores-them-though-they-cannot-be-parsed",
        {"service_org_admin": "true", "service_projects": ["x"], "service_default_role": 5, "groups": 5},
        ORGANIZATION_ADMIN,
        ClaimRule.DIRECT_2,
    ),
    Row(
        "direct-2-false-is-as-if-missing",
        direct("user:payments", service_org_admin="false"),
        {"payments": USER},
        ClaimRule.DIRECT_3,
    ),
    Row(
        "direct-2-false-leaves-it-to-a-group",
        in_groups("service-org-admin", service_org_admin="false"),
        ORGANIZATION_ADMIN,
        ClaimRule.GROUPS_3,
    ),
    *(
        Row(
            f"direct-2-{text!r}-is-no-answer",
            direct("payments", service_org_admin=text),
            UNREADABLE,
            ClaimRule.DIRECT_7,
        )
        for text in ("True", "TRUE", " true", "true ", "yes", "1", "on", "admin", "true,false")
    ),
    Row(
        "direct-3-a-plain-id-has-the-default-role",
        direct("payments, search", service_default_role="user"),
        {"payments": USER, "search": USER},
        ClaimRule.DIRECT_3,
    ),
    Row(
        "direct-3-an-entry-with-a-role-has-that-role",
        direct("admin:payments,user:search,viewer:shop"),
        {"payments": ADMIN, "search": USER, "shop": VIEWER},
        ClaimRule.DIRECT_3,
    ),
    Row(
        "direct-3-a-project-s-own-role-goes-before-the-default-role",
        direct("user:payments,search", service_default_role="admin"),
        {"payments": USER, "search": ADMIN},
        ClaimRule.DIRECT_3,
    ),
    Row(
        "direct-3-space-around-commas-and-colons-means-nothing",
        direct(" admin : payments ,\tsearch\n", service_default_role=" user "),
        {"payments": ADMIN, "search": USER},
        ClaimRule.DIRECT_3,
    ),
    Row(
        "direct-3-a-default-role-alone-opens-no-project",
        {"service_default_role": "admin"},
        NOTHING,
        "no claim names a project",
    ),
    Row("direct-4-only-listed-projects-are-opened", direct("user:payments"), {"payments": USER}, ClaimRule.DIRECT_4),
    Row("direct-4-an-unknown-project-revokes-the-rest", direct("admin:ghost"), NOTHING, ClaimRule.DIRECT_4),
    Row(
        "direct-4-a-project-s-group-revokes-the-rest-too", in_groups(PAYMENTS), {"payments": VIEWER}, ClaimRule.DIRECT_4
    ),
    Row(
        "direct-5-a-default-role-that-does-not-exist-is-viewer",
        direct("payments", service_default_role="owner"),
        {"payments": VIEWER},
        ClaimRule.DIRECT_5,
    ),
    Row(
        "direct-5-it-is-set-so-that-groups-infer-nothing",
        direct("payments", service_default_role="owner", groups=["admin"]),
        {"payments": VIEWER},
        ClaimRule.DIRECT_5,
    ),
    Row(
        "direct-5-roles-of-claims-are-written-small",
        direct("Admin:payments,search", service_default_role="ADMIN"),
        {"payments": VIEWER, "search": VIEWER},
        ClaimRule.DIRECT_5,
    ),
    Row(
        "direct-5-an-entry-s-role-that-does-not-exist-is-viewer",
        direct("owner:payments"),
        {"payments": VIEWER},
        ClaimRule.DIRECT_5,
    ),
    Row(
        "direct-5-malformed-entries-are-skipped",
        direct("user:payments,,:,admin:,:search,a:b:search,sear ch,shop/..,sh\xf6p," + "x" * 64),
        {"payments": USER},
        ClaimRule.DIRECT_3,
    ),
    Row(
        "direct-6-least-privileged-explicit-role-is-the-fallback",
        direct("admin:payments,user:search,shop"),
        {"payments": ADMIN, "search": USER, "shop": USER},
        ClaimRule.DIRECT_6,
    ),
    Row(
        "direct-6-one-explicit-role-is-no-fallback",
        direct("admin:payments,shop"),
        {"payments": ADMIN, "shop": VIEWER},
        ClaimRule.DIRECT_1,
    ),
    Row(
        "direct-6-the-same-entry-twice-is-one-explicit-role",
        direct("admin:payments,admin:payments,shop"),
        {"payments": ADMIN, "shop": VIEWER},
        ClaimRule.DIRECT_1,
    ),
    Row(
        "direct-6-of-one-project-s-roles-the-least-privileged-applies",
        direct("admin:payments,user:payments,payments"),
        {"payments": USER},
        ClaimRule.DIRECT_6,
    ),
    Row(
        "direct-6-that-is-two-explicit-roles-for-the-fallback-too",
        direct("admin:payments,user:payments,shop"),
        {"payments": USER, "shop": USER},
        ClaimRule.DIRECT_6,
    ),
    Row(
        "direct-6-a-role-that-does-not-exist-is-the-least-privileged",
        direct("admin:payments,owner:payments,admin:search,shop"),
        {"payments": VIEWER, "search": ADMIN, "shop": VIEWER},
        ClaimRule.DIRECT_6,
    ),
    Row(
        "direct-6-the-default-role-goes-before-the-fallback",
        direct("user:payments,user:search,shop", service_default_role="admin"),
        {"payments": USER, "search": USER, "shop": ADMIN},
        ClaimRule.DIRECT_3,
    ),
    Row(
        "direct-6-the-fallback-goes-before-an-inferred-role",
        direct("user:payments,user:search,shop", groups=["admin"]),
        {"payments": USER, "search": USER, "shop": USER},
        ClaimRule.DIRECT_6,
    ),
    Row(
        "direct-6-an-explicit-role-of-an-unknown-project-counts",
        direct("admin:payments,user:ghost,shop"),
        {"payments": ADMIN, "shop": USER},
        ClaimRule.DIRECT_6,
    ),
    Row(
        "direct-6-explicit-roles-of-groups-and-claims-are-one-pool",
        direct("admin:payments,shop", groups=["service-projects-user:payments"]),
        {"payments": USER, "shop": USER},
        ClaimRule.DIRECT_6,
    ),
    *(
        Row(f"direct-7-{text!r}-has-no-entry-that-is-not-malformed", direct(text), UNREADABLE, ClaimRule.DIRECT_7)
        for text in (",", ":", "admin:", ":payments", " , ,", "a:b:c", "pay ments", "x" * 64)
    ),
    Row("direct-7-no-claim-of-ours-is-readable-and-grants-nothing", {"sub": "1"}, NOTHING, "Nothing is granted"),
    Row("direct-7-blank-projects-are-missing-ones", direct(" "), NOTHING, "Nothing is granted"),
    Row(
        "direct-7-a-claim-that-the-provider-only-refers-to-is-not-a-missing-one",
        {"_claim_names": {"groups": "src1"}, "_claim_sources": {"src1": {"endpoint": "https://a.example"}}},
        UNREADABLE,
        "The claim groups must be in the token, and the provider only refers to it (direct claims 7).",
    ),
    Row(
        "direct-7-a-claim-that-is-in-the-token-counts-though-it-is-referred-to",
        in_groups(PAYMENTS, _claim_names={"groups": "src1"}),
        {"payments": VIEWER},
        ClaimRule.DIRECT_1,
    ),
    Row(
        "direct-7-a-reference-to-another-claim-means-nothing",
        direct("payments", _claim_names={"address": "src1"}),
        {"payments": VIEWER},
        ClaimRule.DIRECT_1,
    ),
]

GROUPS = [
    *(
        Row(
            f"groups-1-the-{where}-name-{name}-gives-{role}",
            {**in_groups(PAYMENTS), where: [PAYMENTS, name] if where == "groups" else [name]},
            {"payments": role},
            ClaimRule.GROUPS_2,
        )
        for where in ("groups", "roles")
        for name, role in (
            ("service-admin", ADMIN),
            ("service-user", USER),
            ("service-viewer", VIEWER),
            ("admin", ADMIN),
            ("user", USER),
            ("viewer", VIEWER),
            ("SERVICE-Admin", ADMIN),
            (" USER ", USER),
        )
    ),
    *(
        Row(f"groups-1-{name!r}-is-no-such-name", in_groups(PAYMENTS, name), {"payments": VIEWER}, ClaimRule.DIRECT_1)
        for name in (
            "service-admins",
            "xadmin",
            "service_admin",
            "service-admin,x",
            "administrator",
            "service-\u017fer",
        )
    ),
    Row(
        "groups-1-a-letter-that-folds-into-an-ascii-one-is-another-letter",
        in_groups(PAYMENTS, "\u017fervice-org-admin", "\u017fervice-admin", "u\u017fer", "service-project\u017f-shop"),
        {"payments": VIEWER},
        ClaimRule.DIRECT_1,
    ),
    Row(
        "groups-2-the-first-name-that-matches-counts",
        in_groups(PAYMENTS, "others", "user", "admin", "viewer"),
        {"payments": USER},
        ClaimRule.GROUPS_2,
    ),
    Row(
        "groups-2-groups-come-before-roles",
        in_groups(PAYMENTS, "viewer", roles=["admin"]),
        {"payments": VIEWER},
        ClaimRule.GROUPS_2,
    ),
    Row(
        "groups-2-roles-count-where-no-group-matches",
        in_groups(PAYMENTS, "others", roles="others, user, admin"),
        {"payments": USER},
        ClaimRule.GROUPS_2,
    ),
    Row(
        "groups-2-roles-count-without-groups",
        direct("payments", roles=["user"]),
        {"payments": USER},
        ClaimRule.GROUPS_2,
    ),
    Row("groups-2-a-role-alone-opens-no-project", {"groups": ["admin"]}, NOTHING, "no claim names a project"),
    Row("groups-3-the-admins-group", in_groups("x", "Service-ORG-Admin"), ORGANIZATION_ADMIN, ClaimRule.GROUPS_3),
    Row(
        "groups-3-it-goes-before-projects",
        in_groups("service-org-admin", "service-projects-viewer:payments", service_projects="viewer:shop"),
        ORGANIZATION_ADMIN,
        ClaimRule.GROUPS_3,
    ),
    Row(
        "groups-3-a-default-role-does-not-hinder-it",
        in_groups("service-org-admin", service_default_role="viewer", service_projects="shop"),
        ORGANIZATION_ADMIN,
        ClaimRule.GROUPS_3,
    ),
    Row("groups-3-it-is-no-role", {"roles": ["service-org-admin"]}, NOTHING, "Nothing is granted"),
    Row(
        "groups-3-claims-that-cannot-be-parsed-hinder-it",
        in_groups("service-org-admin", service_projects=","),
        UNREADABLE,
        ClaimRule.DIRECT_7,
    ),
    Row("groups-4-a-project-s-group-opens-it", in_groups(PAYMENTS), {"payments": VIEWER}, ClaimRule.DIRECT_1),
    Row(
        "groups-4-with-a-role-it-gives-that-role",
        in_groups("service-projects-admin:payments", "service-projects-user:search"),
        {"payments": ADMIN, "search": USER},
        ClaimRule.GROUPS_4,
    ),
    Row(
        "groups-4-in-any-case",
        in_groups("SERVICE-Projects-ADMIN:Payments", "Service-Projects-SEARCH", roles=["USER"]),
        {"payments": ADMIN, "search": USER},
        ClaimRule.GROUPS_4,
    ),
    Row(
        "groups-4-a-role-that-does-not-exist-is-viewer",
        in_groups("service-projects-owner:shop"),
        {"shop": VIEWER},
        ClaimRule.DIRECT_5,
    ),
    Row("groups-4-it-is-no-role", {"roles": [PAYMENTS]}, NOTHING, "Nothing is granted"),
    Row(
        "groups-4-the-default-role-counts-in-it",
        in_groups(PAYMENTS, service_default_role="user"),
        {"payments": USER},
        ClaimRule.DIRECT_3,
    ),
    Row(
        "groups-4-projects-of-groups-and-claims-add-up",
        in_groups(PAYMENTS, service_projects="user:shop"),
        {"payments": VIEWER, "shop": USER},
        ClaimRule.DIRECT_4,
    ),
    Row(
        "groups-4-malformed-ones-are-skipped-and-are-readable",
        in_groups("service-projects-", "service-projects-:x", "service-projects-a:b:c", "service-projects-\u212anow"),
        NOTHING,
        "Nothing is granted: no claim names a project or makes an organization admin.",
    ),
    Row(
        "groups-4-an-unknown-project-is-skipped",
        in_groups(PAYMENTS, "service-projects-ghost"),
        {"payments": VIEWER},
        "Skipped: there is no project ghost.",
    ),
    Row(
        "groups-5-with-a-default-role-nothing-is-inferred",
        in_groups(PAYMENTS, "admin", roles=["admin"], service_default_role="user"),
        {"payments": USER},
        ClaimRule.DIRECT_3,
    ),
    Row(
        "groups-6-groups-are-ignored-their-projects-too",
        in_groups(
            "service-projects-admin:search", service_default_role="user", service_projects="viewer:payments,shop"
        ),
        {"payments": VIEWER, "shop": USER},
        ClaimRule.GROUPS_6,
    ),
    Row(
        "groups-6-a-project-s-own-role-goes-before-the-default-role",
        in_groups("x", service_default_role="viewer", service_projects="admin:payments,shop"),
        {"payments": ADMIN, "shop": VIEWER},
        ClaimRule.GROUPS_6,
    ),
    Row(
        "groups-6-the-admins-group-is-ignored-too",
        in_groups("service-org-admin", service_default_role="user", service_projects="viewer:payments"),
        {"payments": VIEWER},
        ClaimRule.GROUPS_6,
    ),
    Row(
        "groups-6-group-ids-are-groups",
        {"group_ids": ["service-org-admin"], "service_default_role": "user", "service_projects": "viewer:shop"},
        {"shop": VIEWER},
        ClaimRule.GROUPS_6,
    ),
    Row(
        "groups-6-without-a-default-role-groups-count",
        in_groups("service-projects-admin:search", service_projects="viewer:payments"),
        {"payments": VIEWER, "search": ADMIN},
        ClaimRule.GROUPS_4,
    ),
    Row(
        "groups-6-without-an-explicit-role-in-projects-groups-count",
        in_groups("service-projects-admin:search", service_default_role="user", service_projects="payments"),
        {"payments": USER, "search": ADMIN},
        ClaimRule.GROUPS_4,
    ),
    Row(
        "groups-6-a-malformed-entry-is-no-explicit-role",
        in_groups("service-projects-admin:search", service_default_role="user", service_projects="admin:,payments"),
        {"payments": USER, "search": ADMIN},
        ClaimRule.GROUPS_4,
    ),
]

GROUP_IDS = [
    *(
        Row(
            f"group-ids-count-where-groups-are-{groups!r}",
            {**given, "group_ids": [PAYMENTS, "user"]},
            {"payments": USER},
            ClaimRule.GROUP_IDS,
        )
        for groups, given in (
            ("missing", {}),
            *((value, {"groups": value}) for value in (None, "", " ", ",", " , ", [], [""], [" ", ""])),
        )
    ),
    Row("group-ids-may-be-a-text", {"group_ids": f"{PAYMENTS},user"}, {"payments": USER}, ClaimRule.GROUP_IDS),
    Row("group-ids-do-not-add-to-groups", {"groups": ["x"], "group_ids": [PAYMENTS]}, NOTHING, "Nothing is granted"),
    Row(
        "group-ids-are-not-looked-at-beside-groups",
        {"groups": [PAYMENTS], "group_ids": 5},
        {"payments": VIEWER},
        ClaimRule.DIRECT_1,
    ),
    Row(
        "group-ids-do-not-stand-in-for-groups-that-cannot-be-parsed",
        {"groups": 5, "group_ids": [PAYMENTS]},
        UNREADABLE,
        ClaimRule.DIRECT_7,
    ),
    Row("groups-may-be-a-text-with-commas", {"groups": f" {PAYMENTS} , user "}, {"payments": USER}, ClaimRule.GROUPS_2),
    Row("groups-of-a-list-keep-their-commas", in_groups(PAYMENTS, "x,admin"), {"payments": VIEWER}, ClaimRule.DIRECT_1),
]
