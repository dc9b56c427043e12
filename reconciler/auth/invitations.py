"""Invitations: their codes, and the changes that they make.

A code is `rci_<43 characters>`, of 32 random bytes. Stored is a digest of it alone: with 256 bits to guess, a plain
SHA-256 is as good as a slow one.

An invitation lasts no longer than what its maker may: whoever is removed, or may not manage the members any more, must
not come back by a code that they put aside. A key that was revoked has made nothing that still counts either.
"""

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from reconciler.auth import changes
from reconciler.model import principals
from reconciler.model.directory import Amendment, Audited, Directory, Invitation, Key, is_expired
from reconciler.model.principals import SERVICE_KEY, AccessVerdict, Permission

MARK = "rci_"
RANDOM_BYTES = 32
MOST = 10_000  # invitations that wait: they are looked through for every change
LONGEST_EMAIL = 254  # characters (RFC 5321, 4.5.3.1.3, less the angle brackets)

CODE_LASTS = timedelta(days=7)
LONGEST_CODE = timedelta(days=30)  # whoever finds a code comes in
ADDRESS_LASTS = timedelta(days=30)
LONGEST_ADDRESS = timedelta(days=365)  # only one person has the address

NO_INVITATION = "There is no such invitation; GET /v1/projects/{name}/invitations lists those that wait."
EMAIL_RULE = f"must be an e-mail address of ASCII characters alone, at most {LONGEST_EMAIL} of them"
_CODE = re.compile(rf"{MARK}[A-Za-z0-9_-]{{43}}")
_BEGINNING = re.compile(rf"(?<![A-Za-z0-9]){MARK}[A-Za-z0-9_-]{{16}}")  # names of things may hold the mark alone
# ASCII alone: in lower case some letters beyond it become others of ASCII, and two addresses would be one.
_EMAIL = re.compile(r"[!-?A-~]+@[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")


def make_code(randomness: bytes) -> str:
    """A new code. `randomness` is `RANDOM_BYTES` from the system's source."""
    assert len(randomness) == RANDOM_BYTES
    return MARK + base64.urlsafe_b64encode(randomness).decode().rstrip("=")


def is_code(text: str) -> bool:
    """Return True when a text may be a code."""
    return _CODE.fullmatch(text) is not None


def code_digest(code: str) -> bytes | None:
    """Return the digest that is stored of a code, 32 bytes; None for a text that is no code."""
    return hashlib.sha256(code.encode()).digest() if is_code(code) else None


def holds_code(text: str) -> bool:
    """Return True when a text holds a code of ours, whole or cut off."""
    return _BEGINNING.search(text) is not None


def invited_address(text: str) -> str | None:
    """An e-mail address as it is kept and compared, in lower case; None for what is none that we take."""
    return text.lower() if len(text) <= LONGEST_EMAIL and _EMAIL.fullmatch(text) else None


def invitation_expiry(asked: datetime | None, *, email: str, now: datetime) -> datetime:
    """When an invitation ends: as it is asked for, or by itself. `email` is empty for a code. Raises Invalid."""
    lasts, longest = (ADDRESS_LASTS, LONGEST_ADDRESS) if email else (CODE_LASTS, LONGEST_CODE)
    until = now + lasts if asked is None else asked
    if not now < until <= now + longest:
        what = "for an e-mail address" if email else "for a code"
        raise changes.Invalid(f"The expiry must be in the future, and at most {longest.days} days away {what}.")
    return until


def invite(directory: Directory, invitation: Invitation, *, now: str) -> Amendment:
    """A new invitation, in place of the one that its address has in the project. `now` is RFC 3339, as it is kept.

    Raises Invalid, Missing, Conflict.
    """
    if invitation.email and invited_address(invitation.email) != invitation.email:
        raise changes.Invalid(f"The address {EMAIL_RULE}.")
    if invitation.project not in directory.projects:
        raise changes.Missing("There is no such project.")
    alive = waiting(directory, now=now)
    replaced = [one for one in alive if _is_for_the_same(one, invitation)]
    if len(alive) - len(replaced) >= MOST:
        raise changes.Conflict(f"There are {MOST:,} invitations, which is the most; withdraw some first.")
    detail = {"role": invitation.role.value, "by": _how(invitation), "expiresAt": invitation.expires_at}
    return Amendment(
        Audited("created", "Invitation", invitation.id, project=invitation.project, detail=detail),
        invitations=(invitation,),
        ended_invitations=(*_over(directory, alive), *replaced),
    )


def withdraw(directory: Directory, *, project: str, identifier: str, now: str) -> Amendment:
    """An invitation that opens nothing from now on. Raises Missing."""
    alive = waiting(directory, now=now)
    found = next((one for one in alive if (one.id, one.project) == (identifier, project)), None)
    if found is None:
        raise changes.Missing(NO_INVITATION)
    detail = {"role": found.role.value, "by": _how(found)}
    return Amendment(
        Audited("deleted", "Invitation", found.id, project=project, detail=detail),
        ended_invitations=(*_over(directory, alive), found),
    )


def waiting(directory: Directory, *, now: str, project: str | None = None) -> tuple[Invitation, ...]:
    """The invitations that count, of one project or of all, by their ids: the oldest first."""
    found = sorted(directory.invitations.values(), key=lambda one: one.id)
    return counting(directory, (one for one in found if project in (None, one.project)), now=now)


def counting(directory: Directory, among: Iterable[Invitation], *, now: str) -> tuple[Invitation, ...]:
    """Those of a few invitations that can be taken: not over, and their makers may still make them."""
    alive = [one for one in among if one.expires_at > now and one.project in directory.projects]
    if not alive:
        return ()
    keys = {f"key:{key.id}": key for key in directory.keys.values() if not is_expired(key, now=now)}
    makers = {(one.created_by, one.project) for one in alive}
    able = {(maker, project) for maker, project in makers if _may_make(directory, maker, project, keys=keys)}
    return tuple(one for one in alive if (one.created_by, one.project) in able)


def _over(directory: Directory, alive: Iterable[Invitation]) -> tuple[Invitation, ...]:
    """Those that nobody can take any more, which go with the next change, sorted."""
    left = {one.id for one in alive}
    return tuple(one for identifier, one in sorted(directory.invitations.items()) if identifier not in left)


def _may_make(directory: Directory, maker: str, project: str, *, keys: Mapping[str, Key]) -> bool:
    if maker == SERVICE_KEY.name:
        return True
    user, key = directory.users.get(maker.removeprefix("user:")), keys.get(maker)
    if key is not None:
        principal = directory.holder_of(key)
    elif user is not None and maker.startswith("user:"):
        principal = directory.principal(user)
    else:
        return False
    return principals.judge(principal, Permission.MANAGE_MEMBERS, project=project) is AccessVerdict.ALLOWED


def _is_for_the_same(one: Invitation, other: Invitation) -> bool:
    return bool(one.email) and (one.project, one.email) == (other.project, other.email)


def _how(invitation: Invitation) -> str:
    """For the audit, which keeps what it is told: no address."""
    return "email" if invitation.email else "code"
