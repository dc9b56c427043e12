"""`reconciler audit`: who did what, as the service tells it. Verifying the chain has a module of its own
(`audit_verify`).
"""

import click

from reconciler.cli import audit_verify, connecting, output, tables, words
from reconciler.cli.answers import objects, text
from reconciler.cli.client import Client
from reconciler.cli.form_option import form_option
from reconciler.cli.lazy import OrderedGroup
from reconciler.cli.sessions import Session, connected
from reconciler.documents.values import Value

HEADER = ("AT", "WHO", "ACTION", "WHAT", "PROJECT", "VERSION", "BY", "FROM")
SHOWN = 100
MOST = 100_000
PAGE = 1000  # events in one request; no more are given


@click.group(cls=OrderedGroup)
def audit() -> None:
    """Read the audit, and verify its chain. Reading is for admins: of a project, or of the organization."""


@audit.command("list")
@click.option("--kind", help="Only what happened to this kind of thing: Destination, Repository, User, Session, ...")
@click.option("--name", help="Only what happened to the thing of this name.")
@click.option("--actor", help="Only what this one did: user:ana, key:01J..., git:telemetry.")
@click.option("--action", help="Only this: created, configured, deleted, approved, signed-in, refused, ...")
@click.option("--since", metavar="INSTANT", help="From this instant on: 2026-11-21T08:00:00Z.")
@click.option("--until", metavar="INSTANT", help="Before this instant.")
@click.option("--limit", type=click.IntRange(1, MOST), default=SHOWN, help=f"At most so many events ({SHOWN}).")
@form_option
@connected
def list_all(session: Session, *, limit: int, form: str, **wanted: str | None) -> None:
    """Show audit events, the newest first: of --project, or of every project that you may read the audit of."""
    with connecting.client(session) as client:
        found = _found(client, {name: value for name, value in wanted.items() if value is not None}, limit=limit)
    rows = [_row(one) for one in found]
    output.write(tables.listed("events", found, form=form, header=HEADER, rows=rows, colour=session.coloured))
    if not found:
        output.note("no events found")


audit.add_command(audit_verify.verify)


def _found(client: Client, wanted: dict[str, str], *, limit: int) -> list[dict[str, Value]]:
    found: list[dict[str, Value]] = []
    after: dict[str, str] = {}
    while len(found) < limit:
        size = min(PAGE, limit - len(found))
        page = objects(client.get("audit-events", query={"limit": str(size), **wanted, **after}).get("events"))
        found += page
        if len(page) < size:
            break
        after = {"after": text(page[-1], "id")}
    return found


def _row(event: Value) -> tuple[str, ...]:
    return (
        words.moment(text(event, "at")),
        text(event, "actor"),
        text(event, "action"),
        f"{text(event, 'kind')} {text(event, 'name')}",
        text(event, "project"),
        text(event, "versionAfter"),
        text(event, "run") or text(event, "request"),
        text(event, "address"),
    )
