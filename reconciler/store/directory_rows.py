"""People, memberships, projects and keys as rows.

The statements name columns in the order of fields; an identity is two of them.
"""

from collections import defaultdict
from dataclasses import astuple, replace
from typing import Any

from reconciler.model import directory
from reconciler.model.directory import Amendment, Directory
from reconciler.model.principals import Role, Scope
from reconciler.store import commit, records
from reconciler.store.contract import StaleChange
from reconciler.store.statements import Connection, Row


def read(connection: Connection) -> Directory:
    """Return the directory, at the revision of the read that is open. Raises errors of the engine."""
    members: dict[str, dict[str, Role]] = defaultdict(dict)
    for project, user, role in connection.all("all_members"):
        members[project][user] = Role(role)
    projects = (directory.Project(*row) for row in connection.all("all_projects"))
    users = map(_user, connection.all("all_users"))
    keys = map(_key, connection.all("all_keys"))
    invitations = (directory.Invitation(*row) for row in connection.all("all_invitations"))
    return Directory(
        projects={project.name: project for project in projects},
        users={user.name: user for user in users},
        members=dict(members),
        keys={key.prefix: key for key in keys},
        invitations={one.id: replace(one, role=Role(one.role)) for one in invitations},
        number=int(connection.value("directory_number")),
    )


def amend(connection: Connection, amendment: Amendment, *, audit: records.AuditRow) -> None:
    """Write one change of the directory with its audit event, inside a transaction. Raises StaleChange if its number
    does not follow that of the directory, errors of the engine.
    """
    if int(connection.value("directory_number")) != amendment.number - 1:
        raise StaleChange("The directory was changed meanwhile; read it again.")
    connection.run("count_amendment")
    connection.each("put_project", ((one.name, one.created_at) for one in amendment.projects))
    connection.each("remove_user", ((one.id,) for one in amendment.removed_users))
    connection.each("put_user", map(_user_row, amendment.users))
    connection.each("remove_member", ((one.project, one.user) for one in amendment.members if one.role is None))
    lasting = [(one.project, one.user, one.role.value) for one in amendment.members if one.role is not None]
    connection.each("put_member", lasting)
    connection.each("remove_key", ((one.id,) for one in amendment.revoked_keys))
    connection.each("insert_key", map(_key_row, amendment.keys))
    connection.each("remove_invitation", ((one.id,) for one in amendment.ended_invitations))
    connection.each("insert_invitation", map(astuple, amendment.invitations))
    if amendment.auth_type:
        connection.run("put_auth_type", amendment.auth_type)
    commit.tell(connection, (audit,))


def _user(row: Row) -> directory.User:
    *plain, is_admin, password, issuer, subject, email, losses = row
    identity = None if issuer is None else directory.ProviderIdentity(issuer, subject)
    values = [*plain, bool(is_admin), password, identity, email, losses]
    return directory.User(*values)


def _user_row(user: directory.User) -> list[Any]:
    *others, identity, email, losses = astuple(user)
    return [*others, *(identity or (None, None)), email, losses]


def _key(row: Row) -> directory.Key:
    found = directory.Key(*row)
    return replace(found, role=Role(found.role), scopes=frozenset(map(Scope, row[6].split())))


def _key_row(key: directory.Key) -> list[Any]:
    values = list(astuple(key))
    values[6] = " ".join(sorted(key.scopes))
    return values
