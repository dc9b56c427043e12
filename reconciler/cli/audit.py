"""`reconciler audit`: who did what, as the service tells it. Verifying the chain has a module of its own
(`audit_verify`), and what is told beside (`audit_details`).
"""

import click

from reconciler.cli import audit_details, audit_verify, connecting, output, tables, words
from reconciler.cli.answers import answer_objects, answer_text
from reconciler.cli.client import Client
from reconciler.cli.form_option import wide_form_option
from reconciler.cli.instants import Instant
from reconciler.cli.lazy import OrderedGroup
from reconciler.cli.sessions import Session, connected
from reconciler.cli.tables import Column
from reconciler.model.values import Value

SHOWN = 100
MOST = 100_000
PAGE = 1000  # events in one request; no more are given


@click.group(cls=OrderedGroup)
def audit() -> None:
    """Read the audit, and verify its chain. Reading is for admins: of a project, or of the organization."""


@audit.command("list")
@click.option("--kind", help="Only what happened to this kind of thing: Destination, Repository, User, Session, ...")
@click.option("--name", help="Only what happened to the thing of this name; with --kind Key its id does as well.")
@click.option("--actor", help="Only what this one did: user:ana, key:01J..., git:telemetry.")
@click.option("--action", help="Only this: created, configured, deleted, approved, signed-in, refused, ...")
@click.option("--since", type=Instant(), help="From then on: 24h, 2026-11-21 (in UTC), 2026-11-21T08:00:00Z.")
@click.option("--until", type=Instant(), help="Before then.")
@click.option("--after", metavar="ID", help="Only what comes behind the event of this id: where a list ended.")
@click.option("--limit", type=click.IntRange(1, MOST), default=SHOWN, help=f"At most so many events ({SHOWN}).")
@wide_form_option
@connected
def list_all(session: Session, *, limit: int, form: str, **wanted: str | None) -> None:
    """Show audit events, the newest first: of --project, or of every project that you may read the audit of."""
    with connecting.make_client(session) as client:
        given = {name: value for name, value in wanted.items() if value is not None}
        found = _found(client, given, most=limit + 1)  # one more, to know whether there is
    is_cut, found = len(found) > limit, found[:limit]
    output.write(tables.shown("events", found, form=form, columns=COLUMNS, colour=session.coloured))
    if not found:
        output.note("no events found")
    elif is_cut:
        output.note(f"there are more; go on with --after {answer_text(found[-1], 'id')}")


audit.add_command(audit_verify.verify)


def _found(client: Client, wanted: dict[str, str], *, most: int) -> list[dict[str, Value]]:
    found: list[dict[str, Value]] = []
    while len(found) < most:
        behind = {"after": answer_text(found[-1], "id")} if found else {}
        size = min(PAGE, most - len(found))
        page = answer_objects(client.get("audit-events", query={"limit": str(size), **wanted, **behind}).get("events"))
        found += page
        if len(page) < size:
            break
    return found


def _what(event: Value) -> str:
    return f"{answer_text(event, 'kind')} {answer_text(event, 'name')}"


def _called(event: Value) -> str:
    """A key by what people call it, all else by its name."""
    if answer_text(event, "kind") != "Key":
        return _what(event)
    return f"Key {answer_text(event, 'detail', 'name') or answer_text(event, 'name')}"


COLUMNS = (
    Column("AT", lambda event: words.moment_text(answer_text(event, "at")), kept=True),
    Column("WHO", lambda event: answer_text(event, "actor"), kept=True),
    Column("ACTION", lambda event: answer_text(event, "action"), kept=True),
    Column("WHAT", _called, kept=True, narrow=True),
    Column("WHAT", _what, kept=True, wide=True),
    Column("PROJECT", lambda event: answer_text(event, "project"), tells_apart=True),
    Column("VERSION", lambda event: answer_text(event, "versionAfter"), wide=True),
    Column("BY", lambda event: answer_text(event, "run") or answer_text(event, "request"), wide=True),
    Column("ID", lambda event: answer_text(event, "id"), kept=True, wide=True),
    Column("FROM", lambda event: answer_text(event, "address")),
    Column("DETAIL", audit_details.detail_line),
)
