"""The options of every command with a server, and the connection that they make."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ParamSpec, TypeVar

import click
from click.core import ParameterSource

from reconciler.cli import output
from reconciler.cli.client import NO_PROJECT, Client, Refusal, Target, no_project
from reconciler.cli.output import Color, coloured
from reconciler.model.errors import Refused

# The options that every command with a server takes, before or after the command's name.

P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_SERVER = "http://127.0.0.1:3001"
PASSWORD_FILE = "SERVICE_PASSWORD_FILE"  # noqa: S105 - the name of a variable
OPTIONS = ("server", "api_key", "user", "project", "color")
TWO = "an API key and a user are given (--api-key or SERVICE_API_KEY, --user or SERVICE_USER); give one of them"


@dataclass(frozen=True, slots=True)
class Session:
    """Which server, as whom, for which project, and with how much colour. Of a key and a user it has one at most."""

    server: str | None
    api_key: str | None
    user: str | None
    project: str | None
    color: Color | None

    @property
    def password_file(self) -> str | None:
        """The file with the user's password, if there is one; else it is asked for."""
        return os.environ.get(PASSWORD_FILE) or None

    @property
    def address(self) -> str:
        """The server to talk to."""
        return self.server or DEFAULT_SERVER

    @property
    def coloured(self) -> bool:
        """Whether output gets colour."""
        return coloured(self.color or Color.AUTO)


def options(*, from_environment: bool) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """The options themselves. Only the group's look at the environment: a command's own would override the group's."""

    def variable(name: str) -> str | None:
        return name if from_environment else None

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        for option in (
            click.option(
                "--color", type=click.Choice([color.value for color in Color]), help="When to colour (default: auto)."
            ),
            click.option("--project", envvar=variable("SERVICE_PROJECT"), help="The project, when there are several."),
            click.option(
                "--user",
                envvar=variable("SERVICE_USER"),
                help=f"Your name; the password is asked for, or in the file that {PASSWORD_FILE} names.",
            ),
            click.option(
                "--api-key", envvar=variable("SERVICE_API_KEY"), help="The API key; better in SERVICE_API_KEY."
            ),
            click.option(
                "--server", envvar=variable("SERVICE_SERVER"), help=f"The server (default: {DEFAULT_SERVER})."
            ),
        ):
            function = option(function)
        return function

    return decorate


def connected(function: Callable[..., R]) -> Callable[..., R]:
    """Give a command these options, and itself the session as its first argument."""

    @click.pass_context
    def wrapper(context: click.Context, /, *args: object, **arguments: object) -> R:
        own = {name: arguments.pop(name) for name in OPTIONS}
        return function(_merged(context, own), *args, **arguments)

    wrapper.__doc__, wrapper.__name__ = function.__doc__, function.__name__
    # The options and arguments that decorators above have put on the function so far.
    wrapper.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
    return options(from_environment=False)(wrapper)


def _merged(context: click.Context, own: dict[str, object]) -> Session:
    above = context.find_root().obj
    chosen = {name: own[name] if own[name] is not None else getattr(above, name, None) for name in OPTIONS}
    api_key, user = _credential(context, own)
    color = chosen["color"]
    return Session(
        server=_text(chosen["server"]),
        api_key=api_key,
        user=user,
        project=_text(chosen["project"]),
        color=None if color is None else Color(str(color)),
    )


def _credential(context: click.Context, own: dict[str, object]) -> tuple[str | None, str | None]:
    """A key or a user, from the nearest place that names one: who writes an option means it, whatever is set."""
    for place in (own, _root(context, ParameterSource.COMMANDLINE), _root(context, ParameterSource.ENVIRONMENT)):
        api_key, user = _text(place.get("api_key")), _text(place.get("user"))
        if api_key and user:
            raise click.UsageError(TWO)
        if api_key or user:
            return api_key, user
    return None, None


def _root(context: click.Context, source: ParameterSource) -> dict[str, object]:
    """The options before the command's name that come from there."""
    root = context.find_root()
    return {name: value for name, value in root.params.items() if root.get_parameter_source(name) is source}


def _text(value: object) -> str | None:
    # Empty is not given: `--project "$PROJECT"` in a script means no project when the variable is empty.
    return str(value) if value else None


# From the options of a command to a connection, and what a person reads of a refusal in place of the API's words.

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
        return output.read_hidden(Path(file), output.PASSWORD)
    return output.ask_hidden_text(f"Password of {user}", otherwise=NOBODY.format(user))


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
