"""Parts made from definitions: the table of keys in docs/settings.md, and all of docs/command-reference.md.

Tests compare; `scripts/references` writes them anew.

Belongs here: from click's definitions to Markdown. Does not: the rows of settings (`tests.settings.reference`), and
what people write by hand in docs/settings.md and docs/command-line.md.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import click

from reconciler.cli.main import ENTRIES, program
from reconciler.cli.options import OPTIONS
from tests.docs import catalogue, pages
from tests.settings import reference

SETTINGS = pages.ROOT / "docs" / "settings.md"
COMMANDS = pages.ROOT / "docs" / "command-reference.md"

_KEYS = re.compile(r"(?<=\n\| key \| meaning \| allowed \| default \|\n\|---\|---\|---\|---\|\n)(?:\|.*\n)+")
_SHARED = "The options of every command that talks to a server"
_HEAD = f"""\
# Command reference

Every command with its arguments and options; `reconciler COMMAND --help` prints the same. `scripts/references` writes
this page from the program. [The command line](command-line.md) has examples and exit codes.

Each command takes `-h` and `--help`. Commands marked *server* also take these options.

## {_SHARED}

"""


def settings(page: str) -> str:
    """docs/settings.md with its table of keys as the classes have it."""
    assert len(_KEYS.findall(page)) == 1
    return _KEYS.sub(lambda _: "".join(f"{row}\n" for row in reference.rows()), page)


def commands() -> str:
    """The whole of docs/command-reference.md."""
    get = program.get_command(click.Context(program), "get")
    assert get is not None
    shared = [option for option in _options(get) if option.name in OPTIONS]
    return _HEAD + _list(shared) + "".join(_section(name) for name in ENTRIES)


def _section(name: str) -> str:
    command = program.get_command(click.Context(program), name)
    assert command is not None
    parts = [f"\n## {name}\n"]
    for path, one in _with_subcommands(f"reconciler {name}", command):
        if path.count(" ") > 1:
            parts.append(f"\n### {path.removeprefix('reconciler ')}\n")
        parts.append(f"\n{_usage(path, one)}\n\n{_help(one)}\n")
        own = [option for option in _options(one) if option.name not in OPTIONS]
        if own:
            parts.append(f"\n{_list(own)}")
    return "".join(parts)


def _with_subcommands(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            found = command.get_command(click.Context(command), name)
            assert found is not None
            yield from _with_subcommands(f"{path} {name}", found)


def _usage(path: str, command: click.Command) -> str:
    """How it is called, and whether it talks to a server."""
    words = [each for each in command.collect_usage_pieces(click.Context(command)) if each != "[OPTIONS]"]
    takes_server = any(option.name == "server" for option in _options(command))
    return f"`{' '.join([path, *words])}`{' *server*' if takes_server else ''}"


def _help(command: click.Command) -> str:
    """Return what it says of itself, a paragraph on each line."""
    text = (command.help or "").replace("\b", "")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text) if paragraph.strip())


def _options(command: click.Command) -> list[click.Option]:
    return [
        each for each in command.params if isinstance(each, click.Option) and not each.hidden and each.name != "version"
    ]


def _list(options: list[click.Option]) -> str:
    return "".join(f"- {_names(option)}: {_meaning(option)}\n" for option in options)


def _names(option: click.Option) -> str:
    """The names, with the value of one that takes a value."""
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    if option.is_flag:
        return names
    value = "word" if isinstance(option.type, click.Choice) else option.make_metavar(click.Context(program)).lower()
    return f"{names} *{value}*"


def _meaning(option: click.Option) -> str:
    told = " ".join((option.help or "").split())
    words = ["" if told == "How to show them." else told]
    if isinstance(option.type, click.Choice):
        words.append("One of " + ", ".join(f"`{choice}`" for choice in option.type.choices) + ".")
    if option.multiple and "more than once" not in words[0]:
        words.append("May be repeated.")
    if option.required:
        words.append("Required.")
    if isinstance(option.default, str | int | float) and not option.is_flag and option.show_default:
        words.append(f"Default: `{option.default}`.")
    if isinstance(option.envvar, str):
        words.append(f"Also `{option.envvar}`.")
    return " ".join(filter(None, words))


def current() -> dict[Path, str]:
    """Each page with a generated part, as it should be."""
    return {SETTINGS: settings(pages.read(SETTINGS)), COMMANDS: commands(), catalogue.PAGE: catalogue.page()}


def main() -> None:
    """Write the generated parts anew."""
    for path, text in current().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
