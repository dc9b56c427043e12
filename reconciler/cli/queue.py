"""`reconciler queue`: the queues of webhooks and their dead letters, through the service. Reading queue files on disk
has a module of its own (`queue_peek`).
"""

import sys
from datetime import UTC, datetime

import click

from reconciler.cli import connecting, output, queue_peek, queue_tables, queue_unrouted, words
from reconciler.cli.answers import answer_number, answer_objects
from reconciler.cli.client import Client, Refusal
from reconciler.cli.form_option import wide_form_option
from reconciler.cli.lazy import OrderedGroup
from reconciler.cli.sessions import Session, connected
from reconciler.model.errors import Refused
from reconciler.model.values import Value

NONE = "the project has no destination that log records are delivered to, and no queue is left of one"
QUEUE, DEAD_LETTERS, ALL = "queue", "deadLetters", "all"  # as the API calls what is discarded


@click.group(cls=OrderedGroup)
def queue() -> None:
    """Look after the queues of webhooks. Replaying and discarding are for admins."""


@queue.command()
@click.argument("destination", required=False)
@wide_form_option
@connected
def status(session: Session, *, destination: str | None, form: str) -> None:
    """Show what waits for DESTINATION, or for each of the project, and why.

    Beneath the table stands what needs somebody. A webhook that stands in a Configuration is named CONFIGURATION:ID.
    """
    with connecting.make_client(session) as client:
        if destination is not None:
            delivery = _delivery(client, destination)
            output.write(_shown(delivery, [delivery], form=form, colour=session.coloured))
            return
        answer = client.get("deliveries")
        unrouted = answer_number(answer, "unrouted", "records") if form in ("table", "wide") else 0
        notes = queue_unrouted.unrouted_note(client, unrouted)
    found = answer_objects(answer.get("deliveries"))
    output.write(_shown(answer, found, form=form, colour=session.coloured))
    for note in notes:
        output.note(note)
    if not found:
        output.note(NONE)


@queue.command()
@click.argument("destination")
@connected
def replay(session: Session, *, destination: str) -> None:
    """Send the dead letters of DESTINATION again: they join its queue, the oldest first."""
    with connecting.make_client(session) as client, connecting.explain_missing(unknown(client, destination)):
        replayed = client.post("destinations", destination, "delivery", "replay").get("replayed")
        batches, records = answer_number(replayed, "batches"), answer_number(replayed, "records")
        left = 0 if batches else answer_number(_delivery(client, destination), "deadLetters", "batches")
    if batches:
        said = f"{_told(batches, records, 'dead letter')} queued again"
    elif left:
        said = f"there is no room in the queue for {words.counted(left, 'dead letter')}"
    else:
        said = "there are no dead letters"
    output.line(f"{destination}: {said}")


@queue.command()
@click.argument("destination")
@click.option("--queued", "what", flag_value=QUEUE, help="What waits in the queue.")
@click.option("--dead", "what", flag_value=DEAD_LETTERS, help="The dead letters.")
@click.option("--all", "what", flag_value=ALL, help="Both.")
@click.option("--yes", is_flag=True, help="Do not ask; for when nobody is there to answer.")
@connected
def discard(session: Session, *, destination: str, what: str | None, yes: bool) -> None:
    """Forget records that were not delivered to DESTINATION, for good.

    What is being sent at the moment is not discarded.
    """
    if what is None:
        raise click.UsageError("give --queued, --dead or --all")
    with connecting.make_client(session) as client:
        if not yes:
            _confirm(_delivery(client, destination), destination, what)
        with connecting.explain_missing(unknown(client, destination)):
            answer = client.post("destinations", destination, "delivery", "discard", body={"what": what})
        sending = 0 if what == DEAD_LETTERS else _in_flight(client, destination)
    gone = answer.get("discarded")
    told = _told(answer_number(gone, "batches"), answer_number(gone, "records"), "batch", "batches")
    output.line(f"{destination}: {told} discarded")
    if sending:
        stay = "is being sent and stays" if sending == 1 else "are being sent and stay"
        output.note(f"{destination}: {words.counted(sending, 'batch', 'batches')} {stay}; try again")


queue.add_command(queue_peek.peek)


def unknown(client: Client, destination: str) -> str:
    """What to say when there is no such destination in the project that the client means."""
    none = f"log records are delivered to no destination {destination}"
    if client.project is None:
        return f"{none}; `reconciler queue status` shows those there are, with --project NAME those of another project"
    of = f"of the project {client.project}; `reconciler queue status --project {client.project}`"
    return f"{none} {of} shows those there are"


def _shown(whole: Value, deliveries: list[dict[str, Value]], *, form: str, colour: bool) -> str:
    """What the service says, or the deliveries in it as a table or as documents."""
    if form == "json":
        return output.as_json(whole)
    if form == "yaml":
        return output.as_yaml(deliveries)
    return queue_tables.render_queues(deliveries, now=datetime.now(UTC), wide=form == "wide", colour=colour)


def _delivery(client: Client, destination: str) -> dict[str, Value]:
    with connecting.explain_missing(unknown(client, destination)):
        found = client.get("destinations", destination, "delivery").get("delivery")
    return found if isinstance(found, dict) else {}


def _in_flight(client: Client, destination: str) -> int:
    """How many batches are being sent; a queue that was the last of its destination is gone once it is empty."""
    try:
        found = client.get("destinations", destination, "delivery").get("delivery")
    except Refusal as refusal:
        if refusal.status != connecting.NOT_FOUND:
            raise
        return 0
    return answer_number(found, "queue", "inFlight")


def _confirm(delivery: Value, destination: str, what: str) -> None:
    """Ask, with what it is about; what came meanwhile goes too."""
    if not sys.stdin.isatty():
        raise Refused("nobody is here to answer; give --yes")
    parts = []
    if what != DEAD_LETTERS:
        parts.append(f"{_records(delivery, 'queue')} in the queue")
    if what != QUEUE:
        parts.append(f"{_records(delivery, 'deadLetters')} among the dead letters")
    output.confirm(f"Discard {' and '.join(parts)} of {destination}, for good?")


def _records(delivery: Value, part: str) -> str:
    return words.counted(answer_number(delivery, part, "records"), "record")


def _told(batches: int, records: int, noun: str, nouns: str = "") -> str:
    """`1 dead letter (3 records)`, `2 batches (3 records)`."""
    return f"{words.counted(batches, noun, nouns)} ({words.counted(records, 'record')})"
