"""Tables, and answers of the service as plain values."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple
from unicodedata import category, east_asian_width

from reconciler.cli import output
from reconciler.cli.output import BAD, BUSY, GOOD, RESET
from reconciler.model.errors import Refused
from reconciler.model.text import visible
from reconciler.model.values import Value

# Aligned tables: as wide as their content, nothing cut off, the same on a terminal and in a pipe.
#
# A column that says nothing is left out.

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
    **dict.fromkeys(("waiting", "closed", "held", "orphaned", "unused"), BUSY),
    "down": BAD,
    **dict.fromkeys(("unrelated-root", "unsigned", "unsupported-format", "mirror-corrupt", "prune-held"), BAD),
}
STATES = frozenset({"STATE", "STATUS", "OUTCOME"})  # the columns whose words get a colour


class Column(NamedTuple):
    """One column. One that is not `kept` goes when nothing stands in it, and one that `tells_apart` when the same
    stands in every row. One that is `wide` is for `-o wide` alone, one that is `narrow` for all but that.
    """

    header: str
    cell: Callable[[Value], str]
    kept: bool = False
    tells_apart: bool = False
    wide: bool = False
    narrow: bool = False


def table_of(columns: Sequence[Column], values: Sequence[Value], *, wide: bool, colour: bool) -> str:
    """The values as a table of the columns that have something to say."""
    offered = [column for column in columns if not (column.narrow if wide else column.wide)]
    cells = [[column.cell(value) for value in values] for column in offered]
    shown = [(column, cell) for column, cell in zip(offered, cells, strict=True) if _says(column, cell, wide=wide)]
    rows = list(zip(*(cell for _, cell in shown), strict=True))
    return render_table([column.header for column, _ in shown], rows, colour=colour)


def _says(column: Column, cells: Sequence[str], *, wide: bool) -> bool:
    if column.tells_apart and not wide:
        return len(set(cells)) > 1
    return column.kept or any(cells)


def render_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, colour: bool) -> str:
    """The table as text; the last column has no padding, and an empty cell shows `-`."""
    cells = [[visible(cell) or "-" for cell in row] for row in rows]
    widths = [max(width(row[index]) for row in [list(header), *cells]) for index in range(len(header))]
    styled = [index for index, name in enumerate(header) if colour and name in STATES]
    lines = [_line(header, widths, ())] + [_line(row, widths, styled) for row in cells]
    return "".join(line + "\n" for line in lines)


def shown(key: str, values: Sequence[Value], *, form: str, columns: Sequence[Column], colour: bool) -> str:
    """A list in the form that `wide_form_option` chose, as `listed` has the others."""
    if form in ("table", "wide"):
        return table_of(columns, values, wide=form == "wide", colour=colour) if values else ""
    return listed(key, values, form=form, header=(), rows=(), colour=colour)


def listed(
    key: str,
    values: Sequence[Value],
    *,
    form: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    colour: bool,
) -> str:
    """A list in the form that was asked for: a table, which is nothing for an empty list, YAML documents, or
    JSON with the list under `key`.
    """
    if form == "json":
        return output.as_json({key: list(values)})
    if form == "yaml":
        return output.as_yaml(values)
    return render_table(header, rows, colour=colour) if rows else ""


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


# Looking into an answer: the JSON of the service as plain values, whatever is or is not in it.


def answer_objects(value: Value) -> list[dict[str, Value]]:
    """The objects of a list; whatever else an answer holds there is left out."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def answer_strings(value: Value) -> list[str]:
    """The strings of a list."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def answer_at(value: Value, *path: str) -> Value:
    """What is inside nested objects; None where there is nothing."""
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def answer_text(value: Value, *path: str) -> str:
    """What is inside nested objects, as text; nothing is the empty text."""
    found = answer_at(value, *path)
    if found is None or isinstance(found, dict | list):
        return ""
    return str(found).lower() if isinstance(found, bool) else str(found)


def answer_number(value: Value, *path: str) -> int:
    """A whole number inside nested objects; 0 where there is none."""
    found = answer_at(value, *path)
    return found if isinstance(found, int) else 0


def answer_lines(value: Value, *path: str) -> list[str]:
    """The lines of a text inside nested objects. LF alone ends one, whatever else Python takes for an end."""
    found = answer_text(value, *path)
    return found.split("\n") if found else []


def answer_identity(resource: Value) -> str:
    """`Kind/name`, as every command prints it."""
    return f"{answer_text(resource, 'kind') or '?'}/{answer_text(resource, 'metadata', 'name') or '?'}"


def place(value: Value) -> str:
    """`path:line` of what has a path and a line; empty when it has none."""
    path, line = answer_text(value, "path"), answer_text(value, "line")
    return f"{path}:{line}" if path and line else path


# Ids as tables and log lines show them: the end of one, in which those of one minute differ; and which one is meant.

LENGTH = 8  # characters: of 10,000 ids, two end alike once in twenty thousand times


def short_id(identifier: str) -> str:
    """The end of an id."""
    return identifier[-LENGTH:]


def whole_id(typed: str, known: Callable[[], Iterable[str]]) -> str:
    """The id that somebody means who typed one, or its end; what fits no id stays as it is.

    `known` is asked for the ids that there are where an end was typed. Raises Refused where it is that of several.
    """
    if len(typed) != LENGTH:
        return typed
    found = sorted({identifier for identifier in known() if identifier.endswith(typed)})
    if len(found) > 1:
        raise Refused(f"{' and '.join(found)} end so; give the whole id")
    return found[0] if found else typed
