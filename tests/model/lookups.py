"""Types to look up: those that are built in, and those that a test brings."""

from collections.abc import Callable, Mapping
from functools import cache

from reconciler.model import builtins, component_types, components
from reconciler.model.component_types import ComponentType
from reconciler.model.names import Key
from reconciler.model.values import Value


@cache
def look_up(key: Key) -> ComponentType | None:
    """The built-in type of this name, or None."""
    document = builtins.built_in().get(key)
    return (
        None
        if document is None
        else component_types.compiled(key.name, component_types.read_definitions(document["spec"]))
    )


def lookup(types: Mapping[Key, Value]) -> Callable[[Key], ComponentType | None]:
    """Types by what their documents say under `spec`, and those that are built in."""
    own = {
        key: component_types.compiled(key.name, component_types.read_definitions(spec)) for key, spec in types.items()
    }
    return lambda key: own.get(key) or look_up(key)


def type_of(key: Key) -> str | None:
    """The type of the built-in Extension of this name, or None."""
    document = builtins.built_in().get(key)
    return None if document is None else components.type_name_of(document["spec"])
