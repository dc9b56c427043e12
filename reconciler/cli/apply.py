"""`reconciler apply` and `reconciler delete`."""

import re
from collections import Counter

import click

from reconciler.cli import exits, files, options, output, queue, runs, tables
from reconciler.cli import session as cli_session
from reconciler.cli.client import Refusal
from reconciler.cli.files import FoundResources
from reconciler.cli.options import complete_kind
from reconciler.cli.session import Session, connected
from reconciler.cli.tables import answer_at, answer_identity, answer_lines, answer_objects, answer_strings, answer_text
from reconciler.model.names import Key
from reconciler.model.text import visible
from reconciler.model.values import Value

# What `apply` and `delete` did, for a person: one line for each resource, its place, and why.

NOT_STORED = frozenset({"invalid", "error", "in-use", "forbidden", "not-found", "deprecated"})
STORED = frozenset({"created", "configured", "unchanged"})
WHY_IN_NOTES = frozenset({"in-use", "forbidden", "deprecated"})
# How the service names what has no file: by its position in the request, counted from 0.
ITEM = re.compile(r"\bitem ([0-9]{1,9})\b")
ELSEWHERE = " is given more than once, also at "


def report_updates(answer: dict[str, Value], *, sent: list[FoundResources], dry_run: bool, colour: bool) -> int:
    """Print one line for each status, with reasons beneath; the exit code."""
    updates = answer_objects(answer.get("updates"))
    # One status for each resource, in the order of the request: so each has its file.
    places = [found.place for found in sent] if len(updates) == len(sent) else [""] * len(updates)
    known = {_key(found.value): answer_at(found.value, "spec") for found in sent}
    remark = " (dry run)" if dry_run else ""
    for update, place in zip(updates, places, strict=True):
        missing = _missing(update)
        told = f"{remark}, incomplete" if missing else remark
        output.write(_head(update, place=place, remark=told, colour=colour) + _why(update))
        reasons = [*(answer_lines(update, "reason") or missing or _undelivered(update, known)), *_notes(update)]
        output.write("\n" + "".join(f"  {visible(_elsewhere(line, places))}\n" for line in reasons))
    counts = Counter(answer_text(update, "status") for update in updates)
    output.note(runs.counted(counts) + remark)
    return exits.NOT_STORED if NOT_STORED & counts.keys() else exits.OK


def _head(update: Value, *, place: str, remark: str, colour: bool) -> str:
    status = answer_text(update, "status")
    shown = tables.word(status) if colour else visible(status)
    where = f" ({visible(place)})" if place and status in NOT_STORED else ""
    return f"{visible(answer_identity(answer_at(update, 'resource')))} {shown}{remark}{where}"


def _missing(update: Value) -> list[str]:
    """What is stored although it is not whole yet: what it lacks."""
    stored = answer_text(update, "status") in STORED
    return answer_strings(answer_at(update, "resource", "status", "incomplete")) if stored else []


def _undelivered(update: Value, known: queue.Specs) -> list[str]:
    """Why a Configuration that is stored does not deliver, where somebody seems to want that it does, or why an earlier
    version does.
    """
    resource = answer_at(update, "resource")
    if answer_text(update, "status") in STORED and (stale := queue.stale(resource)):
        return [stale]
    reason = queue.delivers_reason(resource) if answer_text(update, "status") in STORED else ""
    return [f"does not deliver: {reason}"] if reason and queue.is_delivery_wanted(resource, known) else []


def _key(value: Value) -> tuple[str, str]:
    return answer_text(value, "kind"), answer_text(value, "metadata", "name")


def _why(update: Value) -> str:
    """Return why, for the statuses that bring no reason of their own: the last of their notes."""
    told = answer_strings(answer_at(update, "notes"))
    return visible(f": {told[-1]}") if told and answer_text(update, "status") in WHY_IN_NOTES else ""


def _notes(update: Value) -> list[str]:
    """What else to know, a line for each."""
    told = answer_strings(answer_at(update, "notes"))
    return [f"note: {note}" for note in (told[:-1] if answer_text(update, "status") in WHY_IN_NOTES else told)]


def refused(errors: tuple[str, ...], *, sent: list[FoundResources]) -> int:
    """Print why nothing was stored, one line for each reason with its place; the exit code."""
    for line in placed(errors, sent):
        output.note(line)
    output.note("error: nothing was stored")
    return exits.NOT_STORED


def placed(errors: tuple[str, ...], sent: list[FoundResources]) -> list[str]:
    """The errors of an atomic apply, each with the place of its resource in front."""
    places = [found.place for found in sent]
    # Of a name that is there several times, the first error belongs to the first, as both come in the request's order.
    waiting: dict[str, list[str]] = {}
    for found in sent:
        start = f"{answer_text(found.value, 'kind')} {answer_text(found.value, 'metadata', 'name')}: "
        waiting.setdefault(start, []).append(found.place)
    return [_placed(error, places, waiting) for error in errors]


def _placed(error: str, places: list[str], waiting: dict[str, list[str]]) -> str:
    which, colon, rest = error.partition(": ")
    item = ITEM.fullmatch(which)
    if item is not None:
        return _place(item, places) + colon + rest
    mine = waiting.get(which + colon) or []
    return f"{mine.pop(0)}: {_elsewhere(error, places)}" if mine else error


def _elsewhere(reason: str, places: list[str]) -> str:
    """The reason of a duplicate, with the places of the others."""
    before, words, after = reason.partition(ELSEWHERE)
    return before + words + ITEM.sub(lambda item: _place(item, places), after)


def _place(item: re.Match[str], places: list[str]) -> str:
    position = int(item[1])
    return (places[position] if position < len(places) else "") or item[0]


# `reconciler apply`: resources from files to the server.


@click.command()
@click.option(
    "-f",
    "--filename",
    "paths",
    multiple=True,
    required=True,
    type=click.Path(exists=True, allow_dash=True),
    help="A file, a folder, or - for standard input; may be given more than once.",
)
@click.option("--dry-run", is_flag=True, help="Say what would happen, and store nothing.")
@click.option("--atomic", is_flag=True, help="Store all of it, or nothing.")
@click.option("--accept-invalid", is_flag=True, help="Store resources with missing or bad parameters, as incomplete.")
@click.option(
    "--strict-version",
    is_flag=True,
    help="Refuse a file whose `metadata.version` or `metadata.hash` is not that of the stored resource.",
)
@connected
@click.pass_context
def apply(
    context: click.Context,
    session: Session,
    *,
    paths: tuple[str, ...],
    dry_run: bool,
    atomic: bool,
    accept_invalid: bool,
    strict_version: bool,
) -> None:
    """Create or update resources from files, and print one line for each.

    Ends with 3 when one of them was not stored.
    """
    sent = files.read_resources(paths)
    chosen = {"dryRun": dry_run, "atomic": atomic, "acceptInvalid": accept_invalid}
    query = {name: "true" for name, on in chosen.items() if on}
    if strict_version:
        query["strict"] = "version"
    body: dict[str, Value] = {"resources": [found.value for found in sent]}
    with cli_session.make_client(session) as client:
        try:
            answer = client.post("apply", body=body, query=query)
        except Refusal as refusal:
            if refusal.status != 409:
                raise
            context.exit(refused(refusal.errors, sent=sent))
    context.exit(report_updates(answer, sent=sent, dry_run=dry_run, colour=session.coloured))


# `reconciler delete`: resources by their names, or those that files name.


@click.command()
@click.argument("kind", required=False, shell_complete=complete_kind)
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option(
    "-f",
    "--filename",
    "paths",
    multiple=True,
    type=click.Path(exists=True, allow_dash=True),
    help="A file, a folder, or - for standard input, with the resources to delete.",
)
@click.option("--dry-run", is_flag=True, help="Say what would happen, and delete nothing.")
@connected
@click.pass_context
def delete(
    context: click.Context,
    session: Session,
    *,
    kind: str | None,
    names: tuple[str, ...],
    paths: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Delete the resources KIND NAME... or KIND/NAME..., or those that files name.

    Ends with 3 when one of them was not deleted.
    """
    sent = _meant(kind, names, paths)
    body: list[Value] = [_named(found.value) for found in sent]
    with cli_session.make_client(session) as client:
        answer = client.post("delete", body=body, query={"dryRun": "true"} if dry_run else {})
    context.exit(report_updates(answer, sent=sent, dry_run=dry_run, colour=session.coloured))


def _meant(kind: str | None, names: tuple[str, ...], paths: tuple[str, ...]) -> list[FoundResources]:
    if paths and kind is None:
        return files.read_resources(paths)
    keys = options.target_keys(kind, names) if kind is not None and not paths else []
    if not keys:
        raise click.UsageError("give either KIND and NAME, or -f with a file")
    return [FoundResources(_document(key), place="") for key in keys]


def _document(key: Key) -> Value:
    return {"kind": key.kind, "metadata": {"name": key.name}}


def _named(value: Value) -> Value:
    """What a delete looks at: the kind and the name. The rest, secrets among it, stays here."""
    if not isinstance(value, dict):
        return value
    named: dict[str, Value] = {key: value[key] for key in ("apiVersion", "kind") if key in value}
    return {**named, "metadata": {"name": answer_at(value, "metadata", "name")}}
