"""Actors, roles, permissions and principals, and the decision about one request.

HTTP and git authenticate before; here the principal is known.
"""

from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from functools import cache
from types import MappingProxyType


class Role(StrEnum):
    """The role of an actor in a project, most privileged first."""

    ADMIN = "admin"
    USER = "user"
    VIEWER = "viewer"


def weaker(one: Role, other: Role) -> Role:
    """Return the one of two roles that permits less."""
    return max(one, other, key=list(Role).index)


@dataclass(frozen=True, slots=True)
class Actor:
    """The author of a change. `name` is stable and shown in audit events: `key:SERVICE_API_KEY`, `git:telemetry`.
    `repository` is set for a watched repository, which becomes the owner of the resources.
    """

    name: str
    role: Role
    repository: str | None = None


def repository_actor(repository: str) -> Actor:
    """Return the actor on whose behalf the commits of a watched repository are applied."""
    return Actor(name=f"git:{repository}", role=Role.ADMIN, repository=repository)


class Permission(StrEnum):
    """A permission in a project. The last two groups are for machines and for the organization."""

    READ = "read"  # everything of the project; secrets are masked for everybody
    READ_RAW = "read-raw"  # `spec.raw`, which is text that nobody can mask
    LOAD = "load"  # only the text that a Collector loads

    CHANGE = "change"  # apply and delete; of types only with the next
    CHANGE_TYPES = "change-types"
    RECONCILE = "reconcile"

    APPROVE = "approve"
    SUSPEND = "suspend"
    REDACT = "redact"
    HANDLE_DELIVERIES = "handle-deliveries"  # replay, discard and test, and see what endpoints answered
    MANAGE_MEMBERS = "manage-members"
    MANAGE_KEYS = "manage-keys"
    READ_AUDIT = "read-audit"  # who did what, from where

    SEND_LOGS = "send-logs"
    READ_METRICS = "read-metrics"

    MANAGE_ORGANIZATION = "manage-organization"  # projects, users, organization admins, keys of the organization


class Scope(StrEnum):
    """The purpose of a key."""

    RESOURCES = "resources"  # everything that its role permits
    LOGS = "logs"  # only sending log records to the service
    METRICS = "metrics"  # only reading the service's own metrics
    RAW = "raw"  # only reading the text that a Collector loads


_VIEWER = frozenset({Permission.READ})
_USER = _VIEWER | {Permission.READ_RAW, Permission.LOAD, Permission.CHANGE, Permission.RECONCILE}
_ADMIN = _USER | {
    Permission.CHANGE_TYPES,
    Permission.APPROVE,
    Permission.SUSPEND,
    Permission.REDACT,
    Permission.HANDLE_DELIVERIES,
    Permission.MANAGE_MEMBERS,
    Permission.MANAGE_KEYS,
    Permission.READ_AUDIT,
}

OF_ROLE: Mapping[Role, frozenset[Permission]] = MappingProxyType(
    {Role.VIEWER: _VIEWER, Role.USER: _USER, Role.ADMIN: _ADMIN}
)
"""The permissions of a role in its project. An organization admin may do everything, in every project."""

OF_SCOPE: Mapping[Scope, frozenset[Permission]] = MappingProxyType(
    {
        Scope.RESOURCES: frozenset(Permission) - {Permission.SEND_LOGS, Permission.READ_METRICS},
        Scope.LOGS: frozenset({Permission.SEND_LOGS}),
        Scope.METRICS: frozenset({Permission.READ_METRICS}),
        Scope.RAW: frozenset({Permission.LOAD}),
    }
)
"""The permissions that a scope lets a key use; within `resources` its role decides."""


@cache
def purpose_of_scopes(scopes: frozenset[Scope]) -> frozenset[Permission]:
    """Return the permissions for which a key with these scopes is made."""
    return frozenset().union(*(OF_SCOPE[scope] for scope in scopes))


@cache
def of_machines(scopes: frozenset[Scope]) -> frozenset[Permission]:
    """Return the permissions that these scopes give without a role, as the scopes of programs do."""
    return purpose_of_scopes(scopes - {Scope.RESOURCES})


def required_for(permission: Permission, scopes: Collection[Scope]) -> str:
    """Return the missing role or scope of a caller with these scopes, as text."""
    needed = [scope for scope in Scope if permission in OF_SCOPE[scope]]
    if not any(scope in scopes for scope in needed):
        return f"a key with the scope {' or '.join(needed)}"
    roles = [role for role in Role if permission in OF_ROLE[role]]
    return f"the role {roles[-1]}" if roles else "an organization admin"


DEFAULT_PROJECT = "default"
"""The project that every installation has."""

NO_ROLES: Mapping[str, Role] = MappingProxyType({})
EVERY_SCOPE = frozenset(Scope)
OF_PEOPLE = frozenset({Scope.RESOURCES})


class AccessVerdict(Enum):
    """The decision about a request."""

    ALLOWED = auto()
    FORBIDDEN = auto()  # the caller may see the project, but lacks the permission
    UNKNOWN = auto()  # the project does not exist for the caller


@dataclass(frozen=True, slots=True)
class Principal:
    """A person, a key, or the organization's key in the environment.

    `name` is stable and shown in audit events: `user:ana`, `key:01J...`, `key:SERVICE_API_KEY`. `roles` are by project.
    `everywhere` is the role in every project that `roles` does not name: a key of the organization has one. `project`
    is set for a key of one project, `user` for a person. People do not have the permissions of machines, except
    organization admins.
    """

    name: str
    roles: Mapping[str, Role] = field(default_factory=lambda: NO_ROLES)
    organization_admin: bool = False
    everywhere: Role | None = None
    scopes: frozenset[Scope] = EVERY_SCOPE
    project: str | None = None
    user: str | None = None  # an id

    def role_in(self, project: str) -> Role | None:
        """Return the role in a project; None when the project is out of reach."""
        return Role.ADMIN if self.organization_admin else self.roles.get(project, self.everywhere)


SERVICE_KEY = Principal(name="key:SERVICE_API_KEY", organization_admin=True)
"""The organization's admin key, which exists only while the variable SERVICE_API_KEY is set."""

LOCAL = Principal(name="user:local", organization_admin=True)
"""The caller if `auth.type` is `none`: the only user of the machine."""

REPLICA = Principal(name="service:replica", everywhere=Role.ADMIN, scopes=OF_PEOPLE)
"""A replica that calls another one on its own behalf. Only tokens of replicas name it."""

UNLISTED = (SERVICE_KEY, LOCAL, REPLICA)
"""Principals in no directory: the start of the service decides if they exist."""


def may(principal: Principal, permission: Permission, *, role: Role | None) -> bool:
    """Return True if the principal has a permission in a project where they have a role, or none."""
    if not is_for(principal, permission):
        return False
    if principal.organization_admin or permission in of_machines(principal.scopes):
        return True
    return role is not None and permission in OF_ROLE[role]


def is_for(principal: Principal, permission: Permission) -> bool:
    """Return True if the scopes of a credential allow this, whatever the role."""
    return permission in purpose_of_scopes(principal.scopes)


def judge(principal: Principal, permission: Permission, *, project: str | None) -> AccessVerdict:
    """Return True if the principal has a permission in an existing project, or, without one, in the organization."""
    if project is None:
        return AccessVerdict.ALLOWED if may(principal, permission, role=None) else AccessVerdict.FORBIDDEN
    role = principal.role_in(project)
    if role is None:
        return AccessVerdict.UNKNOWN
    return AccessVerdict.ALLOWED if may(principal, permission, role=role) else AccessVerdict.FORBIDDEN


def chosen(principal: Principal, asked: str | None, *, existing: Container[str]) -> str | None:
    """Return the project of a request, or None if the caller has no such project. A key of one project always has that
    one, and may name it. Others choose a project. Without a choice it is `default`, otherwise the only project in which
    they have a role.
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
    """Return the principal as the actor of changes in a project, which must be within reach."""
    role = principal.role_in(project)
    assert role is not None, "whoever changes something in a project has a role there"
    return Actor(name=principal.name, role=role)
