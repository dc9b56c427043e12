"""Judging somebody who is known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model import principals
from reconciler.model.principals import (
    EVERY_SCOPE,
    OF_PEOPLE,
    OF_ROLE,
    SERVICE_KEY,
    AccessVerdict,
    Actor,
    Permission,
    Principal,
    Role,
    Scope,
    of_machines,
)

VIEWER = Principal("user:vic", {"payments": Role.VIEWER}, scopes=OF_PEOPLE, user="id-vic")
ADMIN = Principal("user:ada", {"payments": Role.ADMIN}, scopes=OF_PEOPLE, user="id-ada")
INTAKE = Principal("key:K1", {"payments": Role.ADMIN}, scopes=frozenset({Scope.LOGS}), project="payments")
COLLECTOR = Principal("key:K3", {"payments": Role.VIEWER}, scopes=frozenset({Scope.RAW}), project="payments")
METRICS = Principal("key:K2", everywhere=Role.VIEWER, scopes=frozenset({Scope.METRICS}))


@pytest.mark.parametrize(
    ("principal", "permission", "project", "verdict"),
    [
        (VIEWER, Permission.READ, "payments", AccessVerdict.ALLOWED),
        (VIEWER, Permission.READ_RAW, "payments", AccessVerdict.FORBIDDEN),
        (VIEWER, Permission.LOAD, "payments", AccessVerdict.FORBIDDEN),
        (COLLECTOR, Permission.LOAD, "payments", AccessVerdict.ALLOWED),
        (COLLECTOR, Permission.READ_RAW, "payments", AccessVerdict.FORBIDDEN),
        (COLLECTOR, Permission.LOAD, "search", AccessVerdict.UNKNOWN),
        (VIEWER, Permission.CHANGE, "payments", AccessVerdict.FORBIDDEN),
        (VIEWER, Permission.READ, "search", AccessVerdict.UNKNOWN),
        (VIEWER, Permission.CHANGE, "search", AccessVerdict.UNKNOWN),
        (VIEWER, Permission.SEND_LOGS, "payments", AccessVerdict.FORBIDDEN),
        (ADMIN, Permission.MANAGE_KEYS, "payments", AccessVerdict.ALLOWED),
        (ADMIN, Permission.SEND_LOGS, "payments", AccessVerdict.FORBIDDEN),
        (ADMIN, Permission.MANAGE_ORGANIZATION, None, AccessVerdict.FORBIDDEN),
        (ADMIN, Permission.READ, None, AccessVerdict.FORBIDDEN),
        (INTAKE, Permission.SEND_LOGS, "payments", AccessVerdict.ALLOWED),
        (INTAKE, Permission.READ, "payments", AccessVerdict.FORBIDDEN),
        (INTAKE, Permission.SEND_LOGS, "search", AccessVerdict.UNKNOWN),
        (METRICS, Permission.READ_METRICS, None, AccessVerdict.ALLOWED),
        (METRICS, Permission.READ, "search", AccessVerdict.FORBIDDEN),
        (SERVICE_KEY, Permission.MANAGE_ORGANIZATION, None, AccessVerdict.ALLOWED),
        (SERVICE_KEY, Permission.SEND_LOGS, "search", AccessVerdict.ALLOWED),
    ],
)
def test_a_request_is_judged_by_role_scope_and_project(
    principal: Principal, permission: Permission, project: str | None, verdict: AccessVerdict
) -> None:
    assert principals.judge(principal, permission, project=project) is verdict


@pytest.mark.parametrize(
    ("principal", "asked", "project"),
    [
        (VIEWER, None, "payments"),  # the only one
        (VIEWER, "payments", "payments"),
        (VIEWER, "default", None),
        (VIEWER, "nowhere", None),
        (INTAKE, None, "payments"),
        (INTAKE, "payments", "payments"),
        (INTAKE, "default", None),
        (Principal("key:K4", {}, project="payments"), None, None),  # of a person who has left it
        (Principal("key:K4", {}, project="payments"), "payments", None),
        (SERVICE_KEY, None, "default"),
        (SERVICE_KEY, "payments", "payments"),
        (SERVICE_KEY, "nowhere", None),
        (METRICS, None, "default"),
        (Principal("user:two", {"payments": Role.USER, "search": Role.USER}), None, None),
        (Principal("user:nil"), None, None),
    ],
)
def test_a_request_means_the_project_that_it_names_or_the_only_one(
    principal: Principal, asked: str | None, project: str | None
) -> None:
    assert principals.chosen(principal, asked, existing={"default", "payments", "search"}) == project


def test_whoever_changes_something_does_so_with_the_role_of_that_project() -> None:
    assert principals.actor_in(VIEWER, "payments") == Actor("user:vic", Role.VIEWER)
    assert principals.actor_in(SERVICE_KEY, "search") == Actor("key:SERVICE_API_KEY", Role.ADMIN)


@given(
    role=st.sampled_from(Role),
    permission=st.sampled_from(Permission),
    scopes=st.sets(st.sampled_from(Scope)).map(frozenset),
    project=st.sampled_from(["payments", "search", None]),
)
def test_nothing_is_allowed_beyond_the_role_the_scope_and_the_project(
    role: Role, permission: Permission, scopes: frozenset[Scope], project: str | None
) -> None:
    principal = Principal("key:K", {"payments": role}, scopes=scopes, project="payments")
    verdict = principals.judge(principal, permission, project=project)
    assert (verdict is AccessVerdict.UNKNOWN) == (project == "search")
    if verdict is AccessVerdict.ALLOWED:
        assert permission in of_machines(scopes) or (project == "payments" and permission in OF_ROLE[role])
        assert scopes


@given(permission=st.sampled_from(Permission), project=st.sampled_from(["payments", None]))
def test_an_organization_admin_may_do_everything(permission: Permission, project: str | None) -> None:
    admin = Principal("user:root", organization_admin=True, scopes=EVERY_SCOPE)
    assert principals.judge(admin, permission, project=project) is AccessVerdict.ALLOWED
