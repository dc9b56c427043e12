"""Layers of settings: options, then the environment, then the file, then computed values. Pure.

A layer has plain values with the place of each, so that a mistake is shown there. One fixed table maps environment
variables to settings. `loading` reads the file.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import reduce
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TypeAlias

from reconciler.model.text import visible
from reconciler.model.values import Pointer, Value

PREFIX = "SERVICE_"
CONFIG = "SERVICE_CONFIG"
API_KEY = "SERVICE_API_KEY"
# Variables of other parts of the program, which are no settings.
ELSEWHERE = (CONFIG, "SERVICE_SERVER", "SERVICE_USER", "SERVICE_PASSWORD_FILE", "SERVICE_PROJECT", "SERVICE_DEBUG")


def _boolean(text: str) -> Value:
    """Parse `true`, `false`, `1` or `0`. Any other text is kept, and refused by the type of the setting."""
    known: dict[str, Value] = {"true": True, "1": True, "false": False, "0": False}
    return known.get(text.strip().lower(), text)


def _names(text: str) -> Value:
    return [part.strip() for part in text.split(",") if part.strip()]


def _repository(text: str) -> Value:
    """Return a repository, named after the last part of its address without `.git`."""
    url = text if ":" in text or not text.strip() else str(Path(text).absolute())
    last = PurePosixPath(url.rstrip("/").removesuffix("/.git")).name.removesuffix(".git")
    return [{"name": name_like(last) or "repository", "url": url}]


def name_like(text: str) -> str:
    """Return a text in the form of a name; empty if no character is allowed."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", text)[:63].strip("-._")


class Variable(NamedTuple):
    """One environment variable: the dotted key that it sets, and a function that parses its text."""

    key: str
    value: Callable[[str], Value] = str


VARIABLES: Mapping[str, Variable] = {
    "SERVICE_LISTEN": Variable("listen"),
    "SERVICE_WEB_URL": Variable("webURL"),
    "SERVICE_INSECURE": Variable("insecure", _boolean),
    "SERVICE_STATE_DIR": Variable("stateDir"),
    "SERVICE_STORE_URL": Variable("store.url"),
    "SERVICE_STORE_WORKER_URL": Variable("store.workerUrl"),
    "SERVICE_REPLICA_NAME": Variable("replica.name"),
    "SERVICE_REPLICA_URL": Variable("replica.url"),
    "SERVICE_TLS_CERT_FILE": Variable("tls.certFile"),
    "SERVICE_TLS_KEY_FILE": Variable("tls.keyFile"),
    "SERVICE_LOG_LEVEL": Variable("log.level"),
    "SERVICE_LOG_FORMAT": Variable("log.format"),
    "SERVICE_REPOSITORY": Variable("repositories", _repository),
    "SERVICE_AUTH_TYPE": Variable("auth.type"),
    "SERVICE_OIDC_ISSUER": Variable("auth.oidc.issuer"),
    "SERVICE_OIDC_OAUTH2_CLIENT_ID": Variable("auth.oidc.oauth2ClientID"),
    "SERVICE_OIDC_OAUTH2_CLIENT_SECRET": Variable("auth.oidc.oauth2ClientSecret"),
    "SERVICE_OIDC_SCOPES": Variable("auth.oidc.scopes", _names),
    "SERVICE_OIDC_DISABLE_INVITATIONS": Variable("auth.oidc.disableInvitations", _boolean),
    API_KEY: Variable("apiKey"),
}


def variable_of(pointer: Pointer) -> str:
    """Return the variable that sets the key at `pointer` or a key above it; for a whole section, the name of the
    key.
    """
    key = ".".join(str(part) for part in pointer)
    found = (name for name, variable in VARIABLES.items() if f"{key}.".startswith(f"{variable.key}."))
    return next(found, key)


def environment_warnings(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return one line for each unknown SERVICE_* variable."""
    known = (*VARIABLES, *ELSEWHERE)
    unknown = sorted(name for name in environment if name.startswith(PREFIX) and name not in known)
    return tuple(_warning(name, known) for name in unknown)


def _warning(name: str, known: tuple[str, ...]) -> str:
    # Compared without the prefix, which would make all names similar.
    close = get_close_matches(name.removeprefix(PREFIX), [each.removeprefix(PREFIX) for each in known], n=1)
    hint = f"; did you mean {PREFIX}{close[0]}?" if close else ""
    return f"{name}: this environment variable means nothing to the service{hint}"


Place: TypeAlias = tuple[int, int, str]
"""A line and a column, for the order (0 outside the file), and the place in words."""

CAPITAL = re.compile(r"(?<=[a-z])([A-Z])")  # the beginning of a word in a key: `stateDir` is `--state-dir`


class Layer(NamedTuple):
    """One source of settings: its values, nested as in the file, and the place of the key at a pointer."""

    values: dict[str, Value]
    place: Callable[[Pointer], Place]


def computed_layer(values: Mapping[str, Value]) -> Layer:
    """Return the layer of defaults that depend on the user and on other settings. The place of such a value is its
    key.
    """
    return Layer(_nested(values), lambda pointer: (0, 0, dotted_key(pointer)))


def environment_layer(environment: Mapping[str, str]) -> Layer:
    """Return the layer of the environment. An empty variable counts as unset, except the key.

    An empty SERVICE_API_KEY is refused instead: a person who set it meant to have a key.
    """
    given = {
        variable.key: variable.value(environment[name])
        for name, variable in VARIABLES.items()
        if environment.get(name) or (name == API_KEY and name in environment)
    }
    return Layer(_nested(given), lambda pointer: (0, 0, variable_of(pointer)))


def option_layer(overrides: Mapping[str, Value]) -> Layer:
    """Return the layer of the command line. Keys are dotted as in the reference (`log.level`); None: the option is not
    given.
    """

    def place(pointer: Pointer) -> Place:
        words = CAPITAL.sub(r"-\1", dotted_key(pointer)).replace(".", "-")
        return 0, 0, f"--{words.lower()}"

    return Layer(_nested({name: value for name, value in overrides.items() if value is not None}), place)


def _nested(given: Mapping[str, Value]) -> dict[str, Value]:
    """Return the values of dotted keys, nested as in the file."""
    found: dict[str, Value] = {}
    for key, value in given.items():
        *parents, last = key.split(".")
        inner: dict[str, Value] = {last: value}
        for parent in reversed(parents):
            inner = {parent: inner}
        found = merged([inner, found])
    return found


def merged(layers: Iterable[Mapping[str, Value]]) -> dict[str, Value]:
    """Return the merged values of layers. The first layer that has a key counts, and mappings are merged."""
    return reduce(_merged_pair, layers, {})


def _merged_pair(above: Mapping[str, Value], below: Mapping[str, Value]) -> dict[str, Value]:
    found = {**below, **above}
    for key in above.keys() & below.keys():
        one, other = above[key], below[key]
        if isinstance(one, dict) and isinstance(other, dict):
            found[key] = _merged_pair(one, other)
    return found


def nearest_layer(layers: tuple[Layer, ...], pointer: Pointer) -> Layer:
    """Return the layer that sets the longest part of `pointer`; of equal ones, the first."""
    return max(layers, key=lambda layer: _depth(layer.values, pointer))


def _depth(values: Any, pointer: Pointer) -> int:
    """Count the parts of `pointer` that exist in the values."""
    for depth, part in enumerate(pointer):
        try:
            values = values[part]
        except (KeyError, IndexError, TypeError):
            return depth
    return len(pointer)


def dotted_key(pointer: Pointer) -> str:
    """Return a key as `repositories[0].interval`, with special characters escaped."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in pointer).removeprefix(".")
    return visible(text)
