"""Statements and migrations in `.sql` files, and the connection by which the store runs them.

The parts that all engines share run statements by name. Each engine has a file with the same names in its own dialect,
and its own numbered migrations.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib import resources
from typing import Any, NamedTuple, Protocol, TypeAlias

Row: TypeAlias = tuple[Any, ...]
"""A row is a tuple of values; the caller knows the columns."""


class Rows(Protocol):
    """The rows of a statement, read one at a time."""

    def __iter__(self) -> Iterator[Row]: ...

    def __next__(self) -> Row: ...

    def close(self) -> object:
        """Read no more of them."""


class Connection(Protocol):
    """A connection that runs statements by name. An argument that is a list becomes a JSON array.

    Its methods raise errors of the engine, which `faults` turns into a `StoreFault`.
    """

    def run(self, name: str, *arguments: object) -> int:
        """Run a statement that writes; return the number of rows that it wrote."""

    def each(self, name: str, rows: Iterable[Sequence[object]]) -> None:
        """Run a statement once for each of these rows of arguments, in their order."""

    def all(self, name: str, *arguments: object) -> list[Row]:
        """Run a statement and return its rows."""

    def first(self, name: str, *arguments: object) -> Row | None:
        """Run a statement and return its first row; None when there is none."""

    def value(self, name: str, *arguments: object) -> Any:
        """Run a statement that always has a row, and return its first column. Raises `StoreFault` when it has none."""

    def stream(self, name: str, *arguments: object) -> Rows:
        """Run a statement whose rows may be large together. The caller closes them."""

    def reading(self) -> AbstractContextManager[None]:
        """Read one revision until the context ends."""

    def writing(self, deadline: float = math.inf) -> AbstractContextManager[None]:
        """Write in one transaction, which an exception rolls back. No other change of the store is written at the same
        time. At `deadline`, an instant of `time.monotonic`, statements end with a `StoreFault`.
        """

    def interrupt(self) -> None:
        """End the statement that another thread runs, with an error."""

    def faults(self, done: str) -> AbstractContextManager[None]:
        """Turn errors of the engine into a `StoreFault` that says what could not be done."""

    def storable(self, text: str) -> str:
        """Return a text as the engine stores it."""

    def close(self) -> None:
        """End the connection."""


def load(*packages: str) -> Mapping[str, str]:
    """Return every named statement of these packages. All names differ.

    A statement follows a line `-- name: <name>` and ends at its semicolon.
    """
    found = [resources.files(package) / "queries.sql" for package in packages]
    text = "\n".join(file.read_text(encoding="utf-8") for file in found)
    return dict(re.findall(r"^-- name: (\w+)\n(.*?);$", text, flags=re.MULTILINE | re.DOTALL))


class Migration(NamedTuple):
    """One migration; its number is the store's version after it."""

    number: int
    sql: str


def migrations(package: str) -> tuple[Migration, ...]:
    """Return the migrations of a package, in order."""
    folder = resources.files(package) / "migrations"
    found = (
        Migration(number=int(match[1]), sql=entry.read_text(encoding="utf-8"))
        for entry in folder.iterdir()
        if (match := re.fullmatch(r"([0-9]{4})_\w+\.sql", entry.name))
    )
    return tuple(sorted(found, key=lambda migration: migration.number))
