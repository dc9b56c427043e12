"""`reconciler apply`: resources from files to the server."""

import click

from reconciler.cli import connecting, sending, updates
from reconciler.cli.client import Refusal
from reconciler.cli.sessions import Session, connected
from reconciler.model.values import Value


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
    sent = sending.read_resources(paths)
    chosen = {"dryRun": dry_run, "atomic": atomic, "acceptInvalid": accept_invalid}
    query = {name: "true" for name, on in chosen.items() if on}
    if strict_version:
        query["strict"] = "version"
    body: dict[str, Value] = {"resources": [found.value for found in sent]}
    with connecting.make_client(session) as client:
        try:
            answer = client.post("apply", body=body, query=query)
        except Refusal as refusal:
            if refusal.status != 409:
                raise
            context.exit(updates.refused(refusal.errors, sent=sent))
    context.exit(updates.report_updates(answer, sent=sent, dry_run=dry_run, colour=session.coloured))
