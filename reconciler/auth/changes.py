"""Changes of access: their rules, and the amendments that they make.

They concern projects, people, members, keys and invitations. The caller checks roles before.
"""

import base64
import hashlib
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta

from reconciler.model import errors, names, principals
from reconciler.model.directory import (
    Amendment,
    Audited,
    Directory,
    Invitation,
    Key,
    Member,
    Project,
    User,
    is_expired,
)
from reconciler.model.principals import (
    OF_PEOPLE,
    UNLISTED,
    AccessVerdict,
    Permission,
    Principal,
    Role,
    Scope,
    weaker,
)

LONGEST_TEXT = 200  # characters of a display name or of a key's name
LONGEST_NAME = 128  # characters of what a person is called
SHORTEST_PASSWORD = 12  # characters
LONGEST_PASSWORD = 256  # characters, of at most four bytes each: hashing more would only cost
MOST = 10_000  # people, keys, projects: every change looks through all of them
MOST_MEMBERSHIPS = 100_000  # in all projects together
MOST_PERSONAL = 50  # keys of one person: any member may create some, and must not use up the limit for all
KEY_LASTS = timedelta(days=400)  # at most; a project's key that asks for no end gets this one

NO_KEY = "There is no such key; GET /v1/api-keys lists those that you may manage."
USER_RULE = "must be 1 to 128 letters, digits, `.`, `_`, `@`, `+` or `-`, and begin with a letter or digit"
_LINE = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]*")
_USER = re.compile(r"[A-Za-z0-9][-A-Za-z0-9._@+]{0,127}")


class Invalid(errors.Refused):
    """The request breaks a rule."""


class Missing(errors.Refused):
    """There is no such project, person, membership or key, or the caller may not see it."""


class Conflict(errors.Refused):
    """The change contradicts the present state."""


def create_project(directory: Directory, name: str, *, at: str) -> Amendment:
    """Create a project. Raises Invalid, Conflict."""
    if (rule := names.wrong_project(name)) is not None:
        raise Invalid(f"The project's name {rule}.")
    if name in directory.projects:
        raise Conflict(f"The project {name} exists already.")
    _has_room(directory.projects, "projects")
    return Amendment(Audited("created", "Project", name, project=name), projects=(Project(name, created_at=at),))


def create_user(directory: Directory, user: User) -> Amendment:
    """Create a person. Raises Invalid, Conflict."""
    if not is_name(user.name):
        raise Invalid(f"The user's name {USER_RULE}.")
    _is_text(user.display_name, "display name")
    if user.name in directory.users:
        raise Conflict(f"The user {user.name} exists already.")
    _has_room(directory.users, "users")
    detail = {"organizationAdmin": user.organization_admin}
    return Amendment(Audited("created", "User", user.name, detail=detail), users=(user,))


def is_name(text: str) -> bool:
    """Return True if a person may have this name."""
    return _USER.fullmatch(text) is not None


def change_user(directory: Directory, after: User) -> Amendment:
    """Change a person's display name, password, or role in the organization. Raises Invalid, Missing, Conflict."""
    before = user(directory, after.name)
    if after.password != before.password:
        check_has_password(before)
    _is_text(after.display_name, "display name")
    if before.organization_admin and not after.organization_admin:
        _is_not_last(directory, before)
    detail: dict[str, object] = {}
    if after.organization_admin != before.organization_admin:
        detail["organizationAdmin"] = after.organization_admin
    if after.display_name != before.display_name:
        detail["displayName"] = after.display_name
    if after.password != before.password:
        detail["password"] = "changed"  # noqa: S105 - says that it changed
    return Amendment(Audited("configured", "User", after.name, detail=detail), users=(after,))


def remove_user(directory: Directory, name: str) -> Amendment:
    """Remove a person with their memberships and personal keys. Keys of projects that they made stay, because programs
    use them, and must be reviewed. Their invitations end: otherwise they could return with a code. Raises Missing,
    Conflict.
    """
    gone = user(directory, name)
    if gone.organization_admin:
        _is_not_last(directory, gone)
    roles = {project: role.value for project, role in directory.roles_of(gone).items()}
    owned = personal_keys(directory, gone)
    detail: dict[str, object] = {"organizationAdmin": gone.organization_admin, "roles": roles}
    if owned:
        detail["keys"] = [key.id for key in owned]
    theirs = tuple(one for _, one in sorted(directory.invitations.items()) if one.created_by == f"user:{name}")
    audited = Audited("deleted", "User", name, detail=detail)
    return Amendment(audited, removed_users=(gone,), revoked_keys=owned, ended_invitations=theirs)


def set_member(directory: Directory, *, project: str, name: str, role: Role) -> Amendment:
    """Set a person's role in a project. Raises Missing, Conflict."""
    member = Member(project, user(directory, name).id, role)
    before = directory.members.get(project, {}).get(member.user)
    if before is None and count_members(directory) >= MOST_MEMBERSHIPS:
        raise Conflict(f"There are {MOST_MEMBERSHIPS:,} memberships, which is the most; end some first.")
    detail = {"role": role.value} if before is None else {"role": role.value, "before": before.value}
    action = "created" if before is None else "configured"
    return Amendment(Audited(action, "Member", name, project=project, detail=detail), members=(member,))


def count_members(directory: Directory) -> int:
    """Return the number of memberships in all projects."""
    return sum(map(len, directory.members.values()))


def remove_member(directory: Directory, *, project: str, name: str) -> Amendment:
    """Remove a person from a project. Raises Missing."""
    known = directory.users.get(name)
    before = None if known is None else directory.members.get(project, {}).get(known.id)
    if known is None or before is None:
        raise Missing(f"The user {name} is no member of the project {project}.")
    audited = Audited("deleted", "Member", name, project=project, detail={"before": before.value})
    return Amendment(audited, members=(Member(project, known.id, None),))


def create_key(directory: Directory, key: Key) -> Amendment:
    """Create a key. Raises Invalid, and Conflict if another key has its prefix, so that the caller makes another, or if
    the person has too many keys.
    """
    _is_text(key.name, "name of a key")
    if not key.name:
        raise Invalid("A key needs a name, by which people know what it is for.")
    if key.prefix in directory.keys:
        raise Conflict("Another key has this prefix; try again.")
    _has_room(directory.keys, "keys")
    if key.owner is not None:
        _check_personal(directory, key)
    detail: dict[str, object] = {
        "name": key.name,
        "role": key.role.value,
        "scopes": sorted(key.scopes),
        "expiresAt": key.expires_at,
        "personal": key.owner is not None,
    }
    return Amendment(Audited("created", "Key", key.id, project=key.project or "", detail=detail), keys=(key,))


def personal_keys(directory: Directory, person: User) -> tuple[Key, ...]:
    """Return the keys that belong to a person, by their ids: the oldest first."""
    owned = (key for key in directory.keys.values() if key.owner == person.id)
    return tuple(sorted(owned, key=lambda key: key.id))


def _check_personal(directory: Directory, key: Key) -> None:
    """Refuse a personal key with a better role than its person has: a later promotion would raise the key too. Raises
    Invalid, Missing, Conflict.
    """
    owner = directory.user(key.owner or "")
    if owner is None:
        raise Missing("The person whose key this would be is gone.")
    if key.scopes != OF_PEOPLE:
        others = ", ".join(scope for scope in Scope if scope not in OF_PEOPLE)
        raise Invalid(f"A personal key has the scope resources alone; {others} are for keys of a project.")
    person = directory.principal(owner)
    reached = person.roles if key.project is None else (key.project,)
    roles = {role for role in map(person.role_in, reached) if role is not None}
    if person.organization_admin:
        roles.add(Role.ADMIN)
    if not any(weaker(key.role, role) is key.role for role in roles):
        where = "any project" if key.project is None else f"the project {key.project}"
        raise Invalid(f"A personal key has at most your own role, and you are not {key.role} in {where}.")
    if len(personal_keys(directory, owner)) >= MOST_PERSONAL:
        raise Conflict(f"You have {MOST_PERSONAL} personal keys, which is the most; revoke some first.")


def revoke_key(directory: Directory, key: Key) -> Amendment:
    """Revoke a key. Raises Missing if it does not exist any more."""
    if key.prefix not in directory.keys:
        raise Missing(NO_KEY)
    audited = Audited("deleted", "Key", key.id, project=key.project or "", detail={"name": key.name})
    return Amendment(audited, revoked_keys=(key,))


def user(directory: Directory, name: str) -> User:
    """Return a person by name. Raises Missing."""
    found = directory.users.get(name)
    if found is None:
        raise Missing(f"There is no user {name[:128]}.")
    return found


def with_password(user: User, password: str) -> User:
    """Return the person with another password hash."""
    return replace(user, password=password)


def check_has_password(user: User) -> None:
    """Raise Conflict for a person of a provider, who cannot use a password."""
    if user.identity is not None:
        raise Conflict(f"{user.name} signs in through the OpenID Connect provider and has no password here.")


def check_password(text: str) -> None:
    """Raise Invalid for a password that is too short or too long. There are no rules about its characters."""
    if len(text) < SHORTEST_PASSWORD:
        raise Invalid(f"A password has at least {SHORTEST_PASSWORD} characters.")
    if len(text) > LONGEST_PASSWORD:
        raise Invalid(f"A password has at most {LONGEST_PASSWORD} characters.")


def _is_not_last(directory: Directory, one: User) -> None:
    if not any(other.organization_admin for other in directory.users.values() if other.id != one.id):
        raise Conflict(f"{one.name} is the only organization admin; make somebody else one first.")


def _is_text(text: str, what: str) -> None:
    if len(text) > LONGEST_TEXT or not _LINE.fullmatch(text):
        raise Invalid(f"The {what} must be one line of at most {LONGEST_TEXT} characters.")


def _has_room(there: Collection[str], what: str) -> None:
    if len(there) >= MOST:
        raise Conflict(f"There are {MOST:,} {what}, which is the most.")


# Invitations: their codes, and the changes that they make.
#
# A code is `rci_<43 characters>`, of 32 random bytes. Only a digest is stored: with 256 random bits, a plain SHA-256 is
# as safe as a slow hash.
#
# An invitation is valid only while its maker may manage the members. So a removed person cannot return with a code that
# they kept, and the invitations of a revoked key end with it.

MARK = "rci_"
CODE_RANDOM_BYTES = 32
MOST_INVITATIONS = 10_000  # unused invitations: every change looks through all of them
LONGEST_EMAIL = 254  # characters (RFC 5321, 4.5.3.1.3, less the angle brackets)

CODE_LASTS = timedelta(days=7)
LONGEST_CODE = timedelta(days=30)  # anybody who finds a code can use it
ADDRESS_LASTS = timedelta(days=30)
LONGEST_ADDRESS = timedelta(days=365)  # only the owner of the address can use it

NO_INVITATION = "There is no such invitation; GET /v1/projects/{name}/invitations lists those that wait."
EMAIL_RULE = f"must be an e-mail address of ASCII characters alone, at most {LONGEST_EMAIL} of them"
_CODE = re.compile(rf"{MARK}[A-Za-z0-9_-]{{43}}")
_BEGINNING = re.compile(rf"(?<![A-Za-z0-9]){MARK}[A-Za-z0-9_-]{{16}}")  # other names may contain the mark by itself
# Only ASCII: some other letters become ASCII letters in lower case, so two addresses would become one.
_EMAIL = re.compile(r"[!-?A-~]+@[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")


def make_code(randomness: bytes) -> str:
    """Make a code. `randomness` is `RANDOM_BYTES` from the system's source."""
    assert len(randomness) == CODE_RANDOM_BYTES
    return MARK + base64.urlsafe_b64encode(randomness).decode().rstrip("=")


def code_digest(code: str) -> bytes | None:
    """Return the stored digest of a code, 32 bytes; None for a text that is no code."""
    return hashlib.sha256(code.encode()).digest() if _CODE.fullmatch(code) else None


def holds_code(text: str) -> bool:
    """Return True if a text has a code of ours, even an incomplete one."""
    return _BEGINNING.search(text) is not None


def invited_address(text: str) -> str | None:
    """Return an e-mail address in lower case, as it is stored and compared; None if it is not accepted."""
    return text.lower() if len(text) <= LONGEST_EMAIL and _EMAIL.fullmatch(text) else None


def invite(directory: Directory, invitation: Invitation, *, now: str) -> Amendment:
    """Create an invitation. It replaces an earlier one of its address in the project. `now` is RFC 3339.

    Raises Conflict.
    """
    alive = waiting_invitations(directory, now=now)
    same = invitation.project, invitation.email
    replaced = [one for one in alive if one.email and (one.project, one.email) == same]
    if len(alive) - len(replaced) >= MOST_INVITATIONS:
        raise Conflict(f"There are {MOST_INVITATIONS:,} invitations, which is the most; withdraw some first.")
    detail = {"role": invitation.role.value, "by": _how(invitation), "expiresAt": invitation.expires_at}
    return Amendment(
        Audited("created", "Invitation", invitation.id, project=invitation.project, detail=detail),
        invitations=(invitation,),
        ended_invitations=(*_invalid_invitations(directory, alive), *replaced),
    )


def withdraw_invitation(directory: Directory, *, project: str, identifier: str, now: str) -> Amendment:
    """Withdraw an invitation. Raises Missing."""
    alive = waiting_invitations(directory, now=now)
    found = next((one for one in alive if (one.id, one.project) == (identifier, project)), None)
    if found is None:
        raise Missing(NO_INVITATION)
    detail = {"role": found.role.value, "by": _how(found)}
    return Amendment(
        Audited("deleted", "Invitation", found.id, project=project, detail=detail),
        ended_invitations=(*_invalid_invitations(directory, alive), found),
    )


def waiting_invitations(directory: Directory, *, now: str, project: str | None = None) -> tuple[Invitation, ...]:
    """Return the valid invitations of one project or of all, by their ids: the oldest first."""
    found = sorted(directory.invitations.values(), key=lambda one: one.id)
    return valid_invitations(directory, (one for one in found if project in (None, one.project)), now=now)


def valid_invitations(directory: Directory, among: Iterable[Invitation], *, now: str) -> tuple[Invitation, ...]:
    """Return the valid ones of some invitations: not expired, and their makers may still make them."""
    alive = [one for one in among if one.expires_at > now and one.project in directory.projects]
    keys = _keys_by_name(directory, now=now) if alive else {}
    return tuple(
        one
        for one in alive
        if _may(_maker(directory, keys, one.created_by, at=one.created_at), Permission.MANAGE_MEMBERS, one.project)
    )


def _invalid_invitations(directory: Directory, alive: Iterable[Invitation]) -> tuple[Invitation, ...]:
    """Return the invalid invitations, sorted. The next change removes them."""
    left = {one.id for one in alive}
    return tuple(one for identifier, one in sorted(directory.invitations.items()) if identifier not in left)


def _how(invitation: Invitation) -> str:
    """Return the kind of an invitation for the audit, without the address, which could not be removed there."""
    return "email" if invitation.email else "code"


# The present permissions of people who made keys and invitations.


def keys_to_review(directory: Directory, *, now: str) -> Mapping[tuple[str, str], list[Key]]:
    """Return the valid keys whose makers may no longer make them, by project and maker; keys of the organization have
    an empty project. Old keys may have been made by another key, which is no longer possible.
    """
    found: defaultdict[tuple[str, str], list[Key]] = defaultdict(list)
    by_name = _keys_by_name(directory, now=now)
    for key in sorted(by_name.values(), key=lambda key: (key.project or "", key.created_by, key.id)):
        permission = Permission.MANAGE_ORGANIZATION if key.project is None else Permission.MANAGE_KEYS
        maker = _maker(directory, by_name, key.created_by, at=key.created_at)
        if key.owner is None and not _may(maker, permission, key.project):
            found[key.project or "", key.created_by].append(key)
    return found


def _keys_by_name(directory: Directory, *, now: str) -> dict[str, Key]:
    return {f"key:{key.id}": key for key in directory.keys.values() if not is_expired(key, now=now)}


def _maker(directory: Directory, keys: Mapping[str, Key], name: str, *, at: str) -> Principal | None:
    """Return the principal that had this name at that time; None if it was removed."""
    if name in keys:
        return directory.holder_of(keys[name])
    user = directory.users.get(name.removeprefix("user:"))
    if user is not None and name.startswith("user:"):
        return directory.principal(user) if user.created_at <= at else None  # not a later person with the same name
    return next((one for one in UNLISTED if one.name == name), None)  # their role cannot be removed


def _may(principal: Principal | None, permission: Permission, project: str | None) -> bool:
    if principal is None:
        return False
    return principals.judge(principal, permission, project=project) is AccessVerdict.ALLOWED
