"""Standard output and standard error: escaping, sentences, and secret texts from a file or a terminal.

No other module writes to the two streams. Text from outside is made `visible` before it becomes part of a line, since
an end of line in it would forge one. Writing escapes once more: only visible text and ends of lines leave the program.
"""

import json
import os
import re
import sys
from collections.abc import Iterable
from io import TextIOWrapper
from pathlib import Path
from typing import NamedTuple, TextIO

import click

from reconciler.model import text
from reconciler.model.errors import Refused
from reconciler.model.text import visible, visible_block, visible_json, visible_lines
from reconciler.model.values import Value

FRACTION = re.compile(r"\.[0-9]+(?=Z$)")
KEPT_CAPITALS = frozenset({"Git"})  # words, beside the kinds, that keep their capital
COLORS = ("auto", "always", "never")
counted = text.counted


class ClosedPipe(Exception):
    """The reader of the output has gone, as `head` does."""


def prepare() -> None:
    """Have a terminal without Unicode get escapes, not a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def finish() -> None:
    """Write the rest of the buffered output. Raises ClosedPipe."""
    _put(sys.stdout, "")


def give_up() -> None:
    """Write no more. Python flushes standard output once more at its end; it must find something that takes it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def write(text: str) -> None:
    """Write lines to standard output."""
    _put(sys.stdout, visible_lines(text))


def as_lines(texts: Iterable[str]) -> str:
    """Return each text as one visible line."""
    return "".join(visible(text) + "\n" for text in texts)


def lines(texts: Iterable[str]) -> None:
    """Write each text as one line to standard output."""
    write(as_lines(texts))


def line(text: str) -> None:
    """Write one line to standard output."""
    lines([text])


def rendered(text: str) -> None:
    """Write to standard output a text that its maker has made safe: a rendering of a plan."""
    _put(sys.stdout, text)


def note(text: str) -> None:
    """Write one line to standard error: counts and remarks that no program reads."""
    _put(sys.stderr, visible(text) + "\n")


def notes(text: str) -> None:
    """Write lines to standard error."""
    _put(sys.stderr, visible_lines(text) + "\n")


def error(message: str) -> None:
    """Write an error to standard error; raise an error that ends the command instead."""
    note(f"error: {error_sentence(message)}")


def trace(problem: Exception) -> None:
    """Write the stack of a fault of the program to standard error."""
    import traceback  # noqa: PLC0415 - only with SERVICE_DEBUG

    notes(visible_block("".join(traceback.format_exception(problem)).rstrip("\n")))


def _put(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        raise ClosedPipe from None


def error_sentence(message: str) -> str:
    """Return a message in its form after `error: `: no capital, no full stop."""
    from reconciler.model import names  # noqa: PLC0415 - only for a command that fails

    first, space, rest = message.partition(" ")
    if first.isalpha() and first.istitle() and first not in KEPT_CAPITALS and names.exact_kind(first) is None:
        first = first.lower()
    whole = first + space + rest
    return whole if whole.endswith("..") else whole.removesuffix(".")


def moment_text(text: str) -> str:
    """Return an RFC 3339 moment without the fraction of its second."""
    return FRACTION.sub("", text)


def took(seconds: Value) -> str:
    """Return the time that something took, as the end of a sentence; nothing while it is unknown."""
    return f" after {seconds:.2f} s" if isinstance(seconds, int | float) else ""


def is_coloured(choice: str | None) -> bool:
    """Decide about colour: on a terminal without NO_COLOR, unless the choice says otherwise."""
    if choice in (None, "auto"):
        return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return choice == "always"


def as_json(value: Value) -> str:
    """Return JSON to read: exactly the value, with JSON's escapes for characters that do not show as themselves."""
    return visible_json(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)) + "\n"


def as_yaml(values: Iterable[Value]) -> str:
    """Return YAML documents, one after another: exactly the values. Raises Refused for a text that YAML cannot hold."""
    from reconciler.model import yaml_documents  # noqa: PLC0415 - PyYAML is for `-o yaml` alone

    try:
        return yaml_documents.to_yaml(values)
    except UnicodeEncodeError:
        raise Refused(
            "a text in the answer is no Unicode (half of a pair), which YAML cannot hold; use -o json"
        ) from None


# Answers of a person, and secret texts: from a file, from standard input, or typed without being shown. Never from an
# argument, where every process of the machine could read them.

file_type = click.Path(path_type=Path, allow_dash=True)  # `-` is standard input


class FileLimit(NamedTuple):
    """The most bytes of a file, and the words for this limit in an error."""

    bytes: int
    sentence: str


END_OF_LINE = len("\r\n")  # bytes, of a file with one line
PASSWORD = FileLimit(1_024 + END_OF_LINE, "the 1,024 bytes that a password may have")


def hidden_text(
    file: Path | None, question: str, *, otherwise: str, limit: FileLimit = PASSWORD, twice: bool = False
) -> str:
    """Return the text of a file without one end of line at its end (`-` is standard input), or ask for it on standard
    error, where it is not shown while it is typed; `twice` for one that nobody may mistype.

    `otherwise` is the error where standard input is no terminal. Raises Refused, OSError, click.Abort.
    """
    if file is None:
        if not sys.stdin.isatty():
            raise Refused(otherwise)
        confirmation = "Once more" if twice else False
        found: str = click.prompt(visible(question), hide_input=True, err=True, confirmation_prompt=confirmation)
        try:
            found.encode()
        except UnicodeEncodeError:
            raise Refused("what was typed is not UTF-8 text") from None
        return found
    try:
        return read_whole(file, limit).decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise Refused(f"{shown_path(file)} is not UTF-8 text") from None


def shown_path(path: Path) -> str:
    """Return the name of a file for a person."""
    return "standard input" if str(path) == "-" else str(path)


def read_whole(path: Path, limit: FileLimit) -> bytes:
    """Return the bytes of a file; `-` is standard input. Raises Refused, OSError."""
    data = read_bytes(path, limit.bytes + 1)
    if len(data) > limit.bytes:
        raise Refused(f"{shown_path(path)} holds more than {limit.sentence}")
    return data


def read_bytes(path: Path, most: int) -> bytes:
    """Return at most so many bytes of a file; `-` is standard input. Raises OSError."""
    if str(path) == "-":
        return sys.stdin.buffer.read(most)
    with path.open("rb") as file:
        return file.read(most)


def confirm(question: str, *, otherwise: str) -> None:
    """Ask on standard error for a yes. `otherwise` is the error where standard input is no terminal.

    Raises Refused, click.Abort for any other answer.
    """
    if not sys.stdin.isatty():
        raise Refused(otherwise)
    click.confirm(visible(question), abort=True, err=True)
