"""Which resources a document refers to, and where it says so.

Belongs here: every field that holds the name of a resource. Does not: whether that resource exists.
"""

from collections.abc import Iterator
from typing import NamedTuple

from reconciler.documents.values import Pointer, Value
from reconciler.resources.components import KINDS, LISTS, NESTED, unversioned
from reconciler.resources.keys import Key

WEBHOOK = Key("DestinationType", "webhook")
STORAGE_TYPE = "file_storage"  # of the extension that a webhook keeps its queue in
_STORAGE = "persistent_queue_storage"  # the parameter of a webhook that names the extension with its queue


class Reference(NamedTuple):
    """One mention of a resource, in the form in which it is looked up: without a version."""

    kind: str
    name: str
    pointer: Pointer  # of the name, from the document's root

    @property
    def key(self) -> Key:
        """What it refers to, in the project of the document."""
        return Key(self.kind, self.name)


def references(document: Value) -> tuple[Reference, ...]:
    """Every reference of a document, in document order; the same resource may come several times."""
    if not isinstance(document, dict):
        return ()
    kind, spec = document.get("kind"), document.get("spec")
    if kind == "Configuration":
        return tuple(_below(spec, lists=LISTS, pointer=("spec",)))
    if isinstance(kind, str) and kind in KINDS:
        return tuple(_component(spec, kind=kind, pointer=("spec",)))
    return ()


def storages(document: Value) -> tuple[Reference, ...]:
    """Those references that name the extension in which a webhook keeps its queue."""
    return tuple(one for one in references(document) if one.kind == "Extension" and one.pointer[-1] == "value")


def _component(value: Value, *, kind: str, pointer: Pointer) -> Iterator[Reference]:
    """What a component refers to: its resource or its type, and what stands below it."""
    if not isinstance(value, dict):
        return
    for key, child in value.items():
        at = (*pointer, key)
        if key == "type" and isinstance(child, str):
            yield Reference(f"{kind}Type", unversioned(child), at)
        elif key == "name" and isinstance(child, str):
            yield Reference(kind, unversioned(child), at)
        elif key == "parameters" and isinstance(child, list) and _is_webhook(kind, value.get("type")):
            yield from _storages(child, at)
        elif key in NESTED:
            yield from _list(child, kind=NESTED[key], pointer=at)


def _below(value: Value, *, lists: dict[str, str], pointer: Pointer) -> Iterator[Reference]:
    for key, child in value.items() if isinstance(value, dict) else ():
        if key in lists:
            yield from _list(child, kind=lists[key], pointer=(*pointer, key))


def _list(value: Value, *, kind: str, pointer: Pointer) -> Iterator[Reference]:
    for index, each in enumerate(value if isinstance(value, list) else ()):
        yield from _component(each, kind=kind, pointer=(*pointer, index))


def _is_webhook(kind: str, named: Value) -> bool:
    return isinstance(named, str) and (f"{kind}Type", unversioned(named)) == WEBHOOK


def _storages(parameters: list[Value], at: Pointer) -> Iterator[Reference]:
    """An empty name is none: the default, which is built in, stands in for it."""
    for index, parameter in enumerate(parameters):
        if isinstance(parameter, dict) and parameter.get("name") == _STORAGE:
            name = parameter.get("value")
            if isinstance(name, str) and name:
                yield Reference("Extension", unversioned(name), (*at, index, "value"))
