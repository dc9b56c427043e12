"""People whom a provider proved, on their way in: the decision, written down, and the session that follows.

Belongs here: that order. Does not: the decision (`access.admitting`), the provider (`oidc`), cookies (the doors).

The decision is made on what there is when it is written, under the lock of `accounts`: of two who are the first, or who
bring one code, one is. The session begins when that is on the disk; whoever is interrupted in between signs in again.
"""

import logging
import os
from typing import NamedTuple

from reconciler.access import admitting, profiles, refusing
from reconciler.access.admitting import Admission, AdmissionPolicy, Arrival, NotAdmitted
from reconciler.access.changing import Conflict
from reconciler.accounts import Accounts
from reconciler.model import ids
from reconciler.model.clock import Clock, rfc3339
from reconciler.model.directory import Amendment, Directory, ProvedIdentity, User
from reconciler.signing_in.sessions import SessionGone, Sessions

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
        who = profiles.user_name(arrival.proved, taken=()) if known is None else known.name
        return refusing.refusal_sentence(directory, arrival, self._policy, refusal.why, who=who)

    async def _decided(self, arrival: Arrival, *, request: str) -> Admission:
        admission = admitting.admit(self._accounts.directory, arrival, self._policy)
        if admission.amendment is None:  # most times: nobody has to wait for the disk
            return admission
        decided: list[Admission] = []

        def decide(directory: Directory) -> Amendment | None:
            """Once more, on what there is now that nobody else changes it."""
            decided.append(admitting.admit(directory, arrival, self._policy))
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
