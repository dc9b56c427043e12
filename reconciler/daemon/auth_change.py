"""Another `auth.type` than the last time: everybody who could sign in so far goes, once somebody has confirmed it.

Belongs here: what would go, the sentence that says so, and the change; and the sessions of another provider's people.
Does not: the first person of the new type (`first_admin`, `access.admitting`).

It happens before anybody is let in. Sessions go first, from a file of their own; all else goes in one transaction with
the record of the new type. Whoever dies in between has people who sign in again, and is asked again.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from reconciler.auth.accounts import Accounts
from reconciler.model import errors
from reconciler.model.directory import Amendment, Audited, Directory
from reconciler.store.contract import Store
from reconciler.store.operations import Operations

log = logging.getLogger(__name__)

OF_OLD = "local"  # what a store with people was used with before stores recorded it
OPTION = "--confirm-auth-change"


@dataclass(frozen=True, slots=True)
class AuthChange:
    """How much of each would go."""

    people: int
    memberships: int
    invitations: int
    keys: int
    sessions: int

    def __str__(self) -> str:
        return (
            f"people: {self.people:,}, memberships: {self.memberships:,}, invitations: {self.invitations:,}, "
            f"keys: {self.keys:,}, sessions: {self.sessions:,}"
        )


def auth_type_before(directory: Directory, *, recorded: str | None, configured: str) -> str:
    """How people signed in so far."""
    if recorded is None:
        return OF_OLD if directory.users else configured
    return recorded


def auth_change(directory: Directory, *, sessions: int) -> AuthChange:
    """All of them."""
    return AuthChange(
        people=len(directory.users),
        memberships=sum(map(len, directory.members.values())),
        invitations=len(directory.invitations),
        keys=len(directory.keys),
        sessions=sessions,
    )


def auth_change_refusal(what: AuthChange, *, was: str, configured: str) -> errors.Refused:
    """What a start says that nobody confirmed."""
    return errors.Refused(
        f"auth.type is {configured}, and was {was} the last time: starting so removes everybody who could sign in and "
        f"all that lets somebody in ({what}), but no resource; set it back, or start once with {OPTION}."
    )


def change_auth(directory: Directory, *, was: str, configured: str) -> Amendment:
    """Everybody goes, with every key that is stored; projects and resources stay."""
    what = auth_change(directory, sessions=0)
    detail = {
        "before": was,
        "after": configured,
        "users": what.people,
        "members": what.memberships,
        "invitations": what.invitations,
        "keys": what.keys,
    }
    return Amendment(
        Audited("configured", "Authentication", configured, detail=detail),
        removed_users=tuple(user for _, user in sorted(directory.users.items())),
        revoked_keys=tuple(key for _, key in sorted(directory.keys.items())),
        ended_invitations=tuple(one for _, one in sorted(directory.invitations.items())),
        auth_type=configured,
    )


async def settle_auth(
    accounts: Accounts,
    store: Store,
    operations: Operations,
    *,
    configured: str,
    is_confirmed: bool,
    check: Callable[[], Awaitable[None]],
) -> None:
    """Have the store be of this type. `check` raises Refused when nobody could sign in so, and is asked before anything
    goes. Raises Refused when something would go and nobody confirmed it, what `check` does, StoreFault.
    """
    recorded = await store.auth_type()
    was = auth_type_before(accounts.directory, recorded=recorded, configured=configured)
    if was != configured:
        sessions = await operations.sessions()
        what = auth_change(accounts.directory, sessions=len(sessions))
        if any((what.people, what.memberships, what.invitations, what.keys)):
            if not is_confirmed:
                raise auth_change_refusal(what, was=was, configured=configured)
            await check()
            await operations.remove_sessions([row.digest for row in sessions])
            await accounts.amend(
                lambda directory: change_auth(directory, was=was, configured=configured), actor="settings", request=None
            )
            log.warning("auth.type is %s now and was %s; removed %s.", configured, was, what)
            return
        await operations.remove_sessions([row.digest for row in sessions])
    if recorded != configured:
        await store.put_auth_type(configured)


async def sign_out_others(accounts: Accounts, operations: Operations, *, issuer: str) -> None:
    """End the sessions of people whom another provider knew: whoever set this one may have reasons to believe that one
    no more. They keep what they have, and none of them can sign in. Raises StoreFault.
    """
    users = ((row.digest, accounts.directory.user(row.user)) for row in await operations.sessions())
    others = [digest for digest, user in users if user and user.identity and user.identity.issuer != issuer]
    if others:
        await operations.remove_sessions(others)
        log.warning("auth.oidc.issuer is another one: %d sessions of people whom it does not know ended.", len(others))
