"""`reconciler queue` and `reconciler send-test`: the queues of webhooks, through the service or in its files.

`queue peek` alone reads files, beside a service that runs or without one.
"""

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reconciler.cli import client, exits, output, resources, tables
from reconciler.cli.client import Client, Refusal
from reconciler.cli.options import OrderedGroup, Session, connected, form_option, wide_form_option
from reconciler.cli.tables import Column, moment
from reconciler.model.clock import rfc3339
from reconciler.model.errors import Refused
from reconciler.model.text import visible
from reconciler.model.values import Value

if TYPE_CHECKING:
    from reconciler.delivery.queue.folders import FoundIdentity, Peeked

NONE = "the project has no destination that log records are delivered to, and no queue is left of one"
QUEUE, DEAD_LETTERS, ALL = "queue", "deadLetters", "all"  # as the API calls what is discarded
UNITS = ("kB", "MB", "GB", "TB")
UNUSED = "unused"  # the state of a queue that has nothing else to tell: no Configuration delivers to it
QUARANTINE = "in the folder `quarantine` of its queue, beneath `queues` in the service's `stateDir`"
ANSWER_LINES = 5  # of an endpoint's answer; the API has more of it
MOST_NAMED = 5  # Configurations that do not deliver
MOST_ASKED = 1000  # of the Configurations, once


def size_text(number: Value) -> str:
    """Return bytes for a person: `0 B`, `190 kB`, `1.4 GB`, a thousand to each step."""
    value, unit = float(number) if isinstance(number, int) else 0.0, "B"
    for larger in UNITS:
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.1f} {unit}" if value < 10 and unit != "B" else f"{value:.0f} {unit}"


def _is_unused(delivery: Value) -> bool:
    return client.at(delivery, "configurations") == []


def _is_calm(delivery: Value) -> bool:
    return client.text(delivery, "state") in {"idle", "sending"}


def _state(delivery: Value) -> str:
    return UNUSED if _is_unused(delivery) and _is_calm(delivery) else client.text(delivery, "state")


COLUMNS = (
    Column("DESTINATION", "destination"),
    Column("STATE", _state),
    Column("BATCHES", "queue.batches", wide=True),
    Column("RECORDS", "queue.records"),
    Column("SIZE", lambda delivery: size_text(client.at(delivery, "queue", "bytes"))),
    Column("OLDEST", moment("queue.oldest"), optional=True),
    Column(
        "DEAD LETTERS", lambda delivery: str(client.number(delivery, "deadLetters", "batches") or ""), optional=True
    ),
    Column("LAST FAILURE", moment("lastFailure.at"), optional=True),
)


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
    notes: list[str] = []
    with session.client() as service:
        if destination is not None:
            whole = _delivery(service, destination)
            found = [whole]
        else:
            whole = service.get("deliveries")
            found = client.objects(whole.get("deliveries"))
            if form in ("table", "wide") and (records := client.number(whole, "unrouted", "records")):
                listed = service.get("resources", "Configuration", query={"limit": str(MOST_ASKED)})
                notes = unrouted_lines(records, client.objects(listed.get("resources")))
            if not found:
                notes.append(NONE)
    if form == "json":
        output.write(output.as_json(whole))
    elif form == "yaml":
        output.write(output.as_yaml(found))
    elif found:
        output.write(tables.table(COLUMNS, found, wide=form == "wide", colour=session.coloured))
        now = datetime.now(UTC)
        trouble = [visible(line) + "\n" for one in found for line in (*_trouble(one, now=now), *_losses(one))]
        output.write("\n" + "".join(trouble) if trouble else "")
    for note in notes:
        output.note(note)


def unrouted_lines(records: int, configurations: list[dict[str, Value]]) -> list[str]:
    """Return how many records no Configuration took, then a line for each Configuration that does not deliver: first
    those that look as if they were to, each part in the order of names.
    """

    def name(one: Value) -> str:
        return client.text(one, "metadata", "name")

    first = f"{output.counted(records, 'record')} {'was' if records == 1 else 'were'} taken by no Configuration"
    silent = [one for one in configurations if resources.delivers_reason(one)]
    silent.sort(key=lambda one: (not resources.is_delivery_wanted(one, {}), name(one)))
    found = [
        f"Configuration/{name(one)} does not deliver: {resources.delivers_reason(one)}" for one in silent[:MOST_NAMED]
    ]
    more = len(silent) - len(found)
    return [first, *found, *([f"{more} more {'does' if more == 1 else 'do'} not deliver"] if more else [])]


def _trouble(delivery: Value, *, now: datetime) -> Iterator[str]:
    """Yield the service's message about the state, and a failure that no success followed."""
    name, message = client.text(delivery, "destination"), client.text(delivery, "message")

    def named(sentence: str) -> str:
        return sentence if sentence.startswith(f"The destination {name} ") else f"{name}: {sentence}"

    if message:
        yield named(message)
    if client.at(delivery, "window", "open") is False and (opens := _instant(client.text(delivery, "window", "next"))):
        # The hour alone where that can mean one time only.
        form = "%H:%M" if opens - now < timedelta(days=1) else "%Y-%m-%d %H:%M"
        yield f"{name}: its window is closed until {opens.strftime(form)} UTC"
    is_told = message and _is_calm(delivery)
    if _is_unused(delivery) and not is_told and client.text(delivery, "state") != "orphaned":
        yield f"{name}: no Configuration delivers to it any more"
    failure = client.at(delivery, "lastFailure")
    # Instants of one form are in the order of their texts.
    if failure is None or client.text(delivery, "lastSuccess") > client.text(failure, "at"):
        return
    cause = client.text(failure, "cause")
    if cause and cause not in message:
        yield named(cause)
    yield from (f"  {line}" for line in client.lines(failure, "answer")[:ANSWER_LINES])


def _instant(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        return None


def _losses(delivery: Value) -> Iterator[str]:
    """Yield the files that the disk damaged, and the records that were lost or dropped."""
    name = client.text(delivery, "destination")
    if damaged := client.number(delivery, "queue", "quarantined"):
        told = f"{output.counted(damaged, 'damaged file')} {'was' if damaged == 1 else 'were'} put aside, {QUARANTINE}"
        yield f"{name}: {told}; what can be read of {'it' if damaged == 1 else 'them'} is sent as ever"
    if lost := client.number(delivery, "queue", "lost"):
        told = f"{output.counted(lost, 'batch', 'batches')} could not be read since the start of the service"
        yield f"{name}: {told}, and {'is lost with its' if lost == 1 else 'are lost with their'} records"
    if dropped := client.number(delivery, "counts", "dropped"):
        told = f"{output.counted(dropped, 'record')} {'was' if dropped == 1 else 'were'} dropped since the start of the"
        yield f"{name}: {told} service (`on_full`): its queue was full, or the disk took nothing"


def _unknown(service: Client, destination: str) -> str:
    """Return the error about a destination that is not in the project of the client."""
    none = f"log records are delivered to no destination {destination}"
    if service.project is None:
        return f"{none}; `reconciler queue status` shows those there are, with --project NAME those of another project"
    of = f"of the project {service.project}; `reconciler queue status --project {service.project}`"
    return f"{none} {of} shows those there are"


def _delivery(service: Client, destination: str) -> dict[str, Value]:
    missing = _unknown(service, destination)
    found = service.get("destinations", destination, "delivery", missing=missing).get("delivery")
    return found if isinstance(found, dict) else {}


@queue.command()
@click.argument("destination")
@connected
def replay(session: Session, *, destination: str) -> None:
    """Send the dead letters of DESTINATION again: they join its queue, the oldest first."""
    with session.client() as service:
        missing = _unknown(service, destination)
        replayed = service.post("destinations", destination, "delivery", "replay", missing=missing).get("replayed")
        batches = client.number(replayed, "batches")
        left = 0 if batches else client.number(_delivery(service, destination), "deadLetters", "batches")
    if batches:
        records = output.counted(client.number(replayed, "records"), "record")
        said = f"{output.counted(batches, 'dead letter')} ({records}) queued again"
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
    with session.client() as service:
        if not yes:
            delivery = _delivery(service, destination)
            told = {
                QUEUE: f"{output.counted(client.number(delivery, QUEUE, 'records'), 'record')} in the queue",
                DEAD_LETTERS: f"{output.counted(client.number(delivery, DEAD_LETTERS, 'records'), 'record')} among the "
                "dead letters",
            }
            about = " and ".join(told.values()) if what == ALL else told[what]
            question = f"Discard {about} of {destination}, for good?"
            output.confirm(question, otherwise="nobody is here to answer; give --yes")
        path, missing = ("destinations", destination, "delivery"), _unknown(service, destination)
        gone = service.post(*path, "discard", body={"what": what}, missing=missing).get("discarded")
        sending = 0
        if what != DEAD_LETTERS:
            try:
                sending = client.number(service.get(*path).get("delivery"), "queue", "inFlight")
            except Refusal as refusal:
                # A queue that was the last of its destination is gone once it is empty.
                if refusal.status != client.NOT_FOUND:
                    raise
    records = output.counted(client.number(gone, "records"), "record")
    output.line(
        f"{destination}: {output.counted(client.number(gone, 'batches'), 'batch', 'batches')} ({records}) discarded"
    )
    if sending:
        stay = "is being sent and stays" if sending == 1 else "are being sent and stay"
        output.note(f"{destination}: {output.counted(sending, 'batch', 'batches')} {stay}; try again")


@click.command("send-test")
@click.argument("destination")
@connected
@click.pass_context
def send_test(context: click.Context, session: Session, *, destination: str) -> None:
    """Send one made-up record to DESTINATION, past its queue, once.

    It ends with 0 when the record was delivered, else with 1, and says the likely cause. For admins.
    """
    with session.client() as service:
        missing = _unknown(service, destination)
        test = service.post("destinations", destination, "delivery", "test", missing=missing).get("test")
    delivered = client.at(test, "delivered") is True
    seconds, status, message = client.at(test, "seconds"), client.text(test, "status"), client.text(test, "message")
    took = f" after {seconds:.2f} s" if isinstance(seconds, int | float) else ""
    answered = f"answered {status}" if status else "no answer"
    output.line(f"{destination}: {'delivered' if delivered else 'not delivered'}; {answered}{took}")
    # The service's sentence, then the endpoint's own words, set in.
    lines = [*([message] if message else []), *(f"  {line}" for line in client.lines(test, "answer"))]
    output.write("".join(visible(line) + "\n" for line in lines))
    context.exit(exits.OK if delivered else exits.ERROR)


# `reconciler queue peek`.

HEADER = ("NUMBER", "STATE", "RECORDS", "SIZE", "TAKEN", "ATTEMPTS", "STATUS", "REASON")
LIMIT = 20
ELSEWHERE = (
    "name the service's settings with --config or SERVICE_CONFIG, or its `stateDir` with --state-dir (queues in memory "
    "and destinations without a queue have no files)"
)
folder_type = click.Path(path_type=Path, file_okay=False, exists=True)


@queue.command()
@click.argument("destination", required=False)
@click.option("--config", type=click.Path(path_type=Path), help="The service's settings file, for its `stateDir`.")
@click.option("--state-dir", type=folder_type, help="The service's `stateDir`, whatever its settings say.")
@click.option("--folder", type=folder_type, help="The folder of one queue, wherever it is; no DESTINATION then.")
@click.option("--project", envvar="SERVICE_PROJECT", help="The project, when several have such a destination.")
@click.option("--dead", is_flag=True, help="The dead letters instead of the queue.")
@click.option("--bodies", is_flag=True, help="What the records hold, too.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=LIMIT,
    help=f"How many batches to show at most, and how many bodies ({LIMIT}).",
)
@form_option
def peek(
    *,
    destination: str | None,
    config: Path | None,
    state_dir: Path | None,
    folder: Path | None,
    project: str | None,
    dead: bool,
    bodies: bool,
    limit: int,
    form: str,
) -> None:
    """Read the queue files of DESTINATION on this machine, and change nothing.

    It needs no service, and the right to read its folder. What is written at the same moment may be seen or not.
    """
    from reconciler.delivery.queue import folders  # noqa: PLC0415 - no other command reads queues

    if (destination is None) == (folder is None):
        raise click.UsageError("give either DESTINATION or --folder")
    if folder is not None:
        identity = folders.read_identity(folder)
        if identity is None:
            raise Refused(f"{folder} is not the folder of a queue: it has no {folders.FILE} that can be read")
        queues = [identity]
    else:
        queues = _queues(str(destination), state_dir or _state_dir(config), project or None)
    wanted = folders.PeekedState.DEAD if dead else folders.PeekedState.QUEUED
    found = (one for each in queues for one in folders.peek(each) if one.state is wanted)
    left = limit
    shown: list[tuple[Peeked, list[str] | None]] = []  # with the bodies as JSON; None for those that cannot be read
    for one in islice(found, limit):
        read = _bodies(one, most=left) if bodies else None
        left -= len(read or ())
        shown.append((one, read))
    if form == "json":
        output.write(output.as_json({"batches": [_value(*batch) for batch in shown]}))
    elif form == "yaml":
        output.write(output.as_yaml(_value(*batch) for batch in shown))
    elif bodies:
        output.write("".join(visible(line) + "\n" for batch in shown for line in _block(*batch)))
    elif shown:
        output.write(tables.aligned(HEADER, [_row(one) for one, _ in shown], colour=False))
    if not shown:
        output.note("there are no dead letters" if dead else "nothing is queued")
    if next(found, None) is not None:
        output.note(f"there are more than {limit}; --limit shows more")


def _state_dir(config: Path | None) -> Path:
    """Return the one of the settings, which are read as `serve` reads them. Raises SettingsError with every mistake."""
    from reconciler.settings import loading  # noqa: PLC0415 - with --state-dir it takes no settings

    # How people sign in is not needed, and a provider's secret is in the environment of the service alone.
    loaded = loading.load(config=config, environment=os.environ, overrides={"auth.type": "local"})
    return Path(loaded.settings.state_dir)


def _queues(destination: str, state_dir: Path, project: str | None) -> "list[FoundIdentity]":
    """Return all queues of a destination: a change of its storage leaves one behind, until that is empty.

    Raises Refused.
    """
    from reconciler.delivery.queue import folders  # noqa: PLC0415 - as above

    found = [one for one in folders.peek_queues(state_dir / "queues") if project in (None, one.project)]
    mine = [one for one in found if one.name == destination]
    projects = sorted({one.project for one in mine})
    if len(projects) > 1:
        raise Refused(f"{destination} is in the projects {', '.join(projects)}; choose one with --project")
    if not mine:
        names = sorted({one.name for one in found})
        there = f"but those of {', '.join(names)}" if names else "nor any other"
        raise Refused(f"there is no queue of {destination} that can be read in {state_dir}, {there}; {ELSEWHERE}")
    return mine


def _bodies(one: "Peeked", *, most: int) -> list[str] | None:
    from reconciler.delivery.otlp import bodies  # noqa: PLC0415 - protobuf takes its time
    from reconciler.delivery.otlp.models import MalformedRequest  # noqa: PLC0415

    if one.payload is None:
        return None
    try:
        found = islice((body for some in bodies.body_fragments(one.payload) for body in some), most)
        return [body.decode("utf-8", "replace") for body in found]
    except MalformedRequest:
        return None


def _value(one: "Peeked", bodies: list[str] | None) -> Value:
    value: dict[str, Value] = {
        "number": one.number,
        "state": one.state.value,
        "records": one.records,
        "bytes": None if one.payload is None else len(one.payload),
        "takenAt": _moment(one.taken_at),
        "attempts": one.attempts,
        "done": list[Value](sorted(one.done)),
    }
    if (died := one.obituary) is not None:
        value |= {"reason": died.reason.value, "status": died.status, "cause": died.cause, "diedAt": _moment(died.at)}
        value["answer"] = died.answer.decode("utf-8", "replace")
    if bodies is not None:
        value["bodies"] = [json.loads(body) for body in bodies]
    return value


def _row(one: "Peeked") -> tuple[str, ...]:
    died = one.obituary
    return (
        str(one.number),
        one.state.value if one.payload is not None else "damaged",
        str(one.records),
        size_text(None if one.payload is None else len(one.payload)),
        output.moment_text(_moment(one.taken_at)),
        str(one.attempts or ""),
        str(died.status or "") if died is not None else "",
        died.reason.value if died is not None else "",
    )


def _block(one: "Peeked", bodies: list[str] | None) -> Iterator[str]:
    """Yield a line for a batch, the reason and the answer of a dead letter, and the bodies, set in."""
    yield f"{one.number}: {output.counted(one.records, 'record')}, taken at {output.moment_text(_moment(one.taken_at))}"
    if (died := one.obituary) is not None:
        status = "no status" if died.status is None else f"status {died.status}"
        answer = died.answer.decode("utf-8", "replace")
        told = f"; it answered: {answer}" if answer else ""
        yield f"{one.number}: {died.cause}"
        yield f"{one.number}: {status}, {output.counted(died.attempts, 'attempt')}{told}"
    if bodies is None:
        yield f"{one.number}: it is damaged, and what it holds cannot be read"
    yield from (f"  {body}" for body in bodies or ())


def _moment(milliseconds: int) -> str:
    try:
        return rfc3339(datetime.fromtimestamp(milliseconds / 1000, UTC))
    except (ValueError, OverflowError, OSError):  # no time that there is
        return ""
