"""`reconciler whoami`: who the service takes you for, and what you may reach."""

import click

from reconciler.cli import connecting, output, tables
from reconciler.cli.answers import at, objects, strings, text
from reconciler.cli.form_option import form_option
from reconciler.cli.sessions import Session, connected
from reconciler.documents.values import Value

HEADER = ("NAME", "ORGANIZATION ADMIN", "SCOPES")
PROJECTS = ("PROJECT", "ROLE")


@click.command()
@form_option
@connected
def whoami(session: Session, *, form: str) -> None:
    """Show who you are, and your role in each project."""
    with connecting.everywhere(session) as client:
        me = client.get("me").get("me")
    if form == "json":
        output.write(output.as_json(me))
    elif form == "yaml":
        output.write(output.as_yaml([me]))
    else:
        output.write(_shown(me, colour=session.coloured))


def _shown(me: Value, *, colour: bool) -> str:
    row = (
        text(me, "name"),
        "yes" if at(me, "organizationAdmin") is True else "",
        ", ".join(strings(at(me, "scopes"))),
    )
    roles = [(text(one, "name"), text(one, "role")) for one in objects(at(me, "projects"))]
    second = "\n" + tables.render(PROJECTS, roles, colour=colour) if roles else ""
    return tables.render(HEADER, [row], colour=colour) + second
