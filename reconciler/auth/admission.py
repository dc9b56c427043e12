"""Admission of a person whom a provider proved, and the roles that follow."""

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

from reconciler.auth import changes, claims
from reconciler.auth.claims import GrantedRoles, UnreadableClaims
from reconciler.model import directory, errors, text
from reconciler.model.directory import (
    Amendment,
    Audited,
    Directory,
    Invitation,
    Member,
    ProvedIdentity,
    User,
)
from reconciler.model.principals import Role, weaker

if TYPE_CHECKING:
    from reconciler.settings.models import OIDC

# The change of a sign-in: one amendment, and its audit event.

MOST_TOLD = 20  # rules or projects in one event or sentence: the provider's claims decide how many there are


@dataclass(frozen=True, slots=True)
class ProvisionedStanding:
    """The access that a person shall have: roles, sentences about the rules behind them, and the used invitations."""

    organization_admin: bool
    roles: Mapping[str, Role]
    rules: tuple[str, ...] = ()
    taken: tuple[Invitation, ...] = ()

    @property
    def is_nothing(self) -> bool:
        """True if it gives no access."""
        return not self.organization_admin and not self.roles


NO_STANDING = ProvisionedStanding(organization_admin=False, roles={})


def provisioned_standing(directory: Directory, person: User | None) -> ProvisionedStanding:
    """Return the present access of a person; none for a new person."""
    if person is None:
        return NO_STANDING
    return ProvisionedStanding(organization_admin=person.organization_admin, roles=directory.roles_of(person))


def sign_in_amendment(
    known: User | None, person: User, *, before: ProvisionedStanding, after: ProvisionedStanding
) -> Amendment | None:
    """Return the change that gives this access; None if nothing changes. `person` is the person after it."""
    person = replace(person, organization_admin=after.organization_admin)
    projects = sorted(before.roles.keys() | after.roles.keys())
    roles = {name: after.roles.get(name) for name in projects if before.roles.get(name) is not after.roles.get(name)}
    if person == known and not roles and not after.taken:
        return None
    # It contains no address, name or claim: the audit is kept, but people must be forgotten.
    detail: dict[str, object] = {"by": list(after.rules[:MOST_TOLD])}
    if known is None or known.organization_admin != person.organization_admin:
        detail["organizationAdmin"] = person.organization_admin
    if roles:
        detail["roles"] = roles
    if after.taken:
        detail["invitations"] = [invitation.id for invitation in after.taken]
    if known is not None and known.display_name != person.display_name:
        detail["displayName"] = "changed"
    if known is not None and known.email != person.email:
        detail["email"] = "changed"
    return Amendment(
        Audited("created" if known is None else "configured", "User", person.name, detail=detail),
        users=() if person == known else (person,),
        members=tuple(Member(project, person.id, role) for project, role in roles.items()),
        ended_invitations=after.taken,
    )


# The name and the verified e-mail address in an ID token.

_UNSHOWN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")  # characters that must not be in a line of text
_HASHED = 12  # hexadecimal digits in a generated name


def verified_email(claims: Mapping[str, object]) -> str:
    """Return the address that the provider has verified, in lower case; empty if there is none or it is not accepted.

    Only JSON `true` counts as verified, because an address admits people.
    """
    email = claims.get("email")
    if claims.get("email_verified") is not True or not isinstance(email, str):
        return ""
    return changes.invited_address(email) or ""


def display_name(claims: Mapping[str, object], *, before: str = "") -> str:
    """Return the display name on one line; the previous one if the token has none."""
    name = claims.get("name")
    text = _UNSHOWN.sub("", name).strip() if isinstance(name, str) else ""
    return text[: changes.LONGEST_TEXT].strip() or before


def user_name(proved: ProvedIdentity, *, taken: Collection[str]) -> str:
    """Return the name of a new person: the verified address, otherwise `preferred_username`, otherwise a digest of the
    identity. If the name is taken, a number follows.
    """
    first = _wanted(proved)
    others = {one.lower() for one in taken}  # people would confuse two names that differ only in case
    number, found = 1, first
    while found.lower() in others:
        number += 1
        ending = f"-{number}"
        found = first[: changes.LONGEST_NAME - len(ending)] + ending
    return found


def _wanted(proved: ProvedIdentity) -> str:
    preferred = proved.claims.get("preferred_username")
    # An unverified name must not look like an address: people who give roles by name would believe it.
    unlike = preferred.partition("@")[0] if isinstance(preferred, str) else None
    for offered in (verified_email(proved.claims), unlike):
        # No key or code of ours: URLs must not have one, so nobody could remove the person.
        has_credential = offered is not None and (directory.holds_key(offered) or changes.holds_code(offered))
        if offered is not None and changes.is_name(offered) and not has_credential:
            return offered
    whole = f"{proved.identity.issuer}\0{proved.identity.subject}".encode("utf-8", "surrogatepass")
    return "person-" + hashlib.sha256(whole).hexdigest()[:_HASHED]


# The decision at each sign-in: if a person is admitted, and with which roles.
#
# The first person always becomes organization admin. If `disableInvitations` is true, claims decide at each sign-in,
# and roles become exactly what they grant. If it is false, claims and invitations together admit a new person; for a
# known person claims no longer count, and further invitations add roles.
#
# An organization admin keeps memberships, although they have no effect meanwhile.


class AdmissionReason(Enum):
    """The reason why a person is not admitted, with the sentence for the person. No sentence tells who else there is,
    or whom an invitation waits for.
    """

    # nobody is there yet, and `auth.oidc.firstAdmin` means somebody else
    NOT_FIRST = (
        "Nobody administers this service yet, and its settings say who is to be the first; ask whoever set it up."
    )
    # no role, no code, no verified address that waits, no claims that grant anything
    NOT_INVITED = (
        "You have no role in any project here; ask an administrator of one for an invitation. One of your e-mail "
        "address counts only when your provider says that the address is verified."
    )
    # unknown, used or expired: nobody learns which
    WRONG_CODE = (
        "This invitation code opens nothing: it is mistyped, was used, or has expired; ask whoever gave it to you for "
        "another one."
    )
    # claims decide (`disableInvitations`), and they grant nothing
    GRANTED_NOTHING = (
        "What your provider says of you opens no project here; ask whoever manages your groups and roles there."
    )
    # nothing else lets them in, and the claims cannot be read
    UNREADABLE_CLAIMS = (
        "What your provider says of you cannot be read; ask whoever manages your groups and roles there, and show them "
        "this: {reason}"
    )
    # there are as many people as there may be
    FULL = "There are as many people or memberships here as there may be; ask an administrator to remove some."


class NotAdmitted(errors.Refused):
    """The provider knows the person, but they have no access here. `why` is a sentence that tells them what to do;
    `told` are sentences for the log.
    """

    def __init__(self, why: AdmissionReason, *, reason: str = "", told: tuple[str, ...] = ()) -> None:
        super().__init__(why.value.format(reason=reason))
        self.why = why
        self.told = told


@dataclass(frozen=True, slots=True)
class Arrival:
    """A sign-in to decide about. `code` is an invitation's, or empty; `id` is for a new person; `now` is RFC 3339."""

    proved: ProvedIdentity
    code: str = field(repr=False)
    id: str
    now: str


@dataclass(frozen=True, slots=True)
class Admission:
    """A decision: the person's id, and the change to write first, None for no change. `refused` is raised after the
    write: claims took all access from a person. `told` are sentences for the log about what was skipped.
    """

    user: str
    amendment: Amendment | None
    refused: NotAdmitted | None = None
    told: tuple[str, ...] = ()


def admit(directory: Directory, arrival: Arrival, policy: "OIDC") -> Admission:
    """Decide about a sign-in. Raises NotAdmitted if the person is refused and no change must be written."""
    known = directory.person(arrival.proved.identity)
    before = provisioned_standing(directory, known)
    if _is_first(directory, arrival.proved, policy):
        roles = dict.fromkeys(sorted(directory.projects), Role.ADMIN)
        decided = _Decided(ProvisionedStanding(organization_admin=True, roles=roles, rules=("The first person.",)))
    elif known is None or policy.disable_invitations:
        decided = _by_claims(directory, arrival, policy, known=known, before=before)
    else:
        after = _with(before, _invitations(directory, arrival))
        decided = _Decided(after, why=AdmissionReason.NOT_INVITED if after.is_nothing else None)
    return _admission(directory, arrival, known=known, before=before, decided=decided)


@dataclass(frozen=True, slots=True)
class _Decided:
    """The access that a person shall have, and the reason if it is none. `told` are ends of sentences for the log,
    `unread` names claims that cannot be read.
    """

    after: ProvisionedStanding
    told: tuple[str, ...] = ()
    why: AdmissionReason | None = None
    unread: str = ""


def _is_first(directory: Directory, proved: ProvedIdentity, policy: "OIDC") -> bool:
    """Return True for the first person. With `auth.oidc.firstAdmin` claims may have admitted others before; the named
    person is the first as long as there is no organization admin.
    """
    if not policy.first_admin.claim:
        return not directory.users
    claim, wanted = policy.first_admin.claim, policy.first_admin.value
    if claim == "email" and proved.claims.get("email_verified") is not True:
        return False
    value = proved.claims.get(claim)
    is_named = bool(wanted) and wanted in (value if isinstance(value, list) else [value])
    return is_named and not _has_admin(directory.users.values(), proved)


def _has_admin(users: Iterable[User], proved: ProvedIdentity) -> bool:
    """Return True if there is an organization admin of the present provider: those of a former one cannot sign in."""
    issuer = proved.identity.issuer
    return any(
        user.organization_admin and user.identity is not None and user.identity.issuer == issuer for user in users
    )


def _by_claims(
    directory: Directory, arrival: Arrival, policy: "OIDC", *, known: User | None, before: ProvisionedStanding
) -> _Decided:
    """Decide by claims, and by invitations too if they count, which is for a new person."""
    taken = () if policy.disable_invitations else _invitations(directory, arrival)
    found = claims.granted_roles(arrival.proved.claims, policy.custom_claims, projects=directory.projects)
    if isinstance(found, UnreadableClaims):  # rule 7 of the direct claims: the present access stays
        after = _with(before, taken)
        told = (f"the claims cannot be read and change nothing: {found.reason}",)
        why = AdmissionReason.UNREADABLE_CLAIMS if after.is_nothing else None
        return _Decided(after, told=told, why=why, unread=found.reason)
    if not found.organization_admin and known is not None and _is_last_admin(directory, known, arrival.proved):
        told = ("the only organization admin stays one, though the claims do not say it",)
        return _Decided(before, told=(*told, *_skipped(found)))
    roles = before.roles if found.organization_admin else found.roles
    rules = () if found.is_nothing and taken else found.reasons
    after = _with(ProvisionedStanding(found.organization_admin, roles, rules), taken)
    if not after.is_nothing:
        return _Decided(after, told=_skipped(found))
    why = AdmissionReason.GRANTED_NOTHING if policy.disable_invitations else AdmissionReason.NOT_INVITED
    if policy.first_admin.claim and not _has_admin(directory.users.values(), arrival.proved):
        why = AdmissionReason.NOT_FIRST
    return _Decided(after, told=_skipped(found), why=why)


def _admission(
    directory: Directory, arrival: Arrival, *, known: User | None, before: ProvisionedStanding, decided: _Decided
) -> Admission:
    """Return the decision with the change to write. Raises NotAdmitted if the person is refused without a change."""
    after, why = decided.after, decided.why
    added = after.roles.keys() - before.roles.keys()
    if added and changes.count_members(directory) + len(added) > changes.MOST_MEMBERSHIPS:
        kept = {project: role for project, role in after.roles.items() if project not in added}
        after = replace(after, roles=kept, taken=())
    if after.is_nothing or (known is None and len(directory.users) >= changes.MOST):
        why = why or AdmissionReason.FULL
    person = _person(directory, arrival, known=known)
    told = tuple(f"{person.name} signs in: {one}" for one in decided.told)
    refused = None if why is None else NotAdmitted(why, reason=decided.unread, told=told)
    if refused is not None and before.is_nothing:
        raise refused
    amendment = sign_in_amendment(known, person, before=before, after=after)
    return Admission(user=person.id, amendment=amendment, refused=refused, told=told)


def _person(directory: Directory, arrival: Arrival, *, known: User | None) -> User:
    """Return the person with the display name and address of the token."""
    proved = arrival.proved
    person = known or User(
        id=arrival.id,
        name=user_name(proved, taken=directory.users),
        created_at=arrival.now,
        identity=proved.identity,
    )
    return replace(
        person,
        display_name=display_name(proved.claims, before=person.display_name),
        email=verified_email(proved.claims),
    )


def _invitations(directory: Directory, arrival: Arrival) -> tuple[Invitation, ...]:
    """Return the invitations of this person and of their code. Raises NotAdmitted for a code that opens nothing."""
    code = arrival.code.strip()
    digest = changes.code_digest(code)
    address = verified_email(arrival.proved.claims)
    every = directory.invitations.values()
    # A plain comparison is safe: without the code, nobody can choose its digest letter by letter.
    by_code = [one for one in every if digest is not None and one.digest == digest]
    by_address = [one for one in every if address and one.email == address]
    found = changes.valid_invitations(directory, (*by_code, *by_address), now=arrival.now)
    if code and not any(one.digest == digest for one in found if digest is not None):
        raise NotAdmitted(AdmissionReason.WRONG_CODE)
    return tuple(sorted(found, key=lambda one: one.id))


def _with(start: ProvisionedStanding, taken: Iterable[Invitation]) -> ProvisionedStanding:
    """Add the roles of invitations, never lowering a role."""
    roles, rules, taken = dict(start.roles), list(start.rules), tuple(taken)
    for invitation in taken:
        before = roles.get(invitation.project)
        if before is None or weaker(before, invitation.role) is before:
            roles[invitation.project] = invitation.role
        how = "an e-mail address" if invitation.email else "a code"
        rules.append(f"{invitation.project}: {invitation.role.value}, invitation {invitation.id} by {how}.")
    return replace(start, roles=dict(sorted(roles.items())), rules=tuple(rules), taken=taken)


def _is_last_admin(directory: Directory, person: User, proved: ProvedIdentity) -> bool:
    others = (user for user in directory.users.values() if user.id != person.id)
    return person.organization_admin and not _has_admin(others, proved)


def _skipped(found: GrantedRoles) -> tuple[str, ...]:
    if not found.unknown:
        return ()
    shown = ", ".join(map(text.visible, found.unknown[:MOST_TOLD]))
    more = f" and {len(found.unknown) - MOST_TOLD} more" if len(found.unknown) > MOST_TOLD else ""
    return (f"the claims name projects that do not exist, which are skipped: {shown}{more}",)
