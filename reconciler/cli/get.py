"""`reconciler get` and `reconciler history`."""

from itertools import groupby
from pathlib import Path
from typing import Any

import click

from reconciler.cli import exits, options, output, queue, tables
from reconciler.cli import session as cli_session
from reconciler.cli.client import Client, Refusal
from reconciler.cli.options import form_option, kind_argument, known_kind
from reconciler.cli.session import Session, connected
from reconciler.cli.tables import Column, answer_at, answer_identity, answer_objects, answer_text, place
from reconciler.model import names
from reconciler.model.errors import Refused
from reconciler.model.names import Key
from reconciler.model.text import visible
from reconciler.model.values import Value

# `reconciler history redact`: taking a secret out of the versions of one resource, and what to do besides.
#
# The secret is read from a file or asked for. It is in no argument, where every process of the machine could read it.

# In bytes, the most characters that the service takes.
TEXT = output.HiddenLimit(65_536 * 4, "the 65,536 characters that a text may have")
NOBODY = "nobody is here to be asked for the text; name a file that holds it with --value-file, or -"
ASKED = "The text to take out (it is not shown)"
NEXT = (
    "Whoever could read it may know it: replace the secret where it is used. Git's history still holds it, and the "
    "service's mirror of that: rewrite the history, push it, and have the mirror made anew (docs/redacting.md has the "
    "steps). So do backups of the store."
)
NOT_ERASED = (
    "The store's files still hold traces, since somebody reads an older revision or the disk is full. The service goes "
    "on trying, and its log tells the end; the same command again tells it, too."
)


@click.command()
@kind_argument
@click.argument("name", required=False)
@click.option(
    "--value-file",
    type=output.file_type,
    metavar="FILE",
    help="The file that holds the text, - for standard input. Asked for on a terminal when left out.",
)
@click.option("--dry-run", is_flag=True, help="Only show which versions would be rewritten.")
@connected
def redact(session: Session, *, kind: str, name: str | None, value_file: Path | None, dry_run: bool) -> None:
    """Take a text out of every stored version of the resource KIND NAME, or KIND/NAME.

    For a secret that was stored where it is shown. Mend the resource first: what it holds now is not rewritten. One end
    of line at the end of FILE is not part of the text.
    """
    key = options.target_key(kind, name)
    value = (
        output.ask_hidden_text(ASKED, otherwise=NOBODY) if value_file is None else output.read_hidden(value_file, TEXT)
    )
    which = f"{key.kind}/{key.name}"
    body: dict[str, Value] = {"value": value}
    query = {"dryRun": "true"} if dry_run else {}
    with (
        cli_session.make_client(session) as client,
        cli_session.explain_missing(f"{key.kind} {key.name} has no history"),
        cli_session.make_options({"/value": "the text"}),
    ):
        answer = client.post(*key, "history", "redact", body=body, query=query)
    output.line(_told(which, answer, dry_run=dry_run))
    if not dry_run:
        if answer_at(answer, "erased") is not True:
            output.line(NOT_ERASED)
        output.line(NEXT)


def _told(which: str, answer: Value, *, dry_run: bool) -> str:
    found = answer_at(answer, "versions")
    versions = [str(version) for version in found] if isinstance(found, list) else []
    places = output.counted(int(answer_text(answer, "places") or 0), "place")
    would = "would be rewritten" if dry_run else "rewritten"
    if not versions:
        return f"{which}: no version shows the text; {places} elsewhere {would}"
    noun = "version" if len(versions) == 1 else "versions"
    return f"{which}: {noun} {', '.join(versions)} {would}, {places}"


# Resources as a table: which columns there are, and what stands in them.


def render_resources(resources: list[Value], *, wide: bool, colour: bool) -> str:
    """A table for each kind, in the order in which the kinds come, with an empty line between."""
    groups = [list(group) for _, group in groupby(resources, key=lambda resource: answer_text(resource, "kind"))]
    return "\n".join(tables.table_of(COLUMNS, group, wide=wide, colour=colour) for group in groups)


def source(resource: Value) -> str:
    """Who brought this version: a repository, an actor, or the product itself."""
    kind = answer_text(resource, "status", "source", "type")
    who = answer_text(resource, "status", "source", "repository" if kind == "git" else "actor")
    return f"{kind} {who}".strip()


def owner(resource: Value) -> str:
    """Where it is changed: in the repository in which it stands, or through the API."""
    drifted_from = answer_text(resource, "status", "drift", "repository")
    if drifted_from:
        return drifted_from
    source = answer_at(resource, "status", "source")
    if answer_text(source, "type") != "git":
        return answer_text(source, "type")
    return (
        answer_text(source, "repository") if answer_text(source, "path") else "api"
    )  # the path goes when a repository lets go


def commit(resource: Value) -> str:
    """The commit that changed the file; while that is not known, the head that was applied."""
    return (_changed_by(resource, "commit") or answer_text(resource, "status", "source", "commit"))[:12]


def author(resource: Value) -> str:
    """Who wrote that commit."""
    return _changed_by(resource, "author") or answer_text(resource, "status", "source", "author")


def file(resource: Value) -> str:
    """Where its repository holds it, `path:line`; the version of what drifted does not come from there."""
    return place(answer_at(resource, "status", "drift")) or place(answer_at(resource, "status", "source"))


def _changed_by(resource: Value, what: str) -> str:
    return answer_text(resource, "status", "source", "changedBy", what)


def _state(resource: Value) -> str:
    if answer_text(resource, "status", "error"):
        return "damaged"
    if answer_at(resource, "status", "incomplete"):
        return "incomplete"
    if answer_at(resource, "status", "ready") is False:
        return "not-ready"
    return "drifted" if answer_at(resource, "status", "drift") else ""


def _labels(resource: Value) -> str:
    labels = answer_at(resource, "metadata", "labels")
    return ",".join(sorted(f"{key}={value}" for key, value in labels.items())) if isinstance(labels, dict) else ""


COLUMNS = (
    Column("NAME", lambda resource: answer_text(resource, "metadata", "name"), kept=True),
    Column("TYPE", lambda resource: answer_text(resource, "spec", "type")),
    Column("VERSION", lambda resource: answer_text(resource, "metadata", "version")),
    Column("STATUS", _state, kept=True),
    Column("DELIVERS", queue.delivers_word),
    Column("MODIFIED", lambda resource: output.moment_text(answer_text(resource, "metadata", "dateModified"))),
    Column("SOURCE", source),
    Column("OWNER", owner, wide=True),
    Column("COMMIT", commit, wide=True),
    Column("BY", author, wide=True),
    Column("FILE", file, wide=True),
    Column("ID", lambda resource: answer_text(resource, "metadata", "id"), wide=True),
    Column("DISPLAY NAME", lambda resource: answer_text(resource, "metadata", "displayName"), wide=True),
    Column("LABELS", _labels, wide=True),
)


# `reconciler get`: resources as a table, YAML, JSON or names.

FORMATS = ("table", "wide", "yaml", "json", "name")


@click.command()
@kind_argument
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("-l", "--selector", help="Only resources whose labels fit: team=edge,env!=test.")
@click.option("-o", "--output", "form", type=click.Choice(FORMATS), default="table", help="How to show them.")
@connected
@click.pass_context
def get(
    context: click.Context, session: Session, *, kind: str, names: tuple[str, ...], selector: str | None, form: str
) -> None:
    """Show resources of a kind: all of them, or those called NAME; KIND/NAME does as well.

    What `-o yaml` and `-o json` print can be edited and applied again: `(sensitive)`, which the service shows in place
    of a secret, keeps the stored one.
    """
    keys = options.target_keys(kind, names)
    query = _query(selector, named=bool(keys))
    with cli_session.make_client(session) as client:
        if keys:
            found, errors = _named(client, keys)
        else:
            pages = client.pages("resources", known_kind(kind).name, query=query)
            found, errors = [resource for page in pages for resource in page], []
    if found or not keys:
        output.write(shown(found, form=form, single=len(keys) == 1, colour=session.coloured))
    for error in errors:
        output.error(error)
    if not keys and not found:
        output.note(f"no {known_kind(kind).plural} found")
    context.exit(exits.ERROR if errors else exits.OK)


def _query(selector: str | None, *, named: bool) -> dict[str, str]:
    """What to ask the list for; what is no selector is told without asking."""
    if selector is None:
        return {}
    if named:
        raise click.UsageError("give either names or --selector")
    try:
        names.parse_selector(selector)
    except names.BadSelector as bad:
        raise click.UsageError(f"--selector is not a label selector: {bad.message}") from None
    return {"selector": selector}


def _named(client: Client, keys: list[Key]) -> tuple[list[Value], list[str]]:
    """The resources that there are, and a sentence for each that there is not."""
    found: list[Value] = []
    errors: list[str] = []
    for key in keys:
        try:
            found.append(client.get("resources", *key).get("resource"))
        except Refusal as refusal:
            if refusal.status != cli_session.NOT_FOUND:
                raise
            errors.append(refusal.message)
    return found, list(dict.fromkeys(errors))


def shown(resources: list[Value], *, form: str, single: bool, colour: bool) -> str:
    """The resources in one of the formats."""
    if form == "json":
        return output.as_json(resources[0] if single else {"resources": resources})
    if form == "yaml":
        return output.as_yaml(resources)
    if form == "name":
        return "".join(visible(answer_identity(resource)) + "\n" for resource in resources)
    return render_resources(resources, wide=form == "wide", colour=colour)


# `reconciler history`: the versions of one resource. `reconciler history redact` has a module of its own.

HEADER = ("VERSION", "MODIFIED", "HASH", "SOURCE", "COMMIT", "BY")


class _History(click.Command):
    """What follows is a resource, or the word `redact`, which is no kind."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if args[:1] != ["redact"]:
            return super().make_context(info_name, args, parent, **extra)

        return redact.make_context(f"{info_name} redact", args[1:], parent, **extra)


@click.command(cls=_History)
@kind_argument
@click.argument("name", required=False)
@form_option
@connected
def history(session: Session, *, kind: str, name: str | None, form: str) -> None:
    """Show every stored version of the resource KIND NAME, or KIND/NAME, the newest first.

    `reconciler history redact KIND NAME` takes a secret out of them.
    """
    key = options.target_key(kind, name)
    with cli_session.make_client(session) as client:
        versions = answer_objects(client.get(*key, "history").get("versions"))
    if not versions:
        raise Refused(f"{key.kind} {key.name} has no history")
    if form == "json":
        output.write(output.as_json({"versions": list[Value](versions)}))
    elif form == "yaml":
        output.write(output.as_yaml(versions))
    else:
        output.write(tables.render_table(HEADER, [_row(version) for version in versions], colour=session.coloured))


def _row(version: Value) -> tuple[str, ...]:
    return (
        answer_text(version, "metadata", "version"),
        output.moment_text(answer_text(version, "metadata", "dateModified")),
        answer_text(version, "metadata", "hash")[:12],
        source(version),
        commit(version),
        author(version),
    )
