"""`reconciler queue` and `reconciler send-test`: the queues of webhooks.

Only `queue peek` reads files, whether the service runs or not; the others ask the service.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

import click

from reconciler.cli import client, exits, options, output, tables
from reconciler.cli.client import Client
from reconciler.cli.options import OrderedGroup, connected, form_option, wide_form_option
from reconciler.cli.tables import Column, moment
from reconciler.delivery.queue import folders
from reconciler.delivery.queue.folders import FoundIdentity, Peeked, PeekedState
from reconciler.model.clock import rfc3339
from reconciler.model.errors import Refused
from reconciler.model.values import Value
from reconciler.ops.databases import size_text

NONE = "the project has no destination that log records are delivered to, and no queue is left of one"
QUEUE, DEAD_LETTERS, ALL = "queue", "deadLetters", "all"  # as the API calls what is discarded
UNUSED = "unused"  # the shown state if no Configuration delivers to the destination
QUARANTINED = (
    "damaged files that were put aside: {}. They are in the folder `quarantine` of its queue, beneath `queues` in the "
    "service's `stateDir`; what can be read of them is sent as ever"
)
LOST = "batches that could not be read since the start of the service, and are lost with their records: {}"
DROPPED = (
    "records that were dropped since the start of the service (`on_full`), as its queue was full or the disk took "
    "nothing: {}"
)
ANSWER_LINES = 5  # of an endpoint's answer; the API has more of it
SHOW_WHY = "`reconciler get configurations -o yaml` shows why one does not deliver"


def _is_unused(delivery: Value) -> bool:
    return client.at(delivery, "configurations") == []


def _is_calm(delivery: Value) -> bool:
    return client.text(delivery, "state") in {"idle", "sending"}


def _state(delivery: Value) -> str:
    return UNUSED if _is_unused(delivery) and _is_calm(delivery) else client.text(delivery, "state")


COLUMNS = (
    Column("DESTINATION", "destination"),
    Column("INSTANCE", "instance", optional=True),
    Column("STATE", _state),
    Column("BATCHES", "queue.batches", wide=True),
    Column("RECORDS", "queue.records"),
    Column("SIZE", lambda delivery: size_text(client.number(delivery, "queue", "bytes"))),
    Column("OLDEST", moment("queue.oldest"), optional=True),
    Column(
        "DEAD LETTERS", lambda delivery: str(client.number(delivery, "deadLetters", "batches") or ""), optional=True
    ),
    Column("LAST FAILURE", moment("lastFailure.at"), optional=True),
)


@click.group(cls=OrderedGroup)
def queue() -> None:
    """Manage the queues of webhooks. Replaying and discarding are for admins."""


@queue.command()
@click.argument("destination", required=False)
@wide_form_option
@connected
def status(service: Client, *, destination: str | None, form: str) -> None:
    """Show what waits for DESTINATION, or for each destination of the project, and why.

    Problems are listed below the table. A webhook inside a Configuration is called CONFIGURATION:ID.
    """
    whole: Value
    notes: list[str] = []
    if destination is not None:
        answer = _ask(service, destination)
        whole = answer.get("delivery")
        found = client.objects([whole])
    else:
        whole = answer = service.get("deliveries")
        found = client.objects(whole, "deliveries")
        if form in ("table", "wide") and (records := client.number(whole, "unrouted", "records")):
            verb = "was" if records == 1 else "were"
            notes.append(f"{output.counted(records, 'record')} {verb} taken by no Configuration; {SHOW_WHY}")
        if not found:
            notes.append(NONE)
    parts = [part for one in found for part in _by_instance(one)]
    if form == "json":
        output.write(output.as_json(whole))
    else:
        tables.write_list("deliveries", found if form == "yaml" else parts, COLUMNS, form=form)
    now = datetime.now(UTC)
    trouble = [line for one in parts for line in (*_trouble(one, now=now), *_losses(one))]
    if form in ("table", "wide") and trouble:
        output.lines(["", *trouble])
    notes += _missing(answer)
    for note in notes:
        output.note(note)


def _by_instance(delivery: dict[str, Value]) -> list[dict[str, Value]]:
    """Return the delivery of each instance, with its name; the delivery itself on one machine."""
    parts = client.objects(delivery, "instances")
    own = [(part, part.get("delivery")) for part in parts]
    return [{**one, "instance": part.get("instance")} for part, one in own if isinstance(one, dict)] or [delivery]


def _missing(answer: Value) -> list[str]:
    """Return a sentence for each instance whose part is missing in an answer."""
    told = [(client.text(one, "instance"), client.text(one, "problem")) for one in client.objects(answer, "instances")]
    return [f"{instance} is missing: {problem}" for instance, problem in told if problem]


def _name(delivery: Value) -> str:
    """Return the destination, with its instance if there are several."""
    name, instance = client.text(delivery, "destination"), client.text(delivery, "instance")
    return f"{name} on {instance}" if instance else name


def _trouble(delivery: Value, *, now: datetime) -> Iterator[str]:
    """Yield the service's message about the state, and the last failure unless a success followed."""
    name, message = _name(delivery), client.text(delivery, "message")

    def named(sentence: str) -> str:
        return sentence if sentence.startswith(f"The destination {name} ") else f"{name}: {sentence}"

    if message:
        yield named(message)
    if client.at(delivery, "window", "open") is False:
        with suppress(ValueError):  # it is not known when it opens
            opens = datetime.fromisoformat(client.text(delivery, "window", "next")).astimezone(UTC)
            # Only the time of day, if it is within a day.
            form = "%H:%M" if opens - now < timedelta(days=1) else "%Y-%m-%d %H:%M"
            yield f"{name}: its window is closed until {opens.strftime(form)} UTC"
    is_told = message and _is_calm(delivery)
    if _is_unused(delivery) and not is_told and client.text(delivery, "state") != "orphaned":
        yield f"{name}: no Configuration delivers to it any more"
    failure = client.at(delivery, "lastFailure")
    # Instants in this format are ordered like their texts.
    if failure is None or client.text(delivery, "lastSuccess") > client.text(failure, "at"):
        return
    cause = client.text(failure, "cause")
    if cause and cause not in message:
        yield named(cause)
    yield from (f"  {line}" for line in client.lines(failure, "answer")[:ANSWER_LINES])


def _losses(delivery: Value) -> Iterator[str]:
    """Yield sentences about damaged files, and about lost and dropped records."""
    name = _name(delivery)
    for count, sentence in (
        (client.number(delivery, "queue", "quarantined"), QUARANTINED),
        (client.number(delivery, "queue", "lost"), LOST),
        (client.number(delivery, "counts", "dropped"), DROPPED),
    ):
        if count:
            yield f"{name}: {sentence.format(f'{count:,}')}"


def _ask(service: Client, destination: str, action: str = "", body: Value = None) -> dict[str, Value]:
    """Ask for the delivery to a destination of the project, or for an action on it."""
    project = "" if service.project is None else f" of the project {service.project}"
    missing = (
        f"log records are delivered to no destination {destination}{project}; `reconciler queue status` shows those "
        "there are, with --project NAME those of another project"
    )
    path = ("destinations", destination, "delivery")
    if action:
        return service.post(*path, action, body=body, missing=missing)
    return service.get(*path, missing=missing)


@queue.command()
@click.argument("destination")
@connected
def replay(service: Client, *, destination: str) -> int:
    """Queue the dead letters of DESTINATION again, the oldest first."""
    answer = _ask(service, destination, "replay")
    replayed = answer.get("replayed")
    if batches := client.number(replayed, "batches"):
        records = output.counted(client.number(replayed, "records"), "record")
        said = f"{output.counted(batches, 'dead letter')} ({records}) queued again"
    else:
        said = "nothing is queued again: there are no dead letters, or no room in the queue"
    output.line(f"{destination}: {said}")
    return _exit_code(answer)


def _exit_code(answer: Value) -> int:
    """Tell which instances did nothing, and return the exit code."""
    missing = _missing(answer)
    for sentence in missing:
        output.note(f"error: {sentence}")
    return exits.ERROR if missing else exits.OK


@queue.command()
@click.argument("destination")
@click.option("--queued", "what", flag_value=QUEUE, help="What waits in the queue.")
@click.option("--dead", "what", flag_value=DEAD_LETTERS, help="The dead letters.")
@click.option("--all", "what", flag_value=ALL, help="Both.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@connected
def discard(service: Client, *, destination: str, what: str | None, yes: bool) -> int:
    """Delete records that were not delivered to DESTINATION. They cannot be restored.

    Batches in flight are not discarded.
    """
    if what is None:
        raise click.UsageError("give --queued, --dead or --all")
    if not yes:
        delivery = _ask(service, destination).get("delivery")
        places = {QUEUE: "in the queue", DEAD_LETTERS: "among the dead letters"}
        about = " and ".join(
            f"{output.counted(client.number(delivery, one, 'records'), 'record')} {where}"
            for one, where in places.items()
            if what in (one, ALL)
        )
        question = f"Discard {about} of {destination}, for good?"
        output.confirm(question, otherwise="there is no terminal for an answer; give --yes")
    answer = _ask(service, destination, "discard", {"what": what})
    gone = answer.get("discarded")
    batches = output.counted(client.number(gone, "batches"), "batch", "batches")
    output.line(f"{destination}: {batches} ({output.counted(client.number(gone, 'records'), 'record')}) discarded")
    return _exit_code(answer)


@click.command("send-test")
@click.argument("destination")
@connected
def send_test(service: Client, *, destination: str) -> int:
    """Send one test record to DESTINATION, without its queue and without a retry.

    Ends with 0 if the record was delivered, otherwise with 1, and says the likely cause. For admins.
    """
    tested = _ask(service, destination, "test")
    test, instance = tested.get("test"), client.text(tested, "test", "instance")
    is_delivered = client.at(test, "delivered") is True
    answered = f"answered {client.text(test, 'status')}" if client.text(test, "status") else "no answer"
    told = f"{'delivered' if is_delivered else 'not delivered'}; {answered}{output.took(client.at(test, 'seconds'))}"
    # The service's sentence, then the endpoint's answer, indented.
    answer = [f"  {line}" for line in client.lines(test, "answer")]
    # Of several replicas the answer has the worst: if that delivered, all of them did.
    name = f"{destination} on {'each replica' if is_delivered else instance}" if instance else destination
    output.lines([f"{name}: {told}", *filter(None, [client.text(test, "message")]), *answer])
    code = _exit_code(tested)
    return code if is_delivered else exits.ERROR


@queue.command()
@click.argument("destination", required=False)
@click.option(
    "--from",
    "state",
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The `stateDir` of a service that does not run.",
)
@click.option("--to", "target", required=True, help="The URL of a running service that takes the records.")
@connected
def move(service: Client, *, destination: str | None, state: Path, target: str) -> int:
    """Move queued records and dead letters, of DESTINATION or of all, to another instance.

    It has each part on its disk before the part leaves this one. After an interruption, run it again. For admins.
    """
    from reconciler.cli import queue_move  # noqa: PLC0415 - it imports much

    service.server = target.rstrip("/")
    service.sign_in()
    return queue_move.move(service, state, destination)


# `reconciler queue peek`.

LIMIT = 20
ELSEWHERE = (
    "name the service's settings with --config or SERVICE_CONFIG, or its `stateDir` with --state-dir (queues in memory "
    "and destinations without a queue have no files)"
)
BATCH_COLUMNS = (
    Column("NUMBER", "number"),
    Column("STATE", lambda batch: "damaged" if client.at(batch, "bytes") is None else client.text(batch, "state")),
    Column("RECORDS", "records"),
    Column("SIZE", lambda batch: size_text(client.number(batch, "bytes"))),
    Column("TAKEN", moment("takenAt")),
    Column("ATTEMPTS", lambda batch: str(client.number(batch, "attempts") or "")),
    Column("STATUS", "status"),
    Column("REASON", "reason"),
)


@queue.command()
@click.argument("destination")
@options.config_option
@options.state_option
@click.option("--project", envvar="SERVICE_PROJECT", help="The project, when several have such a destination.")
@click.option("--dead", is_flag=True, help="The dead letters instead of the queue.")
@click.option("--bodies", is_flag=True, help="Also show the records, as YAML or JSON.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=LIMIT,
    help=f"The most batches, and the most bodies of each ({LIMIT}).",
)
@form_option
def peek(
    *,
    destination: str,
    config: Path | None,
    state_dir: str | None,
    project: str | None,
    dead: bool,
    bodies: bool,
    limit: int,
    form: str,
) -> None:
    """Read the queue files of DESTINATION on this machine. Nothing is changed.

    The service may run or not. You must be able to read its folder. What is written at the same moment may be missing.
    """
    queues = _queues(
        destination, Path(state_dir) if state_dir else options.local_settings(config).state_dir, project or None
    )
    wanted = PeekedState.DEAD if dead else PeekedState.QUEUED
    found = (one for each in queues for one in folders.peek(each) if one.state is wanted)
    batches: list[dict[str, Value]] = []
    for one in islice(found, limit):
        batch = _batch(one)
        if bodies:
            batch["bodies"] = _bodies(one, most=limit)
        batches.append(batch)
    tables.write_list("batches", batches, BATCH_COLUMNS, form="yaml" if bodies and form == "table" else form)
    if not batches:
        output.note("there are no dead letters" if dead else "nothing is queued")
    if next(found, None) is not None:
        output.note(f"there are more than {limit}; --limit shows more")


def _queues(destination: str, state_dir: Path, project: str | None) -> list[FoundIdentity]:
    """Return all queues of a destination: after a change of its storage, the old queue stays until it is empty.

    Raises Refused.
    """
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


def _bodies(one: Peeked, *, most: int) -> Value:
    """Return the bodies; None when they cannot be read."""
    from reconciler.delivery.otlp import bodies  # noqa: PLC0415 - protobuf takes its time
    from reconciler.delivery.otlp.models import MalformedRequest  # noqa: PLC0415

    if one.payload is None:
        return None
    try:
        found = islice((body for some in bodies.body_fragments(one.payload) for body in some), most)
        return [json.loads(body.decode("utf-8", "replace")) for body in found]
    except MalformedRequest:
        return None


def _batch(one: Peeked) -> dict[str, Value]:
    """Return a batch as JSON shows it, without its bodies."""
    batch: dict[str, Value] = {
        "number": one.number,
        "state": one.state.value,
        "records": one.records,
        "bytes": None if one.payload is None else len(one.payload),
        "takenAt": _moment(one.taken_at),
    }
    if (died := one.final_failure) is not None:
        batch |= {
            "attempts": died.attempts,
            "reason": died.reason.value,
            "status": died.status,
            "cause": died.cause,
            "diedAt": _moment(died.at),
        }
        batch["answer"] = died.answer.decode("utf-8", "replace")
    return batch


def _moment(milliseconds: int) -> str:
    try:
        return rfc3339(datetime.fromtimestamp(milliseconds / 1000, UTC))
    except (ValueError, OverflowError, OSError):  # beyond the calendar
        return ""
