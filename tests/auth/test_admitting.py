"""Admission of people whom a provider proved, rule by rule."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from reconciler.auth import changes
from reconciler.auth.admission import AdmissionReason, Arrival, NotAdmitted, admit
from reconciler.model.directory import (
    Amendment,
    Audited,
    Directory,
    Invitation,
    Project,
    ProviderIdentity,
    User,
    amended,
)
from reconciler.model.principals import Role
from reconciler.settings.models import OIDC
from tests.auth import arrivals, directories
from tests.auth.arrivals import ADMIN, CLAIMS_DECIDE, POLICY, UNREADABLE, VERIFIED, VIEWER, arrival, code, invitation

EMPTY = Directory(projects={name: Project(name, directories.AT) for name in ("default", "payments")})
NAMED = arrivals.policy(first_claim="email", first_value="noa@example.com")
NAMED_OR_CLAIMS = arrivals.policy(first_claim="email", first_value="noa@example.com", disable_invitations=True)
IN_A_GROUP = arrivals.policy(first_claim="groups", first_value="owners")
BY_CODE = invitation(code=code(1))
BY_ADDRESS = invitation("I2", email="noa@example.com", role=Role.VIEWER)
OWNER = ("admin", {"default": Role.ADMIN, "payments": Role.ADMIN})
NO_ROLES: dict[str, Role] = {}


@dataclass(frozen=True)
class Row:
    """A person who comes, and their access then, or why they are not let in."""

    who: Arrival
    then: tuple[str, Mapping[str, Role]] | AdmissionReason
    policy: OIDC = POLICY
    there: Directory = field(default_factory=arrivals.directory)


def with_invitations(*invitations: Invitation) -> Directory:
    return arrivals.directory(*invitations)


def alone(*users: User, members: Mapping[str, Mapping[str, Role]] | None = None) -> Directory:
    return replace(EMPTY, users={user.name: user for user in users}, members=members or {})


FORMER_ADMIN = replace(
    directories.user("former", organization_admin=True), identity=ProviderIdentity("https://former.example", "former")
)


ROOT, PAL = arrivals.known("root", organization_admin=True), arrivals.known("pal")
TWO_ADMINS = alone(ROOT, arrivals.known("ann", organization_admin=True), members={"payments": {"id-root": Role.USER}})

AS_USER = ("", {"payments": Role.USER})
AS_VIEWER = ("", {"payments": Role.VIEWER})
AS_ADMIN = ("", {"payments": Role.ADMIN})
ORGANIZATION_ADMIN = ("admin", NO_ROLES)
CODE_WAITS = with_invitations(BY_CODE)
ADDRESS_WAITS = with_invitations(BY_ADDRESS)
ROWS = {
    # The first person.
    "first: whoever comes first": Row(arrival(), OWNER, there=EMPTY),
    "first: whatever claims say": Row(arrival(**VIEWER), OWNER, there=EMPTY),
    "first: whatever claims cannot say": Row(arrival(**UNREADABLE), OWNER, there=EMPTY),
    "first: whatever disableInvitations says": Row(arrival(), OWNER, CLAIMS_DECIDE, EMPTY),
    "first: whatever code they bring": Row(arrival(code=code(9)), OWNER, there=EMPTY),
    "first: once": Row(arrival(), AdmissionReason.NOT_INVITED, there=alone(ROOT)),
    "firstAdmin: a claim that equals the value": Row(arrival(**VERIFIED), OWNER, NAMED, EMPTY),
    "firstAdmin: an address that nobody vouches for": Row(
        arrival(email="noa@example.com"), AdmissionReason.NOT_FIRST, NAMED, EMPTY
    ),
    "firstAdmin: vouched for by other than true": Row(
        arrival(email="noa@example.com", email_verified="true"), AdmissionReason.NOT_FIRST, NAMED, EMPTY
    ),
    "firstAdmin: another address": Row(
        arrival(email="eve@example.com", email_verified=True), AdmissionReason.NOT_FIRST, NAMED, EMPTY
    ),
    "firstAdmin: an array with the value": Row(arrival(groups=["x", "owners"]), OWNER, IN_A_GROUP, EMPTY),
    "firstAdmin: an array without it": Row(arrival(groups=["owners2"]), AdmissionReason.NOT_FIRST, IN_A_GROUP, EMPTY),
    "firstAdmin: part of a text is not the value": Row(
        arrival(groups="owners,x"), AdmissionReason.NOT_FIRST, IN_A_GROUP, EMPTY
    ),
    "firstAdmin: whoever administers is of a former provider": Row(
        arrival(**VERIFIED), OWNER, NAMED, alone(FORMER_ADMIN)
    ),
    "claims decide: the last organization admin of the present provider": Row(
        arrival("ona"),
        ORGANIZATION_ADMIN,
        CLAIMS_DECIDE,
        alone(arrivals.known("ona", organization_admin=True), FORMER_ADMIN),
    ),
    "firstAdmin: no such claim": Row(arrival(), AdmissionReason.NOT_FIRST, IN_A_GROUP, EMPTY),
    "firstAdmin: no value in the settings is nobody's": Row(
        arrival(groups=""), AdmissionReason.NOT_FIRST, arrivals.policy(first_claim="groups"), EMPTY
    ),
    "firstAdmin: others come in by claims": Row(arrival(**VIEWER), AS_VIEWER, NAMED, EMPTY),
    "firstAdmin: somebody whose claims make them an admin": Row(arrival(**ADMIN), ORGANIZATION_ADMIN, NAMED, EMPTY),
    "firstAdmin: still the first when others came in before": Row(
        arrival(**VERIFIED), OWNER, NAMED, alone(PAL, members={"payments": {"id-pal": Role.VIEWER}})
    ),
    "firstAdmin: still the first though they came in before": Row(
        arrival("pal", **VERIFIED), OWNER, NAMED, alone(PAL, members={"payments": {"id-pal": Role.VIEWER}})
    ),
    "firstAdmin: not where somebody administers": Row(arrival(**VERIFIED), AdmissionReason.NOT_INVITED, NAMED),
    "firstAdmin: claims decide, and another is awaited": Row(
        arrival(),
        AdmissionReason.NOT_FIRST,
        NAMED_OR_CLAIMS,
        EMPTY,
    ),
    # Somebody new, where invitations count.
    "new: nobody invited them": Row(arrival(), AdmissionReason.NOT_INVITED),
    "new: a verified address for which nothing waits": Row(arrival(**VERIFIED), AdmissionReason.NOT_INVITED),
    "new: an address that nobody vouches for": Row(arrival(email="noa@example.com"), AdmissionReason.NOT_INVITED),
    "new: claims admit": Row(arrival(**VIEWER), AS_VIEWER),
    "new: claims make an organization admin": Row(arrival(**ADMIN), ORGANIZATION_ADMIN),
    "new: claims that cannot be read": Row(arrival(**UNREADABLE), AdmissionReason.UNREADABLE_CLAIMS),
    "new: claims for a project that does not exist": Row(arrival(service_projects="gone"), AdmissionReason.NOT_INVITED),
    "code: admits": Row(arrival(code=code(1)), AS_USER, there=CODE_WAITS),
    "code: with space around it": Row(arrival(code=f" {code(1)}\n"), AS_USER, there=CODE_WAITS),
    "code: with claims that cannot be read": Row(arrival(code=code(1), **UNREADABLE), AS_USER, there=CODE_WAITS),
    "code: with claims that grant another project": Row(
        arrival(code=code(1), service_projects="default"),
        ("", {"default": Role.VIEWER, "payments": Role.USER}),
        there=CODE_WAITS,
    ),
    "code: with claims that grant more": Row(
        arrival(code=code(1), service_projects="admin:payments"), AS_ADMIN, there=CODE_WAITS
    ),
    "code: unknown": Row(arrival(code=code(2)), AdmissionReason.WRONG_CODE, there=CODE_WAITS),
    "code: none of ours": Row(arrival(code="rci_"), AdmissionReason.WRONG_CODE, there=CODE_WAITS),
    "code: an invitation by address has none": Row(arrival(code="x"), AdmissionReason.WRONG_CODE, there=ADDRESS_WAITS),
    "code: wrong, though claims would admit": Row(arrival(code=code(2), **VIEWER), AdmissionReason.WRONG_CODE),
    "code: expired": Row(arrival(code=code(1), now=directories.LATER), AdmissionReason.WRONG_CODE, there=CODE_WAITS),
    "code: of a project that is gone": Row(
        arrival(code=code(1)), AdmissionReason.WRONG_CODE, there=with_invitations(replace(BY_CODE, project="gone"))
    ),
    "code: whoever made it is gone": Row(
        arrival(code=code(1)),
        AdmissionReason.WRONG_CODE,
        there=with_invitations(replace(BY_CODE, created_by="user:eve")),
    ),
    "code: whoever made it manages the project no more": Row(
        arrival(code=code(1)),
        AdmissionReason.WRONG_CODE,
        there=with_invitations(replace(BY_CODE, created_by="user:una")),
    ),
    "code: made with a key that was revoked": Row(
        arrival(code=code(1)), AdmissionReason.WRONG_CODE, there=with_invitations(replace(BY_CODE, created_by="key:K1"))
    ),
    "code: made with the service's own key": Row(
        arrival(code=code(1)), AS_USER, there=with_invitations(replace(BY_CODE, created_by="key:SERVICE_API_KEY"))
    ),
    "address: verified": Row(arrival(**VERIFIED), AS_VIEWER, there=ADDRESS_WAITS),
    "address: in other letters": Row(
        arrival(email="Noa@EXAMPLE.com", email_verified=True), AS_VIEWER, there=ADDRESS_WAITS
    ),
    "address: not verified": Row(
        arrival(email="noa@example.com", email_verified=False), AdmissionReason.NOT_INVITED, there=ADDRESS_WAITS
    ),
    "address: verified is a text": Row(
        arrival(email="noa@example.com", email_verified="true"), AdmissionReason.NOT_INVITED, there=ADDRESS_WAITS
    ),
    "address: verified is a number": Row(
        arrival(email="noa@example.com", email_verified=1), AdmissionReason.NOT_INVITED, there=ADDRESS_WAITS
    ),
    "address: verified alone": Row(arrival(email_verified=True), AdmissionReason.NOT_INVITED, there=ADDRESS_WAITS),
    "address: a list of them": Row(
        arrival(email=["noa@example.com"], email_verified=True), AdmissionReason.NOT_INVITED, there=ADDRESS_WAITS
    ),
    "address: a letter that only looks alike": Row(
        arrival(email="noa@e\u2179ample.com", email_verified=True), AdmissionReason.NOT_INVITED, there=ADDRESS_WAITS
    ),
    "address: a letter that becomes another in lower case": Row(
        arrival(email="\u212ai@example.com", email_verified=True),
        AdmissionReason.NOT_INVITED,
        there=with_invitations(replace(BY_ADDRESS, email="ki@example.com")),
    ),
    "address: expired": Row(
        arrival(now=directories.LATER, **VERIFIED), AdmissionReason.NOT_INVITED, there=ADDRESS_WAITS
    ),
    "address: with a code, the stronger of both": Row(
        arrival(code=code(1), **VERIFIED), AS_USER, there=with_invitations(BY_CODE, BY_ADDRESS)
    ),
    # Somebody known, where invitations count.
    "known: keeps what they have": Row(arrival("una"), AS_USER),
    "known: claims give nothing": Row(arrival("una", service_projects="admin:payments,default"), AS_USER),
    "known: claims take nothing": Row(arrival("una", service_projects="viewer:payments"), AS_USER),
    "known: claims make nobody an organization admin": Row(arrival("una", **ADMIN), AS_USER),
    "known: claims that cannot be read do not matter": Row(arrival("una", **UNREADABLE), AS_USER),
    "known: an organization admin without a role": Row(arrival("root"), ORGANIZATION_ADMIN),
    "known: no role anywhere": Row(arrival("nil"), AdmissionReason.NOT_INVITED),
    "known: no role anywhere, and claims would grant one": Row(arrival("nil", **VIEWER), AdmissionReason.NOT_INVITED),
    "known: a code gives the role too": Row(arrival("nil", code=code(1)), AS_USER, there=CODE_WAITS),
    "known: a code gives more": Row(arrival("vic", code=code(1)), AS_USER, there=CODE_WAITS),
    "known: a code takes nothing": Row(arrival("ada", code=code(1)), AS_ADMIN, there=CODE_WAITS),
    "known: a wrong code": Row(arrival("una", code=code(2)), AdmissionReason.WRONG_CODE, there=CODE_WAITS),
    "known: an address that waits": Row(arrival("nil", **VERIFIED), AS_VIEWER, there=ADDRESS_WAITS),
    # Claims decide.
    "claims decide: they admit": Row(arrival(**VIEWER), AS_VIEWER, CLAIMS_DECIDE),
    "claims decide: an organization admin": Row(arrival(**ADMIN), ORGANIZATION_ADMIN, CLAIMS_DECIDE),
    "claims decide: none": Row(arrival(), AdmissionReason.GRANTED_NOTHING, CLAIMS_DECIDE),
    "claims decide: groups that match nothing": Row(
        arrival(groups=["x"]), AdmissionReason.GRANTED_NOTHING, CLAIMS_DECIDE
    ),
    "claims decide: a project that does not exist": Row(
        arrival(service_projects="gone"), AdmissionReason.GRANTED_NOTHING, CLAIMS_DECIDE
    ),
    "claims decide: unreadable ones of somebody new": Row(
        arrival(**UNREADABLE), AdmissionReason.UNREADABLE_CLAIMS, CLAIMS_DECIDE
    ),
    "claims decide: no code admits": Row(
        arrival(code=code(1)), AdmissionReason.GRANTED_NOTHING, CLAIMS_DECIDE, CODE_WAITS
    ),
    "claims decide: no address admits": Row(
        arrival(**VERIFIED), AdmissionReason.GRANTED_NOTHING, CLAIMS_DECIDE, ADDRESS_WAITS
    ),
    "claims decide: a code adds nothing to them": Row(
        arrival(code=code(1), **VIEWER), AS_VIEWER, CLAIMS_DECIDE, CODE_WAITS
    ),
    "claims decide: less": Row(arrival("una", service_projects="viewer:payments"), AS_VIEWER, CLAIMS_DECIDE),
    "claims decide: more": Row(arrival("una", service_projects="admin:payments"), AS_ADMIN, CLAIMS_DECIDE),
    "claims decide: another project": Row(
        arrival("una", service_projects="default"), ("", {"default": Role.VIEWER}), CLAIMS_DECIDE
    ),
    "claims decide: an admin of before is one no more": Row(
        arrival("root", **VIEWER), AS_VIEWER, CLAIMS_DECIDE, TWO_ADMINS
    ),
    "claims decide: unreadable ones change nothing": Row(arrival("una", **UNREADABLE), AS_USER, CLAIMS_DECIDE),
    "claims decide: unreadable ones let nobody in who has nothing": Row(
        arrival("nil", **UNREADABLE), AdmissionReason.UNREADABLE_CLAIMS, CLAIMS_DECIDE
    ),
    "claims decide: nothing for somebody who has nothing": Row(
        arrival("nil"), AdmissionReason.GRANTED_NOTHING, CLAIMS_DECIDE
    ),
    "claims decide: the last organization admin stays": Row(arrival("root"), ORGANIZATION_ADMIN, CLAIMS_DECIDE),
    "claims decide: the last organization admin stays whole": Row(
        arrival("root", **VIEWER),
        OWNER,
        CLAIMS_DECIDE,
        alone(ROOT, members={"default": {"id-root": Role.ADMIN}, "payments": {"id-root": Role.ADMIN}}),
    ),
    "claims decide: who becomes an organization admin keeps the memberships": Row(
        arrival("una", **ADMIN), ("admin", {"payments": Role.USER}), CLAIMS_DECIDE
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_whoever_comes_has_what_the_rule_says(name: str) -> None:
    row = ROWS[name]
    if isinstance(row.then, AdmissionReason):
        with pytest.raises(NotAdmitted) as refusal:
            admit(row.there, row.who, row.policy)
        assert refusal.value.why is row.then
        return
    admission = admit(row.there, row.who, row.policy)
    written = arrivals.after(row.there, admission)
    person = written.person(row.who.proved.identity)
    assert person is not None
    assert person.id == admission.user
    assert ("admin" if person.organization_admin else "", written.roles_of(person)) == row.then
    assert admission.refused is None


def test_whoever_loses_everything_is_written_down_and_turned_away() -> None:
    there = arrivals.directory()
    admission = admit(there, arrival("una"), CLAIMS_DECIDE)
    assert admission.refused is not None
    assert admission.refused.why is AdmissionReason.GRANTED_NOTHING
    assert admission.amendment is not None
    assert amended(there, admission.amendment).roles_of(there.users["una"]) == {}
    assert str(admission.amendment.audited.detail).startswith("{'by': ['Nothing is granted: ")
    with pytest.raises(NotAdmitted):  # and then there is nothing to write
        admit(arrivals.after(there, admission), arrival("una"), CLAIMS_DECIDE)


def test_an_organization_admin_of_several_who_is_granted_nothing_goes_as_well() -> None:
    admission = admit(TWO_ADMINS, arrival("root"), CLAIMS_DECIDE)
    assert admission.refused is not None
    written = arrivals.after(TWO_ADMINS, admission)
    assert (written.users["root"].organization_admin, written.roles_of(written.users["root"])) == (False, {})
    assert written.users["ann"].organization_admin


def test_the_audit_says_what_changed_and_by_which_rule_and_nothing_of_the_person() -> None:
    there = with_invitations(BY_CODE, BY_ADDRESS)
    who = arrival(code=code(1), name="Noa Person", **VERIFIED)
    admission = admit(there, who, POLICY)
    assert admission.amendment is not None
    detail = {
        "by": ["payments: user, invitation I1 by a code.", "payments: viewer, invitation I2 by an e-mail address."],
        "organizationAdmin": False,
        "roles": {"payments": "user"},
        "invitations": ["I1", "I2"],
    }
    assert admission.amendment.audited == Audited("created", "User", "noa@example.com", detail=detail)
    assert admission.amendment.ended_invitations == (BY_CODE, BY_ADDRESS)
    assert arrivals.after(there, admission).invitations == {}
    assert admission.told == ()


def test_the_first_person_is_named_after_what_the_token_says() -> None:
    admission = admit(EMPTY, arrival(name="  Noa\x1b Person ", **VERIFIED), POLICY)
    user = arrivals.known("noa", organization_admin=True)
    named = replace(user, name="noa@example.com", display_name="Noa Person", email="noa@example.com")
    detail = {
        "by": ["The first person."],
        "organizationAdmin": True,
        "roles": {"default": "admin", "payments": "admin"},
    }
    written = admission.amendment
    assert written == Amendment(
        Audited("created", "User", "noa@example.com", detail=detail),
        users=(named,),
        members=written.members if written else (),
    )


def test_what_a_provider_calls_somebody_is_taken_over_at_each_sign_in_and_their_name_stays() -> None:
    there = arrivals.directory()
    admission = admit(there, arrival("una", name="Una", **VERIFIED), POLICY)
    assert admission.amendment is not None
    una = replace(there.users["una"], display_name="Una", email="noa@example.com")
    detail = {"by": [], "displayName": "changed", "email": "changed"}
    assert admission.amendment == Amendment(Audited("configured", "User", "una", detail=detail), users=(una,))
    assert admission.told == ()
    again = arrivals.after(there, admission)
    assert admit(again, arrival("una", name="Una", **VERIFIED), POLICY).amendment is None
    gone = admit(again, arrival("una"), POLICY).amendment  # nobody vouches for the address any more
    assert gone is not None
    assert gone.users == (replace(una, email=""),)


def test_projects_that_do_not_exist_are_skipped_and_told_whoever_is_let_in_or_not() -> None:
    skipped = "the claims name projects that do not exist, which are skipped: gone, lost"
    claims: dict[str, Any] = {"service_projects": "payments,gone,lost"}
    there = arrivals.directory()
    assert f"vic signs in: {skipped}" in admit(there, arrival("vic", **claims), CLAIMS_DECIDE).told
    with pytest.raises(NotAdmitted) as refusal:
        admit(there, arrival(service_projects="gone,lost", preferred_username="noa"), CLAIMS_DECIDE)
    assert refusal.value.told == (f"noa signs in: {skipped}",)


def test_what_is_told_is_no_longer_however_many_projects_are_named() -> None:
    claims: dict[str, Any] = {"groups": [f"service-projects-p{number}" for number in range(150)]}
    with pytest.raises(NotAdmitted) as refusal:
        admit(arrivals.directory(), arrival(**claims), CLAIMS_DECIDE)
    [told] = refusal.value.told
    assert told.endswith(" and 130 more")


@pytest.mark.parametrize("row", [row for row in ROWS.values() if isinstance(row.then, AdmissionReason)])
def test_a_refusal_is_one_sentence_that_tells_what_to_do_and_of_nobody_else(row: Row) -> None:
    with pytest.raises(NotAdmitted) as refusal:
        admit(row.there, row.who, row.policy)
    said = refusal.value.message
    assert "; " in said
    assert [word for word in ("ada", "root", "payments", "noa@example.com", "rci_") if word in said] == []


def test_there_are_only_so_many_people(monkeypatch: pytest.MonkeyPatch) -> None:
    there = with_invitations(BY_CODE)
    monkeypatch.setattr(changes, "MOST", len(there.users))
    with pytest.raises(NotAdmitted) as refusal:
        admit(there, arrival(code=code(1)), POLICY)
    assert refusal.value.why is AdmissionReason.FULL
    assert admit(there, arrival("una"), POLICY).refused is None  # who is there already


def test_there_are_only_so_many_memberships_and_what_is_taken_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "MOST_MEMBERSHIPS", 3)
    there = with_invitations(BY_CODE)
    for who in (arrival(code=code(1)), arrival("nil", code=code(1))):  # and the code can be taken another time
        with pytest.raises(NotAdmitted) as refusal:
            admit(there, who, POLICY)
        assert refusal.value.why is AdmissionReason.FULL
    changed = admit(there, arrival("ada", service_projects="viewer:payments,default"), CLAIMS_DECIDE)
    assert arrivals.after(there, changed).roles_of(there.users["ada"]) == {"payments": Role.VIEWER}
    moved = admit(there, arrival("ada", service_projects="default"), CLAIMS_DECIDE)
    assert moved.refused is not None
    assert moved.refused.why is AdmissionReason.FULL
    assert arrivals.after(there, moved).roles_of(there.users["ada"]) == {}


def test_neither_a_code_nor_what_a_provider_sent_is_shown_by_accident() -> None:
    who = arrival(code=code(1), **VERIFIED)
    assert code(1) not in repr(who)
    assert "noa@example.com" not in repr(who)
