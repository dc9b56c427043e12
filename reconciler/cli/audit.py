"""`reconciler audit`: the audit events of the service, and the verification of their chain in the store's file."""

from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reconciler.cli import client, options, output, tables
from reconciler.cli.client import Client
from reconciler.cli.options import OrderedGroup, config_option, connected, state_option, wide_form_option
from reconciler.cli.tables import Column, moment
from reconciler.model import clock
from reconciler.model.audit_chain import ChainHead
from reconciler.model.errors import Refused
from reconciler.model.values import Value
from reconciler.ops import databases
from reconciler.settings import scalars
from reconciler.store import audit as store_audit
from reconciler.store import engines
from reconciler.store.audit import VerifiedChain

if TYPE_CHECKING:
    from reconciler.settings.models import Settings

SHOWN = 100
MOST = 100_000
PAGE = 1000  # events in one request, the most that the service gives
SENTENCE = "text"  # the member of a detail that is a whole sentence
ALLOWED = "must be a duration such as 30m or 24h, a date such as 2026-11-21, or an instant such as 2026-11-21T08:00:00Z"


def _instant(_context: click.Context, _parameter: click.Parameter, text: str | None) -> str | None:
    """Parse an instant, or a duration before now."""
    try:
        return None if text is None else clock.rfc3339(meant_instant(text, now=clock.now()))
    except (ValueError, OverflowError):  # a date outside of the calendar
        raise click.BadParameter(ALLOWED) from None


def meant_instant(text: str, *, now: datetime) -> datetime:
    """Return an instant: a duration is before `now`, a date begins in UTC. Raises ValueError, OverflowError."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return now - timedelta(seconds=scalars.seconds(text))
    if found.tzinfo is None and found.time() != time.min:
        raise ValueError("a time of an unknown zone")
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def detail_line(event: Value) -> str:
    """Return the detail of an event on one line: `name=coll, role=user, scopes=logs metrics`."""
    return ", ".join(_parts("", client.at(event, "detail")))


def _parts(path: str, value: Value) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _parts(f"{path}.{name}" if path else name, inner)
    elif path:
        yield _text(value) if path == SENTENCE else f"{path}={_text(value)}"


def _text(value: Value) -> str:
    if isinstance(value, list):
        return " ".join(map(_text, value))
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else str(value)


def _subject(event: Value) -> str:
    return f"{client.text(event, 'kind')} {client.text(event, 'name')}"


COLUMNS = (
    Column("AT", moment("at")),
    Column("WHO", "actor"),
    Column("ACTION", "action"),
    Column("WHAT", _subject),
    Column("PROJECT", "project", tells_apart=True),
    Column("VERSION", "versionAfter", optional=True, wide=True),
    Column("BY", lambda event: client.text(event, "run") or client.text(event, "request"), optional=True, wide=True),
    Column("ID", "id", wide=True),
    Column("FROM", "address", optional=True),
    Column("DETAIL", detail_line, optional=True),
)


@click.group(cls=OrderedGroup)
def audit() -> None:
    """Read the audit, and verify its chain. Reading is for admins of a project or of the organization."""


@audit.command("list")
@click.option("--kind", help="Only what happened to this kind of thing: Destination, Repository, User, Session, ...")
@click.option("--name", help="Only what happened to the thing of this name; with --kind Key its id does as well.")
@click.option("--actor", help="Only what this one did: user:ana, key:01J..., git:telemetry.")
@click.option("--action", help="Only this: created, configured, deleted, approved, signed-in, refused, ...")
@click.option(
    "--since",
    metavar="INSTANT",
    callback=_instant,
    help="From then on: 24h, 2026-11-21 (in UTC), 2026-11-21T08:00:00Z.",
)
@click.option("--until", metavar="INSTANT", callback=_instant, help="Before then.")
@click.option("--after", metavar="ID", help="Only older events than the one with this id, with which a list ended.")
@click.option("--limit", type=click.IntRange(1, MOST), default=SHOWN, help=f"At most so many events ({SHOWN}).")
@wide_form_option
@connected
def list_all(service: Client, *, limit: int, form: str, **wanted: str | None) -> None:
    """Show audit events, the newest first, of --project or of all projects that you administer."""
    query = {name: value for name, value in wanted.items() if value is not None}
    found: list[dict[str, Value]] = []
    while (size := min(PAGE, limit + 1 - len(found))) > 0:  # one more than the limit, to find out if there are more
        page = client.objects(service.get("audit-events", query={"limit": str(size), **query}), "events")
        found += page
        if len(page) < size:
            break
        query["after"] = client.text(found[-1], "id")
    is_cut, found = len(found) > limit, found[:limit]
    tables.write_list("events", found, COLUMNS, form=form, empty="no events found")
    if is_cut:
        output.note(f"there are more; go on with --after {client.text(found[-1], 'id')}")


@audit.command()
@click.option("--head", "known", metavar="NUMBER:HASH", help="A head from the service's log, to find in the chain.")
@click.option("--retention", help="How long events are kept, instead of `audit.retention`: 168h.")
@config_option
@state_option
def verify(known: str | None, retention: str | None, config: Path | None, state_dir: str | None) -> None:
    """Verify the audit in the store of the service on this machine: its chain, and that no event was removed early. The
    service may run or not.

    Without --head, this does not notice a missing end of the chain, or an older copy of the store.
    """
    head = None if known is None else store_audit.head(known)
    settings = options.local_settings(config, state_dir, **{"audit.retention": retention})
    since = clock.rfc3339(clock.now() - timedelta(seconds=settings.audit.retention))
    verified, where = _verified(settings, known=head, since=since)
    for line in _lines(verified):
        output.line(line)
    output.line(f"store: {where}")
    if head is None:
        output.note("compare the head with a copy of the service's log that nobody with access to the store can change")


def _verified(settings: "Settings", *, known: ChainHead | None, since: str) -> tuple[VerifiedChain, str]:
    """Verify the audit of the service's store, and return the store's place too. Raises Refused, StoreFault."""
    if settings.store.is_postgresql:
        return engines.verify_audit(settings.store.url, known=known, since=since)
    path = databases.database_places(settings).store
    if not path.is_file():
        raise Refused(f"there is no store at {path}; {databases.ELSEWHERE}")
    return store_audit.verify(path, known=known, since=since), str(path)


def _lines(verified: VerifiedChain) -> Iterator[str]:
    def events(number: int) -> str:
        return output.counted(number, "event")

    span, anchor, until = "", verified.anchor, ""
    if verified.first_at:
        span = f", from {output.moment_text(verified.first_at)} to {output.moment_text(verified.last_at)}"
    yield f"verified: {output.counted(verified.links, 'link')} with {events(verified.events)}{span}"
    if verified.unchecked:
        yield f"not verified: {events(verified.unchecked)} from before there was a chain"
    if anchor.head.number:
        if anchor.last_at is not None:
            until = f", the last of {output.moment_text(anchor.last_at)}"
        yield f"anchor: {anchor.head} ({events(anchor.events)} removed up to it{until})"
    yield f"head: {verified.head}"
    yield from (f"redacted: {events(one.events)}, by {one.by}" for one in verified.redacted)
