"""Names of people, made from a provider's claims."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.auth import admission, changes
from tests.auth.arrivals import VERIFIED, proved


@pytest.mark.parametrize(
    ("told", "name"),
    [
        (VERIFIED, "noa@example.com"),
        ({**VERIFIED, "preferred_username": "noa"}, "noa@example.com"),
        ({"email": "Noa@Example.com", "email_verified": True}, "noa@example.com"),
        ({"email": "noa@example.com", "preferred_username": "noa"}, "noa"),
        ({"email": "noa!@example.com", "email_verified": True, "preferred_username": "noa"}, "noa"),
        ({"email": f"{'n' * 130}@example.com", "email_verified": True}, None),
        ({"preferred_username": "n" * 128}, "n" * 128),
        ({"preferred_username": "noa@example.com"}, "noa"),  # nobody vouches for an address that is a name
        ({"preferred_username": "@example.com"}, None),
        ({"preferred_username": "Noa Person"}, None),
        ({"preferred_username": "n" * 129}, None),
        ({"preferred_username": ["noa"]}, None),
        ({"preferred_username": f"rci_{'n' * 43}"}, None),  # no path of a URL may hold these
        ({"preferred_username": f"noa.rck_{'n' * 12}_{'n' * 43}"}, None),
        ({"email": f"rci_{'n' * 43}@example.com", "email_verified": True, "preferred_username": "noa"}, "noa"),
        ({"preferred_username": ""}, None),
        ({}, None),
    ],
)
def test_a_new_person_is_named_by_the_first_that_fits(told: dict[str, Any], name: str | None) -> None:
    found = admission.user_name(proved("noa", **told), taken=())
    assert found == (name or admission.user_name(proved("noa"), taken=()))


def test_somebody_without_a_name_has_one_of_the_identity() -> None:
    found = {admission.user_name(proved(subject), taken=()) for subject in ("noa", "eve", "\ud800")}
    assert len(found) == 3
    assert all(name.startswith("person-") and len(name) == 19 for name in found)


def test_a_name_that_somebody_has_gets_a_number() -> None:
    noa = proved(preferred_username="noa")
    assert admission.user_name(noa, taken=["noa"]) == "noa-2"
    assert admission.user_name(noa, taken=["noa", "noa-2", "noa-4"]) == "noa-3"
    assert admission.user_name(noa, taken=["NOA"]) == "noa-2"  # for people it would be the same
    long = proved(preferred_username="n" * 128)
    assert admission.user_name(long, taken=["n" * 128]) == "n" * 126 + "-2"


@given(
    st.dictionaries(st.sampled_from(["email", "preferred_username", "name"]), st.text() | st.integers()),
    st.lists(st.text(max_size=5)),
)
def test_every_name_keeps_the_rule_and_is_nobody_elses(told: dict[str, Any], taken: list[str]) -> None:
    found = admission.user_name(proved(email_verified=True, **told), taken=taken)
    assert changes.is_name(found)
    assert found not in taken


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Noa Person", "Noa Person"),
        ("  Noa\r\n\u2028Person\x1b[2J ", "NoaPerson[2J"),
        ("Noa\ud800", "Noa"),
        ("n" * 300, "n" * 200),
        ("", "before"),
        (" \x00 ", "before"),
        (7, "before"),
        (None, "before"),
    ],
)
def test_a_display_name_is_one_line(name: object, shown: str) -> None:
    assert admission.display_name({"name": name}, before="before") == shown


@pytest.mark.parametrize(
    ("told", "address"),
    [
        (VERIFIED, "noa@example.com"),
        ({"email": "noa@example.com", "email_verified": "true"}, ""),
        ({"email": "noa@example.com"}, ""),
        ({"email": "", "email_verified": True}, ""),
        ({"email": "noa", "email_verified": True}, ""),
        ({"email": "noa@example.com, eve@example.com", "email_verified": True}, ""),
        ({"email": "nöa@example.com", "email_verified": True}, ""),
        ({"email": f"{'n' * 250}@x.example", "email_verified": True}, ""),
        ({"email": {"noa@example.com": True}, "email_verified": True}, ""),
    ],
)
def test_an_address_is_theirs_when_the_provider_vouches_for_it(told: dict[str, Any], address: str) -> None:
    assert admission.verified_email(told) == address
