"""Types to look up: those that are built in, and those that a test brings."""

from collections.abc import Callable, Mapping
from functools import cache

from reconciler.documents.values import Value
from reconciler.resources import builtins, component_types, components, definitions
from reconciler.resources.component_types import ComponentType
from reconciler.resources.keys import Key


@cache
def look_up(key: Key) -> ComponentType | None:
    """The built-in type of this name, or None."""
    document = builtins.built_in().get(key)
    return None if document is None else component_types.compiled(key.name, definitions.read(document["spec"]))


def lookup(types: Mapping[Key, Value]) -> Callable[[Key], ComponentType | None]:
    """Types by what their documents say under `spec`, and those that are built in."""
    own = {key: component_types.compiled(key.name, definitions.read(spec)) for key, spec in types.items()}
    return lambda key: own.get(key) or look_up(key)


def type_of(key: Key) -> str | None:
    """The type of the built-in Extension of this name, or None."""
    document = builtins.built_in().get(key)
    return None if document is None else components.type_of(document["spec"])
