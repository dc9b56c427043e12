"""Actors: the names of those who ask."""

from reconciler.model import principals
from reconciler.model.principals import Actor, Role


def test_the_roles_are_listed_from_the_most_privileged() -> None:
    assert [role.value for role in Role] == ["admin", "user", "viewer"]


def test_a_repository_asks_under_its_own_name_and_owns_what_it_applies() -> None:
    assert principals.repository_actor("telemetry") == Actor("git:telemetry", Role.ADMIN, repository="telemetry")
