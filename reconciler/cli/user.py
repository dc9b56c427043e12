"""`reconciler user` and `reconciler whoami`: people, their passwords, and the caller of a command."""

from dataclasses import replace
from pathlib import Path

import click

from reconciler.auth import changes
from reconciler.cli import client, output, tables
from reconciler.cli.client import Client
from reconciler.cli.options import OrderedGroup, Session, connected, form_option
from reconciler.cli.tables import Column, flag, joined, moment
from reconciler.model import clock
from reconciler.model.errors import Refused
from reconciler.model.values import Value

NOBODY = "nobody is here to be asked for the new password; name a file that holds it with --password-file, or -"
ANONYMOUS = (
    "sign in as yourself with --user or SERVICE_USER to change your password; `reconciler user password NAME` sets "
    "that of somebody else"
)
ROLE_COLUMNS = (Column("PROJECT", "name"), Column("ROLE", "role"))
KEY_COLUMNS = (Column("ID", "id"), Column("NAME", "name"), Column("PROJECT", "project"), Column("ROLE", "role"))
CALLER_COLUMNS = (
    Column("NAME", "name"),
    Column("ORGANIZATION ADMIN", flag("organizationAdmin")),
    Column("SCOPES", joined("scopes")),
)


def _roles(one: Value) -> str:
    found = client.objects(client.at(one, "projects"))
    return ", ".join(f"{client.text(each, 'name')}:{client.text(each, 'role')}" for each in found)


COLUMNS = (
    Column("NAME", "name"),
    Column("DISPLAY NAME", "displayName"),
    Column("ORGANIZATION ADMIN", flag("organizationAdmin")),
    Column("PASSWORD", flag("hasPassword")),
    Column("CREATED", moment("createdAt")),
    Column("PROJECTS", _roles),
)

display_name_option = click.option("--display-name", help="What people call them, one line.")
file_option = click.option(
    "--password-file",
    type=output.file_type,
    metavar="FILE",
    help="The file that holds the new password, - for standard input. Asked for on a terminal when left out.",
)


@click.group(cls=OrderedGroup)
def user() -> None:
    """Manage people, for organization admins, and your own password."""


@user.command("list")
@form_option
@connected
def list_users(session: Session, *, form: str) -> None:
    """Show everybody, with their roles."""
    with session.everywhere() as service:
        found = client.objects(service.get("users").get("users"))
    tables.write_list("users", found, COLUMNS, form=form, colour=session.coloured, empty="there are no users")


@user.command()
@click.argument("name")
@form_option
@connected
def show(session: Session, *, name: str, form: str) -> None:
    """Show the person NAME."""
    with session.everywhere() as service:
        found = service.get("users", name).get("user")
    tables.write_one(found, form=form, as_text=lambda: tables.table(COLUMNS, [found], colour=session.coloured))


@user.command()
@click.argument("name")
@display_name_option
@click.option("--organization-admin", is_flag=True, help="They may do everything, in every project.")
@file_option
@connected
def create(
    session: Session, *, name: str, display_name: str | None, organization_admin: bool, password_file: Path | None
) -> None:
    """Create the person NAME, who signs in with a password. They have no role until `member set` gives them one."""
    body: dict[str, Value] = {"name": name}
    if display_name is not None:
        body["displayName"] = display_name
    if organization_admin:
        body["organizationAdmin"] = True
    with session.everywhere() as service:
        body["password"] = new_password(name, password_file)
        service.post("users", body=body)
    output.line(f"{name}: created")


@user.command()
@click.argument("name")
@display_name_option
@click.option(
    "--organization-admin/--no-organization-admin", default=None, help="Whether they may do everything, everywhere."
)
@connected
def change(session: Session, *, name: str, display_name: str | None, organization_admin: bool | None) -> None:
    """Change what the options name of the person NAME."""
    given: dict[str, Value] = {"displayName": display_name, "organizationAdmin": organization_admin}
    body: dict[str, Value] = {key: value for key, value in given.items() if value is not None}
    if not body:
        raise click.UsageError("give --display-name, --organization-admin or --no-organization-admin")
    with session.everywhere() as service:
        service.ask("PATCH", ("users", name), body=body)
    output.line(f"{name}: changed")


@user.command()
@click.argument("name")
@connected
def delete(session: Session, *, name: str) -> None:
    """Remove the person NAME, with their roles, their own keys and the invitations that they made.

    Keys that they made for projects stay. They are listed: revoke those that should not stay.
    """
    with session.everywhere() as service:
        service.ask("DELETE", ("users", name))
        output.line(f"{name}: deleted")
        keys = client.objects(service.get("api-keys").get("apiKeys"))
    now = clock.rfc3339(clock.now())
    found = [
        key
        for key in keys
        if client.text(key, "createdBy") == f"user:{name}"
        and client.at(key, "personal") is not True
        and (client.at(key, "expiresAt") is None or client.text(key, "expiresAt") > now)
    ]
    if found:
        output.note(f"{name} made these keys and may know them; `reconciler key revoke ID` ends one")
        output.write(tables.table(KEY_COLUMNS, found, colour=session.coloured))


@user.command()
@click.argument("name", required=False)
@file_option
@connected
def password(session: Session, *, name: str | None, password_file: Path | None) -> None:
    """Change your own password, or, as an organization admin, that of the person NAME.

    One end of line at the end of FILE is not part of the password.
    """
    if name is not None:
        with session.everywhere() as service:
            service.ask("PATCH", ("users", name), body={"password": new_password(name, password_file)})
    elif session.user is None:
        raise Refused(ANONYMOUS)
    else:
        name = session.user
        # The service asks for the present password once more: the one that the person signs in with.
        target = replace(session, project=None).target()
        body: dict[str, Value] = {"password": target.password, "newPassword": new_password(name, password_file)}
        with Client(target) as service:
            service.ask("PUT", ("me", "password"), body=body)
    output.line(f"{name}: the password is changed")


def new_password(name: str, file: Path | None) -> str:
    """Return a new password from a file, standard input or a terminal. Raises Refused, OSError, click.Abort."""
    if file is None:
        found = output.ask_hidden_text(f"New password of {name}", otherwise=NOBODY, twice=True)
    else:
        found = output.read_hidden(file, output.PASSWORD)
    changes.check_password(found)
    return found


@click.command()
@form_option
@connected
def whoami(session: Session, *, form: str) -> None:
    """Show who you are, and your role in each project."""
    with session.everywhere() as service:
        me = service.get("me").get("me")

    def as_text() -> str:
        roles = client.objects(client.at(me, "projects"))
        second = "\n" + tables.table(ROLE_COLUMNS, roles, colour=session.coloured) if roles else ""
        return tables.table(CALLER_COLUMNS, [me], colour=session.coloured) + second

    tables.write_one(me, form=form, as_text=as_text)
