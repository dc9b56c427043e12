"""`reconciler apply` and `reconciler delete`: send resources from files, and print a line for each."""

import re
from collections import Counter, defaultdict

import click

from reconciler.cli import client, exits, fields, files, options, output, resources, runs
from reconciler.cli.client import Client, Refusal
from reconciler.cli.files import FoundResource
from reconciler.cli.options import complete_kind, connected, paths_option
from reconciler.model.text import visible
from reconciler.model.values import Value

CONFLICT = 409
NOT_STORED = frozenset({"invalid", "error", "in-use", "forbidden", "not-found", "deprecated"})
STORED = frozenset({"created", "configured", "unchanged"})
WHY_IN_NOTES = frozenset({"in-use", "forbidden", "deprecated"})
# The name that the service gives a resource without a file: its position in the request, from 0.
ITEM = re.compile(r"\bitem ([0-9]{1,9})\b")
ELSEWHERE = " is given more than once, also at "


@click.command()
@paths_option("A file, a folder, or - for standard input; may be given more than once.", required=True)
@click.option("--dry-run", "dryRun", flag_value="true", help="Say what would happen, and store nothing.")
@click.option("--atomic", flag_value="true", help="Store all of it, or nothing.")
@click.option(
    "--accept-invalid",
    "acceptInvalid",
    flag_value="true",
    help="Store resources with missing or bad parameters, as incomplete.",
)
@click.option(
    "--strict-version",
    "strict",
    flag_value="version",
    help="Refuse a file whose `metadata.version` or `metadata.hash` is not that of the stored resource.",
)
@connected
def apply(service: Client, *, paths: tuple[str, ...], **parameters: str | None) -> int:
    """Create or update resources from files, and print one line for each.

    Ends with 3 when one of them was not stored.
    """
    sent = files.read_resources(paths)
    query = {name: value for name, value in parameters.items() if value is not None}
    try:
        answer = send(service, sent, query=query)
    except Refusal as refusal:
        if refusal.status != CONFLICT:
            raise
        for line in (*_placed(refusal.errors, sent), "error: nothing was stored"):
            output.note(line)
        return exits.NOT_STORED
    return report(answer, sent=sent, dry_run="dryRun" in query)


def send(service: Client, sent: list[FoundResource], *, query: dict[str, str]) -> dict[str, Value]:
    """Return the answer to an apply. Raises Refusal."""
    return service.post("apply", body={"resources": [found.value for found in sent]}, query=query)


@click.command()
@click.argument("kind", required=False, shell_complete=complete_kind)
@click.argument("names", metavar="[NAME]...", nargs=-1)
@paths_option("A file, a folder, or - for standard input, with the resources to delete.")
@click.option("--dry-run", is_flag=True, help="Say what would happen, and delete nothing.")
@connected
def delete(service: Client, *, kind: str | None, names: tuple[str, ...], paths: tuple[str, ...], dry_run: bool) -> int:
    """Delete the resources KIND NAME... or KIND/NAME..., or those that files name.

    Ends with 3 when one of them was not deleted.
    """
    if paths and kind is None:
        sent = files.read_resources(paths)
    else:
        keys = options.target_keys(kind, names) if kind is not None and not paths else []
        if not keys:
            raise click.UsageError("give either KIND and NAME, or -f with a file")
        sent = [FoundResource({"kind": key.kind, "metadata": {"name": key.name}}, place="") for key in keys]
    body: list[Value] = [_named(found.value) for found in sent]
    answer = service.post("delete", body=body, query={"dryRun": "true"} if dry_run else {})
    return report(answer, sent=sent, dry_run=dry_run)


def _named(value: Value) -> Value:
    """Return the part of a resource that a delete needs. The rest, which may have secrets, is not sent."""
    if not isinstance(value, dict):
        return value
    named: dict[str, Value] = {key: value[key] for key in ("apiVersion", "kind") if key in value}
    return {**named, "metadata": {"name": client.at(value, "metadata", "name")}}


def report(
    answer: dict[str, Value], *, sent: list[FoundResource], dry_run: bool, without: frozenset[str] = frozenset()
) -> int:
    """Print a line for each status except those in `without`, with reasons and changed fields below. Return the exit
    code.
    """
    updates = client.objects(answer, "updates")
    # The statuses are in the order of the request, so each belongs to one file.
    places = [found.place for found in sent] if len(updates) == len(sent) else [""] * len(updates)
    remark = " (dry run)" if dry_run else ""
    for update, place in zip(updates, places, strict=True):
        status, resource = client.text(update, "status"), client.at(update, "resource")
        if status in without:
            continue
        is_stored = status in STORED
        # A resource may be stored although it is incomplete.
        missing = client.strings(resource, "status", "incomplete") if is_stored else []
        told = f"{remark}, incomplete" if missing else remark
        where = f" ({visible(place)})" if place and status in NOT_STORED else ""
        # For statuses without a reason, the last note is the reason.
        notes = client.strings(update, "notes")
        why = f": {visible(notes.pop())}" if notes and status in WHY_IN_NOTES else ""
        reasons = client.lines(update, "reason") or missing
        if is_stored and not reasons:
            reasons = resources.undelivered(resource)
        reasons += [f"note: {note}" for note in notes]
        beneath = "".join(f"  {visible(_with_places(line, places))}\n" for line in reasons)
        output.write(f"{visible(client.identity(resource))} {visible(status)}{told}{where}{why}\n{beneath}")
        output.rendered(fields.field_lines(update))
    output.write(runs.flow_lines(answer.get("flows")))
    counts = Counter(client.text(update, "status") for update in updates)
    output.note(runs.counted(counts) + remark)
    return exits.NOT_STORED if NOT_STORED & counts.keys() else exits.OK


def _placed(errors: tuple[str, ...], sent: list[FoundResource]) -> list[str]:
    """Return the errors of an atomic apply, each after the place of its resource."""
    places = [found.place for found in sent]
    # If a name occurs several times, its errors are in the order of the request too.
    waiting: defaultdict[str, list[str]] = defaultdict(list)
    for found in sent:
        waiting[f"{client.text(found.value, 'kind')} {client.text(found.value, 'metadata', 'name')}"].append(
            found.place
        )
    told = []
    for error in errors:
        which, colon, _ = error.partition(": ")
        where = f"{waiting[which].pop(0)}: " if colon and waiting[which] else ""
        told.append(where + _with_places(error, places))
    return told


def _with_places(sentence: str, places: list[str]) -> str:
    """Return a sentence of the service, with file and line in place of positions in the request."""

    def place(item: re.Match[str]) -> str:
        position = int(item[1])
        return (places[position] if position < len(places) else "") or item[0]

    return ITEM.sub(place, sentence) if ELSEWHERE in sentence or ITEM.match(sentence) else sentence
