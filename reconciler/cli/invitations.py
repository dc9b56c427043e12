"""`reconciler invitation`: roles in a project, which is the session's, that wait for people whom a provider knows."""

import click

from reconciler.auth import invitations
from reconciler.cli import choosing, connecting, output, tables, words
from reconciler.cli.answers import answer_objects, answer_text
from reconciler.cli.form_option import form_option
from reconciler.cli.lazy import OrderedGroup
from reconciler.cli.sessions import Session, connected
from reconciler.model.errors import Refused
from reconciler.model.principals import Role
from reconciler.model.values import Value

HEADER = ("ID", "FOR", "ROLE", "EXPIRES", "CREATED BY")
NO_ID = "an invitation is revoked by its ID, which `reconciler invitation list` shows"
OPTIONS = {"/role": "--role", "/email": "--email", "/expiry": "--expiry"}


@click.group(cls=OrderedGroup)
def invitation() -> None:
    """Invite people to a project: the one of --project. For its admins, where people sign in through a provider."""


@invitation.command("list")
@form_option
@connected
def list_invitations(session: Session, *, form: str) -> None:
    """Show the invitations that wait, the oldest first, without their codes."""
    with connecting.everywhere(session) as client:
        project = choosing.chosen_project(client, session)
        with connecting.unknown_project(project):
            found = answer_objects(client.get("projects", project, "invitations").get("invitations"))
    rows = [_row(one) for one in found]
    output.write(tables.listed("invitations", found, form=form, header=HEADER, rows=rows, colour=session.coloured))
    if not found:
        output.note(f"nobody is invited to {project}")


@invitation.command("create")
@click.option("--role", type=click.Choice([role.value for role in Role]), required=True, help="What they may do.")
@click.option("--email", metavar="ADDRESS", help="For whoever signs in with this address, instead of a code.")
@click.option("--expiry", metavar="WHEN", help="When it ends: 72h from now, or at 2026-12-31T00:00:00Z.")
@connected
def create_invitation(session: Session, *, role: str, email: str | None, expiry: str | None) -> None:
    """Invite somebody to the project: whoever brings the code, or signs in with a verified e-mail address.

    The code alone goes to standard output. It is shown this once, and admits one person.
    """
    given: dict[str, Value] = {"role": role, "email": email, "expiry": expiry}
    body: dict[str, Value] = {name: value for name, value in given.items() if value is not None}
    with connecting.everywhere(session) as client, connecting.make_options(OPTIONS):
        project = choosing.chosen_project(client, session)
        with connecting.unknown_project(project):
            made = client.post("projects", project, "invitations", body=body).get("invitation")
    if email is None:
        output.line(answer_text(made, "code"))
    output.note(_remark(made, by_code=email is None))


@invitation.command()
@click.argument("id")
@connected
def revoke(session: Session, *, id: str) -> None:  # noqa: A002 - the argument's name in the help
    """Revoke the invitation ID, as `invitation list` shows it: it admits nobody from now on."""
    if id.startswith(invitations.MARK):  # a code, or its beginning: it must not be printed, nor stand in a URL
        raise Refused(NO_ID)
    with connecting.everywhere(session) as client:
        project = choosing.chosen_project(client, session)
        unknown = f"no invitation {id} to {project} waits; `reconciler invitation list` shows those that do"
        with connecting.explain_missing(unknown), connecting.unknown_project(project):
            client.ask("DELETE", ("projects", project, "invitations", id))
    output.line(f"{id}: revoked")


def _remark(made: Value, *, by_code: bool) -> str:
    what = (
        f"{answer_text(made, 'role')} of {answer_text(made, 'project')}, until "
        f"{words.moment_text(answer_text(made, 'expiresAt'))}"
    )
    if by_code:
        return f"{answer_text(made, 'id')}: whoever brings the code is {what}; it is shown this once, so keep it now"
    return f"{answer_text(made, 'id')}: whoever signs in as {answer_text(made, 'email')} is {what}"


def _row(one: Value) -> tuple[str, ...]:
    return (
        answer_text(one, "id"),
        answer_text(one, "email") or "whoever has the code",
        answer_text(one, "role"),
        words.moment_text(answer_text(one, "expiresAt")),
        answer_text(one, "createdBy"),
    )
