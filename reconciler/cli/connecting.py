"""From the options of a command to a connection, and what a person reads when something is not there."""

from collections.abc import Iterator
from contextlib import contextmanager

from reconciler.cli.client import Client, Refusal, Target
from reconciler.cli.sessions import Session
from reconciler.errors import Refused

NOT_FOUND = 404


def client(session: Session) -> Client:
    """A connection to the session's server; use it in a `with`."""
    return Client(Target(server=session.address, api_key=session.api_key, project=session.project))


@contextmanager
def missing(sentence: str) -> Iterator[None]:
    """Say this when the service has no such thing: its own words name paths of the API, not commands."""
    try:
        yield
    except Refusal as refusal:
        if refusal.status != NOT_FOUND:
            raise
        raise Refused(sentence) from None
