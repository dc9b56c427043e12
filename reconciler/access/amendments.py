"""What one change of access alters, and the directory that it makes.

Belongs here: the value, and applying it. Does not: who may make one (`changing`), writing it down (the store).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from reconciler.access.actors import Role
from reconciler.access.models import Directory, Invitation, Key, Project, User


@dataclass(frozen=True, slots=True)
class Member:
    """One person's role in a project; `user` is an id, and a role of None ends it."""

    project: str
    user: str
    role: Role | None


@dataclass(frozen=True, slots=True)
class Audited:
    """What an audit event says of it, no secret among it. `project` is empty for what concerns the organization."""

    action: str
    kind: str  # Project, User, Member, Key, Invitation or Authentication
    name: str
    project: str = ""
    detail: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Amendment:
    """One change, written in one transaction with its audit event. Whoever is removed leaves their memberships
    and their own keys too.
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


def amended(directory: Directory, amendment: Amendment) -> Directory:
    """The directory with the change made."""
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
    )


def touched(directory: Directory, used: Mapping[str, str]) -> Directory:
    """The directory with when keys were used last, by their ids."""
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
