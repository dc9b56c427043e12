"""`reconciler delete`: resources by their names, or those that files name."""

import click

from reconciler.cli import connecting, sending, targets, updates
from reconciler.cli.answers import answer_at
from reconciler.cli.kind_argument import complete_kind
from reconciler.cli.sending import FoundResources
from reconciler.cli.sessions import Session, connected
from reconciler.model.names import Key
from reconciler.model.values import Value


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
    with connecting.make_client(session) as client:
        answer = client.post("delete", body=body, query={"dryRun": "true"} if dry_run else {})
    context.exit(updates.report_updates(answer, sent=sent, dry_run=dry_run, colour=session.coloured))


def _meant(kind: str | None, names: tuple[str, ...], paths: tuple[str, ...]) -> list[FoundResources]:
    if paths and kind is None:
        return sending.read_resources(paths)
    keys = targets.target_keys(kind, names) if kind is not None and not paths else []
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
