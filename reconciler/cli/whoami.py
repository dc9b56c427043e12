"""`reconciler whoami`: who the service takes you for, and what you may reach."""

import click

from reconciler.cli import connecting, output, tables
from reconciler.cli.answers import answer_at, answer_objects, answer_strings, answer_text
from reconciler.cli.form_option import form_option
from reconciler.cli.sessions import Session, connected
from reconciler.model.values import Value

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
        answer_text(me, "name"),
        "yes" if answer_at(me, "organizationAdmin") is True else "",
        ", ".join(answer_strings(answer_at(me, "scopes"))),
    )
    roles = [(answer_text(one, "name"), answer_text(one, "role")) for one in answer_objects(answer_at(me, "projects"))]
    second = "\n" + tables.render_table(PROJECTS, roles, colour=colour) if roles else ""
    return tables.render_table(HEADER, [row], colour=colour) + second
