"""What may be permitted, and which role and which scope permits it.

Belongs here: the table. Does not: who has which role (`principals`), nor which request needs what: each door says so.
"""

from collections.abc import Collection, Mapping
from enum import StrEnum
from functools import cache
from types import MappingProxyType

from reconciler.access.actors import Role


class Permission(StrEnum):
    """One thing that somebody may do in a project; the last two groups are for machines and for the organization."""

    READ = "read"  # everything of the project; secrets are masked for everybody
    READ_RAW = "read-raw"  # `spec.raw`, which is text that nobody can mask
    LOAD = "load"  # what a Collector loads, and nothing else

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
    """What a key is for."""

    RESOURCES = "resources"  # what its role permits
    LOGS = "logs"  # sending log records in, and nothing else
    METRICS = "metrics"  # reading the service's own metrics, and nothing else
    RAW = "raw"  # reading what a Collector loads, and nothing else


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
"""What a role permits in its project. An organization admin may do everything, in every project."""

OF_SCOPE: Mapping[Scope, frozenset[Permission]] = MappingProxyType(
    {
        Scope.RESOURCES: frozenset(Permission) - {Permission.SEND_LOGS, Permission.READ_METRICS},
        Scope.LOGS: frozenset({Permission.SEND_LOGS}),
        Scope.METRICS: frozenset({Permission.READ_METRICS}),
        Scope.RAW: frozenset({Permission.LOAD}),
    }
)
"""What a scope lets a key do at all; within `resources` its role decides."""


@cache
def of_scopes(scopes: frozenset[Scope]) -> frozenset[Permission]:
    """What a key with these scopes is for."""
    return frozenset().union(*(OF_SCOPE[scope] for scope in scopes))


@cache
def of_machines(scopes: frozenset[Scope]) -> frozenset[Permission]:
    """Return what these scopes alone permit, whatever the role: those of programs do."""
    return of_scopes(scopes - {Scope.RESOURCES})


def takes(permission: Permission, scopes: Collection[Scope]) -> str:
    """What somebody with these scopes must be or have to be permitted this, in words."""
    needed = [scope for scope in Scope if permission in OF_SCOPE[scope]]
    if not any(scope in scopes for scope in needed):
        return f"a key with the scope {' or '.join(needed)}"
    roles = [role for role in Role if permission in OF_ROLE[role]]
    return f"the role {roles[-1]}" if roles else "an organization admin"
