"""Texts that are secret: from a file, from standard input, or typed without being shown.

Never from an argument, where every process of the machine could read them. What they are for is the commands' business.
"""

import sys
from pathlib import Path
from typing import NamedTuple

import click

from reconciler.cli import output
from reconciler.model.errors import Refused

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
    found = output.ask_hidden(question, twice=twice)
    try:
        found.encode()
    except UnicodeEncodeError:
        raise Refused("what was typed is not UTF-8 text") from None
    return found
