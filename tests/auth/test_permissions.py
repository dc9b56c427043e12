"""Permissions of roles and scopes."""

import pytest

from reconciler.model import principals
from reconciler.model.principals import Permission, Role, Scope

TABLE = {
    Permission.READ: "viewer user admin",
    Permission.READ_RAW: "user admin",
    Permission.LOAD: "user admin",
    Permission.CHANGE: "user admin",
    Permission.RECONCILE: "user admin",
    Permission.CHANGE_TYPES: "admin",
    Permission.APPROVE: "admin",
    Permission.SUSPEND: "admin",
    Permission.REDACT: "admin",
    Permission.HANDLE_DELIVERIES: "admin",
    Permission.MANAGE_MEMBERS: "admin",
    Permission.MANAGE_KEYS: "admin",
    Permission.READ_AUDIT: "admin",
    Permission.SEND_LOGS: "",
    Permission.READ_METRICS: "",
    Permission.MANAGE_ORGANIZATION: "",
}


@pytest.mark.parametrize("permission", Permission)
def test_a_role_permits_what_the_table_says(permission: Permission) -> None:
    permitting = {role for role in Role if permission in principals.OF_ROLE[role]}
    assert permitting == {Role(name) for name in TABLE[permission].split()}


def test_every_permission_is_of_one_scope_but_that_of_loading_which_is_of_two() -> None:
    listed = [permission for scope in Scope for permission in principals.OF_SCOPE[scope]]
    assert sorted(listed) == sorted([*Permission, Permission.LOAD])


@pytest.mark.parametrize("scope", Scope)
def test_what_a_scope_alone_permits_is_one_thing_of_a_program_s(scope: Scope) -> None:
    alone = {Scope.LOGS: Permission.SEND_LOGS, Scope.METRICS: Permission.READ_METRICS, Scope.RAW: Permission.LOAD}
    permitted = {alone[scope]} if scope in alone else set()
    assert principals.of_machines(frozenset({scope, Scope.RESOURCES})) == permitted
