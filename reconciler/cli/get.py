"""`reconciler get`: resources as a table, YAML, JSON or names."""

import click

from reconciler.cli import connecting, exits, output, resource_tables, targets
from reconciler.cli.answers import answer_identity
from reconciler.cli.client import Client, Refusal
from reconciler.cli.kind_argument import kind_argument, known_kind
from reconciler.cli.sessions import Session, connected
from reconciler.model import names
from reconciler.model.names import Key
from reconciler.model.text import visible
from reconciler.model.values import Value

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
    keys = targets.target_keys(kind, names)
    query = _query(selector, named=bool(keys))
    with connecting.make_client(session) as client:
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
            if refusal.status != connecting.NOT_FOUND:
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
    return resource_tables.render_resources(resources, wide=form == "wide", colour=colour)
