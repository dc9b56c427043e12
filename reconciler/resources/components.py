"""Which components a document holds: the resource itself, those written in place, and the processors of each.

Belongs here: where they stand. Does not: what they refer to (`references`), whether they fit their types
(`conforming`).
"""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from reconciler.documents.values import Pointer, Value
from reconciler.resources.component_types import ComponentType
from reconciler.resources.keys import Key

LISTS = {
    "sources": "Source",
    "processors": "Processor",
    "connectors": "Connector",
    "destinations": "Destination",
    "extensions": "Extension",
}
"""The kind of the components under each key of a Configuration."""

KINDS = frozenset(LISTS.values())
"""The kinds whose resources are components."""

TYPES = frozenset(f"{kind}Type" for kind in KINDS)
"""The kinds that define parameters."""

NESTED = {"processors": LISTS["processors"]}
"""The kind of the components under each key of another component."""


class Component(NamedTuple):
    """A component that has a type of its own, rather than the name of a resource."""

    kind: str  # Destination
    type: str  # webhook, without a version
    pointer: Pointer  # from the document's root
    parameters: list[Value]

    @property
    def type_key(self) -> Key:
        """Its type."""
        return _type_key(self.kind, self.type)

    @property
    def at(self) -> Pointer:
        """Where its parameters stand, or would."""
        return (*self.pointer, "parameters")


@lru_cache(maxsize=1024)
def _type_key(kind: str, name: str) -> Key:
    """One object for all that are of this type."""
    return Key(f"{kind}Type", name)


def find(kind: str, spec: Value) -> tuple[Component, ...]:
    """The components of a document of this kind, outer ones before those nested in them."""
    if kind in KINDS:
        return tuple(_component(spec, kind=kind, pointer=("spec",)))
    return tuple(_below(spec, lists=LISTS, pointer=("spec",))) if kind == "Configuration" else ()


def types(
    found: Iterable[Component], lookup: Callable[[Key], ComponentType | None]
) -> dict[Pointer, ComponentType | None]:
    """What the search for secrets (`parameters.find`) asks for; its pointers begin below the spec."""
    return {each.at[1:]: lookup(each.type_key) for each in found}


def type_of(spec: Value) -> str | None:
    """The name of the type in the spec of a component, without a version; None when it has none."""
    named = spec.get("type") if isinstance(spec, dict) else None
    return unversioned(named) if isinstance(named, str) else None


def unversioned(text: str) -> str:
    """The name in a reference that may end in a version, `nginx:5`."""
    return text.partition(":")[0]


def _component(value: Value, *, kind: str, pointer: Pointer) -> Iterator[Component]:
    if not isinstance(value, dict):
        return
    named, given = value.get("type"), value.get("parameters")
    if isinstance(named, str):
        yield Component(kind, unversioned(named), pointer, given if isinstance(given, list) else [])
    if not value.keys().isdisjoint(NESTED):
        yield from _below(value, lists=NESTED, pointer=pointer)


def _below(value: Value, *, lists: dict[str, str], pointer: Pointer) -> Iterator[Component]:
    for key, child in value.items() if isinstance(value, dict) else ():
        if key in lists and isinstance(child, list):
            for index, each in enumerate(child):
                yield from _component(each, kind=lists[key], pointer=(*pointer, key, index))
