"""Why somebody is not let in, as the operator reads it in the log: what the settings ask for, and what came instead.

Belongs here: one sentence for each reason, and which claims came. Does not: the reasons (`admitting`), what the person
reads (likewise).

Of claims their names stand in it alone, and of addresses only one that nobody vouches for: it tells who it is that asks
why they cannot come in. All of it is bounded and on one line, since the provider chose it.
"""

from collections.abc import Mapping

from reconciler.access import changing, inviting
from reconciler.access.admitting import AdmissionPolicy, AdmissionReason, Arrival
from reconciler.model import text as model_text
from reconciler.model.directory import Directory

MOST_NAMES = 30  # of claims
LONGEST_NAME = 64  # characters of one of them

SENTENCES: Mapping[AdmissionReason, str] = {
    AdmissionReason.NOT_INVITED: "they have no role, no invitation waits for them, and no claim of theirs grants "
    "anything",
    AdmissionReason.UNVERIFIED_ADDRESS: "they have no role, no claim of theirs grants anything, and no invitation of "
    "their address "
    "would count, since the provider does not say that it is verified",
    AdmissionReason.GRANTED_NOTHING: "auth.oidc.disableInvitations is true, and their claims grant nothing",
    AdmissionReason.UNREADABLE_CLAIMS: "nothing else lets them in, and their claims cannot be read",
    AdmissionReason.FULL: f"there are {changing.MOST:,} people or {changing.MOST_MEMBERSHIPS:,} memberships, which "
    "is the most",
}


def refusal_sentence(
    directory: Directory, arrival: Arrival, policy: AdmissionPolicy, why: AdmissionReason, *, who: str
) -> str:
    """What the log says; `who` is what they are called, as plain text."""
    if why is AdmissionReason.NOT_FIRST:
        reason = _not_first(arrival.proved.claims, policy)
    elif why is AdmissionReason.WRONG_CODE:
        reason = _wrong_code(directory, arrival)
    else:
        reason = SENTENCES[why]
    return f"{who} is not let in ({why.name}): {reason}. {_came(arrival.proved.claims)}"


def _not_first(claims: Mapping[str, object], policy: AdmissionPolicy) -> str:
    """What of `auth.oidc.firstAdmin` does not hold. It says what the settings say, and nothing of a claim's value."""
    name = model_text.visible(policy.first_claim)
    start = "nobody of this provider administers the organization, and they are not whom auth.oidc.firstAdmin means: "
    if claims.get(policy.first_claim) is None:
        return f"{start}the claim `{name}` did not come"
    if policy.first_claim == "email" and claims.get("email_verified") is not True:
        return f"{start}the provider does not say that their address is verified (email_verified is not true)"
    return f"{start}the claim `{name}` has another value"


def _wrong_code(directory: Directory, arrival: Arrival) -> str:
    """As far as it is known: of a code that was used or withdrawn nothing is kept."""
    digest = inviting.code_digest(arrival.code.strip())
    if digest is None:
        return "what they gave is no invitation code, which begins with rci_ and has 47 characters"
    found = next((one for one in directory.invitations.values() if one.digest == digest), None)
    if found is None:
        return "no invitation that waits has their code: it is mistyped, or was used or withdrawn"
    if found.expires_at <= arrival.now:
        return f"the invitation {found.id} to {found.project} expired at {found.expires_at}"
    return (
        f"the invitation {found.id} to {found.project} was made by {model_text.visible(found.created_by)}, who may not "
        "invite there any more"
    )


def _came(claims: Mapping[str, object]) -> str:
    """The names of the claims, and an address that is not verified."""
    names = sorted(claims)
    shown = ", ".join(_cut(name, LONGEST_NAME) for name in names[:MOST_NAMES])
    more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    email = claims.get("email")
    is_verified = claims.get("email_verified") is True
    address = "" if is_verified or not isinstance(email, str) or not email else _cut(email, inviting.LONGEST_EMAIL)
    return f"Claims that came: {shown}{more}." + (
        f" Their address, which is not verified: {address}" if address else ""
    )


def _cut(text: str, longest: int) -> str:
    """The text on one line, and no longer than this before what cannot be shown is escaped."""
    return model_text.visible(text[:longest]) + ("…" if len(text) > longest else "")
