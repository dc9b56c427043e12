"""Aligned tables: as wide as their content, nothing cut off, the same on a terminal and in a pipe.

Belongs here, too: a list in whichever form was asked for.
"""

from collections.abc import Sequence
from unicodedata import category, east_asian_width

from reconciler.cli import output
from reconciler.cli.output import BAD, BUSY, GOOD, RESET
from reconciler.documents.values import Value
from reconciler.escaping import visible

GAP = "   "
NO_WIDTH = frozenset({"Mn", "Me", "Cf"})  # marks above, below and around; joiners
COLOURS = {
    **dict.fromkeys(("ready", "created", "configured", "deleted", "succeeded"), GOOD),
    **dict.fromkeys(
        ("queued", "running", "partial", "incomplete", "not-ready", "deprecated", "suspended", "never-read", "drifted"),
        BUSY,
    ),
    **dict.fromkeys(("invalid", "error", "in-use", "forbidden", "not-found", "refused", "failed"), BAD),
    **dict.fromkeys(("unreachable", "unauthorized", "branch-missing", "path-missing", "empty"), BAD),
    **dict.fromkeys(("idle", "sending"), GOOD),
    **dict.fromkeys(("waiting", "closed", "orphaned", "unused"), BUSY),
    "down": BAD,
    **dict.fromkeys(("unrelated-root", "unsigned", "unsupported-format", "mirror-corrupt", "prune-held"), BAD),
}
STATES = frozenset({"STATE", "STATUS", "OUTCOME"})  # the columns whose words get a colour


def render(header: Sequence[str], rows: Sequence[Sequence[str]], *, colour: bool) -> str:
    """The table as text; the last column has no padding, and an empty cell shows `-`."""
    cells = [[visible(cell) or "-" for cell in row] for row in rows]
    widths = [max(width(row[index]) for row in [list(header), *cells]) for index in range(len(header))]
    styled = [index for index, name in enumerate(header) if colour and name in STATES]
    lines = [_line(header, widths, ())] + [_line(row, widths, styled) for row in cells]
    return "".join(line + "\n" for line in lines)


def listed(
    key: str,
    values: Sequence[Value],
    *,
    form: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    colour: bool,
) -> str:
    """A list in the form that `form_option` chose: a table, which is nothing for an empty list, YAML documents, or JSON
    with the list under `key`.
    """
    if form == "json":
        return output.as_json({key: list(values)})
    if form == "yaml":
        return output.as_yaml(values)
    return render(header, rows, colour=colour) if rows else ""


def _line(row: Sequence[str], widths: Sequence[int], styled: Sequence[int]) -> str:
    padding = [size - width(cell) for cell, size in zip(row, widths, strict=True)]
    shown = [word(cell) if index in styled else cell for index, cell in enumerate(row)]
    return GAP.join(cell + " " * space for cell, space in zip(shown, padding, strict=True)).rstrip()


def word(text: str) -> str:
    """A state or a status in its colour; any other text made visible."""
    colour = COLOURS.get(text)
    return f"{colour}{text}{RESET}" if colour else visible(text)


def width(text: str) -> int:
    """How many columns a terminal gives the text."""
    return sum(0 if category(c) in NO_WIDTH else 2 if east_asian_width(c) in "WF" else 1 for c in text)
