"""`reconciler notification`: what somebody should know of, with what to do, and saying that one has read it."""

import click

from reconciler.cli import connecting, output, tables, words
from reconciler.cli.answers import objects, text
from reconciler.cli.form_option import form_option
from reconciler.cli.lazy import OrderedGroup
from reconciler.cli.sessions import Session, connected
from reconciler.documents.values import Value

HEADER = ("ID", "SEVERITY", "TYPE", "PROJECT", "CHANGED", "READ", "WHAT")
PATH = ("api", "notifications")


@click.group(cls=OrderedGroup)
def notification() -> None:
    """Show what somebody should know of, and say that you have read or dismissed it."""


@notification.command("list")
@click.option("--all", "every", is_flag=True, help="Those that are over, and those that you dismissed, too.")
@form_option
@connected
def list_all(session: Session, *, every: bool, form: str) -> None:
    """List notifications, the newest first: those whose cause is there and that you have not dismissed."""
    with connecting.client(session) as client:
        found = objects(client.get(*PATH).get("notifications"))
    shown = [one for one in found if every or _is_news(one)]
    rows = [_row(one) for one in shown]
    output.write(tables.listed("notifications", shown, form=form, header=HEADER, rows=rows, colour=session.coloured))
    if not shown:
        output.note("there is nothing that somebody should know of")


@notification.command()
@click.argument("id")
@connected
def show(session: Session, *, id: str) -> None:  # noqa: A002 - the argument's name in the help
    """Show what the notification ID says: what happened, what it means, what to do."""
    with connecting.client(session) as client, connecting.missing(_unknown(id)):
        one = client.get(*PATH, id).get("notification")
    output.line(text(one, "metadata", "displayName"))
    output.line(text(one, "metadata", "additionalInfo", "message"))
    output.line(text(one, "metadata", "resourceDocLink"))


@notification.command()
@click.argument("id")
@connected
def read(session: Session, *, id: str) -> None:  # noqa: A002 - likewise
    """Say that you have read the notification ID; for a person, not for a key."""
    _set(session, id, "read")


@notification.command()
@click.argument("id")
@connected
def dismiss(session: Session, *, id: str) -> None:  # noqa: A002 - likewise
    """See the notification ID no more; others do. For a person, not for a key."""
    _set(session, id, "dismissed")


def _set(session: Session, identifier: str, status: str) -> None:
    with connecting.client(session) as client, connecting.missing(_unknown(identifier)):
        one = client.post(*PATH, identifier, "status", body={"userStatus": status}).get("notification")
    output.line(f"{text(one, 'metadata', 'id')}: {text(one, 'status', 'userStatus')}")


def _unknown(identifier: str) -> str:
    return f"there is no notification {identifier}; `reconciler notification list --all` shows them"


def _is_news(one: Value) -> bool:
    is_open = text(one, "metadata", "labels", "service/state") == "open"
    return is_open and text(one, "status", "userStatus") != "dismissed"


def _row(one: Value) -> tuple[str, ...]:
    return (
        text(one, "metadata", "id"),
        text(one, "spec", "severity"),
        text(one, "spec", "notificationType"),
        text(one, "spec", "account"),
        words.moment(text(one, "metadata", "dateModified")),
        text(one, "status", "userStatus"),
        text(one, "metadata", "displayName"),
    )
