"""People, memberships, projects and keys as rows."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from reconciler.model.directory import Amendment, Directory, Invitation, Key, Project, ProviderIdentity, User
from reconciler.model.principals import Role, Scope
from reconciler.store import database
from reconciler.store import rows as store_rows
from reconciler.store.contract import AuditRow
from reconciler.store.rows import EventGroup


def directory(connection: sqlite3.Connection) -> Directory:
    """Everybody, as of one revision. Raises StoreFault."""
    sql = database.load_queries()
    members: dict[str, dict[str, Role]] = defaultdict(dict)
    with database.faults("read"), database.transaction(connection, kind="deferred"):
        for project, user, role in connection.execute(sql["all_members"]):
            members[project][user] = Role(role)
        projects = (Project(*row) for row in connection.execute(sql["all_projects"]))
        users = (_user(row) for row in connection.execute(sql["all_users"]))
        keys = (_key(row) for row in connection.execute(sql["all_keys"]))
        invitations = (_invitation(row) for row in connection.execute(sql["all_invitations"]))
        return Directory(
            projects={project.name: project for project in projects},
            users={user.name: user for user in users},
            members=dict(members),
            keys={key.prefix: key for key in keys},
            invitations={one.id: one for one in invitations},
        )


def amend(connection: sqlite3.Connection, amendment: Amendment, *, audit: AuditRow) -> None:
    """Write one change in one transaction. Raises StoreFault."""
    sql = database.load_queries()
    with database.faults("written"), database.transaction(connection, kind="immediate"):
        connection.executemany(sql["put_project"], ((one.name, one.created_at) for one in amendment.projects))
        connection.executemany(sql["remove_user"], ((one.id,) for one in amendment.removed_users))
        connection.executemany(sql["put_user"], map(_user_row, amendment.users))
        ended = [(one.project, one.user) for one in amendment.members if one.role is None]
        connection.executemany(sql["remove_member"], ended)
        lasting = [(one.project, one.user, one.role.value) for one in amendment.members if one.role is not None]
        connection.executemany(sql["put_member"], lasting)
        connection.executemany(sql["remove_key"], ((one.id,) for one in amendment.revoked_keys))
        connection.executemany(sql["insert_key"], map(_key_row, amendment.keys))
        connection.executemany(sql["remove_invitation"], ((one.id,) for one in amendment.ended_invitations))
        connection.executemany(sql["insert_invitation"], map(_invitation_row, amendment.invitations))
        if amendment.auth_type:
            connection.execute(sql["put_auth_type"], (amendment.auth_type,))
        _chain(connection, (audit,))


def tell(connection: sqlite3.Connection, rows: Sequence[AuditRow]) -> None:
    """Write events of what the store itself does not hold. Raises StoreFault."""
    with database.faults("written"), database.transaction(connection, kind="immediate"):
        _chain(connection, rows)


def _chain(connection: sqlite3.Connection, rows: Sequence[AuditRow]) -> None:
    group = EventGroup()
    store_rows.write_events(connection, group, since=store_rows.ALWAYS, audit=rows)
    store_rows.close_events(connection, group)


def put_auth_type(connection: sqlite3.Connection, auth_type: str) -> None:
    """Record how people sign in. Raises StoreFault."""
    sql = database.load_queries()
    with database.faults("written"), database.transaction(connection, kind="immediate"):
        connection.execute(sql["put_auth_type"], (auth_type,))


def touch(connection: sqlite3.Connection, used: Mapping[str, str]) -> None:
    """Write when keys were used last, by their ids. Raises StoreFault."""
    sql = database.load_queries()
    rows: Iterable[tuple[str, str]] = ((at, key) for key, at in sorted(used.items()))
    with database.faults("written"), database.transaction(connection, kind="immediate"):
        connection.executemany(sql["touch_key"], rows)


def _user(row: tuple[str, str, str, str, int, str | None, str | None, str | None, str, int]) -> User:
    identifier, name, created_at, display_name, organization_admin, password, issuer, subject, email, losses = row
    return User(
        id=identifier,
        name=name,
        created_at=created_at,
        display_name=display_name,
        organization_admin=bool(organization_admin),
        password=password,
        identity=None if issuer is None or subject is None else ProviderIdentity(issuer, subject),
        email=email,
        losses=losses,
    )


def _user_row(user: User) -> tuple[object, ...]:
    return (
        user.id,
        user.name,
        user.display_name,
        int(user.organization_admin),
        user.password,
        user.created_at,
        *(user.identity or (None, None)),
        user.email,
        user.losses,
    )


def _invitation(row: tuple[str, str, str, str, str, str, bytes | None, str]) -> Invitation:
    identifier, project, role, created_at, created_by, expires_at, digest, email = row
    return Invitation(
        id=identifier,
        project=project,
        role=Role(role),
        created_at=created_at,
        created_by=created_by,
        expires_at=expires_at,
        digest=digest,
        email=email,
    )


def _invitation_row(one: Invitation) -> tuple[object, ...]:
    return (
        one.id,
        one.project,
        one.role.value,
        one.created_at,
        one.created_by,
        one.expires_at,
        one.digest,
        one.email,
    )


def _key(row: tuple[str, str, str, bytes, str | None, str, str, str, str, str | None, str | None, str | None]) -> Key:
    identifier, name, prefix, digest, project, role, scopes, created_at, created_by, expires_at, last_used_at, owner = (
        row
    )
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
        owner=owner,
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
        key.owner,
    )
