"""Layers of settings: options, then the environment, then the file, then computed values. Pure.

A layer is plain values, and the source of each, so that a mistake is shown at its place. One fixed table maps
environment variables to settings. pydantic-settings merges the layers; `loading` reads the file.
"""

import re
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path, PurePosixPath
from typing import Protocol, TypeAlias

from reconciler.model.positions import Locations
from reconciler.model.text import visible
from reconciler.model.values import Pointer, Value

KeyPath: TypeAlias = tuple[str, ...]

PREFIX = "SERVICE_"
CONFIG = "SERVICE_CONFIG"
API_KEY = "SERVICE_API_KEY"
# Variables that other parts of the program read; they are no settings.
ELSEWHERE = (CONFIG, "SERVICE_SERVER", "SERVICE_USER", "SERVICE_PASSWORD_FILE", "SERVICE_PROJECT", "SERVICE_DEBUG")


def _text(text: str) -> Value:
    return text


def _boolean(text: str) -> Value:
    """`true`, `false`, `1` or `0`; anything else stays text, which the setting's own type refuses."""
    known: dict[str, Value] = {"true": True, "1": True, "false": False, "0": False}
    return known.get(text.strip().lower(), text)


def _names(text: str) -> Value:
    return [part.strip() for part in text.split(",") if part.strip()]


def _repository(text: str) -> Value:
    """One repository, named after the last part of its address."""
    url = text if ":" in text or not text.strip() else str(Path(text).absolute())
    return [{"name": repository_name(url), "url": url}]


def repository_name(url: str) -> str:
    """A name for a repository from its address: the last part of the path, less `.git`."""
    last = PurePosixPath(url.rstrip("/").removesuffix("/.git")).name.removesuffix(".git")
    return re.sub(r"[^A-Za-z0-9._-]", "-", last)[:63].strip("-._") or "repository"


@dataclass(frozen=True, slots=True)
class Variable:
    """One environment variable: the key it sets, and how its text becomes that key's value."""

    key: KeyPath
    value: Callable[[str], Value] = _text

    @property
    def dotted(self) -> str:
        """The key as a person writes it."""
        return ".".join(self.key)


VARIABLES: Mapping[str, Variable] = {
    "SERVICE_LISTEN": Variable(("listen",)),
    "SERVICE_WEB_URL": Variable(("webURL",)),
    "SERVICE_INSECURE": Variable(("insecure",), _boolean),
    "SERVICE_STATE_DIR": Variable(("stateDir",)),
    "SERVICE_STORE_URL": Variable(("store", "url")),
    "SERVICE_TLS_CERT_FILE": Variable(("tls", "certFile")),
    "SERVICE_TLS_KEY_FILE": Variable(("tls", "keyFile")),
    "SERVICE_LOG_LEVEL": Variable(("log", "level")),
    "SERVICE_LOG_FORMAT": Variable(("log", "format")),
    "SERVICE_REPOSITORY": Variable(("repositories",), _repository),
    "SERVICE_AUTH_TYPE": Variable(("auth", "type")),
    "SERVICE_OIDC_ISSUER": Variable(("auth", "oidc", "issuer")),
    "SERVICE_OIDC_OAUTH2_CLIENT_ID": Variable(("auth", "oidc", "oauth2ClientID")),
    "SERVICE_OIDC_OAUTH2_CLIENT_SECRET": Variable(("auth", "oidc", "oauth2ClientSecret")),
    "SERVICE_OIDC_SCOPES": Variable(("auth", "oidc", "scopes"), _names),
    "SERVICE_OIDC_DISABLE_INVITATIONS": Variable(("auth", "oidc", "disableInvitations"), _boolean),
    API_KEY: Variable(("apiKey",)),
}


def environment_values(environment: Mapping[str, str]) -> dict[str, Value]:
    """Return the settings of the environment, shaped like the file. An empty variable counts as unset, except the key.

    An empty SERVICE_API_KEY is refused instead: a person who set it meant to have a key.
    """
    found: dict[str, Value] = {}
    for name, variable in VARIABLES.items():
        text = environment.get(name)
        if text is not None and (text or name == API_KEY):
            put_variable(found, variable.key, variable.value(text))
    return found


def put_variable(target: dict[str, Value], path: KeyPath, value: Value) -> None:
    """Set a nested key, making the mappings on the way."""
    *parents, last = path
    for parent in parents:
        inner = target.setdefault(parent, {})
        if not isinstance(inner, dict):  # a table of our own never does this
            raise TypeError(parent)
        target = inner
    target[last] = value


def variable_of(path: tuple[str | int, ...]) -> str:
    """The variable that sets the key at `path`, or what the key is in; of a whole section, its name."""
    names = (name for name, variable in VARIABLES.items() if path[: len(variable.key)] == variable.key)
    return next(names, ".".join(str(part) for part in path))


def environment_warnings(environment: Mapping[str, str]) -> tuple[str, ...]:
    """One line for each SERVICE_* name that means nothing here."""
    known = (*VARIABLES, *ELSEWHERE)
    unknown = sorted(name for name in environment if name.startswith(PREFIX) and name not in known)
    return tuple(_warning(name, known) for name in unknown)


def _warning(name: str, known: tuple[str, ...]) -> str:
    # Without the prefix, which would make every name look alike.
    close = get_close_matches(name.removeprefix(PREFIX), [each.removeprefix(PREFIX) for each in known], n=1)
    hint = f"; did you mean {PREFIX}{close[0]}?" if close else ""
    return f"{name}: this environment variable means nothing to the service{hint}"


CAPITAL = re.compile(r"(?<=[a-z])([A-Z])")  # where a word begins in a key: `stateDir` is `--state-dir`


class Layer(Protocol):
    """One source of settings."""

    @property
    def values(self) -> dict[str, Value]:
        """The settings of this layer, nested as in the file."""

    def place(self, pointer: Pointer, *, at_key: bool) -> tuple[int, int, str]:
        """A line and column to sort by (0 outside the file), and the place in words."""


class Computed:
    """Defaults that depend on the user and on other settings."""

    def __init__(self, values: dict[str, Value]) -> None:
        self.values = values

    def place(self, pointer: Pointer, *, at_key: bool) -> tuple[int, int, str]:  # noqa: ARG002
        """It is computed: the key is its only place."""
        return 0, 0, dotted_key(pointer)


class Environment(Computed):
    """Return the settings of the environment variables."""

    def place(self, pointer: Pointer, *, at_key: bool) -> tuple[int, int, str]:  # noqa: ARG002
        """The variable's name."""
        return 0, 0, variable_of(pointer)


class Options(Computed):
    """Return the settings of the command line."""

    def place(self, pointer: Pointer, *, at_key: bool) -> tuple[int, int, str]:  # noqa: ARG002
        """The option, spelled like the key."""
        words = CAPITAL.sub(r"-\1", dotted_key(pointer)).replace(".", "-")
        return 0, 0, f"--{words.lower()}"


class File(Computed):
    """Return the settings of the file."""

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
            put_variable(values, tuple(name.split(".")), _plain(value))
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
