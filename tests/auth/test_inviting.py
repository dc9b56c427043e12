"""Invitations: their codes, who may make one for how long, and what ends them."""

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.auth import changes
from reconciler.auth.changes import Conflict, Missing
from reconciler.model.directory import Amendment, Audited, Directory, Member, amended
from reconciler.model.principals import Role
from tests.auth import arrivals, directories
from tests.auth.arrivals import invitation

NOW = datetime(2026, 11, 21, 6, 12, tzinfo=UTC)
AT = directories.AT
RANDOMNESS = st.binary(min_size=changes.CODE_RANDOM_BYTES, max_size=changes.CODE_RANDOM_BYTES)
CODE = invitation(code=arrivals.code(1))
ADDRESS = invitation("I2", email="noa@example.com", role=Role.VIEWER)


@given(RANDOMNESS, RANDOMNESS)
def test_a_code_has_256_bits_and_is_known_by_a_digest(one: bytes, other: bytes) -> None:
    code = changes.make_code(one)
    assert re.fullmatch(r"rci_[A-Za-z0-9_-]{43}", code)
    digest = changes.code_digest(code)
    assert digest is not None
    assert len(digest) == 32
    assert (digest == changes.code_digest(changes.make_code(other))) == (one == other)
    assert changes.holds_code(f"https://example.com/invitation?code={code}")
    assert changes.holds_code(code[:24])


@pytest.mark.parametrize("text", ["", "rci_", arrivals.code(1) + "x", arrivals.code(1).upper(), directories.text(1)])
def test_other_text_is_no_code(text: str) -> None:
    assert changes.code_digest(text) is None


@pytest.mark.parametrize("text", ["rci_", "after=rci_logs", "marci_" + "a" * 40, "r" * 60, directories.text(1)])
def test_names_of_things_are_no_codes(text: str) -> None:
    assert not changes.holds_code(text)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("noa@example.com", "noa@example.com"),
        ("Noa+x.Y@EXAMPLE.co-op.test", "noa+x.y@example.co-op.test"),
        ("", None),
        ("noa", None),
        ("noa@", None),
        ("@example.com", None),
        ("noa@example.com.", None),
        ("noa@-example.com", None),
        ("noa@exa mple.com", None),
        ("Noa <noa@example.com>", None),
        ("noa@example.com\n", None),
        ("a@b@example.com", None),
        ("noa@\u212a.example", None),
        ("n" * 243 + "@example.com", None),
    ],
)
def test_an_address_is_ascii_in_lower_case(text: str, kept: str | None) -> None:
    assert changes.invited_address(text) == kept


def test_an_invitation_is_made_and_the_audit_has_neither_code_nor_address() -> None:
    there = arrivals.directory()
    made = changes.invite(there, ADDRESS, now=AT)
    detail = {"role": "viewer", "by": "email", "expiresAt": directories.LATER}
    audited = Audited("created", "Invitation", "I2", project="payments", detail=detail)
    assert made == Amendment(audited, invitations=(ADDRESS,))
    assert amended(there, made).invitations == {"I2": ADDRESS}
    assert changes.invite(there, CODE, now=AT).audited.detail == {**detail, "role": "user", "by": "code"}


def test_an_address_waits_once_in_each_project_and_codes_do_not_count() -> None:
    there = arrivals.directory(CODE, ADDRESS)
    again = replace(ADDRESS, id="I3", role=Role.ADMIN)
    made = changes.invite(there, again, now=AT)
    assert made.ended_invitations == (ADDRESS,)
    assert amended(there, made).invitations == {"I1": CODE, "I3": again}
    elsewhere = replace(ADDRESS, id="I3", project="default", created_by="user:root")
    assert changes.invite(there, elsewhere, now=AT).ended_invitations == ()
    other_code = invitation("I4", code=arrivals.code(4))
    assert changes.invite(there, other_code, now=AT).ended_invitations == ()


def test_there_are_only_so_many_and_what_is_over_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "MOST_INVITATIONS", 2)
    there = arrivals.directory(CODE, ADDRESS)
    with pytest.raises(Conflict, match=r"^There are 2 invitations, which is the most; withdraw some first.$"):
        changes.invite(there, invitation("I3", code=arrivals.code(3)), now=AT)
    again = replace(ADDRESS, id="I3")
    assert changes.invite(there, again, now=AT).invitations == (again,)  # in place of the one before
    over = arrivals.directory(CODE, replace(ADDRESS, expires_at=AT))
    made = changes.invite(over, invitation("I3", code=arrivals.code(3)), now=AT)
    assert [one.id for one in made.ended_invitations] == ["I2"]


def test_what_is_over_goes_with_the_next_change() -> None:
    over = replace(ADDRESS, expires_at=AT)
    there = arrivals.directory(CODE, over)
    assert changes.waiting_invitations(there, now=AT) == (CODE,)
    made = changes.withdraw_invitation(there, project="payments", identifier="I1", now=AT)
    assert made.ended_invitations == (over, CODE)
    detail = {"role": "user", "by": "code"}
    assert made.audited == Audited("deleted", "Invitation", "I1", project="payments", detail=detail)
    assert amended(there, made).invitations == {}
    again = changes.invite(arrivals.directory(over), replace(ADDRESS, id="I3"), now=AT)  # of the same address
    assert again.ended_invitations == (over,)


@pytest.mark.parametrize(("project", "identifier"), [("payments", "I3"), ("default", "I1"), ("payments", "I2")])
def test_what_does_not_wait_in_the_project_cannot_be_withdrawn(project: str, identifier: str) -> None:
    there = arrivals.directory(CODE, replace(ADDRESS, expires_at=AT))
    with pytest.raises(Missing, match=r"^There is no such invitation; "):
        changes.withdraw_invitation(there, project=project, identifier=identifier, now=AT)


def test_those_that_wait_are_shown_by_project_the_oldest_first() -> None:
    elsewhere = invitation("I0", code=arrivals.code(5), project="default", created_by="user:root")
    there = arrivals.directory(ADDRESS, elsewhere, CODE)
    assert changes.waiting_invitations(there, now=AT) == (elsewhere, CODE, ADDRESS)
    assert changes.waiting_invitations(there, now=AT, project="payments") == (CODE, ADDRESS)


def without_ada(directory: Directory) -> Directory:
    return amended(directory, changes.remove_user(directory, "ada"))


def with_less(directory: Directory) -> Directory:
    lowered = changes.set_member(directory, project="payments", name="ada", role=Role.USER)
    return amended(directory, lowered)


def test_an_invitation_ends_with_what_its_maker_may() -> None:
    there = arrivals.directory(CODE, ADDRESS)
    assert changes.waiting_invitations(with_less(there), now=AT) == ()
    assert without_ada(there).invitations == {}
    as_admin = Member("payments", "id-ada2", Role.ADMIN)
    another = replace(arrivals.known("ada"), id="id-ada2")
    audited = Audited("created", "User", "ada")
    same_name = amended(without_ada(there), Amendment(audited, users=(another,), members=(as_admin,)))
    assert changes.waiting_invitations(same_name, now=AT) == ()


def test_what_an_organization_admin_made_waits_while_they_are_one() -> None:
    of_root = replace(CODE, created_by="user:root")
    there = arrivals.directory(of_root)
    assert changes.waiting_invitations(there, now=AT) == (of_root,)
    una = replace(there.users["una"], organization_admin=True)
    other = amended(there, changes.change_user(there, una))
    less = amended(other, changes.change_user(other, replace(there.users["root"], organization_admin=False)))
    assert changes.waiting_invitations(less, now=AT) == ()


def test_what_a_key_made_ends_with_the_key() -> None:
    key = directories.key(directories.text(1), role=Role.ADMIN, expires_at=directories.LATER)
    there = replace(arrivals.directory(replace(CODE, created_by=f"key:{key.id}")), keys={key.prefix: key})
    assert changes.waiting_invitations(there, now=directories.AT) != ()
    assert changes.waiting_invitations(there, now=directories.LATER) == ()


@pytest.mark.parametrize(("role", "counts"), [(Role.ADMIN, True), (Role.USER, False), (None, False)])
def test_what_a_personal_key_made_counts_while_its_person_manages_the_members(role: Role | None, counts: bool) -> None:
    key = directories.key(directories.text(1), role=Role.ADMIN, owner="ada")
    of_key = replace(CODE, created_by=f"key:{key.id}")
    there = replace(arrivals.directory(of_key), keys={key.prefix: key})
    members = {} if role is None else {"payments": {"id-ada": role}}
    assert bool(changes.waiting_invitations(replace(there, members=members), now=AT)) is counts


def test_what_a_key_made_ends_when_it_is_revoked() -> None:
    key = directories.key(directories.text(1), role=Role.ADMIN)
    of_key = replace(CODE, created_by=f"key:{key.id}")
    there = replace(arrivals.directory(of_key), keys={key.prefix: key})
    assert changes.waiting_invitations(there, now=AT) == (of_key,)
    assert changes.waiting_invitations(amended(there, changes.revoke_key(there, key)), now=AT) == ()
