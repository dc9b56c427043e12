"""What leaves the program: the one module that writes to standard output and standard error.

Belongs here: writing, escaping what is written (`reconciler/model/text.py`), JSON, YAML, colour when it is wanted. Does
not: tables (`tables`), sentences (`words`).

What comes from outside is made `visible` before it becomes part of a line, since an end of line in it would forge one.
Writing escapes once more: nothing leaves but visible text, ends of lines, and words in a colour of ours.
"""

import json
import os
import re
import sys
from collections.abc import Iterable
from enum import StrEnum
from io import TextIOWrapper
from typing import TextIO

import click

from reconciler.cli import words
from reconciler.model.errors import Refused
from reconciler.model.text import visible, visible_block, visible_json, visible_lines
from reconciler.model.values import Value

RESET = "\x1b[0m"
GOOD, BUSY, BAD = "\x1b[32m", "\x1b[33m", "\x1b[31m"
COLOURED = re.compile(r"(\x1b\[3[123]m[a-z-]+\x1b\[0m)")  # a word as `tables.word` makes it


class ClosedPipe(Exception):
    """Whoever read the output has gone, as `head` does; there is nothing left to say."""


class Color(StrEnum):
    """When to colour words on a terminal."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


def prepare() -> None:
    """Have a terminal without Unicode get escapes, not a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def finish() -> None:
    """Write what is still to be written. Raises ClosedPipe."""
    _put(sys.stdout, "")


def give_up() -> None:
    """Write no more. Python flushes standard output once more at its end; it must find something that takes it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def write(text: str) -> None:
    """Write lines to standard output."""
    # Split at a group, words in colour are every second part.
    parts = COLOURED.split(text)
    parts[::2] = [visible_lines(part) for part in parts[::2]]
    _put(sys.stdout, "".join(parts))


def line(text: str) -> None:
    """Write one line to standard output."""
    write(visible(text) + "\n")


def rendered(text: str) -> None:
    """Write to standard output what was made safe where it was made: the skins of a plan."""
    _put(sys.stdout, text)


def note(text: str) -> None:
    """Write one line to standard error: counts and remarks that no program reads."""
    _put(sys.stderr, visible(text) + "\n")


def notes(text: str) -> None:
    """Write lines to standard error."""
    _put(sys.stderr, visible_lines(text) + "\n")


def error(message: str) -> None:
    """Write what went wrong to standard error; for what ends a command, raise it instead."""
    note(f"error: {words.error_sentence(message)}")


def trace(problem: Exception) -> None:
    """Write where a fault of the program happened to standard error, for whoever mends it."""
    import traceback  # noqa: PLC0415 - only for those who ask

    notes(visible_block("".join(traceback.format_exception(problem)).rstrip("\n")))


def confirm(question: str) -> None:
    """Ask on standard error. Raises click.Abort for anything but yes."""
    click.confirm(visible(question), abort=True, err=True)


def ask_hidden(question: str, *, twice: bool = False) -> str:
    """Ask on standard error for a text that is not shown while it is typed, and again for one that nobody may mistype.

    Raises click.Abort.
    """
    answer: str = click.prompt(
        visible(question), hide_input=True, err=True, confirmation_prompt="Once more" if twice else False
    )
    return answer


def coloured(choice: Color) -> bool:
    """Whether standard output gets colour: on a terminal, not with NO_COLOR, unless someone says otherwise."""
    if choice is Color.AUTO:
        return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return choice is Color.ALWAYS


def as_json(value: Value) -> str:
    """JSON to read: exactly the value, with JSON's escapes for what does not show as itself."""
    return visible_json(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)) + "\n"


def as_yaml(values: Iterable[Value]) -> str:
    """YAML documents, one after another: exactly the values. Raises Refused for what YAML cannot hold."""
    from reconciler.model import yaml_documents  # noqa: PLC0415 - PyYAML is for those who ask for YAML

    try:
        return yaml_documents.to_yaml(values)
    except UnicodeEncodeError:
        raise Refused(
            "a text in the answer is no Unicode (half of a pair), which YAML cannot hold; use -o json"
        ) from None


def _put(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        raise ClosedPipe from None
