"""`reconciler audit verify`: whether the chain of the audit fits, by the store's file alone."""

import os
from datetime import timedelta
from pathlib import Path

import click

from reconciler.cli import output, words
from reconciler.model import clock
from reconciler.model.errors import Refused
from reconciler.ops import databases
from reconciler.settings import loading
from reconciler.store import audit
from reconciler.store.audit import VerifiedChain
from reconciler.store.audit_chain import ChainAnchor


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
    head = None if known is None else audit.head(known)
    # How people sign in is not needed, and a provider's secret is in the environment of the service alone.
    overrides = {"stateDir": state_dir, "auth.type": "local", "audit.retention": retention}
    settings = loading.load(config=config, environment=os.environ, overrides=overrides).settings
    path = databases.database_places(settings).store
    if not path.is_file():
        raise Refused(f"there is no store at {path}; {databases.ELSEWHERE}")
    since = clock.rfc3339(clock.now() - timedelta(seconds=settings.audit.retention))
    verified = audit.verify(path, known=head, since=since)
    for line in (*_lines(verified), f"store: {path}"):
        output.line(line)
    if head is None:
        output.note("compare the head with the service's log, kept where nobody who has the store can write")


def _lines(verified: VerifiedChain) -> list[str]:
    links, events = words.counted(verified.links, "link"), words.counted(verified.events, "event")
    lines = [f"verified: {links} with {events}{_when(verified)}"]
    if verified.unchecked:
        lines.append(f"not verified: {words.counted(verified.unchecked, 'event')} from before there was a chain")
    if verified.anchor.head.number:
        lines.append(_anchor(verified.anchor))
    lines.append(f"head: {verified.head}")
    lines += [f"redacted: {words.counted(one.events, 'event')}, by {one.by}" for one in verified.redacted]
    if verified.more_redacted:
        lines.append(f"redacted: more, by {words.counted(verified.more_redacted, 'link')}")
    return lines


def _anchor(anchor: ChainAnchor) -> str:
    until = "" if anchor.last_at is None else f", the last of {words.moment_text(anchor.last_at)}"
    return f"anchor: {anchor.head} ({words.counted(anchor.events, 'event')} removed up to it{until})"


def _when(verified: VerifiedChain) -> str:
    if not verified.first_at:
        return ""
    return f", from {words.moment_text(verified.first_at)} to {words.moment_text(verified.last_at)}"
