"""Sign-in of people whom a provider proved."""

import logging
import os
from collections.abc import Mapping
from typing import NamedTuple

from reconciler.auth import admission as auth_admission
from reconciler.auth import changes, invitations
from reconciler.auth.accounts import Accounts
from reconciler.auth.admission import Admission, AdmissionPolicy, AdmissionReason, Arrival, NotAdmitted
from reconciler.auth.changes import Conflict
from reconciler.auth.sessions import SessionGone, Sessions
from reconciler.model import ids
from reconciler.model import text as model_text
from reconciler.model.clock import Clock, rfc3339
from reconciler.model.directory import Amendment, Directory, ProvedIdentity, User

# Refusals as the operator reads them in the log: what the settings ask for, and what came instead.
#
# Of claims their names stand in it alone, and of addresses only one that nobody vouches for: it tells who it is that
# asks why they cannot come in. All of it is bounded and on one line, since the provider chose it.

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
    AdmissionReason.FULL: f"there are {changes.MOST:,} people or {changes.MOST_MEMBERSHIPS:,} memberships, which "
    "is the most",
}


def refusal_sentence(
    directory: Directory, arrival: Arrival, policy: AdmissionPolicy, why: AdmissionReason, *, who: str
) -> str:
    """Return the sentence for the log; `who` is their name, as plain text."""
    if why is AdmissionReason.NOT_FIRST:
        reason = _not_first(arrival.proved.claims, policy)
    elif why is AdmissionReason.WRONG_CODE:
        reason = _wrong_code(directory, arrival)
    else:
        reason = SENTENCES[why]
    return f"{who} is not let in ({why.name}): {reason}. {_came(arrival.proved.claims)}"


def _not_first(claims: Mapping[str, object], policy: AdmissionPolicy) -> str:
    """Return which part of `auth.oidc.firstAdmin` does not hold. It quotes the settings, never a claim's value."""
    name = model_text.visible(policy.first_claim)
    start = "nobody of this provider administers the organization, and they are not whom auth.oidc.firstAdmin means: "
    if claims.get(policy.first_claim) is None:
        return f"{start}the claim `{name}` did not come"
    if policy.first_claim == "email" and claims.get("email_verified") is not True:
        return f"{start}the provider does not say that their address is verified (email_verified is not true)"
    return f"{start}the claim `{name}` has another value"


def _wrong_code(directory: Directory, arrival: Arrival) -> str:
    """As far as it is known: of a code that was used or withdrawn nothing is kept."""
    digest = invitations.code_digest(arrival.code.strip())
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
    address = "" if is_verified or not isinstance(email, str) or not email else _cut(email, invitations.LONGEST_EMAIL)
    return f"Claims that came: {shown}{more}." + (
        f" Their address, which is not verified: {address}" if address else ""
    )


def _cut(text: str, longest: int) -> str:
    """The text on one line, and no longer than this before what cannot be shown is escaped."""
    return model_text.visible(text[:longest]) + ("…" if len(text) > longest else "")


# People whom a provider proved, on their way in: the decision, written down, and the session that follows.
#
# The decision is made on what there is when it is written, under the lock of `accounts`: of two who are the first, or
# who bring one code, one is. The session begins when that is on the disk; whoever is interrupted in between signs in
# again.

log = logging.getLogger(__name__)

ACTOR = "sign-in"  # in the audit: neither the person nor an admin asked for it, the rules gave it
TIMES = 3  # somebody is let in, before it is said that they are being removed as fast as they come


class Entered(NamedTuple):
    """Somebody who is in: what the session's cookie holds, and who it is."""

    token: str
    user: User

    def __repr__(self) -> str:
        return f"Entered(user={self.user.name!r})"


class People:
    """Lets people in, one at a time."""

    def __init__(self, accounts: Accounts, sessions: Sessions, *, policy: AdmissionPolicy, clock: Clock) -> None:
        self._accounts = accounts
        self._sessions = sessions
        self._policy = policy
        self._clock = clock

    async def enter(self, proved: ProvedIdentity, *, code: str, instead_of: str, request: str) -> Entered:
        """Let somebody in and begin a session; `code` of an invitation and `instead_of`, the token of a session that
        there was, may be empty. Raises NotAdmitted, Conflict, StoreFault.
        """
        for _ in range(TIMES):
            admission = await self._admitted(proved, code=code, request=request)
            directory = self._accounts.directory
            user = directory.user(admission.user)
            if user is not None:
                try:
                    token = await self._sessions.begin(
                        user, since=directory, id_token=proved.id_token, instead_of=instead_of
                    )
                except SessionGone:
                    pass
                else:
                    return Entered(token, user)
            code = ""  # it was taken
        raise Conflict("Your access was changed while you signed in; sign in once more.")

    async def _admitted(self, proved: ProvedIdentity, *, code: str, request: str) -> Admission:
        """Decide, and write what that changes. Raises NotAdmitted, StoreFault."""
        arrival = self._arrival(proved, code)
        try:
            admission = await self._decided(arrival, request=request)
        except NotAdmitted as refusal:
            self._tell((*refusal.told, self._why_not(arrival, refusal)))
            raise
        self._tell(admission.told)
        if admission.refused is not None:
            self._tell((self._why_not(arrival, admission.refused),))
            raise admission.refused
        return admission

    def _why_not(self, arrival: Arrival, refusal: NotAdmitted) -> str:
        """For the operator."""
        directory = self._accounts.directory
        known = directory.person(arrival.proved.identity)
        who = auth_admission.user_name(arrival.proved, taken=()) if known is None else known.name
        return refusal_sentence(directory, arrival, self._policy, refusal.why, who=who)

    async def _decided(self, arrival: Arrival, *, request: str) -> Admission:
        admission = auth_admission.admit(self._accounts.directory, arrival, self._policy)
        if admission.amendment is None:  # most times: nobody has to wait for the disk
            return admission
        decided: list[Admission] = []

        def decide(directory: Directory) -> Amendment | None:
            """Once more, on what there is now that nobody else changes it."""
            decided.append(auth_admission.admit(directory, arrival, self._policy))
            return decided[-1].amendment

        await self._accounts.settle(decide, actor=ACTOR, request=request)
        return decided[-1]

    def _arrival(self, proved: ProvedIdentity, code: str) -> Arrival:
        now = self._clock()
        identifier = ids.ulid(milliseconds=int(now.timestamp() * 1000), randomness=os.urandom(ids.RANDOM_BYTES))
        return Arrival(proved, code=code, id=identifier, now=rfc3339(now))

    def _tell(self, sentences: tuple[str, ...]) -> None:
        for sentence in sentences:
            log.info("%s", sentence)
