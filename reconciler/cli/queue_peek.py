"""`reconciler queue peek`: what queue files on this machine hold, read beside a service that runs, or without one.

Belongs here: which queue is meant, and how its batches are shown. Does not: the files (`reconciler.delivery.queue.peeking`),
what a record's body is as JSON (`reconciler.delivery.otlp.protobuf`).
"""

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from reconciler.cli import output, queue_tables, tables, words
from reconciler.cli.form_option import form_option
from reconciler.model.clock import rfc3339
from reconciler.model.errors import Refused
from reconciler.model.text import visible
from reconciler.model.values import Value

if TYPE_CHECKING:
    from reconciler.delivery.queue.contract import Obituary
    from reconciler.delivery.queue.folders import FoundIdentity
    from reconciler.delivery.queue.peeking import Peeked

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
    from reconciler.delivery.otlp import protobuf  # noqa: PLC0415 - protobuf takes its time
    from reconciler.delivery.otlp.models import MalformedRequest  # noqa: PLC0415

    try:
        found = islice((body for some in protobuf.body_fragments(payload) for body in some), most)
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
        queue_tables.size_text(None if one.payload is None else len(one.payload)),
        words.moment_text(_moment(one.taken_at)),
        str(one.attempts or ""),
        str(died.status or "") if died is not None else "",
        died.reason.value if died is not None else "",
    )


def _blocks(batches: list[Batch]) -> str:
    """A line for each batch, with why it died, and its bodies beneath, set in."""
    lines: list[str] = []
    for batch in batches:
        one = batch.peeked
        taken = words.moment_text(_moment(one.taken_at))
        lines.append(f"{one.number}: {words.counted(one.records, 'record')}, taken at {taken}")
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
    return f"{status}, {words.counted(obituary.attempts, 'attempt')}{told}"


def _moment(milliseconds: int) -> str:
    try:
        return rfc3339(datetime.fromtimestamp(milliseconds / 1000, UTC))
    except (ValueError, OverflowError, OSError):  # no time that there is
        return ""
