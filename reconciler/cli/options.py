"""Options and groups that commands share."""

from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

import click

from reconciler.cli.client import CHOOSE_HINT, Client
from reconciler.cli.session import Session
from reconciler.cli.tables import answer_at, answer_objects, answer_text
from reconciler.model import names
from reconciler.model.errors import Refused
from reconciler.model.names import Key, Kind
from reconciler.model.principals import DEFAULT_PROJECT

# Groups of commands: of subcommands that are imported when they are used, so that a quick command does not pay for a
# heavy one, and of those that stand in one module. Who mistypes a command is told which one may be meant.


class CommandEntry(NamedTuple):
    """A subcommand: where it is (`module:attribute`), and its line in the list of commands."""

    target: str
    summary: str


ENDING = ("delete", "remove", "revoke")  # what a group has one of, and people look for by the others
WHOLE = 1000  # characters: no first sentence of a command is longer, so that none is cut


class _Group(click.Group):
    """A group that knows what somebody who mistyped may have meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is meant, or a mistake that names the one that may be."""
        names = self.list_commands(ctx)
        if args[0] not in names and (meant := _meant(args[0], names)) and not ctx.resilient_parsing:
            ctx.fail(f"No such command '{args[0]}'; did you mean '{meant}'?")
        return super().resolve_command(ctx, args)


def _meant(typed: str, names: list[str]) -> str | None:
    if typed in ENDING:
        return next((name for name in ENDING if name in names), None)
    return next(iter(get_close_matches(typed.lower(), names, n=1)), None)


class LazyGroup(_Group):
    """A group whose commands are in a table; the list of commands imports none of them."""

    entries: dict[str, CommandEntry]

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The names, in the order of the table."""
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command itself, imported now."""
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.target.partition(":")
        command = getattr(import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(entry.target)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The list of commands in the help text."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self.entries.items()])


class OrderedGroup(_Group):
    """A group of commands of one module, listed in the order in which they stand there."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The names, as they stand."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The list of commands in the help text, each with its first sentence whole."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.get_short_help_str(WHOLE)) for name, one in self.commands.items()])


# The option `-o`: table, YAML or JSON, and a wide table where the other leaves something out.

F = TypeVar("F", bound=Callable[..., Any])


def _option(*forms: str) -> Callable[[F], F]:
    return click.option("-o", "--output", "form", type=click.Choice(forms), default="table", help="How to show them.")


form_option = _option("table", "yaml", "json")
wide_form_option = _option("table", "wide", "yaml", "json")


# The KIND argument: completed in the shell, judged, and turned into the spelling that paths use.


def complete_kind(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """The kinds that begin like what is typed, each once."""
    return [kind.plural for kind in names.KINDS if kind.plural.startswith(incomplete.lower())]


kind_argument = click.argument("kind", shell_complete=complete_kind)


def known_kind(text: str) -> Kind:
    """The kind that a person means. Raises Refused with the nearest one and all there are."""
    kind = names.find_kind(text)
    if kind is None:
        nearest = names.nearest_kind(text)
        hint = f", did you mean {nearest.name}" if nearest else ""
        raise Refused(f"there is no kind {text}{hint}; the kinds are {', '.join(each.name for each in names.KINDS)}")
    return kind


# Which resources a command means: `KIND NAME...`, or `KIND/NAME...`.


def target_keys(kind: str, names: tuple[str, ...]) -> list[Key]:
    """The resources that were named, each once, in the order given; none when only a kind was."""
    if "/" not in kind:
        found = known_kind(kind).name
        return [Key(found, name) for name in dict.fromkeys(names)]
    pairs = [word.partition("/") for word in (kind, *names)]
    if not all(slash for _, slash, _ in pairs):
        raise click.UsageError("write either KIND NAME... or KIND/NAME..., not both")
    return list(dict.fromkeys(Key(known_kind(word).name, name) for word, _, name in pairs))


def target_key(kind: str, name: str | None) -> Key:
    """The one resource that was named."""
    found = target_keys(kind, () if name is None else (name,))
    if len(found) != 1:
        raise click.UsageError("give KIND and NAME, or KIND/NAME")
    return found[0]


# The project that a command means whose path names one.


def chosen_project(client: Client, session: Session) -> str:
    """The project that is meant, by the service's own rule for requests that name none. Raises Refused."""
    if session.project is not None:
        return session.project
    within = [answer_text(one, "name") for one in answer_objects(answer_at(client.get("me"), "me", "projects"))]
    if DEFAULT_PROJECT in within:
        return DEFAULT_PROJECT
    if len(within) != 1:
        raise Refused(CHOOSE_HINT)
    return within[0]
