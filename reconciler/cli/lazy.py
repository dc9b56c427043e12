"""Groups of commands: of subcommands that are imported when they are used, so that a quick command does not pay for a
heavy one, and of those that stand in one module. Who mistypes a command is told which one may be meant.
"""

from difflib import get_close_matches
from importlib import import_module
from typing import NamedTuple

import click


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
