"""Who was recognised, what they may reach, and the judgement of one request.

Belongs here: decisions about somebody known. Does not: how they proved who they are (`credentials` and the doors), what
a role permits (`permissions`).
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from types import MappingProxyType

from reconciler.access import permissions
from reconciler.access.actors import Actor, Role
from reconciler.access.permissions import Permission, Scope

DEFAULT_PROJECT = "default"
"""The project that every installation has."""

NO_ROLES: Mapping[str, Role] = MappingProxyType({})
EVERY_SCOPE = frozenset(Scope)
OF_PEOPLE = frozenset({Scope.RESOURCES})


class Verdict(Enum):
    """What becomes of a request."""

    ALLOWED = auto()
    FORBIDDEN = auto()  # the project is theirs to see, and this is not theirs to do
    UNKNOWN = auto()  # another project's things do not exist for them


@dataclass(frozen=True, slots=True)
class Principal:
    """A person, a key, or the organization's key in the environment.

    `name` is stable and shown in audit events: `user:ana`, `key:01J...`, `key:SERVICE_API_KEY`. `roles` are by project.
    `everywhere` is the role in every project that `roles` does not name: a key of the organization has one. `project`
    is set for a key of one project, `user` for a person. What is for machines, people may not do, organization admins
    excepted.
    """

    name: str
    roles: Mapping[str, Role] = field(default_factory=lambda: NO_ROLES)
    organization_admin: bool = False
    everywhere: Role | None = None
    scopes: frozenset[Scope] = EVERY_SCOPE
    project: str | None = None
    user: str | None = None  # an id

    def role_in(self, project: str) -> Role | None:
        """The role in a project; None when the project is out of reach."""
        return Role.ADMIN if self.organization_admin else self.roles.get(project, self.everywhere)


SERVICE_KEY = Principal(name="key:SERVICE_API_KEY", organization_admin=True)
"""The organization admin key that exists exactly while the variable SERVICE_API_KEY is set."""

LOCAL = Principal(name="user:local", organization_admin=True)
"""Whoever asks where `auth.type` is `none`: the one person of a machine of their own."""

UNLISTED = (SERVICE_KEY, LOCAL)
"""Who stands in no directory: the start of the service decides whether they exist."""


def may(principal: Principal, permission: Permission, *, role: Role | None) -> bool:
    """Whether somebody may do a thing in a project where they have a role, or in none of them."""
    if not is_for(principal, permission):
        return False
    if principal.organization_admin or permission in permissions.of_machines(principal.scopes):
        return True
    return role is not None and permission in permissions.OF_ROLE[role]


def is_for(principal: Principal, permission: Permission) -> bool:
    """Whether a credential is for such things at all, whatever the role: its scopes say so."""
    return permission in permissions.of_scopes(principal.scopes)


def judge(principal: Principal, permission: Permission, *, project: str | None) -> Verdict:
    """Whether somebody may do a thing in an existing project, or, without one, in the organization."""
    if project is None:
        return Verdict.ALLOWED if may(principal, permission, role=None) else Verdict.FORBIDDEN
    role = principal.role_in(project)
    if role is None:
        return Verdict.UNKNOWN
    return Verdict.ALLOWED if may(principal, permission, role=role) else Verdict.FORBIDDEN


def chosen(principal: Principal, asked: str | None, *, existing: Container[str]) -> str | None:
    """The project that a request means, or None when there is no such project for whoever asks.

    A key of one project means that one and may repeat it. Others choose; without a choice it is `default`, or else the
    only project that they have a role in.
    """
    if principal.project is not None:
        # The person of a personal key may have left the project.
        is_reached = principal.role_in(principal.project) is not None
        return principal.project if is_reached and asked in (None, principal.project) else None
    if asked is not None:
        return asked if asked in existing and principal.role_in(asked) is not None else None
    if principal.role_in(DEFAULT_PROJECT) is not None:
        return DEFAULT_PROJECT
    return next(iter(principal.roles)) if len(principal.roles) == 1 else None


def actor_in(principal: Principal, project: str) -> Actor:
    """The same as somebody who changes resources of one project, which must be within reach."""
    role = principal.role_in(project)
    assert role is not None, "whoever changes something in a project has a role there"
    return Actor(name=principal.name, role=role)
