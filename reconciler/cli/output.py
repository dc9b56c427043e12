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
    """The reader of the output closed the pipe, as `head` does."""


def prepare() -> None:
    """Write escapes instead of failing on a terminal without Unicode."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def finish() -> None:
    """Write the rest of the buffered output. Raises ClosedPipe."""
    _put(sys.stdout, "")


def give_up() -> None:
    """Replace standard output by /dev/null: Python flushes it once more at exit, which must not fail."""
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
    """Write a text that is already escaped, such as a rendering of a plan, to standard output."""
    _put(sys.stdout, text)


def note(text: str) -> None:
    """Write one line to standard error: counts and remarks for people."""
    _put(sys.stderr, visible(text) + "\n")


def notes(text: str) -> None:
    """Write lines to standard error."""
    _put(sys.stderr, visible_lines(text) + "\n")


def error(message: str) -> None:
    """Write an error to standard error and go on. To end the command, raise an exception instead."""
    note(f"error: {error_sentence(message)}")


def trace(problem: Exception) -> None:
    """Write the stack trace of an unexpected exception to standard error."""
    import traceback  # noqa: PLC0415 - only with SERVICE_DEBUG

    notes(visible_block("".join(traceback.format_exception(problem)).rstrip("\n")))


def _put(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        raise ClosedPipe from None


def error_sentence(message: str) -> str:
    """Return a message as it follows `error: `: without a capital and a full stop."""
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
    """Return a duration as the end of a sentence; the empty text if it is unknown."""
    return f" after {seconds:.2f} s" if isinstance(seconds, int | float) else ""


def is_coloured(choice: str | None) -> bool:
    """Return True if output is coloured: by choice, or on a terminal without NO_COLOR."""
    if choice in (None, "auto"):
        return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return choice == "always"


def as_json(value: Value) -> str:
    """Return indented JSON of exactly this value. Invisible characters are written as JSON's escapes."""
    return visible_json(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)) + "\n"


def as_yaml(values: Iterable[Value]) -> str:
    """Return a YAML document for each value. Raises Refused for a text that YAML cannot hold."""
    from reconciler.model import yaml_documents  # noqa: PLC0415 - PyYAML is for `-o yaml` alone

    try:
        return yaml_documents.to_yaml(values)
    except UnicodeEncodeError:
        raise Refused(
            "a text in the answer is no Unicode (half of a pair), which YAML cannot hold; use -o json"
        ) from None


# Confirmations, and secret texts: from a file, from standard input, or typed without echo. Never from an argument: each
# process of the machine can read it.

file_type = click.Path(path_type=Path, allow_dash=True)  # `-` is standard input


class FileLimit(NamedTuple):
    """A limit on the bytes of a file, and its words in an error."""

    bytes: int
    sentence: str


END_OF_LINE = len("\r\n")  # bytes, of a file with one line
PASSWORD = FileLimit(1_024 + END_OF_LINE, "the 1,024 bytes that a password may have")


def hidden_text(
    file: Path | None, question: str, *, otherwise: str, limit: FileLimit = PASSWORD, twice: bool = False
) -> str:
    """Return the text of a file (`-` is standard input) without its last end of line, or ask for it on the terminal
    without echo. `twice` asks again, to find typing mistakes.

    `otherwise` is the error if standard input is no terminal. Raises Refused, OSError, click.Abort.
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
    """Ask for a yes on standard error. Raises Refused with `otherwise` if standard input is no terminal, and
    click.Abort for any other answer.
    """
    if not sys.stdin.isatty():
        raise Refused(otherwise)
    click.confirm(visible(question), abort=True, err=True)
