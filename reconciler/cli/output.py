"""Standard output and standard error: escaping, color, secret input, sentences."""

import json
import os
import re
import sys
from collections.abc import Iterable
from enum import StrEnum
from io import TextIOWrapper
from pathlib import Path
from typing import NamedTuple, TextIO

import click

from reconciler.model import text
from reconciler.model.errors import Refused
from reconciler.model.text import visible, visible_block, visible_json, visible_lines
from reconciler.model.values import Value

# The form of what people read: an error's sentence, a number with its noun, a moment. Escaping is in `output`.

FRACTION = re.compile(r"\.[0-9]+(?=Z$)")
counted = text.counted
NAMES = frozenset({"Git"})  # words, beside the kinds, that keep their capital


def error_sentence(message: str) -> str:
    """A message as it stands after `error: `, wherever it was written: no capital, no full stop."""
    first, space, rest = message.partition(" ")
    if first.isalpha() and first.istitle() and not _is_name(first):
        first = first.lower()
    whole = first + space + rest
    return whole if whole.endswith("..") else whole.removesuffix(".")


def _is_name(word: str) -> bool:
    from reconciler.model import names  # noqa: PLC0415 - only for those who fail

    return word in NAMES or names.exact_kind(word) is not None


def moment_text(text: str) -> str:
    """An RFC 3339 moment without the parts of its second."""
    return FRACTION.sub("", text)


# What leaves the program: the one module that writes to standard output and standard error.
#
# What comes from outside is made `visible` before it becomes part of a line, since an end of line in it would forge
# one. Writing escapes once more: nothing leaves but visible text, ends of lines, and words in a colour of ours.

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
    note(f"error: {error_sentence(message)}")


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


# Texts that are secret: from a file, from standard input, or typed without being shown.
#
# Never from an argument, where every process of the machine could read them. What they are for is the commands'
# business.

file_type = click.Path(path_type=Path, allow_dash=True)  # `-` is standard input


class HiddenLimit(NamedTuple):
    """The most bytes of a file, without the end of its line, and what is said of more."""

    bytes: int
    sentence: str


PASSWORD = HiddenLimit(1_024, "the 1,024 bytes that a password may have")


def read_hidden(path: Path, limit: HiddenLimit) -> str:
    """The text of a file, without one end of line at its end; `-` is standard input. Raises Refused, OSError."""
    most = limit.bytes + len("\r\n")
    if str(path) == "-":
        data = sys.stdin.buffer.read(most + 1)
    else:
        with path.open("rb") as file:
            data = file.read(most + 1)
    where = "standard input" if str(path) == "-" else str(path)
    if len(data) > most:
        raise Refused(f"{where} holds more than {limit.sentence}")
    try:
        found = data.decode()
    except UnicodeDecodeError:
        raise Refused(f"{where} is not UTF-8 text") from None
    return found.removesuffix("\n").removesuffix("\r")


def ask_hidden_text(question: str, *, otherwise: str, twice: bool = False) -> str:
    """What somebody types; `otherwise` is said when nobody is there. Raises Refused, click.Abort."""
    if not sys.stdin.isatty():
        raise Refused(otherwise)
    found = ask_hidden(question, twice=twice)
    try:
        found.encode()
    except UnicodeEncodeError:
        raise Refused("what was typed is not UTF-8 text") from None
    return found
