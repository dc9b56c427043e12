"""`reconciler diff`: how files, or a repository's head, differ from what is stored."""

from typing import TYPE_CHECKING

import click

from reconciler.cli import apply, client, exits, files, output
from reconciler.cli import plan as plans
from reconciler.cli.options import color_option, connected, paths_option
from reconciler.review import plan as review_plan

if TYPE_CHECKING:
    from reconciler.cli.client import Client

UNCHANGED = "unchanged"


@click.command()
@click.argument("repository", required=False)
@paths_option("A file, a folder, or - for standard input; may be given more than once.")
@click.option(plans.DETAILED, is_flag=True, help="End with 2 when something differs.")
@color_option
@connected
def diff(
    service: "Client", *, repository: str | None, paths: tuple[str, ...], detailed_exitcode: bool, color: str | None
) -> int:
    """Show in which fields files, or the commit that REPOSITORY follows, differ from what is stored.

    Nothing is stored. Ends with 3 when a resource in a file would not be stored.
    """
    if (repository is None) is not bool(paths):
        raise click.UsageError("give either REPOSITORY, or -f with a file")
    if repository is not None:
        from reconciler.review import text  # noqa: PLC0415

        made = plans.ask_server(service, repository=repository)
        for piece in text.render_text(made, color=output.is_coloured(color)):
            output.rendered(piece)
        return review_plan.exit_code(made, detailed=detailed_exitcode, fail_on=())
    sent = files.read_resources(paths)
    answer = apply.send(service, sent, query={"dryRun": "true"})
    code = apply.report(answer, sent=sent, dry_run=True, without=frozenset({UNCHANGED}))
    differs = any(client.text(update, "status") != UNCHANGED for update in client.objects(answer, "updates"))
    return review_plan.CHANGED if code == exits.OK and differs and detailed_exitcode else code
