"""Where settings come from: options before the environment before the file before what is computed.

A layer is plain values and a way to say where one of them stands. Merging is pydantic-settings' own; here is only who
said what, so that a mistake can be shown at its place.
"""

import re
from collections.abc import Mapping, Set
from typing import Protocol

from reconciler.model.positions import Locations
from reconciler.model.text import visible
from reconciler.model.values import Pointer, Value
from reconciler.settings import environment

CAPITAL = re.compile(r"(?<=[a-z])([A-Z])")  # where a word begins in a key: `stateDir` is `--state-dir`


class Layer(Protocol):
    """One source of settings."""

    @property
    def values(self) -> dict[str, Value]:
        """What it sets, nested as in the file."""

    def place(self, pointer: Pointer, *, at_key: bool) -> tuple[int, int, str]:
        """A line and column to sort by (0 outside the file), and the place in words."""


class Computed:
    """Defaults that depend on the user and on other settings."""

    def __init__(self, values: dict[str, Value]) -> None:
        self.values = values

    def place(self, pointer: Pointer, *, at_key: bool) -> tuple[int, int, str]:  # noqa: ARG002
        """Nobody wrote it: the key alone says where."""
        return 0, 0, dotted_key(pointer)


class Environment(Computed):
    """What the environment variables set."""

    def place(self, pointer: Pointer, *, at_key: bool) -> tuple[int, int, str]:  # noqa: ARG002
        """The variable's name."""
        return 0, 0, environment.variable_of(pointer)


class Options(Computed):
    """What the command line sets."""

    def place(self, pointer: Pointer, *, at_key: bool) -> tuple[int, int, str]:  # noqa: ARG002
        """The option, spelled like the key."""
        words = CAPITAL.sub(r"-\1", dotted_key(pointer)).replace(".", "-")
        return 0, 0, f"--{words.lower()}"


class File(Computed):
    """What the file sets."""

    def __init__(self, values: dict[str, Value], *, path: str, index: int, locations: Locations) -> None:
        super().__init__(values)
        self._path, self._index, self._locations = path, index, locations

    def without(self, keys: Set[str]) -> "File":
        """The same file, some keys overlooked."""
        values = {key: value for key, value in self.values.items() if key not in keys}
        return File(values, path=self._path, index=self._index, locations=self._locations)

    def place(self, pointer: Pointer, *, at_key: bool) -> tuple[int, int, str]:
        """`path:line:column: key`."""
        at = self._locations.of(self._index, pointer, at_key=at_key)
        return at.line, at.column, f"{self._path}:{at.line}:{at.column}: {dotted_key(pointer)}".removesuffix(": ")


def option_layer(overrides: Mapping[str, object]) -> Options:
    """The layer of the command line: keys are dotted as in the reference (`log.level`), None is an option not given."""
    values: dict[str, Value] = {}
    for name, value in overrides.items():
        if value is not None:
            environment.put_variable(values, tuple(name.split(".")), _plain(value))
    return Options(values)


def _plain(value: object) -> Value:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return str(value)  # a Path, say


def find_value(layers: tuple[Layer, ...], pointer: Pointer) -> tuple[Layer, Value] | None:
    """The first layer that sets the key at `pointer`, and the value there."""
    for layer in layers:
        found = _at(layer.values, pointer)
        if len(found) - 1 == len(pointer):
            return layer, found[-1]
    return None


def nearest_layer(layers: tuple[Layer, ...], pointer: Pointer) -> Layer:
    """The layer that sets the most of `pointer`; of equal ones the first."""
    return max(layers, key=lambda layer: len(_at(layer.values, pointer)))


def _at(value: Value, pointer: Pointer) -> list[Value]:
    """The values along `pointer`, as far as it exists."""
    found = [value]
    for part in pointer:
        inner = _inner(found[-1], part)
        if inner is None:
            break
        found.append(inner[0])
    return found


def _inner(value: Value, part: str | int) -> tuple[Value] | None:
    """One step down, in a tuple since what is there may be null."""
    if isinstance(value, dict):
        return (value[part],) if isinstance(part, str) and part in value else None
    if isinstance(value, list):
        return (value[part],) if isinstance(part, int) and part < len(value) else None
    return None


def dotted_key(pointer: Pointer) -> str:
    """`repositories[0].interval`; what does not show as itself is escaped."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in pointer).removeprefix(".")
    return visible(text)
