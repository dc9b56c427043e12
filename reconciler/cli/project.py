"""`reconciler project`, `member` and `invitation`: projects, and the roles of people in one."""

import click

from reconciler.auth import changes
from reconciler.cli import client, options, output, tables
from reconciler.cli.options import OrderedGroup, Session, connected, form_option
from reconciler.cli.tables import Column, moment
from reconciler.model.errors import Refused
from reconciler.model.principals import Role
from reconciler.model.values import Value

COLUMNS = (Column("NAME", "name"), Column("CREATED", moment("createdAt")))
MEMBER_COLUMNS = (Column("USER", "user"), Column("ROLE", "role"))
INVITATION_COLUMNS = (
    Column("ID", "id"),
    Column("FOR", lambda one: client.text(one, "email") or "whoever has the code"),
    Column("ROLE", "role"),
    Column("EXPIRES", moment("expiresAt")),
    Column("CREATED BY", "createdBy"),
)
INVITATION_OPTIONS = {"/role": "--role", "/email": "--email", "/expiry": "--expiry"}
NO_ID = "an invitation is revoked by its ID, which `reconciler invitation list` shows"

role_option = click.option(
    "--role", type=click.Choice([role.value for role in Role]), required=True, help="What they may do."
)


@click.group(cls=OrderedGroup)
def project() -> None:
    """List and create projects."""


@project.command("list")
@form_option
@connected
def list_projects(session: Session, *, form: str) -> None:
    """Show the projects that you have a role in, or all for an organization admin."""
    with session.everywhere() as service:
        found = client.objects(service.get("projects").get("projects"))
    tables.write_list(
        "projects", found, COLUMNS, form=form, colour=session.coloured, empty="you have a role in no project"
    )


@project.command()
@click.argument("name")
@connected
def create(session: Session, *, name: str) -> None:
    """Create the project NAME. For organization admins."""
    with session.everywhere() as service:
        service.post("projects", body={"name": name})
    output.line(f"{name}: created")


@click.group(cls=OrderedGroup)
def member() -> None:
    """Give people roles in a project: the one of --project. For its admins."""


@member.command("list")
@form_option
@connected
def list_members(session: Session, *, form: str) -> None:
    """Show the members and their roles. Organization admins need no membership."""
    with session.everywhere() as service:
        project = options.chosen_project(service, session)
        found = client.objects(service.get("projects", project, "members").get("members"))
    empty = f"{project} has no members"
    tables.write_list("members", found, MEMBER_COLUMNS, form=form, colour=session.coloured, empty=empty)


@member.command("set")
@click.argument("name", metavar="USER")
@role_option
@connected
def set_role(session: Session, *, name: str, role: str) -> None:
    """Give USER a role in the project, in place of the one they have."""
    with session.everywhere() as service:
        project = options.chosen_project(service, session)
        service.ask("PUT", ("projects", project, "members", name), body={"role": role})
    output.line(f"{name}: {role} of {project}")


@member.command()
@click.argument("name", metavar="USER")
@connected
def remove(session: Session, *, name: str) -> None:
    """Take USER out of the project."""
    with session.everywhere() as service:
        project = options.chosen_project(service, session)
        service.ask("DELETE", ("projects", project, "members", name))
    output.line(f"{name}: no member of {project} any more")


@click.group(cls=OrderedGroup)
def invitation() -> None:
    """Invite people to a project: the one of --project. For its admins, where people sign in through a provider."""


@invitation.command("list")
@form_option
@connected
def list_invitations(session: Session, *, form: str) -> None:
    """Show the invitations that wait, the oldest first, without their codes."""
    with session.everywhere() as service:
        project = options.chosen_project(service, session)
        found = client.objects(service.get("projects", project, "invitations").get("invitations"))
    empty = f"nobody is invited to {project}"
    tables.write_list("invitations", found, INVITATION_COLUMNS, form=form, colour=session.coloured, empty=empty)


@invitation.command("create")
@role_option
@click.option("--email", metavar="ADDRESS", help="For whoever signs in with this address, instead of a code.")
@click.option("--expiry", metavar="WHEN", help="When it ends: 72h from now, or at 2026-12-31T00:00:00Z.")
@connected
def create_invitation(session: Session, *, role: str, email: str | None, expiry: str | None) -> None:
    """Invite somebody to the project: whoever brings the code, or signs in with a verified e-mail address.

    The code alone goes to standard output. It is shown this once, and admits one person.
    """
    given: dict[str, Value] = {"role": role, "email": email, "expiry": expiry}
    body: dict[str, Value] = {name: value for name, value in given.items() if value is not None}
    with session.everywhere() as service:
        project = options.chosen_project(service, session)
        answer = service.post("projects", project, "invitations", body=body, options=INVITATION_OPTIONS)
    made = answer.get("invitation")
    until = output.moment_text(client.text(made, "expiresAt"))
    grant = f"{client.text(made, 'role')} of {client.text(made, 'project')}, until {until}"
    if email is None:
        output.line(client.text(made, "code"))
        told = f"whoever brings the code is {grant}; it is shown this once, so keep it now"
    else:
        told = f"whoever signs in as {client.text(made, 'email')} is {grant}"
    output.note(f"{client.text(made, 'id')}: {told}")


@invitation.command()
@click.argument("id")
@connected
def revoke(session: Session, *, id: str) -> None:  # noqa: A002 - the argument's name in the help
    """Revoke the invitation ID, as `invitation list` shows it: it admits nobody from now on."""
    if id.startswith(changes.MARK):  # a code, or its beginning: it must not be printed, nor stand in a URL
        raise Refused(NO_ID)
    with session.everywhere() as service:
        project = options.chosen_project(service, session)
        missing = f"no invitation {id} to {project} waits; `reconciler invitation list` shows those that do"
        service.ask("DELETE", ("projects", project, "invitations", id), missing=missing)
    output.line(f"{id}: revoked")
