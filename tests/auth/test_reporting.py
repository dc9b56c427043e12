"""The log line about a change of access."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.auth import accounts, changes
from reconciler.model.directory import Amendment, Audited
from reconciler.model.principals import Role
from tests.auth import directories

THERE = directories.directory(directories.key(directories.text(1)))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param(
            changes.remove_user(THERE, "una"),
            'user:root removed User una ({"organizationAdmin": false, "roles": {"payments": "user"}}).',
            id="a person",
        ),
        pytest.param(
            changes.set_member(THERE, project="payments", name="una", role=Role.VIEWER),
            'user:root changed Member una of the project payments ({"role": "viewer", "before": "user"}).',
            id="a role",
        ),
        pytest.param(
            changes.create_project(THERE, "billing", at=directories.AT),
            "user:root created Project billing.",
            id="a project",
        ),
    ],
)
def test_it_says_who_did_what_to_whom(change: Amendment, told: str) -> None:
    assert accounts.access_sentence(change.audited, actor="user:root") == told


def test_the_rules_of_a_sign_in_come_last_and_are_cut_off() -> None:
    audited = Audited("configured", "User", "noa", detail={"by": ["x" * 900], "roles": {"payments": None}})
    told = accounts.access_sentence(audited, actor="sign-in")
    assert told.startswith('sign-in changed User noa ({"roles": {"payments": null}, "by": ["xxx')
    assert told.endswith("x…).")


@given(st.text(max_size=900), st.text(max_size=900))
def test_it_is_bounded_and_on_one_line_whatever_things_are_called(name: str, told: str) -> None:
    sentence = accounts.access_sentence(Audited("configured", "User", name, detail={"displayName": told}), actor=name)
    assert len(sentence) < 100 + len(r"\U0010ffff") * (4 * 310)
    assert "\n" not in sentence
