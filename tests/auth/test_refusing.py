"""The log line about a person who is not let in: the reason and the claims, bounded and on one line."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.auth import admission, sign_in
from reconciler.auth.admission import AdmissionReason, Arrival, NotAdmitted
from reconciler.model.directory import Directory, Project
from reconciler.settings.models import OIDC
from tests.auth import arrivals, directories
from tests.auth.arrivals import CLAIMS_DECIDE, POLICY, UNREADABLE, arrival, code, invitation

EMPTY = Directory(projects={"default": Project("default", directories.AT)})
NAMED = arrivals.policy(first_claim="email", first_value="noa@example.com")
NOBODY = "nobody of this provider administers the organization, and they are not whom auth.oidc.firstAdmin means: "
CAME = "Claims that came: iss, sub."
WAITING = arrivals.directory(invitation(code=code(1)))
OF_UNA = arrivals.directory(invitation(code=code(1), created_by="user:una"))


def said(who: Arrival, policy: OIDC, there: Directory) -> str:
    with pytest.raises(NotAdmitted) as refusal:
        admission.admit(there, who, policy)
    return sign_in.refusal_sentence(there, who, policy, refusal.value.why, who="noa")


@pytest.mark.parametrize(
    ("who", "policy", "there", "told"),
    [
        pytest.param(
            arrival(), NAMED, EMPTY, f"NOT_FIRST): {NOBODY}the claim `email` did not come. {CAME}", id="claim"
        ),
        pytest.param(
            arrival(email="eve@example.com", email_verified=True),
            NAMED,
            EMPTY,
            f"NOT_FIRST): {NOBODY}the claim `email` has another value. "
            "Claims that came: email, email_verified, iss, sub.",
            id="value",
        ),
        pytest.param(
            arrival(email="noa@example.com"),
            NAMED,
            EMPTY,
            f"NOT_FIRST): {NOBODY}the provider does not say that their address is verified (email_verified is not "
            "true). Claims that came: email, iss, sub. Their address, which is not verified: noa@example.com",
            id="address",
        ),
        pytest.param(
            arrival(code="rci_short"),
            POLICY,
            WAITING,
            f"WRONG_CODE): what they gave is no invitation code, which begins with rci_ and has 47 characters. {CAME}",
            id="no code",
        ),
        pytest.param(
            arrival(code=code(2)),
            POLICY,
            WAITING,
            f"WRONG_CODE): no invitation that waits has their code: it is mistyped, or was used or withdrawn. {CAME}",
            id="unknown code",
        ),
        pytest.param(
            arrival(code=code(1), now=directories.LATER),
            POLICY,
            WAITING,
            f"WRONG_CODE): the invitation I1 to payments expired at {directories.LATER}. {CAME}",
            id="expired code",
        ),
        pytest.param(
            arrival(code=code(1)),
            POLICY,
            OF_UNA,
            "WRONG_CODE): the invitation I1 to payments was made by user:una, who may not invite there any more. "
            f"{CAME}",
            id="code of somebody who may not invite",
        ),
        pytest.param(
            arrival(**UNREADABLE),
            CLAIMS_DECIDE,
            WAITING,
            "UNREADABLE_CLAIMS): nothing else lets them in, and their claims cannot be read. "
            "Claims that came: iss, service_projects, sub.",
            id="unreadable",
        ),
    ],
)
def test_the_reason_is_said_with_what_came(who: Arrival, policy: OIDC, there: Directory, told: str) -> None:
    assert said(who, policy, there) == f"noa is not let in ({told}"


def test_every_reason_has_a_sentence() -> None:
    assert sign_in.SENTENCES.keys() | {AdmissionReason.NOT_FIRST, AdmissionReason.WRONG_CODE} == set(AdmissionReason)


@given(
    st.dictionaries(st.text(max_size=300), st.text(max_size=900) | st.none(), max_size=60),
    st.sampled_from(AdmissionReason),
)
def test_it_is_bounded_and_on_one_line_whatever_claims_come(claims: dict[str, object], why: AdmissionReason) -> None:
    proved = replace(arrivals.proved(), claims={"email": "a\n", **claims})
    coming = Arrival(proved, code=code(2), id="U9", now=directories.AT)
    sentence = sign_in.refusal_sentence(WAITING, coming, POLICY, why, who="noa")
    longest = len(r"\U0010ffff")  # of one character that is escaped
    assert len(sentence) < 500 + longest * (31 * 66 + 256)
    assert "\n" not in sentence


def test_no_value_of_a_claim_is_in_it() -> None:
    secret = arrival(groups=["canary-group"], email="canary-verified@example.com", email_verified=True)
    assert "canary-" not in said(secret, POLICY, WAITING)
