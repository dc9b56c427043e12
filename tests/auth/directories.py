"""Small directories for tests: an organization admin, members of each role, and keys of each sort."""

from reconciler.model import directory as model_directory
from reconciler.model.directory import Directory, Key, Project, User
from reconciler.model.principals import Role, Scope

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
    """Return the stored part of a key. `owner` is a person's name."""
    prefix = model_directory.key_prefix(text)
    assert prefix is not None
    return Key(
        id=identifier,
        name="a pipeline",
        prefix=prefix,
        digest=model_directory.key_digest(text),
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
    return model_directory.make_key(number.to_bytes(model_directory.RANDOM_BYTES, "little"))


def directory(*kept: Key) -> Directory:
    """Two projects; `root` administers the organization; `ada`, `una` and `vic` are members of `payments`."""
    people = [user("root", organization_admin=True), *map(user, ("ada", "una", "vic", "nil"))]
    return Directory(
        projects={name: Project(name, AT) for name in ("default", "payments")},
        users={one.name: one for one in people},
        members={"payments": {"id-ada": Role.ADMIN, "id-una": Role.USER, "id-vic": Role.VIEWER}},
        keys={one.prefix: one for one in kept},
    )
