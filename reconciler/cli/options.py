"""The options and arguments that commands share, the session that they make, and the groups that commands are in."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

import click
from click.core import ParameterSource

from reconciler.cli import output
from reconciler.cli.output import Color
from reconciler.model import names
from reconciler.model.errors import Refused
from reconciler.model.names import Key, Kind
from reconciler.model.principals import DEFAULT_PROJECT

if TYPE_CHECKING:
    from reconciler.cli.client import Client, Target

P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_SERVER = "http://127.0.0.1:3001"
PASSWORD_FILE = "SERVICE_PASSWORD_FILE"  # noqa: S105 - the name of a variable
OPTIONS = ("server", "api_key", "user", "project", "color")
TWO = "an API key and a user are given (--api-key or SERVICE_API_KEY, --user or SERVICE_USER); give one of them"
NOBODY = f"nobody is here to be asked for the password of {{}}; name a file that holds it with {PASSWORD_FILE}"


@dataclass(frozen=True, slots=True)
class Session:
    """The server, the credential, the project and the colour of a command. Of a key and a user it has one at most."""

    server: str | None
    api_key: str | None
    user: str | None
    project: str | None
    color: Color | None

    @property
    def coloured(self) -> bool:
        """True when output gets colour."""
        return output.coloured(self.color or Color.AUTO)

    def target(self) -> "Target":
        """Return the facts of a connection; asks a person for the password. Raises Refused, OSError, click.Abort."""
        password = None
        if self.user is not None and (file := os.environ.get(PASSWORD_FILE)):
            password = output.read_hidden(Path(file), output.PASSWORD)
        elif self.user is not None:
            password = output.ask_hidden_text(f"Password of {self.user}", otherwise=NOBODY.format(self.user))
        from reconciler.cli.client import Target  # noqa: PLC0415 - only for commands that ask a server

        return Target(self.server or DEFAULT_SERVER, self.api_key, self.user, password, self.project)

    def client(self) -> "Client":
        """Return a connection to the server, to be used in a `with`. Raises as `target` does."""
        from reconciler.cli.client import Client  # noqa: PLC0415 - as above

        return Client(self.target())

    def everywhere(self) -> "Client":
        """Return a connection without a project: for the organization, or for paths that name their project."""
        return replace(self, project=None).client()


def options(*, from_environment: bool) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator with the session's options. Only the group reads the environment: the variables of a command
    would override the group's options.
    """

    def option(name: str, text: str, variable: str = "", **more: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
        return click.option(name, envvar=variable if variable and from_environment else None, help=text, **more)

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        colors = click.Choice([color.value for color in Color])
        user = f"Your name; the password is asked for, or in the file that {PASSWORD_FILE} names."
        for decorator in (
            option("--color", "When to colour (default: auto).", type=colors),
            option("--project", "The project, when there are several.", "SERVICE_PROJECT"),
            option("--user", user, "SERVICE_USER"),
            option("--api-key", "The API key; better in SERVICE_API_KEY.", "SERVICE_API_KEY"),
            option("--server", f"The server (default: {DEFAULT_SERVER}).", "SERVICE_SERVER"),
        ):
            function = decorator(function)
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
    root = context.find_root()

    def chosen(name: str) -> str | None:
        # Empty is not given: `--project "$PROJECT"` in a script means no project when the variable is empty.
        return _text(own[name] if own[name] is not None else getattr(root.obj, name, None))

    def from_source(source: ParameterSource) -> dict[str, object]:
        """Return the options before the command's name that have this source."""
        return {name: value for name, value in root.params.items() if root.get_parameter_source(name) is source}

    # A key or a user, from the nearest place that names one: an option counts, whatever the environment has.
    api_key = user = None
    for place in (own, from_source(ParameterSource.COMMANDLINE), from_source(ParameterSource.ENVIRONMENT)):
        api_key, user = _text(place.get("api_key")), _text(place.get("user"))
        if api_key and user:
            raise click.UsageError(TWO)
        if api_key or user:
            break
    color = chosen("color")
    return Session(chosen("server"), api_key, user, chosen("project"), None if color is None else Color(color))


def _text(value: object) -> str | None:
    return str(value) if value else None


def chosen_project(connection: "Client", session: Session) -> str:
    """Return the project for a path that names one, by the service's own rule for requests without one.

    Raises Refused.
    """
    from reconciler.cli import client  # noqa: PLC0415 - as above

    if session.project is not None:
        return session.project
    within = [client.text(one, "name") for one in client.objects(client.at(connection.get("me"), "me", "projects"))]
    if DEFAULT_PROJECT in within:
        return DEFAULT_PROJECT
    if len(within) != 1:
        raise Refused(client.CHOOSE_HINT)
    return within[0]


# Options and arguments that several commands have.


def _form(
    *forms: str, default: str = "table", text: str = "How to show them."
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    return click.option("-o", "--output", "form", type=click.Choice(forms), default=default, help=text)


form_option = _form("table", "yaml", "json")
wide_form_option = _form("table", "wide", "yaml", "json")
config_option = click.option("--config", type=click.Path(path_type=Path), help="The service's settings file.")
state_option = click.option("--state-dir", "state_dir", help="The service's `stateDir`; overrides the settings.")


def paths_option(text: str, *, required: bool = False) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return the option `-f`, for files with resources."""
    kind = click.Path(exists=True, allow_dash=True)
    return click.option("-f", "--filename", "paths", multiple=True, required=required, type=kind, help=text)


def complete_kind(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Return the kinds that begin with the typed text."""
    return [kind.plural for kind in names.KINDS if kind.plural.startswith(incomplete.lower())]


kind_argument = click.argument("kind", shell_complete=complete_kind)


def known_kind(text: str) -> Kind:
    """Return the kind that a person means. Raises Refused with the nearest one and all there are."""
    kind = names.find_kind(text)
    if kind is None:
        nearest = names.nearest_kind(text)
        hint = f", did you mean {nearest.name}" if nearest else ""
        raise Refused(f"there is no kind {text}{hint}; the kinds are {', '.join(each.name for each in names.KINDS)}")
    return kind


def target_keys(kind: str, names: tuple[str, ...]) -> list[Key]:
    """Return the resources of `KIND NAME...` or `KIND/NAME...`, each once, in their order; none for a kind alone."""
    if "/" not in kind:
        found = known_kind(kind).name
        return [Key(found, name) for name in dict.fromkeys(names)]
    pairs = [word.partition("/") for word in (kind, *names)]
    if not all(slash for _, slash, _ in pairs):
        raise click.UsageError("write either KIND NAME... or KIND/NAME..., not both")
    return list(dict.fromkeys(Key(known_kind(word).name, name) for word, _, name in pairs))


def target_key(kind: str, name: str | None) -> Key:
    """Return the one resource of `KIND NAME` or `KIND/NAME`."""
    found = target_keys(kind, () if name is None else (name,))
    if len(found) != 1:
        raise click.UsageError("give KIND and NAME, or KIND/NAME")
    return found[0]


# Groups of commands: subcommands of one module, and commands that are imported when they are used, so that a quick
# command does not pay for a heavy one. A mistyped command gets the one that may be meant.


class CommandEntry(NamedTuple):
    """A subcommand: its place (`module:attribute`), and its line in the list of commands."""

    target: str
    summary: str


ENDING = ("delete", "remove", "revoke")  # a group has one of these, and people look for it by the others
WHOLE = 1000  # characters: no first sentence of a command is longer, so that none is cut


class OrderedGroup(click.Group):
    """A group of commands of one module, listed in the order of their definitions."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command, or fail with the one that may be meant."""
        known, typed = self.list_commands(ctx), args[0]
        if typed in ENDING:
            meant = next((name for name in ENDING if name in known), None)
        else:
            meant = next(iter(get_close_matches(typed.lower(), known, n=1)), None)
        if typed not in known and meant and not ctx.resilient_parsing:
            ctx.fail(f"No such command '{typed}'; did you mean '{meant}'?")
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in their order."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands in the help text, each with its whole first sentence."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.get_short_help_str(WHOLE)) for name, one in self.commands.items()])


class LazyGroup(OrderedGroup):
    """A group whose commands are in a table; the list of commands imports none of them."""

    entries: dict[str, CommandEntry]

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the order of the table."""
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the command."""
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.target.partition(":")
        command = getattr(import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(entry.target)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands in the help text."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self.entries.items()])
