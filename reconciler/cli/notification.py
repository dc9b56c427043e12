"""`reconciler notification`: the notifications of the service, and test alerts."""

from collections.abc import Sequence
from datetime import datetime

import click

from reconciler.cli import client, exits, output, tables
from reconciler.cli.client import Client
from reconciler.cli.options import OrderedGroup, Session, connected, wide_form_option
from reconciler.cli.tables import Column, moment
from reconciler.model.values import Value

PATH = ("api", "notifications")


def _label(one: Value, name: str) -> str:
    return client.text(one, "metadata", "labels", f"service/{name}")


def _since(one: Value) -> str:
    """Return the last beginning of the cause; the label lacks the characters that labels may not have."""
    label = _label(one, "since")
    try:
        return f"{datetime.fromisoformat(label):%Y-%m-%dT%H:%M:%SZ}"
    except ValueError:
        return label


STATE = Column("STATE", lambda one: _label(one, "state"))
SEVERITY = Column("SEVERITY", "spec.severity")
READ = Column("READ", "status.userStatus")
COLUMNS = (
    Column("ID", tables.short_id("metadata.id"), narrow=True),
    Column("ID", "metadata.id", wide=True),
    SEVERITY,
    STATE,
    Column("TYPE", "spec.notificationType", wide=True),
    Column("PROJECT", "spec.account", tells_apart=True),
    Column("CHANGED", moment("metadata.dateModified")),
    READ,
    # STATE says that it is over.
    Column("WHAT", lambda one: client.text(one, "metadata", "displayName").removeprefix("Resolved: ")),
)
FIELDS = (  # of one
    Column("TYPE", "spec.notificationType"),
    SEVERITY,
    Column("PROJECT", "spec.account", optional=True),
    STATE,
    Column("SINCE", _since),
    Column("TIMES", lambda one: _label(one, "occurrences")),
    READ,
)


@click.group(cls=OrderedGroup)
def notification() -> None:
    """Show what somebody should know of, say that you have read or dismissed it, and try whether alerts arrive.

    The last eight characters of an ID, as the list shows them, do as well.
    """


@notification.command("list")
@click.option("--all", "every", is_flag=True, help="Those that are over, and those that you dismissed, too.")
@wide_form_option
@connected
def list_all(session: Session, *, every: bool, form: str) -> None:
    """List notifications, the newest first: those whose cause is there and that you have not dismissed."""
    with session.client() as service:
        found = _listed(service)
    columns: Sequence[Column] = COLUMNS
    if not every:
        found = [
            one for one in found if STATE.of(one) == "open" and client.text(one, "status", "userStatus") != "dismissed"
        ]
        columns = [column for column in COLUMNS if column is not STATE]  # all of them are open
    empty = "there is nothing that somebody should know of"
    tables.write_list("notifications", found, columns, form=form, colour=session.coloured, empty=empty)


def _listed(service: Client) -> list[dict[str, Value]]:
    return client.objects(service.get(*PATH).get("notifications"))


def _whole_id(service: Client, identifier: str) -> str:
    return tables.whole_id(identifier, lambda: [client.text(one, "metadata", "id") for one in _listed(service)])


def _unknown(identifier: str) -> str:
    return f"there is no notification {identifier}; `reconciler notification list --all` shows them"


@notification.command()
@click.argument("id")
@connected
def show(session: Session, *, id: str) -> None:  # noqa: A002 - the argument's name in the help
    """Show what the notification ID says: since when it is there, what happened, what it means, what to do."""
    with session.client() as service:
        one = service.get(*PATH, _whole_id(service, id), missing=_unknown(id)).get("notification")
    output.write(tables.table(FIELDS, [one], colour=session.coloured) + "\n")
    output.line(client.text(one, "metadata", "displayName"))
    output.line(client.text(one, "metadata", "additionalInfo", "message"))
    output.line(client.text(one, "metadata", "resourceDocLink"))


@notification.command()
@click.argument("id")
@connected
def read(session: Session, *, id: str) -> None:  # noqa: A002 - likewise
    """Say that you have read the notification ID; for a person, not for a key."""
    _set(session, id, "read")


@notification.command()
@click.argument("id")
@connected
def unread(session: Session, *, id: str) -> None:  # noqa: A002 - likewise
    """Take back that you have read or dismissed the notification ID; for a person, not for a key."""
    _set(session, id, "unread")


@notification.command()
@click.argument("id")
@connected
def dismiss(session: Session, *, id: str) -> None:  # noqa: A002 - likewise
    """See the notification ID no more; others do. For a person, not for a key."""
    _set(session, id, "dismissed")


def _set(session: Session, identifier: str, status: str) -> None:
    with session.client() as service:
        path = (*PATH, _whole_id(service, identifier), "status")
        answer = service.post(*path, body={"userStatus": status}, missing=_unknown(identifier))
    one = answer.get("notification")
    output.line(f"{client.text(one, 'metadata', 'id')}: {client.text(one, 'status', 'userStatus')}")


@notification.command()
@click.argument("target", required=False)
@connected
@click.pass_context
def test(context: click.Context, session: Session, *, target: str | None) -> None:
    """Send a test alert to TARGET of the setting `alerts`, or to each, and say what came of it.

    It ends with 0 when all were taken, else with 1, and says the likely cause. For organization admins.
    """
    with session.client() as service:
        answer = service.post("alerts", "test", body={} if target is None else {"target": target})
    found = client.objects(answer.get("tests"))
    for one in found:
        seconds, name = client.at(one, "seconds"), client.text(one, "target")
        took = f" after {seconds:.2f} s" if isinstance(seconds, int | float) else ""
        if client.at(one, "taken") is True:
            output.line(f"{name}: taken; it answered {client.text(one, 'status')}{took}")
        else:
            output.line(f"{name}: not taken{took}: {client.text(one, 'message')}")
    context.exit(exits.OK if found and all(client.at(one, "taken") is True for one in found) else exits.ERROR)
