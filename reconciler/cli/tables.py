"""Lists and single answers as JSON, YAML or aligned tables, as `-o` chooses.

A table is as wide as its content, on a terminal and in a pipe. Nothing is wrapped or cut, so that programs can read it.
Rich knows how many columns a character takes on a terminal. Its own tables are too slow: a millisecond for each row.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from reconciler.cli import client, output
from reconciler.model.text import visible
from reconciler.model.values import Value

GAP = "   "

Cell = Callable[[Value], str]


class Column(NamedTuple):
    """A column. `cell` is a function, or the dotted path of a text in the answer.

    An `optional` column is omitted if it is empty in every row, one that `tells_apart` if all rows are equal. A `wide`
    column is for `-o wide` only.
    """

    header: str
    cell: Cell | str
    optional: bool = False
    tells_apart: bool = False
    wide: bool = False

    def cells(self, values: Sequence[Value], *, wide: bool = False) -> list[str]:
        """Return the cell of each row; an empty list if the column is omitted."""
        cell = self.cell
        found = [client.text(value, *cell.split(".")) if isinstance(cell, str) else cell(value) for value in values]
        if self.tells_apart and not wide:
            is_shown = len(set(found)) > 1
        else:
            is_shown = any(found) or not (self.optional or self.tells_apart)
        return found if is_shown and (wide or not self.wide) else []


def moment(path: str) -> Cell:
    """Return a cell function for a moment."""
    return lambda value: output.moment_text(client.text(value, *path.split(".")))


def flag(path: str) -> Cell:
    """Return a cell function that gives `yes` for true."""
    return lambda value: "yes" if client.at(value, *path.split(".")) is True else ""


def joined(path: str) -> Cell:
    """Return a cell function for a list of texts."""
    return lambda value: ", ".join(client.strings(client.at(value, *path.split("."))))


def commit(path: str) -> Cell:
    """Return a cell function for the first digits of a commit or a hash."""
    return lambda value: client.text(value, *path.split("."))[:12]


def write_list(key: str, values: Sequence[Value], columns: Sequence[Column], *, form: str, empty: str = "") -> None:
    """Print a list: in JSON under `key`, in YAML as a document for each. `empty` is the note if there is nothing."""
    if form == "json":
        output.write(output.as_json({key: list(values)}))
    elif form == "yaml":
        output.write(output.as_yaml(values))
    else:
        output.write(table(columns, values, wide=form == "wide"))
    if not values and empty:
        output.note(empty)


def write_one(value: Value, *, form: str, as_text: Callable[[], str]) -> None:
    """Print one answer as JSON, as YAML, or as the text that `as_text` returns."""
    if form == "json":
        output.write(output.as_json(value))
    elif form == "yaml":
        output.write(output.as_yaml([value]))
    else:
        output.write(as_text())


def table(columns: Sequence[Column], values: Sequence[Value], *, wide: bool = False) -> str:
    """Return a table with a row for each value; the empty text without values."""
    shown = [(column.header, cells) for column in columns if (cells := column.cells(values, wide=wide))]
    rows = list(zip(*(cells for _, cells in shown), strict=True))
    return aligned([header for header, _ in shown], rows) if values else ""


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return the cells as aligned lines. An empty cell shows `-`."""
    from rich.cells import cell_len  # noqa: PLC0415 - commands without a table do without it

    lines = [list(header), *([visible(cell) or "-" for cell in row] for row in rows)]
    sizes = [[cell_len(cell) for cell in line] for line in lines]
    widths = [max(column) for column in zip(*sizes, strict=True)]
    return "".join(
        GAP.join(cell + " " * (width - size) for cell, width, size in zip(line, widths, taken, strict=True)).rstrip()
        + "\n"
        for line, taken in zip(lines, sizes, strict=True)
    )
