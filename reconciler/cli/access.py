"""`reconciler whoami`, `project`, `member`, `invitation`, `user` and `key`: people and keys, and their roles."""

from functools import partial
from pathlib import Path

import click

from reconciler.auth import changes
from reconciler.cli import client, output, tables
from reconciler.cli.client import Client
from reconciler.cli.options import OrderedGroup, connected, everywhere, form_option
from reconciler.cli.tables import Column, flag, joined, moment
from reconciler.model import directory
from reconciler.model.errors import Refused
from reconciler.model.principals import DEFAULT_PROJECT, Role, Scope
from reconciler.model.values import Value

role_option = partial(click.option, "--role", type=click.Choice([role.value for role in Role]), required=True)
id_argument = click.argument("identifier", metavar="ID")


def _given(**fields: Value) -> dict[str, Value]:
    """Return the given options as fields of a body: `display_name` becomes `displayName`."""
    given = [(name.split("_"), value) for name, value in fields.items() if value is not None]
    return {first + "".join(map(str.title, rest)): value for (first, *rest), value in given}


# Projects and their members.


@click.group(cls=OrderedGroup)
def project() -> None:
    """List and create projects."""


@project.command("list")
@form_option
@everywhere
def list_projects(service: Client, *, form: str) -> None:
    """Show the projects that you have a role in, or all for an organization admin."""
    columns = (Column("NAME", "name"), Column("CREATED", moment("createdAt")))
    found = client.objects(service.get("projects"), "projects")
    tables.write_list("projects", found, columns, form=form, empty="you have a role in no project")


@project.command("create")
@click.argument("name")
@everywhere
def create_project(service: Client, *, name: str) -> None:
    """Create the project NAME. For organization admins."""
    service.post("projects", body={"name": name})
    output.line(f"{name}: created")


def _chosen_project(service: Client) -> str:
    """Return the project for a path, chosen as the service chooses it for requests without one. Raises Refused."""
    if service.project is not None:
        return service.project
    within = [client.text(one, "name") for one in client.objects(service.get("me"), "me", "projects")]
    if DEFAULT_PROJECT in within:
        return DEFAULT_PROJECT
    if len(within) != 1:
        raise Refused(client.CHOOSE_HINT)
    return within[0]


@click.group(cls=OrderedGroup)
def member() -> None:
    """Give people roles in the project of --project. For its admins."""


@member.command("list")
@form_option
@everywhere
def list_members(service: Client, *, form: str) -> None:
    """Show the members and their roles. Organization admins need no membership."""
    project, columns = _chosen_project(service), (Column("USER", "user"), Column("ROLE", "role"))
    found = client.objects(service.get("projects", project, "members"), "members")
    tables.write_list("members", found, columns, form=form, empty=f"{project} has no members")


@member.command("set")
@click.argument("name", metavar="USER")
@role_option(help="What they may do.")
@everywhere
def set_role(service: Client, *, name: str, role: str) -> None:
    """Give USER a role in the project. It replaces an earlier one."""
    project = _chosen_project(service)
    service.ask("PUT", ("projects", project, "members", name), body={"role": role})
    output.line(f"{name}: {role} of {project}")


@member.command("remove")
@click.argument("name", metavar="USER")
@everywhere
def remove_member(service: Client, *, name: str) -> None:
    """Remove USER from the project."""
    project = _chosen_project(service)
    service.ask("DELETE", ("projects", project, "members", name))
    output.line(f"{name}: no member of {project} any more")


# Invitations to a project.

INVITATION_COLUMNS = (
    Column("ID", "id"),
    Column("FOR", lambda one: client.text(one, "email") or "whoever has the code"),
    Column("ROLE", "role"),
    Column("EXPIRES", moment("expiresAt")),
    Column("CREATED BY", "createdBy"),
)


@click.group(cls=OrderedGroup)
def invitation() -> None:
    """Invite people to the project of --project. For its admins, if people sign in through a provider."""


@invitation.command("list")
@form_option
@everywhere
def list_invitations(service: Client, *, form: str) -> None:
    """Show the unused invitations, the oldest first, without their codes."""
    project = _chosen_project(service)
    found = client.objects(service.get("projects", project, "invitations"), "invitations")
    tables.write_list("invitations", found, INVITATION_COLUMNS, form=form, empty=f"nobody is invited to {project}")


@invitation.command("create")
@role_option(help="What they may do.")
@click.option("--email", metavar="ADDRESS", help="For whoever signs in with this address, instead of a code.")
@click.option("--expiry", metavar="WHEN", help="When it ends: 72h from now, or at 2026-12-31T00:00:00Z.")
@everywhere
def create_invitation(service: Client, **given: str | None) -> None:
    """Invite a person to the project, by a code or by a verified e-mail address.

    Only the code goes to standard output. It is shown once, and admits one person.
    """
    path = ("projects", _chosen_project(service), "invitations")
    made = service.post(*path, body=_given(**given)).get("invitation")
    until = output.moment_text(client.text(made, "expiresAt"))
    grant = f"{client.text(made, 'role')} of {client.text(made, 'project')}, until {until}"
    if given["email"] is None:
        output.line(client.text(made, "code"))
        told = f"whoever brings the code is {grant}; it is shown this once, so keep it now"
    else:
        told = f"whoever signs in as {client.text(made, 'email')} is {grant}"
    output.note(f"{client.text(made, 'id')}: {told}")


@invitation.command("revoke")
@id_argument
@everywhere
def revoke_invitation(service: Client, *, identifier: str) -> None:
    """Revoke the invitation ID of `invitation list`. It admits nobody from now on."""
    if identifier.startswith(changes.MARK):  # a code must be neither printed nor sent in a URL
        raise Refused("an invitation is revoked by its ID, which `reconciler invitation list` shows")
    project = _chosen_project(service)
    missing = f"no invitation {identifier} to {project} waits; `reconciler invitation list` shows those that do"
    service.ask("DELETE", ("projects", project, "invitations", identifier), missing=missing)
    output.line(f"{identifier}: revoked")


# People.

NOBODY = "there is no terminal to ask for the new password; name a file that holds it with --password-file, or -"
ANONYMOUS = (
    "sign in as yourself with --user or SERVICE_USER to change your password; `reconciler user password NAME` sets "
    "that of somebody else"
)
ROLE_COLUMNS = (Column("PROJECT", "name"), Column("ROLE", "role"))
CALLER_COLUMNS = (
    Column("NAME", "name"),
    Column("ORGANIZATION ADMIN", flag("organizationAdmin")),
    Column("SCOPES", joined("scopes")),
)


def _roles(one: Value) -> str:
    found = client.objects(one, "projects")
    return ", ".join(f"{client.text(each, 'name')}:{client.text(each, 'role')}" for each in found)


USER_COLUMNS = (
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
@everywhere
def list_users(service: Client, *, form: str) -> None:
    """Show all people, with their roles."""
    found = client.objects(service.get("users"), "users")
    tables.write_list("users", found, USER_COLUMNS, form=form, empty="there are no users")


@user.command("create")
@click.argument("name")
@display_name_option
@click.option("--organization-admin", is_flag=True, default=None, help="They may do everything, in every project.")
@file_option
@everywhere
def create_user(service: Client, *, name: str, password_file: Path | None, **given: str | bool | None) -> None:
    """Create the person NAME, who signs in with a password. They have no role until `member set` gives them one."""
    password = _new_password(service, name, password_file)
    service.post("users", body=_given(name=name, password=password, **given))
    output.line(f"{name}: created")


@user.command("change")
@click.argument("name")
@display_name_option
@click.option(
    "--organization-admin/--no-organization-admin", default=None, help="Whether they may do everything, everywhere."
)
@everywhere
def change_user(service: Client, *, name: str, **given: str | bool | None) -> None:
    """Change the person NAME, as the options say."""
    body = _given(**given)
    if not body:
        raise click.UsageError("give --display-name, --organization-admin or --no-organization-admin")
    service.ask("PATCH", ("users", name), body=body)
    output.line(f"{name}: changed")


@user.command("delete")
@click.argument("name")
@everywhere
def delete_user(service: Client, *, name: str) -> None:
    """Remove the person NAME with their roles, personal keys and invitations.

    Keys that they made for projects stay. A notification lists them.
    """
    service.ask("DELETE", ("users", name))
    output.line(f"{name}: deleted")


@user.command("password")
@click.argument("name", required=False)
@file_option
@everywhere
def set_password(service: Client, *, name: str | None, password_file: Path | None) -> None:
    """Change your own password, or, as an organization admin, that of the person NAME.

    One end of line at the end of FILE is not part of the password.
    """
    who = name or service.user
    if who is None:
        raise Refused(ANONYMOUS)
    fresh = _new_password(service, who, password_file)
    if name is not None:
        service.ask("PATCH", ("users", name), body={"password": fresh})
    else:
        # The service also wants the present password, with which the person signs in.
        service.ask("PUT", ("me", "password"), body={"password": service.password, "newPassword": fresh})
    output.line(f"{who}: the password is changed")


def _new_password(service: Client, name: str, file: Path | None) -> str:
    """Return a new password from a file, standard input or a terminal. Raises Refused, OSError, click.Abort."""
    service.sign_in()  # asks for the caller's own password first
    found = output.hidden_text(file, f"New password of {name}", otherwise=NOBODY, twice=True)
    changes.check_password(found)
    return found


@click.command()
@form_option
@everywhere
def whoami(service: Client, *, form: str) -> None:
    """Show who you are, and your role in each project."""
    me = service.get("me").get("me")
    shown = (tables.table(CALLER_COLUMNS, [me]), tables.table(ROLE_COLUMNS, client.objects(me, "projects")))
    tables.write_one(me, form=form, as_text=lambda: "\n".join(filter(None, shown)))


# API keys.

KEY_COLUMNS = (
    Column("ID", "id"),
    Column("NAME", "name"),
    Column("PREFIX", "prefix"),
    Column("PROJECT", "project"),
    Column("PERSONAL", flag("personal")),
    Column("ROLE", "role"),
    Column("SCOPES", joined("scopes")),
    Column("EXPIRES", moment("expiresAt")),
    Column("LAST USED", moment("lastUsedAt")),
    Column("CREATED BY", "createdBy"),
)


@click.group(cls=OrderedGroup)
def key() -> None:
    """Create, list and revoke API keys: your own, those of projects that you administer, and, for its admins, those of
    the organization.
    """


@key.command("list")
@form_option
@connected
def list_keys(service: Client, *, form: str) -> None:
    """Show your own keys and those that you manage, the oldest first; with --project only those of that project."""
    found = client.objects(service.get("api-keys"), "apiKeys")
    tables.write_list("apiKeys", found, KEY_COLUMNS, form=form, empty="there are no keys that you may manage")


@key.command("create")
@click.argument("name")
@role_option(help="What it may do.")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice([scope.value for scope in Scope]),
    multiple=True,
    help="What it is for (default: resources); may be given more than once.",
)
@click.option(
    "--expiry", metavar="WHEN", help="When it ends: 720h from now, or at 2026-12-31T00:00:00Z; 400 days away at most."
)
@click.option("--organization", is_flag=True, help="A key of the organization, with its role in every project.")
@click.option(
    "--personal", is_flag=True, help="Your own key: it has at most your role and ends with you. You need not be admin."
)
@connected
def create_key(
    service: Client, *, scopes: tuple[str, ...], organization: bool, personal: bool, **given: str | None
) -> None:
    """Create the key NAME: of the project, of the organization, or your own.

    Only the key goes to standard output. It is shown once. With --personal and --organization it is your own key in all
    your projects.
    """
    body = _given(**given, scopes=list[Value](dict.fromkeys(scopes)) or None, personal=personal or None)
    if organization:
        body["project"] = None
    made = service.post("api-keys", body=body).get("apiKey")
    project = None if client.at(made, "project") is None else f"the project {client.text(made, 'project')}"
    if client.at(made, "personal") is True:
        owner = f"your own key in {project or 'every project of yours'}"
    else:
        owner = f"a key of {project or 'the organization'}"
    output.line(client.text(made, "key"))
    output.note(f"{client.text(made, 'id')}: {owner}; it is shown this once, so keep it now")


@key.command("revoke")
@id_argument
@everywhere
def revoke_key(service: Client, *, identifier: str) -> None:
    """Revoke the key ID of `key list`. The next request with it is refused."""
    if identifier.startswith(directory.KEY_MARK):  # a key must be neither printed nor sent in a URL
        raise Refused("a key is revoked by its ID, which `reconciler key list` shows beside its prefix")
    missing = f"there is no key {identifier} that you may manage; `reconciler key list` shows those there are"
    service.ask("DELETE", ("api-keys", identifier), missing=missing)
    output.line(f"{identifier}: revoked")
