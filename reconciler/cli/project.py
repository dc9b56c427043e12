"""`reconciler project`: the projects, and new ones. Who has which role in one is `member`'s."""

import click

from reconciler.cli import connecting, output, tables, words
from reconciler.cli.answers import answer_objects, answer_text
from reconciler.cli.form_option import form_option
from reconciler.cli.lazy import OrderedGroup
from reconciler.cli.sessions import Session, connected

HEADER = ("NAME", "CREATED")


@click.group(cls=OrderedGroup)
def project() -> None:
    """List and create projects."""


@project.command("list")
@form_option
@connected
def list_all(session: Session, *, form: str) -> None:
    """Show the projects that you have a role in, or all for an organization admin."""
    with connecting.everywhere(session) as client:
        found = answer_objects(client.get("projects").get("projects"))
    rows = [(answer_text(one, "name"), words.moment_text(answer_text(one, "createdAt"))) for one in found]
    output.write(tables.listed("projects", found, form=form, header=HEADER, rows=rows, colour=session.coloured))
    if not found:
        output.note("you have a role in no project")


@project.command()
@click.argument("name")
@connected
def create(session: Session, *, name: str) -> None:
    """Create the project NAME. For organization admins."""
    with connecting.everywhere(session) as client:
        client.post("projects", body={"name": name})
    output.line(f"{name}: created")
