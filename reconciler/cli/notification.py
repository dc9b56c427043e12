"""`reconciler notification`."""

from datetime import datetime

import click

from reconciler.cli import exits, output, tables
from reconciler.cli import session as cli_session
from reconciler.cli.client import Client
from reconciler.cli.options import OrderedGroup, wide_form_option
from reconciler.cli.session import Session, connected
from reconciler.cli.tables import Column, answer_at, answer_objects, answer_text
from reconciler.model.values import Value

PATH = ("api", "notifications")


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
    with cli_session.make_client(session) as client:
        found = _listed(client)
    shown = [one for one in found if every or _is_news(one)]
    columns = [column for column in COLUMNS if every or column is not STATE]  # else all of them are open
    output.write(tables.shown("notifications", shown, form=form, columns=columns, colour=session.coloured))
    if not shown:
        output.note("there is nothing that somebody should know of")


@notification.command()
@click.argument("id")
@connected
def show(session: Session, *, id: str) -> None:  # noqa: A002 - the argument's name in the help
    """Show what the notification ID says: since when it is there, what happened, what it means, what to do."""
    with cli_session.make_client(session) as client, cli_session.explain_missing(_unknown(id)):
        one = client.get(*PATH, _whole(client, id)).get("notification")
    output.write(tables.table_of(FIELDS, [one], wide=False, colour=session.coloured) + "\n")
    output.line(answer_text(one, "metadata", "displayName"))
    output.line(answer_text(one, "metadata", "additionalInfo", "message"))
    output.line(answer_text(one, "metadata", "resourceDocLink"))


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


@notification.command()
@click.argument("target", required=False)
@connected
@click.pass_context
def test(context: click.Context, session: Session, *, target: str | None) -> None:
    """Send a test alert to TARGET of the setting `alerts`, or to each, and say what came of it.

    It ends with 0 when all were taken, else with 1, and says the likely cause. For organization admins.
    """
    with cli_session.make_client(session) as client:
        found = answer_objects(
            client.post("alerts", "test", body={} if target is None else {"target": target}).get("tests")
        )
    for one in found:
        output.line(_tried(one))
    context.exit(exits.OK if found and all(answer_at(one, "taken") is True for one in found) else exits.ERROR)


def _tried(one: Value) -> str:
    seconds, status, message = answer_at(one, "seconds"), answer_text(one, "status"), answer_text(one, "message")
    took = f" after {seconds:.2f} s" if isinstance(seconds, int | float) else ""
    if answer_at(one, "taken") is True:
        return f"{answer_text(one, 'target')}: taken; it answered {status}{took}"
    return f"{answer_text(one, 'target')}: not taken{took}: {message}"


def _set(session: Session, identifier: str, status: str) -> None:
    with cli_session.make_client(session) as client, cli_session.explain_missing(_unknown(identifier)):
        path = (*PATH, _whole(client, identifier), "status")
        one = client.post(*path, body={"userStatus": status}).get("notification")
    output.line(f"{answer_text(one, 'metadata', 'id')}: {answer_text(one, 'status', 'userStatus')}")


def _listed(client: Client) -> list[dict[str, Value]]:
    return answer_objects(client.get(*PATH).get("notifications"))


def _whole(client: Client, identifier: str) -> str:
    """The id of the notification that is meant. Raises Refused."""
    return tables.whole_id(identifier, lambda: [answer_text(one, "metadata", "id") for one in _listed(client)])


def _unknown(identifier: str) -> str:
    return f"there is no notification {identifier}; `reconciler notification list --all` shows them"


def _is_news(one: Value) -> bool:
    is_open = answer_text(one, "metadata", "labels", "service/state") == "open"
    return is_open and answer_text(one, "status", "userStatus") != "dismissed"


def _since(one: Value) -> str:
    """When its cause began last; the label is without what labels may not hold."""
    label = answer_text(one, "metadata", "labels", "service/since")
    try:
        return f"{datetime.fromisoformat(label):%Y-%m-%dT%H:%M:%SZ}"
    except ValueError:
        return label


def _what(one: Value) -> str:
    """In a line; that it is over stands in a column of its own."""
    return answer_text(one, "metadata", "displayName").removeprefix("Resolved: ")


STATE = Column("STATE", lambda one: answer_text(one, "metadata", "labels", "service/state"), kept=True)
SEVERITY = Column("SEVERITY", lambda one: answer_text(one, "spec", "severity"), kept=True)
READ = Column("READ", lambda one: answer_text(one, "status", "userStatus"), kept=True)
COLUMNS = (
    Column("ID", lambda one: tables.short_id(answer_text(one, "metadata", "id")), kept=True, narrow=True),
    Column("ID", lambda one: answer_text(one, "metadata", "id"), kept=True, wide=True),
    SEVERITY,
    STATE,
    Column("TYPE", lambda one: answer_text(one, "spec", "notificationType"), kept=True, wide=True),
    Column("PROJECT", lambda one: answer_text(one, "spec", "account"), tells_apart=True),
    Column("CHANGED", lambda one: output.moment_text(answer_text(one, "metadata", "dateModified")), kept=True),
    READ,
    Column("WHAT", _what, kept=True),
)
FIELDS = (  # of one
    Column("TYPE", lambda one: answer_text(one, "spec", "notificationType"), kept=True),
    SEVERITY,
    Column("PROJECT", lambda one: answer_text(one, "spec", "account")),
    STATE,
    Column("SINCE", _since, kept=True),
    Column("TIMES", lambda one: answer_text(one, "metadata", "labels", "service/occurrences"), kept=True),
    READ,
)
