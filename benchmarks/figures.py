"""One figure beside its floor or limit, and how it is printed."""

import os
import platform
import sys
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured figure. `beside` is the floor, peer or limit from the same run, in words with its number.

    `missed` says that it is less than it must be; whether it is over a limit is told by `ratio`.
    """

    what: str
    ours: str
    beside: str
    ratio: str
    missed: bool = False


def machine() -> str:
    """The machine and the time of the measurement."""
    processor = platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123 - a kernel file, not a path of ours
            processor = next((line.split(":", 1)[1].strip() for line in lines if "model name" in line), processor)
    except OSError:
        pass
    today = datetime.now(UTC).date().isoformat()
    return f"{today}, {processor}, {os.cpu_count()} cores, Python {platform.python_version()}, {sys.platform}"


def over(figures: list[Figure]) -> list[str]:
    """Return the figures over their limit, or less than they must be. A floor or a peer is no limit."""
    return [one.what for one in figures if one.missed or (one.beside.startswith("limit ") and float(one.ratio) > 1)]


HEADING = "| work | ours | beside | ratio |\n|---|---|---|---|"


def table(figures: list[Figure]) -> str:
    """A Markdown table."""
    return "\n".join([HEADING, *map(row, figures)])


def row(one: Figure) -> str:
    """A row of the table."""
    return f"| {one.what} | {one.ours} | {one.beside} | {one.ratio} |"
