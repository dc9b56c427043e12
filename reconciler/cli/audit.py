"""`reconciler audit`."""

import os
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from reconciler.cli import output, tables
from reconciler.cli import session as cli_session
from reconciler.cli.client import Client
from reconciler.cli.options import OrderedGroup, wide_form_option
from reconciler.cli.session import Session, connected
from reconciler.cli.tables import Column, answer_at, answer_objects, answer_text
from reconciler.model import clock
from reconciler.model.errors import Refused
from reconciler.model.values import Value
from reconciler.ops import databases
from reconciler.settings import loading, scalars
from reconciler.store import audit as store_audit
from reconciler.store.audit import VerifiedChain
from reconciler.store.audit_chain import ChainAnchor

# What is told of an audit event beside who did what, on one line: `name=coll, role=user, scopes=logs metrics`.

SENTENCE = "text"  # the one member that says all by itself


def detail_line(event: Value) -> str:
    """The detail of an event; empty for one without."""
    detail = answer_at(event, "detail")
    return ", ".join(_parts("", detail)) if isinstance(detail, dict) else ""


def _parts(path: str, members: Mapping[str, Value]) -> Iterator[str]:
    for name, value in members.items():
        if isinstance(value, dict):
            yield from _parts(f"{path}{name}.", value)
        else:
            yield _text(value) if path + name == SENTENCE else f"{path}{name}={_text(value)}"


def _text(value: Value) -> str:
    if isinstance(value, list):
        return " ".join(map(_text, value))
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else str(value)


# `reconciler audit verify`: whether the chain of the audit fits, by the store's file alone.


@click.command()
@click.option("--head", "known", metavar="NUMBER:HASH", help="A head from the service's log, which must be there.")
@click.option("--retention", help="How long events are kept, in place of `audit.retention`: 168h.")
@click.option("--config", type=click.Path(path_type=Path), help="The service's settings file.")
@click.option("--state-dir", "state_dir", help="The service's `stateDir`; overrides the settings.")
def verify(known: str | None, retention: str | None, config: Path | None, state_dir: str | None) -> None:
    """Verify the chain of the audit in the store of the service on this machine, whether it runs or not, and that
    nothing is gone from it that is to be kept.

    Without --head, nobody can tell that the end was cut off, or that an older copy of the store took its place.
    """
    head = None if known is None else store_audit.head(known)
    # How people sign in is not needed, and a provider's secret is in the environment of the service alone.
    overrides = {"stateDir": state_dir, "auth.type": "local", "audit.retention": retention}
    settings = loading.load(config=config, environment=os.environ, overrides=overrides).settings
    path = databases.database_places(settings).store
    if not path.is_file():
        raise Refused(f"there is no store at {path}; {databases.ELSEWHERE}")
    since = clock.rfc3339(clock.now() - timedelta(seconds=settings.audit.retention))
    verified = store_audit.verify(path, known=head, since=since)
    for line in (*_lines(verified), f"store: {path}"):
        output.line(line)
    if head is None:
        output.note("compare the head with the service's log, kept where nobody who has the store can write")


def _lines(verified: VerifiedChain) -> list[str]:
    links, events = output.counted(verified.links, "link"), output.counted(verified.events, "event")
    lines = [f"verified: {links} with {events}{_when(verified)}"]
    if verified.unchecked:
        lines.append(f"not verified: {output.counted(verified.unchecked, 'event')} from before there was a chain")
    if verified.anchor.head.number:
        lines.append(_anchor(verified.anchor))
    lines.append(f"head: {verified.head}")
    lines += [f"redacted: {output.counted(one.events, 'event')}, by {one.by}" for one in verified.redacted]
    if verified.more_redacted:
        lines.append(f"redacted: more, by {output.counted(verified.more_redacted, 'link')}")
    return lines


def _anchor(anchor: ChainAnchor) -> str:
    until = "" if anchor.last_at is None else f", the last of {output.moment_text(anchor.last_at)}"
    return f"anchor: {anchor.head} ({output.counted(anchor.events, 'event')} removed up to it{until})"


def _when(verified: VerifiedChain) -> str:
    if not verified.first_at:
        return ""
    return f", from {output.moment_text(verified.first_at)} to {output.moment_text(verified.last_at)}"


# An option that is an instant, as people say it: how long ago, a day, or a moment with its zone.

ALLOWED = "must be a duration such as 30m or 24h, a date such as 2026-11-21, or an instant such as 2026-11-21T08:00:00Z"
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_INSTANT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?(?:Z|[+-][0-9]{2}:[0-9]{2})"
)


class Instant(click.ParamType[str]):
    """An option's value as `clock.rfc3339` writes instants."""

    name = "instant"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The instant that somebody means who types this now."""
        try:
            return clock.rfc3339(meant_instant(value, now=clock.now()))
        except (ValueError, OverflowError):  # a date outside of the calendar
            return self.fail(ALLOWED, param, ctx)


def meant_instant(text: str, *, now: datetime) -> datetime:
    """A duration is before `now`, a date is its beginning in UTC. Raises ValueError, OverflowError."""
    if _INSTANT.fullmatch(text):
        return datetime.fromisoformat(text).astimezone(UTC)
    if _DATE.fullmatch(text):
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    return now - timedelta(seconds=scalars.seconds(text))


# `reconciler audit`: who did what, as the service tells it.

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
    with cli_session.make_client(session) as client:
        given = {name: value for name, value in wanted.items() if value is not None}
        found = _found(client, given, most=limit + 1)  # one more, to know whether there is
    is_cut, found = len(found) > limit, found[:limit]
    output.write(tables.shown("events", found, form=form, columns=COLUMNS, colour=session.coloured))
    if not found:
        output.note("no events found")
    elif is_cut:
        output.note(f"there are more; go on with --after {answer_text(found[-1], 'id')}")


audit.add_command(verify)


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
    Column("AT", lambda event: output.moment_text(answer_text(event, "at")), kept=True),
    Column("WHO", lambda event: answer_text(event, "actor"), kept=True),
    Column("ACTION", lambda event: answer_text(event, "action"), kept=True),
    Column("WHAT", _called, kept=True, narrow=True),
    Column("WHAT", _what, kept=True, wide=True),
    Column("PROJECT", lambda event: answer_text(event, "project"), tells_apart=True),
    Column("VERSION", lambda event: answer_text(event, "versionAfter"), wide=True),
    Column("BY", lambda event: answer_text(event, "run") or answer_text(event, "request"), wide=True),
    Column("ID", lambda event: answer_text(event, "id"), kept=True, wide=True),
    Column("FROM", lambda event: answer_text(event, "address")),
    Column("DETAIL", detail_line),
)
