"""Small directories for tests: an organization admin, members of each role, and keys of each sort."""

from reconciler.access import keys
from reconciler.access.actors import Role
from reconciler.access.models import Directory, Key, Project, User
from reconciler.access.permissions import Scope

AT = "2026-11-21T06:12:00.000Z"
LATER = "2026-11-22T00:00:00.000Z"


def user(name: str, *, organization_admin: bool = False, password: str | None = None) -> User:
    """A person whose id follows from the name."""
    return User(id=f"id-{name}", name=name, created_at=AT, organization_admin=organization_admin, password=password)


def key(
    text: str,
    *,
    identifier: str = "K1",
    project: str | None = "payments",
    role: Role = Role.USER,
    scopes: frozenset[Scope] = frozenset({Scope.RESOURCES}),
    expires_at: str | None = None,
    owner: str | None = None,
    created_by: str = "user:root",
) -> Key:
    """What is kept of a key. `owner` is a person's name."""
    prefix = keys.prefix(text)
    assert prefix is not None
    return Key(
        id=identifier,
        name="a pipeline",
        prefix=prefix,
        digest=keys.digest(text),
        project=project,
        role=role,
        scopes=scopes,
        created_at=AT,
        created_by=created_by if owner is None else f"user:{owner}",
        expires_at=expires_at,
        owner=None if owner is None else f"id-{owner}",
    )


def text(number: int) -> str:
    """A key, another one for each number."""
    return keys.make(number.to_bytes(keys.RANDOM_BYTES, "little"))


def directory(*kept: Key) -> Directory:
    """Two projects; `root` administers the organization; `ada`, `una` and `vic` are members of `payments`."""
    people = [user("root", organization_admin=True), *map(user, ("ada", "una", "vic", "nil"))]
    return Directory(
        projects={name: Project(name, AT) for name in ("default", "payments")},
        users={one.name: one for one in people},
        members={"payments": {"id-ada": Role.ADMIN, "id-una": Role.USER, "id-vic": Role.VIEWER}},
        keys={one.prefix: one for one in kept},
    )
