"""docs/command-line.md has every command and every option."""

import re
from pathlib import Path

import click
import pytest

from reconciler.cli import exits
from reconciler.cli.main import ENTRIES, program
from reconciler.cli.options import OPTIONS, OrderedGroup

DOCUMENT = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")


def section(name: str) -> str:
    """The text under a heading."""
    return DOCUMENT.partition(f"\n## {name}\n")[2].partition("\n## ")[0]


def documented(text: str) -> set[str]:
    """The options in the first cells of the tables."""
    cells = re.findall(r"^\| (`-[^|]*`) \|", text, re.MULTILINE)
    return {option for cell in cells for option in re.findall(r"`(-[^`]+)`", cell)}


def options(command: click.Command) -> set[str]:
    """A command's own options; those of all its subcommands for a group such as `user`."""
    shared = OPTIONS if command is not program else ()
    commands = [command, *(command.commands.values() if isinstance(command, OrderedGroup) else ())]
    found = [each for one in commands for each in one.params if isinstance(each, click.Option)]
    own = [each for each in found if each.name not in shared]
    return {name for option in own for name in (*option.opts, *option.secondary_opts)}


@pytest.mark.parametrize("name", ENTRIES)
def test_a_command_is_documented_with_its_options(name: str) -> None:
    command = program.get_command(click.Context(program), name)
    assert command is not None
    assert f"`reconciler {name}" in section(name)
    assert documented(section(name)) == options(command)


@pytest.mark.parametrize("name", ENTRIES)
def test_every_subcommand_is_documented_in_order_with_its_arguments(name: str) -> None:
    command = program.get_command(click.Context(program), name)
    if not isinstance(command, OrderedGroup):
        return
    found = re.findall(rf"^\| `(reconciler {name} [^`]+)` \|", section(name), re.MULTILINE)
    assert found == [
        " ".join([f"reconciler {name} {verb}", *(each.make_metavar(click.Context(one)) for each in arguments(one))])
        for verb, one in command.commands.items()
    ]


def arguments(command: click.Command) -> list[click.Argument]:
    return [each for each in command.params if isinstance(each, click.Argument)]


def test_every_section_about_a_command_is_about_one_there_is() -> None:
    headings = re.findall(r"^## ([a-z-]+)$", DOCUMENT, re.MULTILINE)
    assert headings == list(ENTRIES)


def test_the_shared_options_are_documented() -> None:
    assert documented(section("The server")) == options(program) - {"--version"}
    assert "`reconciler --version`" in section("version")


@pytest.mark.parametrize("name", ENTRIES)
def test_every_option_that_a_section_names_exists(name: str) -> None:
    command = program.get_command(click.Context(program), name)
    assert command is not None
    known = options(command) | options(program)
    assert set(re.findall(r"`(--?[a-z][-a-z]*)", section(name))) <= known


def test_what_the_service_masks_is_said_where_resources_are_printed() -> None:
    assert "`(sensitive)`" in section("get")
    assert "`(sensitive)`" in section("apply")


def test_the_exit_codes_are_documented() -> None:
    codes = {value for name, value in vars(exits).items() if name.isupper()}
    found = re.findall(r"^\| ([0-9]+) \|", section("Output and exit codes"), re.MULTILINE)
    assert {int(code) for code in found} == codes
