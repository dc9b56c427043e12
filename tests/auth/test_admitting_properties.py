"""Properties of every sign-in, for any person and any directory."""

from collections.abc import Mapping
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from reconciler.auth import admission, claims
from reconciler.auth.admission import Admission, NotAdmitted
from reconciler.auth.claims import GrantedRoles, UnreadableClaims
from reconciler.model.directory import Directory, Project
from reconciler.model.principals import Role
from reconciler.settings.models import OIDC
from tests.auth import arrivals, directories

PROJECTS = ("default", "payments", "web")
SUBJECTS = ("ann", "ben", "cat", "new")
ADDRESSES = ("ann@example.com", "new@example.com")
CODES = tuple(arrivals.code(number) for number in range(3))
ROLES = st.sampled_from(list(Role))
ANYTHING = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8), st.lists(st.text(max_size=8)))

TOLD = st.fixed_dictionaries(
    {},
    optional={
        "service_org_admin": st.sampled_from(["true", "false", "yes", True]),
        "service_projects": st.one_of(
            st.lists(st.sampled_from(["payments", "admin:web", "viewer:payments", "gone", ","])).map(",".join),
            ANYTHING,
        ),
        "service_default_role": st.sampled_from(["admin", "user", "viewer", "owner", 1]),
        "groups": st.lists(st.sampled_from(["admin", "service-projects-web", "service-org-admin", "x"])),
        "email": st.one_of(st.sampled_from(ADDRESSES), ANYTHING),
        "email_verified": st.sampled_from([True, False, "true", 1, None]),
        "name": ANYTHING,
        "preferred_username": st.one_of(st.sampled_from(["ann", "new", "Ben"]), ANYTHING),
    },
)


@st.composite
def policies(draw: st.DrawFn) -> OIDC:
    claim = draw(st.sampled_from(["", "", "email", "groups"]))
    return arrivals.policy(
        disable_invitations=draw(st.booleans()),
        first_claim=claim,
        first_value="admin" if claim == "groups" else ADDRESSES[1],
    )


@st.composite
def standing(draw: st.DrawFn) -> Directory:
    """Some people with roles, and invitations that some of them made."""
    names = draw(st.sets(st.sampled_from(SUBJECTS[:3])))
    users = {name: arrivals.known(name, organization_admin=draw(st.booleans())) for name in sorted(names)}
    each = st.dictionaries(st.sampled_from([f"id-{name}" for name in users] or ["id-x"]), ROLES)
    members = {project: draw(each) for project in PROJECTS if users}
    makers = st.sampled_from([*(f"user:{name}" for name in SUBJECTS), "key:SERVICE_API_KEY", "key:gone"])
    invitations = [
        arrivals.invitation(
            f"I{number}",
            code=code,
            email="" if code else ADDRESSES[number - len(CODES)],
            project=draw(st.sampled_from(PROJECTS)),
            role=draw(ROLES),
            created_by=draw(makers),
            expires_at=draw(st.sampled_from([directories.AT, directories.LATER])),
        )
        for number, code in enumerate((*CODES, "", ""))
        if draw(st.booleans())
    ]
    return Directory(
        projects={name: Project(name, directories.AT) for name in PROJECTS},
        users=users,
        members={project: roles for project, roles in members.items() if roles},
        invitations={one.id: one for one in invitations},
    )


def admitted(there: Directory, who: str, told: Mapping[str, Any], policy: OIDC, *, code: str = "") -> Admission | None:
    try:
        return admission.admit(there, arrivals.arrival(who, code=code, **told), policy)
    except NotAdmitted as refusal:
        event(refusal.why.name)
        return None


def administered(directory: Directory) -> bool:
    return any(user.organization_admin for user in directory.users.values())


@given(standing(), st.sampled_from(SUBJECTS), TOLD, policies(), st.sampled_from(["", *CODES]))
def test_whoever_comes_somebody_administers_the_organization_if_anybody_did(
    there: Directory, who: str, told: dict[str, Any], policy: OIDC, code: str
) -> None:
    admission = admitted(there, who, told, policy, code=code)
    if admission is not None and administered(there):
        assert administered(arrivals.after(there, admission))


@given(standing(), st.sampled_from(SUBJECTS), TOLD, policies())
def test_coming_again_with_the_same_claims_changes_nothing(
    there: Directory, who: str, told: dict[str, Any], policy: OIDC
) -> None:
    admission = admitted(there, who, told, policy)
    if admission is None:
        return
    after = arrivals.after(there, admission)
    again = admitted(after, who, told, policy)
    if admission.refused is not None:
        assert again is None
    else:
        assert again is not None
        assert (again.user, again.amendment, again.refused) == (admission.user, None, None)


@given(standing(), st.sampled_from(SUBJECTS), TOLD, st.sampled_from(["", *CODES]))
def test_where_claims_decide_somebody_has_what_they_grant(
    there: Directory, who: str, told: dict[str, Any], code: str
) -> None:
    granted = claims.granted_roles(
        arrivals.proved(who, **told).claims, arrivals.POLICY.custom_claims, projects=there.projects
    )
    before = there.users.get(who)
    admission = admitted(there, who, told, arrivals.CLAIMS_DECIDE, code=code)
    if not there.users:
        return  # the first person
    if admission is None:
        assert isinstance(granted, UnreadableClaims) or granted.is_nothing
        return
    after = arrivals.after(there, admission)
    principal = after.principal(after.users[admission_name(after, admission)])
    if isinstance(granted, UnreadableClaims):
        assert before is not None
        assert (after.roles_of(before), after.users[who].organization_admin) == (
            there.roles_of(before),
            before.organization_admin,
        )
    elif before is not None and before.organization_admin and not granted.organization_admin and is_last(there):
        assert principal.organization_admin
    else:
        assert isinstance(granted, GrantedRoles)
        assert principal.organization_admin == granted.organization_admin
        reach = {project: principal.role_in(project) for project in PROJECTS}
        everywhere = Role.ADMIN if granted.organization_admin else None
        assert reach == {project: granted.roles.get(project, everywhere) for project in PROJECTS}
    assert after.invitations == there.invitations


def admission_name(directory: Directory, admission: Admission) -> str:
    user = directory.user(admission.user)
    assert user is not None
    return user.name


def is_last(directory: Directory) -> bool:
    return sum(user.organization_admin for user in directory.users.values()) == 1


@given(standing(), st.lists(st.tuples(st.sampled_from(SUBJECTS), st.sampled_from(CODES), TOLD), max_size=6), policies())
def test_a_code_lets_in_one_person_once(
    there: Directory, comers: list[tuple[str, str, dict[str, Any]]], policy: OIDC
) -> None:
    used: list[str] = []
    for who, code, told in comers:
        admission = admitted(there, who, told, policy, code=code)
        if admission is None or admission.amendment is None:
            continue
        ended = admission.amendment.ended_invitations
        used.extend(one.id for one in ended)
        assert [one for one in ended if one.digest is not None and one.digest != there_digest(code)] == []
        there = arrivals.after(there, admission)
    assert len(used) == len(set(used))


def there_digest(code: str) -> bytes | None:
    return arrivals.invitation(code=code).digest


@given(standing(), TOLD, policies())
def test_an_address_that_nobody_vouches_for_admits_nobody(there: Directory, told: dict[str, Any], policy: OIDC) -> None:
    told = {**told, "email_verified": told.get("email_verified") or "true"}
    without = {key: value for key, value in told.items() if not key.startswith("email")}
    if told["email_verified"] is True:
        told["email_verified"] = "true"
    with_address, alone = admitted(there, "new", told, policy), admitted(there, "new", without, policy)
    assert (with_address is None) == (alone is None)
    if with_address is not None and alone is not None:
        assert arrivals.after(there, with_address) == arrivals.after(there, alone)


@given(standing(), st.sampled_from(SUBJECTS), TOLD, policies(), st.sampled_from(["", *CODES]))
def test_nobody_but_whoever_comes_is_touched(
    there: Directory, who: str, told: dict[str, Any], policy: OIDC, code: str
) -> None:
    admission = admitted(there, who, told, policy, code=code)
    if admission is None:
        return
    after = arrivals.after(there, admission)
    others = {name: user for name, user in after.users.items() if user.id != admission.user}
    assert others == {name: user for name, user in there.users.items() if user.id != admission.user}
    assert {name: after.roles_of(user) for name, user in others.items()} == {
        name: there.roles_of(user) for name, user in others.items()
    }
    assert len({user.identity for user in after.users.values()}) == len(after.users)
