"""`reconciler member`: who has which role in a project, which is the session's."""

import click

from reconciler.cli import choosing, connecting, output, tables
from reconciler.cli.answers import answer_objects, answer_text
from reconciler.cli.form_option import form_option
from reconciler.cli.lazy import OrderedGroup
from reconciler.cli.sessions import Session, connected
from reconciler.model.principals import Role

HEADER = ("USER", "ROLE")


@click.group(cls=OrderedGroup)
def member() -> None:
    """Give people roles in a project: the one of --project. For its admins."""


@member.command("list")
@form_option
@connected
def list_members(session: Session, *, form: str) -> None:
    """Show the members and their roles. Organization admins need no membership."""
    with connecting.everywhere(session) as client:
        project = choosing.chosen_project(client, session)
        with connecting.unknown_project(project):
            found = answer_objects(client.get("projects", project, "members").get("members"))
    rows = [(answer_text(one, "user"), answer_text(one, "role")) for one in found]
    output.write(tables.listed("members", found, form=form, header=HEADER, rows=rows, colour=session.coloured))
    if not found:
        output.note(f"{project} has no members")


@member.command("set")
@click.argument("name", metavar="USER")
@click.option("--role", type=click.Choice([role.value for role in Role]), required=True, help="What they may do.")
@connected
def set_role(session: Session, *, name: str, role: str) -> None:
    """Give USER a role in the project, in place of the one they have."""
    with connecting.everywhere(session) as client:
        project = choosing.chosen_project(client, session)
        with connecting.unknown_project(project):
            client.ask("PUT", ("projects", project, "members", name), body={"role": role})
    output.line(f"{name}: {role} of {project}")


@member.command()
@click.argument("name", metavar="USER")
@connected
def remove(session: Session, *, name: str) -> None:
    """Take USER out of the project."""
    with connecting.everywhere(session) as client:
        project = choosing.chosen_project(client, session)
        with connecting.unknown_project(project):
            client.ask("DELETE", ("projects", project, "members", name))
    output.line(f"{name}: no member of {project} any more")
