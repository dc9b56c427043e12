"""Who asks."""

from reconciler.access import actors
from reconciler.access.actors import Actor, Role


def test_the_roles_are_listed_from_the_most_privileged() -> None:
    assert [role.value for role in Role] == ["admin", "user", "viewer"]


def test_a_repository_asks_under_its_own_name_and_owns_what_it_applies() -> None:
    assert actors.repository_actor("telemetry") == Actor("git:telemetry", Role.ADMIN, repository="telemetry")


def test_the_service_key_is_an_admin_that_owns_nothing() -> None:
    assert Actor("key:SERVICE_API_KEY", Role.ADMIN, repository=None) == actors.SERVICE_KEY
