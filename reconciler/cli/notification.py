"""`reconciler notification`: the notifications of the service, and test alerts."""

from collections.abc import Sequence
from datetime import datetime

import click

from reconciler.cli import client, exits, output, tables
from reconciler.cli.client import Client
from reconciler.cli.options import OrderedGroup, connected, wide_form_option
from reconciler.cli.tables import Column, moment
from reconciler.model.values import Value

PATH = ("api", "notifications")


def _label(one: Value, name: str) -> str:
    return client.text(one, "metadata", "labels", f"service/{name}")


def _since(one: Value) -> str:
    """Return when the cause last began. The label has no separators: labels may not have them."""
    label = _label(one, "since")
    try:
        return f"{datetime.fromisoformat(label):%Y-%m-%dT%H:%M:%SZ}"
    except ValueError:
        return label


STATE = Column("STATE", lambda one: _label(one, "state"))
SEVERITY = Column("SEVERITY", "spec.severity")
READ = Column("READ", "status.userStatus")
COLUMNS = (
    Column("ID", "metadata.id"),
    SEVERITY,
    STATE,
    Column("TYPE", "spec.notificationType", wide=True),
    Column("PROJECT", "spec.account", tells_apart=True),
    Column("CHANGED", moment("metadata.dateModified")),
    READ,
    # Without the prefix, because STATE says so.
    Column("WHAT", lambda one: client.text(one, "metadata", "displayName").removeprefix("Resolved: ")),
)
FIELDS = (  # of one notification
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
    """Show notifications, mark them as read or dismissed, and send test alerts."""


@notification.command("list")
@click.option("--all", "every", is_flag=True, help="Also show resolved ones, and those that you dismissed.")
@wide_form_option
@connected
def list_all(service: Client, *, every: bool, form: str) -> None:
    """List open notifications, the newest first, without those that you dismissed."""
    found = client.objects(service.get(*PATH), "notifications")
    columns: Sequence[Column] = COLUMNS
    if not every:
        present = [one for one in found if _label(one, "state") == "open"]
        found = [one for one in present if client.text(one, "status", "userStatus") != "dismissed"]
        columns = [column for column in COLUMNS if column is not STATE]  # all of them are open
    empty = "there are no open notifications"
    tables.write_list("notifications", found, columns, form=form, empty=empty)


def _missing(identifier: str) -> str:
    return f"there is no notification {identifier}; `reconciler notification list --all` shows them"


@notification.command()
@click.argument("id")
@connected
def show(service: Client, *, id: str) -> None:  # noqa: A002 - the argument's name in the help
    """Show the notification ID: since when it is open, what happened, what it means, what to do."""
    one = service.get(*PATH, id, missing=_missing(id)).get("notification")
    output.write(tables.table(FIELDS, [one]) + "\n")
    paths = (("displayName",), ("additionalInfo", "message"), ("resourceDocLink",))
    output.lines(client.text(one, "metadata", *path) for path in paths)


def _status_command(name: str, status: str, text: str) -> None:
    """Add a command that sets the status of a notification for the caller."""

    @notification.command(name, help=text)
    @click.argument("id")
    @connected
    def set_status(service: Client, *, id: str) -> None:  # noqa: A002 - likewise
        body: Value = {"userStatus": status}
        one = service.post(*PATH, id, "status", body=body, missing=_missing(id)).get("notification")
        output.line(f"{client.text(one, 'metadata', 'id')}: {client.text(one, 'status', 'userStatus')}")


_status_command("read", "read", "Mark the notification ID as read; for a person, not for a key.")
_status_command(
    "unread", "unread", "Mark the notification ID as unread, and not dismissed; for a person, not for a key."
)
_status_command("dismiss", "dismissed", "Hide the notification ID from your list only; for a person, not for a key.")


@notification.command()
@click.argument("target", required=False)
@connected
def test(service: Client, *, target: str | None) -> int:
    """Send a test alert to TARGET of the setting `alerts`, or to each, and print the result.

    Ends with 0 if all were accepted, otherwise with 1, and says the likely cause. For organization admins.
    """
    answer = service.post("alerts", "test", body={} if target is None else {"target": target})
    found = client.objects(answer, "tests")
    for one in found:
        name, took = client.text(one, "target"), output.took(one.get("seconds"))
        if one.get("taken") is True:
            output.line(f"{name}: taken; it answered {client.text(one, 'status')}{took}")
        else:
            output.line(f"{name}: not taken{took}: {client.text(one, 'message')}")
    return exits.OK if found and all(one.get("taken") is True for one in found) else exits.ERROR
