"""`reconciler user password`, and where new passwords come from: a file, standard input or a terminal, no argument."""

from dataclasses import replace
from pathlib import Path

import click

from reconciler.auth import changes
from reconciler.cli import connecting, hidden, output
from reconciler.cli.client import Client
from reconciler.cli.sessions import Session, connected
from reconciler.model.errors import Refused

NOBODY = "nobody is here to be asked for the new password; name a file that holds it with --password-file, or -"
ANONYMOUS = (
    "sign in as yourself with --user or SERVICE_USER to change your password; `reconciler user password NAME` sets "
    "that of somebody else"
)

file_option = click.option(
    "--password-file",
    type=hidden.file_type,
    metavar="FILE",
    help="The file that holds the new password, - for standard input. Asked for on a terminal when left out.",
)


@click.command()
@click.argument("name", required=False)
@file_option
@connected
def password(session: Session, *, name: str | None, password_file: Path | None) -> None:
    """Change your own password, or, as an organization admin, that of the person NAME.

    One end of line at the end of FILE is not part of the password.
    """
    if name is None:
        name = _change_own(session, password_file)
    else:
        with connecting.everywhere(session) as client:
            client.ask("PATCH", ("users", name), body={"password": new(name, password_file)})
    output.line(f"{name}: the password is changed")


def new(name: str, file: Path | None) -> str:
    """A new password for somebody. Raises Refused, OSError, click.Abort."""
    if file is None:
        found = hidden.ask_hidden_text(f"New password of {name}", otherwise=NOBODY, twice=True)
    else:
        found = hidden.read_hidden(file, hidden.PASSWORD)
    changes.check_password(found)
    return found


def _change_own(session: Session, file: Path | None) -> str:
    """The password that somebody signs in with is the one that the service wants to see once more."""
    if session.user is None:
        raise Refused(ANONYMOUS)
    target = connecting.make_target(replace(session, project=None))
    body = {"password": target.password, "newPassword": new(session.user, file)}
    with Client(target) as client:
        client.ask("PUT", ("me", "password"), body=dict(body))
    return session.user
