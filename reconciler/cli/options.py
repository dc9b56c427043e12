"""Options and arguments that several commands share, and the base of command groups."""

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import click
from click.core import ParameterSource

from reconciler.cli import output
from reconciler.cli.client import DEFAULT_SERVER, PASSWORD_FILE, Client
from reconciler.model import names
from reconciler.model.errors import Refused
from reconciler.model.names import Key, Kind
from reconciler.model.values import Value

if TYPE_CHECKING:
    from reconciler.settings.models import Settings

P = ParamSpec("P")
R = TypeVar("R")

OPTIONS = ("server", "api_key", "user", "project")
TWO = "an API key and a user are given (--api-key or SERVICE_API_KEY, --user or SERVICE_USER); give one of them"


def _server_options(function: Callable[P, R]) -> Callable[P, R]:
    """Add the options of a connection to a command."""
    user = f"Your name; the password is asked for, or in the file that {PASSWORD_FILE} names."
    for name, variable, text in (
        ("--project", "SERVICE_PROJECT", "The project, when there are several."),
        ("--user", "SERVICE_USER", user),
        ("--api-key", "SERVICE_API_KEY", "The API key; better in SERVICE_API_KEY."),
        ("--server", "SERVICE_SERVER", f"The server (default: {DEFAULT_SERVER})."),
    ):
        function = click.option(name, envvar=variable, help=text)(function)
    return function


def connected(function: Callable[..., R]) -> Callable[..., R]:
    """Add the options of a connection to a command, and pass it the client as its first argument."""

    @click.pass_context
    @functools.wraps(function)
    def wrapper(
        context: click.Context,
        /,
        *args: object,
        server: str | None,
        api_key: str | None,
        user: str | None,
        project: str | None,
        **arguments: Any,
    ) -> R:
        if api_key and user:
            # An option wins over a variable.
            key_source, user_source = map(context.get_parameter_source, ("api_key", "user"))
            if key_source is user_source:
                raise click.UsageError(TWO)
            api_key, user = (api_key, None) if key_source is ParameterSource.COMMANDLINE else (None, user)
        # Empty is not given: `--project "$PROJECT"` in a script means no project when the variable is empty.
        with Client(
            server=(server or DEFAULT_SERVER).rstrip("/"),
            is_named=bool(server),
            api_key=api_key or None,
            user=user or None,
            project=project or None,
        ) as service:
            return function(service, *args, **arguments)

    return _server_options(wrapper)


def everywhere(function: Callable[..., R]) -> Callable[..., R]:
    """Do the same for a command about the organization, or one whose paths name the project."""

    @functools.wraps(function)
    def wrapper(service: Client, *args: object, **arguments: object) -> R:
        return function(service.everywhere(), *args, **arguments)

    return connected(wrapper)


# Options and arguments that several commands have.


def _form(
    *forms: str, default: str = "table", text: str = "How to show them."
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    return click.option("-o", "--output", "form", type=click.Choice(forms), default=default, help=text)


def local_settings(config: Path | None, state_dir: str | None = None, **overrides: Value) -> "Settings":
    """Return the settings of the service on this machine, read as `serve` reads them. Raises SettingsError.

    Sign-in and TLS are overridden: the commands need neither, and their secrets are in the environment of the service
    only.
    """
    from reconciler.settings import loading  # noqa: PLC0415 - it takes long, and most commands need none

    given: dict[str, Value] = {"stateDir": state_dir, "auth.type": "local", "insecure": True, **overrides}
    return loading.load(config=config, environment=os.environ, overrides=given).settings


form_option = _form("table", "yaml", "json")
wide_form_option = _form("table", "wide", "yaml", "json")
config_option = click.option("--config", type=click.Path(path_type=Path), help="The service's settings file.")
color_option = click.option("--color", type=click.Choice(output.COLORS), help="When to colour (default: auto).")
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
    """Return the kind with this name. Raises Refused, which names the nearest kind and all kinds."""
    kind = names.find_kind(text)
    if kind is None:
        nearest = names.nearest_kind(text)
        hint = f", did you mean {nearest.name}" if nearest else ""
        raise Refused(f"there is no kind {text}{hint}; the kinds are {', '.join(each.name for each in names.KINDS)}")
    return kind


def target_keys(kind: str, names: tuple[str, ...]) -> list[Key]:
    """Return the resources in `KIND NAME...` or `KIND/NAME...`, each once, in the same order; none for a kind alone."""
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


WHOLE = 1000  # characters: longer than the first sentence of any command, so that click cuts none


class OrderedGroup(click.Group):
    """A group of commands, listed in the order of their definition."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in their order."""
        return list(self.summaries())

    def summaries(self) -> dict[str, str]:
        """Return the whole first sentence of each command."""
        return {name: one.get_short_help_str(WHOLE) for name, one in self.commands.items()}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands in the help text."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.summaries().items()))
