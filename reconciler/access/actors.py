"""Who asks: what a credential or a repository turned into. How it was proved belongs to the doors (HTTP, git)."""

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """What an actor may do in a project, most privileged first."""

    ADMIN = "admin"
    USER = "user"
    VIEWER = "viewer"


def weaker(one: Role, other: Role) -> Role:
    """Return the one of two roles that permits less."""
    return max(one, other, key=list(Role).index)


@dataclass(frozen=True, slots=True)
class Actor:
    """Somebody or something that asks for a change.

    `name` is stable and shown in audit events: `key:SERVICE_API_KEY`, `git:telemetry`. `repository` is set when a
    watched repository asks; what it applies, it owns.
    """

    name: str
    role: Role
    repository: str | None = None


def repository_actor(repository: str) -> Actor:
    """The actor on whose behalf the commits of a watched repository are applied."""
    return Actor(name=f"git:{repository}", role=Role.ADMIN, repository=repository)
