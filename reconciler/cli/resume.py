"""`reconciler resume`: having the service look at a suspended repository again, and waiting for what that changes."""

import time

import click

from reconciler.cli import connecting, output, repositories, waiting
from reconciler.cli.answers import answer_text
from reconciler.cli.sessions import Session, connected


@click.command()
@click.argument("repository")
@click.option("--wait", is_flag=True, help="Wait for the run, and print what it did.")
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), default=300.0, help="How long to wait, in seconds (300)."
)
@connected
@click.pass_context
def resume(context: click.Context, session: Session, *, repository: str, wait: bool, timeout: float) -> None:
    """Look at REPOSITORY again: what was changed meanwhile becomes what Git says.

    With --wait it prints every status and reason, and ends as `reconcile --wait` does.
    """
    deadline = time.monotonic() + timeout
    with connecting.make_client(session) as client:
        with connecting.explain_missing(repositories.unknown_repository(repository)):
            run = answer_text(client.post("repositories", repository, "resume"), "run")
        if not wait:
            output.line(f"{repository}: run {run}")
            return
        ended = waiting.wait_for_runs(client, run, deadline=deadline)
    context.exit(waiting.report_runs(repository, ended, colour=session.coloured))
