"""`reconciler queue` and `reconciler send-test`."""

import sys
from collections.abc import Mapping
from datetime import UTC, datetime

import click

from reconciler.cli import exits, output, queue_peek
from reconciler.cli import session as cli_session
from reconciler.cli.client import Client, Refusal
from reconciler.cli.options import OrderedGroup, wide_form_option
from reconciler.cli.session import Session, connected
from reconciler.cli.tables import answer_at, answer_lines, answer_number, answer_objects, answer_text
from reconciler.model.errors import Refused
from reconciler.model.text import visible
from reconciler.model.values import Value

# What a Configuration's `status.delivery` says, for a person.

Specs = Mapping[tuple[str, str], Value]
"""The specs of components that are resources, by kind and name, as far as they are known."""


def delivers_word(resource: Value) -> str:
    """`yes` or `no`, `stale` where an earlier version is in force; nothing for what says neither."""
    delivers = _delivers(resource)
    if answer_at(resource, "status", "delivery", "stale") is not None:
        return "stale"
    return "" if delivers is None else "yes" if delivers else "no"


def delivers_reason(resource: Value) -> str:
    """One sentence for a Configuration that does not deliver; nothing for any other resource."""
    return answer_text(resource, "status", "delivery", "reason") if _delivers(resource) is False else ""


def stale(resource: Value) -> str:
    """One sentence for a Configuration that delivers by an earlier version; nothing for any other resource."""
    found = answer_at(resource, "status", "delivery", "stale")
    if found is None:
        return ""
    return f"delivers by its version {answer_at(found, 'version')} still: {answer_text(found, 'reason')}"


def is_delivery_wanted(resource: Value, known: Specs) -> bool:
    """Whether a Configuration that does not deliver looks as if it were to: it has a source of type `otlp` or a
    destination of type `webhook`. Of what only the service knows the type, its reason decides. What is incomplete is
    told as that.
    """
    from reconciler.model import routes  # noqa: PLC0415 - only for Configurations

    if delivers_reason(resource) in {routes.INCOMPLETE, routes.RAW, routes.NEITHER}:
        return False
    spec = answer_at(resource, "spec")
    return _has(spec, "Source", known) or _has(spec, "Destination", known)


def _has(spec: Value, kind: str, known: Specs) -> bool:
    from reconciler.model import routes  # noqa: PLC0415 - likewise

    listed, wanted = ("sources", routes.OTLP) if kind == "Source" else ("destinations", routes.WEBHOOK)
    for component in routes.component_entries(answer_at(spec, listed)):
        name = routes.component_name(component)
        if name is not None and (kind, name) not in known:
            return True
        if routes.component_use(component if name is None else known[kind, name]).type == wanted:
            return True
    return False


def _delivers(resource: Value) -> bool | None:
    found = answer_at(resource, "status", "delivery", "delivers")
    return found if isinstance(found, bool) else None


# What `queue status` says of records that no Configuration took: how many, and which Configurations do not deliver.

MOST = 5  # Configurations that are named
PAGE = 1000  # of those that are asked for, once


def unrouted_note(client: Client, records: int) -> list[str]:
    """The lines; nothing when every record was taken."""
    if not records:
        return []
    listed = answer_objects(client.get("resources", "Configuration", query={"limit": str(PAGE)}).get("resources"))
    return unrouted_lines(records, listed)


def unrouted_lines(records: int, configurations: list[dict[str, Value]]) -> list[str]:
    """How many there were, then a line for each Configuration that does not deliver: first those that look as if they
    were to, each part in the order of names.
    """
    first = f"{output.counted(records, 'record')} {'was' if records == 1 else 'were'} taken by no Configuration"
    silent = [one for one in configurations if delivers_reason(one)]
    silent.sort(key=lambda one: (not is_delivery_wanted(one, {}), _name(one)))
    found = [f"Configuration/{_name(one)} does not deliver: {delivers_reason(one)}" for one in silent[:MOST]]
    more = len(silent) - len(found)
    return [first, *found, *([f"{more} more {'does' if more == 1 else 'do'} not deliver"] if more else [])]


def _name(resource: Value) -> str:
    return answer_text(answer_at(resource, "metadata"), "name")


# `reconciler queue`: the queues of webhooks and their dead letters, through the service. Reading queue files on disk
# has a module of its own (`queue_peek`).

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
    with cli_session.make_client(session) as client:
        if destination is not None:
            delivery = _delivery(client, destination)
            output.write(_shown(delivery, [delivery], form=form, colour=session.coloured))
            return
        answer = client.get("deliveries")
        unrouted = answer_number(answer, "unrouted", "records") if form in ("table", "wide") else 0
        notes = unrouted_note(client, unrouted)
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
    with cli_session.make_client(session) as client, cli_session.explain_missing(unknown(client, destination)):
        replayed = client.post("destinations", destination, "delivery", "replay").get("replayed")
        batches, records = answer_number(replayed, "batches"), answer_number(replayed, "records")
        left = 0 if batches else answer_number(_delivery(client, destination), "deadLetters", "batches")
    if batches:
        said = f"{_told(batches, records, 'dead letter')} queued again"
    elif left:
        said = f"there is no room in the queue for {output.counted(left, 'dead letter')}"
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
    with cli_session.make_client(session) as client:
        if not yes:
            _confirm(_delivery(client, destination), destination, what)
        with cli_session.explain_missing(unknown(client, destination)):
            answer = client.post("destinations", destination, "delivery", "discard", body={"what": what})
        sending = 0 if what == DEAD_LETTERS else _in_flight(client, destination)
    gone = answer.get("discarded")
    told = _told(answer_number(gone, "batches"), answer_number(gone, "records"), "batch", "batches")
    output.line(f"{destination}: {told} discarded")
    if sending:
        stay = "is being sent and stays" if sending == 1 else "are being sent and stay"
        output.note(f"{destination}: {output.counted(sending, 'batch', 'batches')} {stay}; try again")


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
    return queue_peek.render_queues(deliveries, now=datetime.now(UTC), wide=form == "wide", colour=colour)


def _delivery(client: Client, destination: str) -> dict[str, Value]:
    with cli_session.explain_missing(unknown(client, destination)):
        found = client.get("destinations", destination, "delivery").get("delivery")
    return found if isinstance(found, dict) else {}


def _in_flight(client: Client, destination: str) -> int:
    """How many batches are being sent; a queue that was the last of its destination is gone once it is empty."""
    try:
        found = client.get("destinations", destination, "delivery").get("delivery")
    except Refusal as refusal:
        if refusal.status != cli_session.NOT_FOUND:
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
    return output.counted(answer_number(delivery, part, "records"), "record")


def _told(batches: int, records: int, noun: str, nouns: str = "") -> str:
    """`1 dead letter (3 records)`, `2 batches (3 records)`."""
    return f"{output.counted(batches, noun, nouns)} ({output.counted(records, 'record')})"


# `reconciler send-test`: one made-up record to a webhook now, and what came of it.


@click.command("send-test")
@click.argument("destination")
@connected
@click.pass_context
def send_test(context: click.Context, session: Session, *, destination: str) -> None:
    """Send one made-up record to DESTINATION, past its queue, once.

    It ends with 0 when the record was delivered, else with 1, and says the likely cause. For admins.
    """
    with cli_session.make_client(session) as client, cli_session.explain_missing(unknown(client, destination)):
        test = client.post("destinations", destination, "delivery", "test").get("test")
    delivered = answer_at(test, "delivered") is True
    output.line(f"{destination}: {'delivered' if delivered else 'not delivered'}{_how(test)}")
    output.write("".join(visible(line) + "\n" for line in _told_test(test)))
    context.exit(exits.OK if delivered else exits.ERROR)


def _how(test: Value) -> str:
    seconds, status = answer_at(test, "seconds"), answer_text(test, "status")
    took = f" after {seconds:.2f} s" if isinstance(seconds, int | float) else ""
    return f"; answered {status}{took}" if status else f"; no answer{took}"


def _told_test(test: Value) -> list[str]:
    """The service's sentence, then the endpoint's own words, set in."""
    message = answer_text(test, "message")
    return [*([message] if message else []), *(f"  {line}" for line in answer_lines(test, "answer"))]
