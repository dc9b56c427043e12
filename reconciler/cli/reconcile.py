"""`reconciler reconcile`: asking the service to look at repositories now, and waiting for the outcome."""

import time

import click

from reconciler.cli import connecting, exits, output, repositories, waiting
from reconciler.cli.answers import answer_text
from reconciler.cli.client import Client
from reconciler.cli.sessions import Session, connected
from reconciler.model.errors import Refused

SUSPENDED = "suspended"


@click.command()
@click.argument("repository", required=False)
@click.option("--wait", is_flag=True, help="Wait for the runs, and print what they did.")
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), default=300.0, help="How long to wait, in seconds (300)."
)
@connected
@click.pass_context
def reconcile(context: click.Context, session: Session, *, repository: str | None, wait: bool, timeout: float) -> None:
    """Look at REPOSITORY now, or at all of them.

    With --wait it prints every status and reason, and ends with 3 when something was not stored, with 1 when a run
    failed.
    """
    deadline = time.monotonic() + timeout
    codes = [exits.OK]
    with connecting.make_client(session) as client:
        names = [repository] if repository else _names(client, project=session.project)
        runs = [(name, _asked(client, name)) for name in names]
        for name, run in runs:
            if wait:
                ended = waiting.wait_for_runs(client, run, deadline=deadline)
                codes.append(waiting.report_runs(name, ended, colour=session.coloured))
            else:
                output.line(f"{name}: run {run}")
    # A failed run says more than one that stored only a part.
    context.exit(exits.ERROR if exits.ERROR in codes else max(codes))


def _names(client: Client, *, project: str | None) -> list[str]:
    """All but the suspended ones, of which a note tells: somebody wants them left alone."""
    found = repositories.repositories_of(client, project=project)
    if not found:
        raise Refused(repositories.no_repositories(project))
    for repository in found:
        if answer_text(repository, "state") == SUSPENDED:
            output.note(f"{answer_text(repository, 'name')}: not looked at. {answer_text(repository, 'message')}")
    return [answer_text(repository, "name") for repository in found if answer_text(repository, "state") != SUSPENDED]


def _asked(client: Client, name: str) -> str:
    with connecting.explain_missing(repositories.unknown_repository(name)):
        return answer_text(client.post("repositories", name, "reconcile"), "run")
