"""The directory: projects, people, memberships and keys as one frozen value, and amendments to it.

An API key is `rck_<12 letters and digits>_<43 characters>`. The first two parts are its prefix, which is stored and
shown, so that people can tell keys apart and a scanner for leaked secrets finds one. The last part is 32 random bytes.
Only a digest of the whole is stored: with 256 bits to guess, a plain SHA-256 is as good as a slow hash.
"""

import base64
import hashlib
import hmac
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from reconciler.model.principals import EVERY_SCOPE, NO_ROLES, OF_PEOPLE, UNLISTED, Principal, Role, Scope, weaker


class ProviderIdentity(NamedTuple):
    """A person at a provider. Only issuer and subject together are stable and never reused (OpenID Connect Core 1.0,
    5.7); names and e-mail addresses may be given to other people.
    """

    issuer: str
    subject: str


@dataclass(frozen=True, slots=True)
class ProvedIdentity:
    """The verified content of an ID token: its subject, and every claim as JSON values."""

    identity: ProviderIdentity
    claims: Mapping[str, object] = field(repr=False)
    id_token: str = field(repr=False)  # as it came, for the provider's own sign-out


KEY_MARK = "rck_"
PREFIX_BYTES = 8  # of randomness, 60 bits of which are used
SECRET_BYTES = 32
RANDOM_BYTES = PREFIX_BYTES + SECRET_BYTES

_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"  # as base32 has it, in lower case
_PREFIX_LETTERS = 12
_KEY = re.compile(rf"({KEY_MARK}[{_ALPHABET}]{{{_PREFIX_LETTERS}}})_[A-Za-z0-9_-]{{43}}")
_BEGINNING = re.compile(rf"{KEY_MARK}[{_ALPHABET}]{{{_PREFIX_LETTERS}}}_")
_NOBODYS = hashlib.sha256(b"").digest()


def make_key(randomness: bytes) -> str:
    """Make a key. `randomness` is 40 bytes from the system's source."""
    assert len(randomness) == RANDOM_BYTES
    letters = base64.b32encode(randomness[:PREFIX_BYTES]).decode().lower()[:_PREFIX_LETTERS]
    secret = base64.urlsafe_b64encode(randomness[PREFIX_BYTES:]).decode().rstrip("=")
    return f"{KEY_MARK}{letters}_{secret}"


def key_prefix(key: str) -> str | None:
    """Return the part of a key that may be shown; None if the text is no key of ours."""
    found = _KEY.fullmatch(key)
    return found[1] if found else None


def holds_key(text: str) -> bool:
    """Return True if a text contains an API key of this service, whole or cut off."""
    return _BEGINNING.search(text) is not None


def key_digest(key: str) -> bytes:
    """Return the stored digest of a key: 32 bytes."""
    return hashlib.sha256(key.encode()).digest()


def is_same_key(key: str, stored: bytes | None) -> bool:
    """Return True if a key has this stored digest. The time does not reveal if there is a digest at all (None)."""
    same = hmac.compare_digest(key_digest(key), _NOBODYS if stored is None else stored)
    return same and stored is not None


@dataclass(frozen=True, slots=True)
class Project:
    """A project; `created_at` is RFC 3339, as every instant here."""

    name: str
    created_at: str


@dataclass(frozen=True, slots=True)
class User:
    """A person. `password` is an encoded argon2id hash; None for a person without a password. `identity` is the person
    at a provider, which also gave the `email`; None and empty for a person with a password. `losses` counts losses of
    access (`auth.accounts`): sessions from before the last one have ended.
    """

    id: str
    name: str
    created_at: str
    display_name: str = ""
    organization_admin: bool = False
    password: str | None = field(default=None, repr=False)
    identity: ProviderIdentity | None = None
    email: str = ""
    losses: int = 0


@dataclass(frozen=True, slots=True)
class Invitation:
    """A role in a project for a person who is not known yet: the holder of the code with this `digest`, or, without a
    code, the person with the verified e-mail address `email`, in lower case. Each address has at most one invitation in
    a project: a new one replaces it in the same amendment.
    """

    id: str
    project: str
    role: Role
    created_at: str
    created_by: str
    expires_at: str
    digest: bytes | None = field(default=None, repr=False)
    email: str = ""


@dataclass(frozen=True, slots=True)
class Key:
    """An API key, without its secret. A key without a project belongs to the organization: it has its role in every
    project, and with the role `admin` it is an organization admin.

    With an `owner`, the id of a person, it is personal: it has at most the person's present role, in its project or,
    without one, in each of theirs.
    """

    id: str
    name: str
    prefix: str
    digest: bytes = field(repr=False)
    project: str | None
    role: Role
    scopes: frozenset[Scope]
    created_at: str
    created_by: str
    expires_at: str | None = None
    last_used_at: str | None = None
    owner: str | None = None


@dataclass(frozen=True)
class Directory:
    """All projects, people, memberships, keys and invitations. `members` has each project's people by their ids; `keys`
    are by prefix, `users` by name, `invitations` by id. `number` is that of the last amendment.
    """

    projects: Mapping[str, Project] = field(default_factory=dict)
    users: Mapping[str, User] = field(default_factory=dict)
    members: Mapping[str, Mapping[str, Role]] = field(default_factory=dict)
    keys: Mapping[str, Key] = field(default_factory=dict)
    invitations: Mapping[str, Invitation] = field(default_factory=dict)
    number: int = field(default=0, compare=False)

    @cached_property
    def _people(self) -> Mapping[ProviderIdentity, User]:
        return {user.identity: user for user in self.users.values() if user.identity is not None}

    @cached_property
    def _ids(self) -> Mapping[str, User]:
        return {user.id: user for user in self.users.values()}

    @cached_property
    def _holders(self) -> dict[str, Principal]:
        """The principals of used keys, by id."""
        return {}

    @cached_property
    def _roles(self) -> Mapping[str, Mapping[str, Role]]:
        """The roles by person, computed once for each change instead of for each request."""
        roles: dict[str, dict[str, Role]] = defaultdict(dict)
        for project, members in sorted(self.members.items()):
            for user, role in members.items():
                roles[user][project] = role
        return dict(roles)

    def roles_of(self, user: User) -> Mapping[str, Role]:
        """Return a person's role in each project, sorted by project."""
        return self._roles.get(user.id, NO_ROLES)

    def person(self, identity: ProviderIdentity) -> User | None:
        """Return the person with this identity at a provider, or None."""
        return self._people.get(identity)

    def user(self, identifier: str) -> User | None:
        """Return the person with this id, or None."""
        return self._ids.get(identifier)

    def principal(self, user: User) -> Principal:
        """Return the person as a principal."""
        return Principal(
            name=f"user:{user.name}",
            roles=self.roles_of(user),
            organization_admin=user.organization_admin,
            scopes=EVERY_SCOPE if user.organization_admin else OF_PEOPLE,
            user=user.id,
        )

    def holder(self, text: str, *, now: str) -> Principal | None:
        """Return the principal of a key; None if it is unknown, revoked or expired. The time is always the same.

        `now` is RFC 3339 in the form of every other instant, so that texts compare like times.
        """
        found = self.key_of(text)
        return None if found is None or is_expired(found, now=now) else self.holder_of(found)

    def key_of(self, text: str) -> Key | None:
        """Return the key of a text, even an expired one; None for an unknown one. The time is always the same."""
        found = self.keys.get(key_prefix(text) or "")
        return found if is_same_key(text, None if found is None else found.digest) else None

    def holder_of(self, key: Key) -> Principal:
        """Return a key as a principal; cached, because some keys are used thousands of times a second."""
        holder = self._holders.get(key.id)
        if holder is None:
            holder = self._holders[key.id] = self._principal_of(key)
        return holder

    def still(self, principal: Principal, *, since: "Directory", now: str) -> Principal | None:
        """Return a principal of an earlier directory as it is in this one. None if it was removed, or if its credential
        is no longer valid: another password, a revoked or expired key.
        """
        if principal in UNLISTED:
            return principal
        if principal.user is not None:
            name = principal.name.removeprefix("user:")
            before, user = since.users.get(name), self.users.get(name)
            if before is None or user is None or (before.id, before.password) != (user.id, user.password):
                return None
            return self.principal(user)
        key = next((key for key in self.keys.values() if f"key:{key.id}" == principal.name), None)
        if key is None or is_expired(key, now=now):
            return None
        holder = self.holder_of(key)
        # Of a key in the place of a password, all but one scope was left out (`api.auth`).
        return replace(holder, scopes=holder.scopes & principal.scopes)

    def _principal_of(self, key: Key) -> Principal:
        if key.owner is None:
            return _shared(key)
        owner = self.user(key.owner)
        return _personal(key, None if owner is None else self.principal(owner))


def is_expired(key: Key, *, now: str) -> bool:
    """Return True if a key has expired."""
    return key.expires_at is not None and key.expires_at <= now


def _shared(key: Key) -> Principal:
    """Return the principal of a key of a project or of the organization, which has its own role."""
    return Principal(
        name=f"key:{key.id}",
        roles=NO_ROLES if key.project is None else {key.project: key.role},
        organization_admin=key.project is None and key.role is Role.ADMIN,
        everywhere=key.role if key.project is None else None,
        scopes=key.scopes,
        project=key.project,
    )


def _personal(key: Key, person: Principal | None) -> Principal:
    """Return the principal of a personal key, limited by the person's present roles."""
    reached = () if person is None else person.roles if key.project is None else (key.project,)
    present = {project: None if person is None else person.role_in(project) for project in reached}
    has_everything = person is not None and person.organization_admin and key.project is None
    return Principal(
        name=f"key:{key.id}",
        roles={project: weaker(key.role, role) for project, role in present.items() if role is not None},
        organization_admin=has_everything and key.role is Role.ADMIN,
        everywhere=key.role if has_everything else None,
        scopes=key.scopes,
        project=key.project,
    )


@dataclass(frozen=True, slots=True)
class Member:
    """One person's role in a project; `user` is an id, and a role of None ends it."""

    project: str
    user: str
    role: Role | None


@dataclass(frozen=True, slots=True)
class Audited:
    """Return the detail of its audit event, without secrets. `project` is empty for a change of the organization."""

    action: str
    kind: str  # Project, User, Member, Key, Invitation or Authentication
    name: str
    project: str = ""
    detail: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Amendment:
    """One change, written in one transaction with its audit event. A removed person loses their memberships and their
    own keys, too. The store gives it its `number` when it is written.
    """

    audited: Audited
    projects: tuple[Project, ...] = ()
    users: tuple[User, ...] = ()  # new, or in place of the one with the same id
    removed_users: tuple[User, ...] = ()
    members: tuple[Member, ...] = ()
    keys: tuple[Key, ...] = ()
    revoked_keys: tuple[Key, ...] = ()
    invitations: tuple[Invitation, ...] = ()
    ended_invitations: tuple[Invitation, ...] = ()  # taken, withdrawn or expired
    auth_type: str = ""  # how people sign in from now on; empty: as before
    number: int = field(default=0, compare=False)


def amended(directory: Directory, amendment: Amendment) -> Directory:
    """Return the directory after the change."""
    gone = {user.id for user in amendment.removed_users} | {user.id for user in amendment.users}
    users = {name: user for name, user in directory.users.items() if user.id not in gone}
    # By id: of a key that was used meanwhile, the rest is not what it was when somebody decided to revoke it.
    revoked = {key.id for key in amendment.revoked_keys}
    ended = {invitation.id for invitation in amendment.ended_invitations}
    invitations = {one.id: one for one in directory.invitations.values() if one.id not in ended}
    removed = {user.id for user in amendment.removed_users}
    keys = {prefix: key for prefix, key in directory.keys.items() if key.id not in revoked and key.owner not in removed}
    return replace(
        directory,
        projects={**directory.projects, **{project.name: project for project in amendment.projects}},
        users={**users, **{user.name: user for user in amendment.users}},
        members=_members(directory, amendment),
        keys={**keys, **{key.prefix: key for key in amendment.keys}},
        invitations={**invitations, **{one.id: one for one in amendment.invitations}},
        number=max(directory.number, amendment.number),
    )


def with_key_use(directory: Directory, used: Mapping[str, str]) -> Directory:
    """Return the directory with the times of last use of keys, by their ids."""
    keys = {
        prefix: replace(key, last_used_at=used[key.id]) if key.id in used else key
        for prefix, key in directory.keys.items()
    }
    return replace(directory, keys=keys)


def _members(directory: Directory, amendment: Amendment) -> Mapping[str, Mapping[str, Role]]:
    removed = {user.id for user in amendment.removed_users}
    members = {
        project: {user: role for user, role in roles.items() if user not in removed}
        for project, roles in directory.members.items()
    }
    for member in amendment.members:
        roles = members.setdefault(member.project, {})
        if member.role is None:
            roles.pop(member.user, None)
        else:
            roles[member.user] = member.role
    return {project: roles for project, roles in members.items() if roles}
