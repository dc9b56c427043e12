"""`reconciler suspend`: having the service look at a repository no more, so that people can change what it owns."""

import click

from reconciler.cli import connecting, output, repositories, words
from reconciler.cli.answers import answer_at, answer_text
from reconciler.cli.sessions import Session, connected
from reconciler.model.values import Value


@click.command()
@click.argument("repository")
@click.option("--reason", required=True, help="Why, in one line; whoever looks at the repository reads it.")
@click.option("--for", "duration", metavar="DURATION", help="Resume by itself after so long: 30m, 2h.")
@click.option("--until", metavar="INSTANT", help="Resume by itself at an instant: 2026-11-21T08:00:00Z.")
@connected
def suspend(session: Session, *, repository: str, reason: str, duration: str | None, until: str | None) -> None:
    """Look at REPOSITORY no more, until it is resumed.

    Meanwhile an admin may change and delete what it owns. Suspending it again replaces reason and expiry.
    """
    if duration is not None and until is not None:
        raise click.UsageError("give either --for or --until, not both")
    expiry = duration if until is None else until
    body: dict[str, Value] = {"reason": reason}
    if expiry is not None:
        body["expiry"] = expiry
    meant = {"/reason": "--reason", "/expiry": "--for" if until is None else "--until"}
    unknown = repositories.unknown_repository(repository)
    with connecting.make_client(session) as client, connecting.explain_missing(unknown), connecting.make_options(meant):
        found = client.post("repositories", repository, "suspend", body=body).get("repository")
    end = words.moment_text(answer_text(answer_at(found, "suspension"), "until"))
    output.line(f"{repository}: suspended until {end or 'somebody resumes it'}")
