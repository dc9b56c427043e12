"""The pages of the command line have every command, the shared options and the exit codes."""

import re

import click

from reconciler.cli import exits
from reconciler.cli.main import ENTRIES, program
from reconciler.cli.options import OPTIONS
from tests.docs import pages

PAGE = pages.read(pages.ROOT / "docs/command-line.md")


def test_the_page_links_every_command() -> None:
    commands = set(re.findall(r"[a-z-]+", re.sub(r"\]\([^)]*\)", "", pages.section(PAGE, "Commands"))))
    assert set(ENTRIES) - commands == set()


def test_the_shared_options_are_documented() -> None:
    rows = pages.table(pages.section(PAGE, "The server"))
    get = program.get_command(click.Context(program), "get")
    assert get is not None
    options = [each for each in get.params if isinstance(each, click.Option) and each.name in OPTIONS]
    assert {row["option"] for row in rows} == {f"`{name}`" for option in options for name in option.opts}


def test_every_option_that_the_page_names_exists() -> None:
    reference = pages.read(pages.ROOT / "docs/command-reference.md")  # made from the program
    options = set(re.findall(r"`(--?[a-z][-a-z]*)", PAGE))
    assert [option for option in options if f"`{option}`" not in reference] == []


def test_the_exit_codes_are_documented() -> None:
    codes = {value for name, value in vars(exits).items() if name.isupper()}
    assert {int(row["code"]) for row in pages.table(pages.section(PAGE, "Output and exit codes"))} == codes
