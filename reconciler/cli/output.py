"""What leaves the program: text made safe for a terminal, JSON, YAML, and colour when it is wanted.

Everything that came from outside passes through `printable` (or a format that escapes as much), because a name or a
message may hold escape sequences. Tables are in `tables`.
"""

import json
import os
import re
import sys
from collections.abc import Iterable
from enum import StrEnum

from reconciler.cli import words
from reconciler.documents.values import Value

UNUSUAL = re.compile(r"[^\n\x20-\x7e]")  # what needs a second look; most text has none of it


class ClosedPipe(Exception):
    """Whoever read the output has gone, as `head` does; there is nothing left to say."""


class Color(StrEnum):
    """When to colour words on a terminal."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


def printable(text: str) -> str:
    """The text on one line, with every character that a terminal might act on escaped."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _escaped(character) for character in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def write(text: str) -> None:
    """Write to standard output."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise ClosedPipe from None


def line(text: str) -> None:
    """Write one line to standard output, made safe."""
    write(printable(text) + "\n")


def note(text: str) -> None:
    """Write one line to standard error, made safe: counts and remarks that no program reads."""
    try:
        sys.stderr.write(printable(text) + "\n")
    except BrokenPipeError:
        raise ClosedPipe from None


def error(message: str) -> None:
    """Write what went wrong to standard error; for what ends a command, raise it instead."""
    note(f"error: {words.error(message)}")


def coloured(choice: Color) -> bool:
    """Whether standard output gets colour: on a terminal, not with NO_COLOR, unless someone says otherwise."""
    if choice is Color.AUTO:
        return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return choice is Color.ALWAYS


def as_json(value: Value) -> str:
    """JSON to read; characters that a terminal might act on are escaped, all others are themselves."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    # The only such characters outside strings are our own line ends.
    return UNUSUAL.sub(lambda found: found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1], text) + "\n"


def as_yaml(values: Iterable[Value]) -> str:
    """YAML documents, one after another."""
    from reconciler.documents import yaml_writer  # noqa: PLC0415 - PyYAML is for those who ask for YAML

    return yaml_writer.write(values)
