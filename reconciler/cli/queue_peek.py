"""`reconciler queue peek`, and tables of queues."""

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from reconciler.cli import output, tables
from reconciler.cli.options import form_option
from reconciler.cli.tables import Column, answer_at, answer_lines, answer_number, answer_text
from reconciler.model.clock import rfc3339
from reconciler.model.errors import Refused
from reconciler.model.text import visible
from reconciler.model.values import Value

if TYPE_CHECKING:
    from reconciler.delivery.queue.contract import Obituary
    from reconciler.delivery.queue.folders import FoundIdentity
    from reconciler.delivery.queue.peeking import Peeked

# Deliveries as a table, and beneath it what needs somebody: why something waits, the last failure, what is lost.

UNITS = ("kB", "MB", "GB", "TB")
UNUSED = "unused"  # the state of what has nothing else to tell: no Configuration delivers to it
QUARANTINE = "in the folder `quarantine` of its queue, beneath `queues` in the service's `stateDir`"
ANSWER_LINES = 5  # of what an endpoint answered; the API has more of it


def render_queues(deliveries: list[dict[str, Value]], *, now: datetime, wide: bool, colour: bool) -> str:
    """The table, then a line or more for each that is in trouble; nothing when there are none."""
    if not deliveries:
        return ""
    table = tables.table_of(COLUMNS, deliveries, wide=wide, colour=colour)
    trouble = [visible(line) + "\n" for one in deliveries for line in _beneath(one, now=now)]
    return table + ("\n" + "".join(trouble) if trouble else "")


def size_text(number: Value) -> str:
    """Bytes for a person: `0 B`, `190 kB`, `1.4 GB`, a thousand to each step."""
    value, unit = float(number) if isinstance(number, int) else 0.0, "B"
    for larger in UNITS:
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.1f} {unit}" if value < 10 and unit != "B" else f"{value:.0f} {unit}"


def _state(delivery: Value) -> str:
    return UNUSED if _is_unused(delivery) and _is_calm(delivery) else answer_text(delivery, "state")


def _counted(number: str) -> str:
    return "" if number == "0" else number


def _is_unused(delivery: Value) -> bool:
    return answer_at(delivery, "configurations") == []


def _is_calm(delivery: Value) -> bool:
    return answer_text(delivery, "state") in {"idle", "sending"}


def _beneath(delivery: Value, *, now: datetime) -> list[str]:
    return [*_trouble(delivery, now=now), *_losses(delivery)]


def _losses(delivery: Value) -> list[str]:
    """What the disk damaged, and what was dropped: nobody hears of it anywhere else."""
    name, found = answer_text(delivery, "destination"), []
    if damaged := answer_number(delivery, "queue", "quarantined"):
        told = f"{output.counted(damaged, 'damaged file')} {'was' if damaged == 1 else 'were'} put aside, {QUARANTINE}"
        found.append(f"{name}: {told}; what can be read of {'it' if damaged == 1 else 'them'} is sent as ever")
    if lost := answer_number(delivery, "queue", "lost"):
        told = f"{output.counted(lost, 'batch', 'batches')} could not be read since the start of the service"
        found.append(f"{name}: {told}, and {'is lost with its' if lost == 1 else 'are lost with their'} records")
    if dropped := answer_number(delivery, "counts", "dropped"):
        told = f"{output.counted(dropped, 'record')} {'was' if dropped == 1 else 'were'} dropped since the start of the"
        found.append(f"{name}: {told} service (`on_full`): its queue was full, or the disk took nothing")
    return found


def _trouble(delivery: Value, *, now: datetime) -> list[str]:
    """What the service says of its state, and of a failure that nothing has succeeded after."""
    name, message = answer_text(delivery, "destination"), answer_text(delivery, "message")
    found = [_named(name, message)] if message else []
    if answer_at(delivery, "window", "open") is False:
        found += _until(name, answer_text(delivery, "window", "next"), now=now)
    if _is_unused(delivery) and not (message and _is_calm(delivery)) and answer_text(delivery, "state") != "orphaned":
        found.append(f"{name}: no Configuration delivers to it any more")
    if answer_at(delivery, "lastFailure") is None or _is_over(delivery):
        return found
    cause = answer_text(delivery, "lastFailure", "cause")
    if cause and cause not in message:
        found.append(_named(name, cause))
    answer = answer_lines(delivery, "lastFailure", "answer")
    return [*found, *(f"  {line}" for line in answer[:ANSWER_LINES])]


def _until(name: str, opens: str, *, now: datetime) -> list[str]:
    """When the window opens: the hour alone where that can mean one time only."""
    try:
        moment = datetime.fromisoformat(opens).astimezone(UTC)
    except ValueError:
        return []
    form = "%H:%M" if moment - now < timedelta(days=1) else "%Y-%m-%d %H:%M"
    return [f"{name}: its window is closed until {moment.strftime(form)} UTC"]


def _named(name: str, sentence: str) -> str:
    """The sentence with the name in front, unless it says itself whom it is about."""
    return sentence if sentence.startswith(f"The destination {name} ") else f"{name}: {sentence}"


def _is_over(delivery: Value) -> bool:
    # Instants of one form are in the order of their texts.
    return answer_text(delivery, "lastSuccess") > answer_text(delivery, "lastFailure", "at")


COLUMNS = (
    Column("DESTINATION", lambda delivery: answer_text(delivery, "destination"), kept=True),
    Column("STATE", _state, kept=True),
    Column("BATCHES", lambda delivery: answer_text(delivery, "queue", "batches"), kept=True, wide=True),
    Column("RECORDS", lambda delivery: answer_text(delivery, "queue", "records"), kept=True),
    Column("SIZE", lambda delivery: size_text(answer_at(delivery, "queue", "bytes")), kept=True),
    Column("OLDEST", lambda delivery: output.moment_text(answer_text(delivery, "queue", "oldest"))),
    Column("DEAD LETTERS", lambda delivery: _counted(answer_text(delivery, "deadLetters", "batches"))),
    Column("LAST FAILURE", lambda delivery: output.moment_text(answer_text(delivery, "lastFailure", "at"))),
)


# `reconciler queue peek`: what queue files on this machine hold, read beside a service that runs, or without one.

HEADER = ("NUMBER", "STATE", "RECORDS", "SIZE", "TAKEN", "ATTEMPTS", "STATUS", "REASON")
LIMIT = 20
ELSEWHERE = (
    "name the service's settings with --config or SERVICE_CONFIG, or its `stateDir` with --state-dir (queues in memory "
    "and destinations without a queue have no files)"
)
folder_type = click.Path(path_type=Path, file_okay=False, exists=True)


class Batch(NamedTuple):
    """One to show. `bodies` are JSON texts; None when nobody asked for them, or they cannot be read."""

    peeked: "Peeked"
    bodies: tuple[str, ...] | None


@click.command()
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
    if (destination is None) == (folder is None):
        raise click.UsageError("give either DESTINATION or --folder")
    queues = [_in(folder)] if folder else _of(destination or "", state_dir or _state_dir(config), project or None)
    peeked = _peeked(queues, dead=dead)
    shown = list(_with_bodies(islice(peeked, limit), most=limit if bodies else 0))
    if form == "json":
        output.write(output.as_json({"batches": [_value(batch) for batch in shown]}))
    elif form == "yaml":
        output.write(output.as_yaml(_value(batch) for batch in shown))
    else:
        output.write(_blocks(shown) if bodies else _table(shown))
    if not shown:
        output.note("there are no dead letters" if dead else "nothing is queued")
    if next(peeked, None) is not None:
        output.note(f"there are more than {limit}; --limit shows more")


def _state_dir(config: Path | None) -> Path:
    """The one of the settings, which are read as `serve` reads them. Raises SettingsError with every mistake."""
    from reconciler.settings import loading  # noqa: PLC0415 - only for those who peek

    # How people sign in is not needed, and a provider's secret is in the environment of the service alone.
    loaded = loading.load(config=config, environment=os.environ, overrides={"auth.type": "local"})
    return Path(loaded.settings.state_dir)


def _in(folder: Path) -> "FoundIdentity":
    from reconciler.delivery.queue import folders  # noqa: PLC0415 - only for those who peek

    found = folders.read_identity(folder)
    if found is None:
        raise Refused(f"{folder} is not the folder of a queue: it has no {folders.FILE} that can be read")
    return found


def _of(destination: str, state_dir: Path, project: str | None) -> "list[FoundIdentity]":
    """All queues of a destination: a change of its storage leaves one behind, until that is empty. Raises Refused."""
    from reconciler.delivery.queue import peeking  # noqa: PLC0415 - likewise

    found = [one for one in peeking.found(state_dir / "queues") if project in (None, one.project)]
    mine = [one for one in found if one.name == destination]
    projects = sorted({one.project for one in mine})
    if len(projects) > 1:
        raise Refused(f"{destination} is in the projects {', '.join(projects)}; choose one with --project")
    if not mine:
        names = sorted({one.name for one in found})
        there = f"but those of {', '.join(names)}" if names else "nor any other"
        raise Refused(f"there is no queue of {destination} that can be read in {state_dir}, {there}; {ELSEWHERE}")
    return mine


def _peeked(queues: "list[FoundIdentity]", *, dead: bool) -> "Iterator[Peeked]":
    """What has not left, queue by queue."""
    from reconciler.delivery.queue import peeking  # noqa: PLC0415 - likewise

    wanted = peeking.State.DEAD if dead else peeking.State.QUEUED
    return (one for queue in queues for one in peeking.walk(queue) if one.state is wanted)


def _with_bodies(found: "Iterator[Peeked]", *, most: int) -> Iterator[Batch]:
    left = most
    for one in found:
        bodies = None if not most or one.payload is None else _bodies(one.payload, most=left)
        left -= len(bodies or ())
        yield Batch(one, bodies)


def _bodies(payload: bytes, *, most: int) -> tuple[str, ...] | None:
    from reconciler.delivery.otlp import bodies  # noqa: PLC0415 - protobuf takes its time
    from reconciler.delivery.otlp.models import MalformedRequest  # noqa: PLC0415

    try:
        found = islice((body for some in bodies.body_fragments(payload) for body in some), most)
        return tuple(body.decode("utf-8", "replace") for body in found)
    except MalformedRequest:
        return None


def _value(batch: Batch) -> Value:
    one = batch.peeked
    value: dict[str, Value] = {
        "number": one.number,
        "state": one.state.value,
        "records": one.records,
        "bytes": None if one.payload is None else len(one.payload),
        "takenAt": _moment(one.taken_at),
        "attempts": one.attempts,
        "done": list[Value](sorted(one.done)),
    }
    if one.obituary is not None:
        died = one.obituary
        value |= {"reason": died.reason.value, "status": died.status, "cause": died.cause, "diedAt": _moment(died.at)}
        value["answer"] = died.answer.decode("utf-8", "replace")
    if batch.bodies is not None:
        value["bodies"] = [json.loads(body) for body in batch.bodies]
    return value


def _table(batches: list[Batch]) -> str:
    return tables.render_table(HEADER, [_row(batch.peeked) for batch in batches], colour=False) if batches else ""


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


def _blocks(batches: list[Batch]) -> str:
    """A line for each batch, with why it died, and its bodies beneath, set in."""
    lines: list[str] = []
    for batch in batches:
        one = batch.peeked
        taken = output.moment_text(_moment(one.taken_at))
        lines.append(f"{one.number}: {output.counted(one.records, 'record')}, taken at {taken}")
        if one.obituary is not None:
            lines.append(f"{one.number}: {one.obituary.cause}")
            lines.append(f"{one.number}: {_died(one.obituary)}")
        if one.payload is None or batch.bodies is None:
            lines.append(f"{one.number}: it is damaged, and what it holds cannot be read")
        lines += [f"  {body}" for body in batch.bodies or ()]
    return "".join(visible(line) + "\n" for line in lines)


def _died(obituary: "Obituary") -> str:
    """What was tried, and what the endpoint said to it."""
    status = "no status" if obituary.status is None else f"status {obituary.status}"
    answer = obituary.answer.decode("utf-8", "replace")
    told = f"; it answered: {answer}" if answer else ""
    return f"{status}, {output.counted(obituary.attempts, 'attempt')}{told}"


def _moment(milliseconds: int) -> str:
    try:
        return rfc3339(datetime.fromtimestamp(milliseconds / 1000, UTC))
    except (ValueError, OverflowError, OSError):  # no time that there is
        return ""
