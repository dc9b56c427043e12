"""Lists and single answers in the form that `-o` chose, and the aligned tables among these forms.

A table is as wide as its content, the same on a terminal and in a pipe: nothing is wrapped or cut, so that programs can
read it. Rich knows how many columns a terminal gives a character; its own tables are not used, since they take a
millisecond for each row.
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

    An `optional` one is left out when it is empty in every row, one that `tells_apart` when it is the same in all rows.
    A `wide` one is for `-o wide` alone.
    """

    header: str
    cell: Cell | str
    optional: bool = False
    tells_apart: bool = False
    wide: bool = False

    def cells(self, values: Sequence[Value], *, wide: bool = False) -> list[str]:
        """Return the cell of each row; nothing when the column has nothing to say."""
        cell = self.cell
        found = [client.text(value, *cell.split(".")) if isinstance(cell, str) else cell(value) for value in values]
        if self.tells_apart and not wide:
            is_shown = len(set(found)) > 1
        else:
            is_shown = any(found) or not (self.optional or self.tells_apart)
        return found if is_shown and (wide or not self.wide) else []


def moment(path: str) -> Cell:
    """Return the cell with a moment."""
    return lambda value: output.moment_text(client.text(value, *path.split(".")))


def flag(path: str) -> Cell:
    """Return the cell that says `yes` where the answer has true."""
    return lambda value: "yes" if client.at(value, *path.split(".")) is True else ""


def joined(path: str) -> Cell:
    """Return the cell with the texts of a list."""
    return lambda value: ", ".join(client.strings(client.at(value, *path.split("."))))


def commit(path: str) -> Cell:
    """Return the cell with the beginning of a commit's id or of a hash."""
    return lambda value: client.text(value, *path.split("."))[:12]


def write_list(key: str, values: Sequence[Value], columns: Sequence[Column], *, form: str, empty: str = "") -> None:
    """Print a list: JSON has it under `key`, YAML has a document for each. `empty` is the note about an empty one."""
    if form == "json":
        output.write(output.as_json({key: list(values)}))
    elif form == "yaml":
        output.write(output.as_yaml(values))
    else:
        output.write(table(columns, values, wide=form == "wide"))
    if not values and empty:
        output.note(empty)


def write_one(value: Value, *, form: str, as_text: Callable[[], str]) -> None:
    """Print one answer: as JSON, as YAML, or as the text that a function makes of it."""
    if form == "json":
        output.write(output.as_json(value))
    elif form == "yaml":
        output.write(output.as_yaml([value]))
    else:
        output.write(as_text())


def table(columns: Sequence[Column], values: Sequence[Value], *, wide: bool = False) -> str:
    """Return a line for each value, of the columns that have something to say; nothing for no values."""
    shown = [(column.header, cells) for column in columns if (cells := column.cells(values, wide=wide))]
    rows = list(zip(*(cells for _, cells in shown), strict=True))
    return aligned([header for header, _ in shown], rows) if values else ""


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return the cells as aligned lines; the last column has no padding, and an empty cell shows `-`."""
    from rich.cells import cell_len  # noqa: PLC0415 - commands without a table do without it

    lines = [list(header), *([visible(cell) or "-" for cell in row] for row in rows)]
    sizes = [[cell_len(cell) for cell in line] for line in lines]
    widths = [max(column) for column in zip(*sizes, strict=True)]
    return "".join(
        GAP.join(cell + " " * (width - size) for cell, width, size in zip(line, widths, taken, strict=True)).rstrip()
        + "\n"
        for line, taken in zip(lines, sizes, strict=True)
    )
