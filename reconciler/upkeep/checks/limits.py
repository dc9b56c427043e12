"""How many files the service may open: those of its process while it runs, else of who looks."""

import re
from pathlib import Path
from typing import NamedTuple

from reconciler.upkeep.findings import DoctorFinding, error, ok, warning

NAME = "open files"
WANTED = 8192  # less is little for many destinations; the service takes up to 65,536
LEAST = 1024
TODO = "set LimitNOFILE=65536 in the unit, or `ulimit -Hn 65536` where it is started"
_LINE = re.compile(r"^Max open files\s+(\d+|unlimited)\s+(\d+|unlimited)\s", re.MULTILINE)


class LimitFacts(NamedTuple):
    """The process, None for the one that looks, and how many files it may open at most; None: without limit."""

    process: int | None
    most: int | None


def gather_limits(process: int | None) -> LimitFacts:
    """Look. Raises OSError."""
    text = Path(f"/proc/{'self' if process is None else process}/limits").read_text(encoding="ascii")
    return LimitFacts(process, parse_limits(text))


def parse_limits(text: str) -> int | None:
    """The hard limit in a text of /proc/PID/limits, up to which a service helps itself."""
    found = _LINE.search(text)
    return None if found is None or found[2] == "unlimited" else int(found[2])


def judge_limits(facts: LimitFacts) -> list[DoctorFinding]:
    """Whether that is enough."""
    whose = "a service started from here" if facts.process is None else f"the service (process {facts.process})"
    if facts.most is None or facts.most >= WANTED:
        return [ok(NAME, f"{whose} may open {'any number' if facts.most is None else f'{facts.most:,}'}")]
    told = f"{whose} may open {facts.most:,}, and queues, connections and repositories take some each"
    return [error(NAME, told, TODO) if facts.most < LEAST else warning(NAME, told, TODO)]
