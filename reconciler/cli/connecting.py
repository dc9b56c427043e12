"""From the options of a command to a connection, and what a person reads of a refusal in place of the API's words."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from reconciler.cli import hidden
from reconciler.cli.client import NO_PROJECT, Client, Refusal, Target, no_project
from reconciler.cli.sessions import PASSWORD_FILE, Session
from reconciler.model.errors import Refused

NOT_FOUND = 404
NOBODY = f"nobody is here to be asked for the password of {{}}; name a file that holds it with {PASSWORD_FILE}"


def make_client(session: Session) -> Client:
    """A connection to the session's server; use it in a `with`. Asks a person for the password. Raises Refused."""
    return Client(make_target(session))


def everywhere(session: Session) -> Client:
    """The same for no project: for what is the organization's, or names its project by itself."""
    return make_client(replace(session, project=None))


def make_target(session: Session) -> Target:
    """What a connection needs. Raises Refused, OSError, click.Abort."""
    return Target(
        server=session.address,
        api_key=session.api_key,
        user=session.user,
        password=None if session.user is None else _password(session.user, session.password_file),
        project=session.project,
    )


def _password(user: str, file: str | None) -> str:
    if file is not None:
        return hidden.read_hidden(Path(file), hidden.PASSWORD)
    return hidden.ask_hidden_text(f"Password of {user}", otherwise=NOBODY.format(user))


@contextmanager
def unknown_project(name: str) -> Iterator[None]:
    """Say which project it is that a path names and the service does not know."""
    try:
        yield
    except Refusal as refusal:
        if refusal.errors != (NO_PROJECT,):
            raise
        raise Refused(no_project(name)) from None


@contextmanager
def explain_missing(sentence: str) -> Iterator[None]:
    """Say this when the service has no such thing: its own words name paths of the API, not commands."""
    try:
        yield
    except Refusal as refusal:
        if refusal.status != NOT_FOUND:
            raise
        raise Refused(sentence) from None


@contextmanager
def make_options(names: Mapping[str, str]) -> Iterator[None]:
    """Say which option is meant where the service points into the body that was made of it: `/expiry: must be`."""
    try:
        yield
    except Refusal as refusal:
        raise Refusal(refusal.status, tuple(_named(error, names) for error in refusal.errors)) from None


def _named(error: str, names: Mapping[str, str]) -> str:
    pointer, _, rest = error.partition(": ")
    return f"{names[pointer]} {rest}" if rest and pointer in names else error
