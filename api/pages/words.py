"""Words of the console: instants, sizes and states as people read them."""

import difflib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from reconciler.model.text import counted, visible, visible_lines

UNITS = ((86_400 * 365, "y"), (86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def age(instant: str | None, now: datetime) -> str:
    """Return how long ago an RFC 3339 instant is, in one unit: `3 min ago`, `in 2 h`, `now`; empty for none."""
    if not instant:
        return ""
    seconds = (now - datetime.fromisoformat(instant)).total_seconds()
    told = duration(abs(seconds))
    if told == "0 s":
        return "now"
    return f"{told} ago" if seconds > 0 else f"in {told}"


def duration(seconds: float) -> str:
    """Return a time in its largest unit, `90 s` as `1 min`."""
    for length, unit in UNITS:
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return "0 s"


def number(value: float) -> str:
    """Return a count with spaces between thousands."""
    return f"{value:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def size(count: float) -> str:
    """Return a size in bytes: `1.5 MiB`."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


GOOD = ("ready", "live", "all is live", "succeeded", "delivers", "rendered", "sending", "created")
BAD = (
    *("failed", "refused", "invalid", "forbidden", "error", "conflict", "critical", "damaged", "incomplete"),
    *("down", "unreachable", "unauthorized", "not-rendered", "branch-missing", "path-missing", "mirror-corrupt"),
    *("unsigned", "unrelated-root", "unsupported-format", "does not deliver", "dead letters", "missing"),
)
WARN = (
    *(
        "partly live",
        "needs attention",
        "starting",
        "partial",
        "held",
        "prune-held",
        "deletions blocked",
        "suspended",
        "waiting",
    ),
    *("stale", "behind", "drifted", "warning", "queued", "running", "orphaned", "in-use", "deprecated"),
    *("never-read", "empty"),
)
TONES = {**dict.fromkeys(GOOD, "good"), **dict.fromkeys(BAD, "bad"), **dict.fromkeys(WARN, "warn")}


def tone(state: str) -> str:
    """Return the colour of a state: `good`, `bad`, `warn`, or `calm` for all others."""
    return TONES.get(state, "calm")


def value(found: object) -> str:
    """Return a value of a field as text: a text as it is, other values as JSON, and the beginning of a value that was
    cut.
    """
    if isinstance(found, dict) and found.keys() == {"begins", "bytes"}:
        return visible(f"{found['begins']}... ({found['bytes']} bytes)")
    return visible(found if isinstance(found, str) else json.dumps(found, ensure_ascii=False))


CONTEXT = 3  # unchanged lines around a change


def line_changes(old: str, new: str) -> list[tuple[str, str]]:
    """Return the lines in which two texts differ, with some lines around them, as pairs: `added`, `removed`, `same` or
    `gap`, and the line.
    """
    marks = {"+": "added", "-": "removed", " ": "same"}
    found = list(difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=CONTEXT))[2:]
    return [("gap", "") if line.startswith("@@") else (marks[line[0]], line[1:]) for line in found][1:]


MOST_LINES = 600  # of a difference that a page shows


def difference(old: str, new: str) -> dict[str, Any]:
    """Return the first `lines` in which two texts differ, the `counts` of all by kind, and True in `more` if lines are
    left out.
    """
    lines = line_changes(old, new)
    return {"lines": lines[:MOST_LINES], "counts": Counter(kind for kind, _ in lines), "more": len(lines) > MOST_LINES}


FILTERS: Mapping[str, Callable[..., Any]] = {
    "age": age,
    "duration": duration,
    "number": number,
    "size": size,
    "tone": tone,
    "value": value,
    "counted": counted,
    "lines": visible_lines,
    "shown": visible,  # a name, without characters that change how others are read
}
"""The functions above by their names in templates."""
