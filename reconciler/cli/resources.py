"""`reconciler get`, `history` and `history redact`: stored resources and their versions."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NoReturn

import click

from reconciler.cli import client, exits, fields, options, output, tables
from reconciler.cli.client import Client, Refusal
from reconciler.cli.options import connected, form_option, kind_argument, known_kind
from reconciler.cli.tables import Column, commit, moment
from reconciler.model import names
from reconciler.model.errors import Refused
from reconciler.model.names import Key
from reconciler.model.values import Value

FORMATS = ("table", "wide", "yaml", "json", "name")

# In bytes, the most characters that the service takes.
TEXT = output.FileLimit(65_536 * 4 + output.END_OF_LINE, "the 65,536 characters that a text may have")
NOBODY = "there is no terminal to ask for the text; name a file that holds it with --value-file, or -"
ASKED = "The text to redact (it is not shown)"
NEXT = (
    "Whoever could read it may know it: replace the secret where it is used. Git's history still holds it, and the "
    "service's mirror of that: rewrite the history, push it, and have the mirror made anew (docs/redacting.md has the "
    "steps). So do backups of the store."
)
NOT_ERASED = (
    "The store's files still hold traces, since somebody reads an older revision or the disk is full. The service goes "
    "on trying, and its log tells the end; the same command again tells it, too."
)


# The words of a Configuration's `status.delivery`.


def delivers_word(resource: Value) -> str:
    """Return `yes` or `no`, `stale` if an earlier version is in force, otherwise the empty text."""
    if client.at(resource, "status", "delivery", "stale") is not None:
        return "stale"
    delivers = client.at(resource, "status", "delivery", "delivers")
    return "" if not isinstance(delivers, bool) else "yes" if delivers else "no"


def undelivered(resource: Value) -> list[str]:
    """Return why a stored Configuration delivers by an earlier version, or why it does not deliver although it seems
    meant to. An incomplete one has its own message.
    """
    from reconciler.model import routes  # noqa: PLC0415 - only for Configurations

    delivery = client.at(resource, "status", "delivery")
    stale, reason = client.at(delivery, "stale"), client.text(delivery, "reason")
    if stale is not None:
        return [f"delivers by its version {client.at(stale, 'version')} still: {client.text(stale, 'reason')}"]
    is_meant = reason not in {"", routes.ON_COLLECTORS, routes.INCOMPLETE, routes.RAW, routes.NEITHER}
    return [f"does not deliver: {reason}"] if is_meant and client.at(delivery, "delivers") is False else []


# The columns of resources and of versions.


def _source(resource: Value) -> str:
    """Return the origin of this version: a repository, an actor, or `builtin`."""
    kind = client.text(resource, "status", "source", "type")
    actor = client.text(resource, "status", "source", "repository" if kind == "git" else "actor")
    return f"{kind} {actor}".strip()


def _owner(resource: Value) -> str:
    """Return the owner: a repository, or the API."""
    if drifted_from := client.text(resource, "status", "drift", "repository"):
        return drifted_from
    source = client.at(resource, "status", "source")
    if client.text(source, "type") != "git":
        return client.text(source, "type")
    # Without a path, the repository does not own the resource any more.
    return client.text(source, "repository") if client.text(source, "path") else "api"


def _changed_by(what: str) -> tables.Cell:
    """Return a cell function for the commit that changed the file, or for the applied head while that is unknown."""

    def cell(resource: Value) -> str:
        source = client.at(resource, "status", "source")
        found = client.text(source, "changedBy", what) or client.text(source, what)
        return found[:12] if what == "commit" else found

    return cell


def _file(resource: Value) -> str:
    """Return `path:line` in the repository, also if the resource has drifted."""
    status = client.at(resource, "status")
    return client.place(client.at(status, "drift")) or client.place(client.at(status, "source"))


def _state(resource: Value) -> str:
    status = client.at(resource, "status")
    if client.text(status, "error"):
        return "damaged"
    if client.at(status, "incomplete"):
        return "incomplete"
    if client.at(status, "ready") is False:
        return "not-ready"
    return "drifted" if client.at(status, "drift") else ""


def _label_map(resource: Value) -> dict[str, str]:
    labels = client.at(resource, "metadata", "labels")
    return {key: str(value) for key, value in labels.items()} if isinstance(labels, dict) else {}


def _labels(resource: Value) -> str:
    return ",".join(sorted(f"{key}={value}" for key, value in _label_map(resource).items()))


COLUMNS = (
    Column("NAME", "metadata.name"),
    Column("TYPE", "spec.type", optional=True),
    Column("VERSION", "metadata.version", optional=True),
    Column("STATUS", _state),
    Column("DELIVERS", delivers_word, optional=True),
    Column("MODIFIED", moment("metadata.dateModified"), optional=True),
    Column("SOURCE", _source, optional=True),
    Column("OWNER", _owner, optional=True, wide=True),
    Column("COMMIT", _changed_by("commit"), optional=True, wide=True),
    Column("BY", _changed_by("author"), optional=True, wide=True),
    Column("FILE", _file, optional=True, wide=True),
    Column("ID", "metadata.id", optional=True, wide=True),
    Column("DISPLAY NAME", "metadata.displayName", optional=True, wide=True),
    Column("LABELS", _labels, optional=True, wide=True),
)
VERSION_COLUMNS = (
    Column("VERSION", "metadata.version"),
    Column("MODIFIED", moment("metadata.dateModified")),
    Column("HASH", commit("metadata.hash")),
    Column("SOURCE", _source),
    Column("COMMIT", _changed_by("commit")),
    Column("BY", _changed_by("author")),
)


def _selector(_context: click.Context, _parameter: click.Parameter, text: str | None) -> str | None:
    try:
        names.parse_selector(text or "")
    except names.BadSelector as bad:
        raise click.UsageError(f"--selector is not a label selector: {bad.message}") from None
    return text


@click.command()
@kind_argument
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("-l", "--selector", callback=_selector, help="Only resources whose labels fit: team=edge,env!=test.")
@click.option("-o", "--output", "form", type=click.Choice(FORMATS), default="table", help="How to show them.")
@click.option("-w", "--watch", is_flag=True, help="Then show each that changes, until stopped with Ctrl-C.")
@connected
def get(service: Client, *, kind: str, names: tuple[str, ...], selector: str | None, form: str, watch: bool) -> int:
    """Show resources of a kind: all of them, or those called NAME; KIND/NAME does as well.

    The output of `-o yaml` and `-o json` can be edited and applied again: `(sensitive)` keeps the stored secret.
    """
    keys = options.target_keys(kind, names)
    if selector is not None and keys:
        raise click.UsageError("give either names or --selector")
    one_kind = None if keys else known_kind(kind).name
    if watch:
        _watch(service, keys, one_kind, selector=selector, form=form)
    found, errors = _found(service, keys, one_kind, selector=selector)
    _show(found, form=form, keys=len(keys))
    for error in errors:
        output.error(error)
    if not keys and not found:
        output.note(f"no {known_kind(kind).plural} found")
    return exits.ERROR if errors else exits.OK


def _found(
    service: Client, keys: Sequence[Key], kind: str | None, *, selector: str | None
) -> tuple[list[Value], dict[str, None]]:
    """Return the resources with these keys, or all of a kind, and the sentences about those that are missing."""
    found: list[Value] = []
    errors: dict[str, None] = {}  # each once
    if kind is not None:
        query = {} if selector is None else {"selector": selector}
        found += [one for page in service.pages("resources", kind, query=query) for one in page]
    for key in keys:
        try:
            found.append(service.get("resources", *key).get("resource"))
        except Refusal as refusal:
            if refusal.status != client.NOT_FOUND:
                raise
            errors[refusal.message] = None
    return found, errors


def _show(found: Sequence[Value], *, form: str, keys: int) -> None:
    """Print resources that were asked for by this many keys, or by their kind."""
    if form == "json" and keys == 1:
        output.write("".join(map(output.as_json, found)))
    elif form == "name":
        output.lines(map(client.identity, found))
    elif form in ("table", "wide"):
        # A table for each kind, in the order of the request, separated by empty lines.
        groups = groupby(found, key=lambda resource: client.text(resource, "kind"))
        output.write("\n".join(tables.table(COLUMNS, list(group), wide=form == "wide") for _, group in groups))
    elif found or not keys:
        tables.write_list("resources", found, COLUMNS, form=form)


def _watch(service: Client, keys: Sequence[Key], kind: str | None, *, selector: str | None, form: str) -> NoReturn:
    """Show resources, then for ever those that change; a note names each that is gone."""
    kinds, wanted = {kind, *(key.kind for key in keys)}, names.parse_selector(selector or "")
    shown: dict[str, Value] = {}
    # The stream is open before anything is read, so that no change is missed.
    for number, (topic, data) in enumerate(service.events()):
        key = Key(*client.text(data, "key").partition("/")[::2])
        if number == 0 or topic == "reset" or (topic == "resource" and key.kind in kinds and not key.name):
            before, (found, _) = shown, _found(service, keys, kind, selector=selector)
        elif topic == "resource" and (key.kind == kind or key in keys):
            name = f"{key.kind}/{key.name}"
            before = {name: shown[name]} if name in shown else {}
            found = [one for one in _found(service, [key], None, selector=None)[0] if wanted.matches(_label_map(one))]
        else:
            continue
        after = {client.identity(one): one for one in found}
        _show([one for name, one in after.items() if before.get(name) != one], form=form, keys=1)
        for name in before.keys() - after.keys():
            output.note(f"{name} is gone")
        shown = {**{name: one for name, one in shown.items() if name not in before}, **after}
    raise AssertionError("a stream of events has no end")


class _History(click.Command):
    """`history` takes a resource, or the subcommand `redact`, which is no kind."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if args[:1] != ["redact"]:
            return super().make_context(info_name, args, parent, **extra)
        return redact.make_context(f"{info_name} redact", args[1:], parent, **extra)


@click.command(cls=_History)
@kind_argument
@click.argument("name", required=False)
@click.option("--version", "number", type=click.IntRange(min=1), help="Show the whole version with this number.")
@click.option(
    "--diff",
    "pair",
    nargs=2,
    type=click.IntRange(min=1),
    metavar="N M",
    help="Show the fields in which M differs from N.",
)
@form_option
@connected
def history(
    service: Client, *, kind: str, name: str | None, number: int | None, pair: tuple[int, int] | None, form: str
) -> None:
    """Show each stored version of the resource KIND NAME, or KIND/NAME, the newest first.

    `reconciler history redact KIND NAME` removes a secret from them.
    """
    key = options.target_key(kind, name)
    if number is not None and pair is not None:
        raise click.UsageError("give either --version or --diff, not both")
    if number is not None:
        version = service.get(*key, "history", str(number)).get("version")
        tables.write_one(version, form=form, as_text=lambda: output.as_yaml([version]))
        return
    if pair is not None:
        old, new = map(str, pair)
        found = service.get(*key, "history", new, "changes", query={"from": old})
        lines = fields.field_lines(found) or "  no field differs\n"
        tables.write_one(found, form=form, as_text=lambda: f"{key.kind}/{key.name} version {old} -> {new}\n{lines}")
        return
    versions = client.objects(service.get(*key, "history"), "versions")
    if not versions:
        raise Refused(f"{key.kind} {key.name} has no history")
    tables.write_list("versions", versions, VERSION_COLUMNS, form=form)


@click.command()
@kind_argument
@click.argument("name", required=False)
@click.option(
    "--value-file",
    type=output.file_type,
    metavar="FILE",
    help="The file that holds the text, - for standard input. Asked for on a terminal when left out.",
)
@click.option("--dry-run", is_flag=True, help="Show which versions would be rewritten, and change nothing.")
@connected
def redact(service: Client, *, kind: str, name: str | None, value_file: Path | None, dry_run: bool) -> None:
    """Remove a text from each stored version of the resource KIND NAME, or KIND/NAME.

    Use it for a secret that was stored in clear text. Correct the resource first: its present content is not rewritten.
    The last end of line in FILE is not part of the text.
    """
    key = options.target_key(kind, name)
    value = output.hidden_text(value_file, ASKED, otherwise=NOBODY, limit=TEXT)
    missing = f"{key.kind} {key.name} has no history"
    path, query = (*key, "history", "redact"), {"dryRun": "true"} if dry_run else {}
    answer = service.post(*path, body={"value": value}, query=query, missing=missing)
    found = client.at(answer, "versions")
    versions = [str(version) for version in found] if isinstance(found, list) else []
    places = output.counted(client.number(answer, "places"), "place")
    would = "would be rewritten" if dry_run else "rewritten"
    noun = "version" if len(versions) == 1 else "versions"
    if versions:
        output.line(f"{key.kind}/{key.name}: {noun} {', '.join(versions)} {would}, {places}")
    else:
        output.line(f"{key.kind}/{key.name}: no version shows the text; {places} elsewhere {would}")
    if not dry_run:
        output.lines([NEXT] if client.at(answer, "erased") is True else [NOT_ERASED, NEXT])
