"""Who may do what, as rows: reading all of it, and writing one change with its audit event.

Belongs here: rows and statements. Does not: the rules (`access.changing`).
"""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping

from reconciler.access.actors import Role
from reconciler.access.amendments import Amendment
from reconciler.access.models import Directory, Key, Project, User
from reconciler.access.permissions import Scope
from reconciler.store import connections, parts, queries
from reconciler.store.contract import AuditRow


def directory(connection: sqlite3.Connection) -> Directory:
    """Everybody, as of one revision. Raises StoreFault."""
    sql = queries.load()
    members: dict[str, dict[str, Role]] = defaultdict(dict)
    with connections.faults("read"), connections.transaction(connection, kind="deferred"):
        for project, user, role in connection.execute(sql["all_members"]):
            members[project][user] = Role(role)
        projects = (Project(*row) for row in connection.execute(sql["all_projects"]))
        users = (_user(row) for row in connection.execute(sql["all_users"]))
        keys = (_key(row) for row in connection.execute(sql["all_keys"]))
        return Directory(
            projects={project.name: project for project in projects},
            users={user.name: user for user in users},
            members=dict(members),
            keys={key.prefix: key for key in keys},
        )


def amend(connection: sqlite3.Connection, amendment: Amendment, *, audit: AuditRow) -> None:
    """Write one change in one transaction. Raises StoreFault."""
    sql = queries.load()
    with connections.faults("written"), connections.transaction(connection, kind="immediate"):
        connection.executemany(sql["put_project"], ((one.name, one.created_at) for one in amendment.projects))
        connection.executemany(sql["remove_user"], ((one.id,) for one in amendment.removed_users))
        connection.executemany(sql["put_user"], map(_user_row, amendment.users))
        ended = [(one.project, one.user) for one in amendment.members if one.role is None]
        connection.executemany(sql["remove_member"], ended)
        lasting = [(one.project, one.user, one.role.value) for one in amendment.members if one.role is not None]
        connection.executemany(sql["put_member"], lasting)
        connection.executemany(sql["remove_key"], ((one.id,) for one in amendment.revoked_keys))
        connection.executemany(sql["insert_key"], map(_key_row, amendment.keys))
        connection.execute(sql["insert_audit"], (*audit, parts.ALWAYS))


def touch(connection: sqlite3.Connection, used: Mapping[str, str]) -> None:
    """Write when keys were used last, by their ids. Raises StoreFault."""
    sql = queries.load()
    rows: Iterable[tuple[str, str]] = ((at, key) for key, at in sorted(used.items()))
    with connections.faults("written"), connections.transaction(connection, kind="immediate"):
        connection.executemany(sql["touch_key"], rows)


def _user(row: tuple[str, str, str, str, int, str | None]) -> User:
    identifier, name, created_at, display_name, organization_admin, password = row
    return User(
        id=identifier,
        name=name,
        created_at=created_at,
        display_name=display_name,
        organization_admin=bool(organization_admin),
        password=password,
    )


def _user_row(user: User) -> tuple[object, ...]:
    return (user.id, user.name, user.display_name, int(user.organization_admin), user.password, user.created_at)


def _key(row: tuple[str, str, str, bytes, str | None, str, str, str, str, str | None, str | None]) -> Key:
    identifier, name, prefix, digest, project, role, scopes, created_at, created_by, expires_at, last_used_at = row
    return Key(
        id=identifier,
        name=name,
        prefix=prefix,
        digest=digest,
        project=project,
        role=Role(role),
        scopes=frozenset(map(Scope, scopes.split())),
        created_at=created_at,
        created_by=created_by,
        expires_at=expires_at,
        last_used_at=last_used_at,
    )


def _key_row(key: Key) -> tuple[object, ...]:
    return (
        key.id,
        key.name,
        key.prefix,
        key.digest,
        key.project,
        key.role.value,
        " ".join(sorted(key.scopes)),
        key.created_at,
        key.created_by,
        key.expires_at,
        key.last_used_at,
    )
