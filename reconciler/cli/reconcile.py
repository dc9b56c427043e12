"""`reconciler reconcile`: asking the service to look at repositories now, and waiting for the outcome."""

import time

import click

from reconciler.cli import connecting, exits, output, repositories, statuses
from reconciler.cli.answers import text
from reconciler.cli.client import Client
from reconciler.cli.sessions import Session, connected
from reconciler.documents.values import Value
from reconciler.errors import Refused

FIRST_LOOK = 0.1  # seconds; a run of a local repository takes about as long
LONGEST_LOOK = 2.0  # seconds between two looks at a long run
STORED = ("succeeded", "superseded")  # superseded: a newer head's run did the work


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
    with connecting.client(session) as client:
        names = [repository] if repository else _names(client, project=session.project)
        runs = [(name, _asked(client, name)) for name in names]
        for name, run in runs:
            if wait:
                codes.append(_report(name, _finished(client, run, deadline=deadline), colour=session.coloured))
            else:
                output.line(f"{name}: run {run}")
    # A failed run says more than one that stored only a part.
    context.exit(exits.ERROR if exits.ERROR in codes else max(codes))


def _names(client: Client, *, project: str | None) -> list[str]:
    names = [text(repository, "name") for repository in repositories.of(client, project=project)]
    if not names:
        raise Refused(repositories.none(project))
    return names


def _asked(client: Client, name: str) -> str:
    with connecting.missing(repositories.unknown(name)):
        return text(client.post("repositories", name, "reconcile"), "run")


def _finished(client: Client, run: str, *, deadline: float) -> dict[str, Value]:
    pause = FIRST_LOOK
    while True:
        found = client.get("runs", run).get("run")
        if isinstance(found, dict) and (text(found, "phase") == "finished" or text(found, "outcome")):
            return found
        if time.monotonic() + pause > deadline:
            raise Refused(
                f"run {run} is not finished yet; --timeout waits longer, and it goes on without anyone waiting"
            )
        time.sleep(pause)
        pause = min(pause * 1.5, LONGEST_LOOK)


def _report(name: str, run: dict[str, Value], *, colour: bool) -> int:
    output.write(statuses.whole({**run, "repository": name}, colour=colour))
    outcome = text(run, "outcome")
    if outcome in STORED:
        return exits.OK
    return exits.ERROR if outcome == "failed" else exits.NOT_STORED
