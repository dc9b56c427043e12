"""The log line about a person who is not let in: the reason and the claims, bounded and on one line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.auth import admission, sign_in
from reconciler.auth.admission import AdmissionReason, NotAdmitted
from tests.auth import arrivals
from tests.auth.arrivals import POLICY, arrival


def test_the_reason_is_said_with_the_names_of_the_claims_and_no_value() -> None:
    who = arrival(groups=["canary-group"], email="canary-address@example.com")
    with pytest.raises(NotAdmitted) as refusal:
        admission.admit(arrivals.directory(), who, POLICY)
    assert sign_in.refusal_sentence(refusal.value, who.proved.claims, who="noa") == (
        f"noa is not let in (NOT_INVITED): {AdmissionReason.NOT_INVITED.value} "
        "Claims that came: email, groups, iss, sub."
    )


@given(st.dictionaries(st.text(max_size=300), st.none(), max_size=60))
def test_it_is_bounded_and_on_one_line_whatever_claims_come(claims: dict[str, object]) -> None:
    refusal = NotAdmitted(AdmissionReason.FULL)
    sentence = sign_in.refusal_sentence(refusal, claims, who="noa")
    longest = len(r"\U0010ffff")  # of one character that is escaped
    assert len(sentence) < 500 + longest * (31 * 66)
    assert "\n" not in sentence
