"""People, memberships, projects and keys as rows.

The statements name columns in the order of fields; an identity is two of them.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from reconciler.model.directory import Amendment, Directory, Invitation, Key, Project, ProviderIdentity, User
from reconciler.model.principals import Role, Scope
from reconciler.store import database
from reconciler.store.commit import NextLink
from reconciler.store.records import AuditRow


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
        connection.executemany(sql["insert_invitation"], map(_values, amendment.invitations))
        if amendment.auth_type:
            connection.execute(sql["put_auth_type"], (amendment.auth_type,))
        _chain(connection, (audit,))


def tell(connection: sqlite3.Connection, rows: Sequence[AuditRow]) -> None:
    """Write events of facts that are not in the store. Raises StoreFault."""
    with database.faults("written"), database.transaction(connection, kind="immediate"):
        _chain(connection, rows)


def _chain(connection: sqlite3.Connection, rows: Sequence[AuditRow]) -> None:
    link = NextLink(connection)
    link.write(audit=rows)
    link.close()


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


def _values(one: User | Invitation | Key) -> list[Any]:
    return [getattr(one, each.name) for each in fields(one)]


def _user(row: tuple[Any, ...]) -> User:
    *plain, is_admin, password, issuer, subject, email, losses = row
    identity = None if issuer is None else ProviderIdentity(issuer, subject)
    values = [*plain, bool(is_admin), password, identity, email, losses]
    return User(*values)


def _user_row(user: User) -> list[Any]:
    *others, identity, email, losses = _values(user)
    return [*others, *(identity or (None, None)), email, losses]


def _invitation(row: tuple[Any, ...]) -> Invitation:
    return replace(Invitation(*row), role=Role(row[2]))


def _key(row: tuple[Any, ...]) -> Key:
    found = Key(*row)
    return replace(found, role=Role(found.role), scopes=frozenset(map(Scope, row[6].split())))


def _key_row(key: Key) -> list[Any]:
    values = _values(key)
    values[6] = " ".join(sorted(key.scopes))
    return values
