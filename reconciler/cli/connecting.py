"""From the options of a command to a connection, and what a person reads of a refusal in place of the API's words."""

from collections.abc import Iterator, Mapping
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


@contextmanager
def options(names: Mapping[str, str]) -> Iterator[None]:
    """Say which option is meant where the service points into the body that was made of it: `/expiry: must be`."""
    try:
        yield
    except Refusal as refusal:
        raise Refusal(refusal.status, tuple(_named(error, names) for error in refusal.errors)) from None


def _named(error: str, names: Mapping[str, str]) -> str:
    pointer, _, rest = error.partition(": ")
    return f"{names[pointer]} {rest}" if rest and pointer in names else error
