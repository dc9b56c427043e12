"""`reconciler suspend`: having the service look at a repository no more, so that people can change what it owns."""

import click

from reconciler.cli import connecting, output, repositories, words
from reconciler.cli.answers import at, text
from reconciler.cli.sessions import Session, connected
from reconciler.documents.values import Value


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
    unknown = repositories.unknown(repository)
    with connecting.client(session) as client, connecting.missing(unknown), connecting.options(meant):
        found = client.post("repositories", repository, "suspend", body=body).get("repository")
    end = words.moment(text(at(found, "suspension"), "until"))
    output.line(f"{repository}: suspended until {end or 'somebody resumes it'}")
