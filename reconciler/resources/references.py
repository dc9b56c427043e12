"""Which resources a document refers to, and where it says so.

Belongs here: every field that holds the name of a resource. Does not: whether that resource exists.
"""

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
    found: list[Reference] = []
    if kind == "Configuration":
        if isinstance(spec, dict):
            for key, child in spec.items():
                if key in LISTS:
                    _add_list(child, LISTS[key], ("spec", key), found)
    elif isinstance(kind, str) and kind in KINDS:
        _add_component(spec, kind, ("spec",), found)
    return tuple(found)


def storages(document: Value) -> tuple[Reference, ...]:
    """Those references that name the extension in which a webhook keeps its queue."""
    return tuple(one for one in references(document) if one.kind == "Extension" and one.pointer[-1] == "value")


def _add_component(value: Value, kind: str, pointer: Pointer, found: list[Reference]) -> None:
    """What a component refers to: its resource or its type, and what stands below it."""
    if not isinstance(value, dict):
        return
    for key, child in value.items():
        if key == "type" and isinstance(child, str):
            found.append(Reference(f"{kind}Type", unversioned(child), (*pointer, key)))
        elif key == "name" and isinstance(child, str):
            found.append(Reference(kind, unversioned(child), (*pointer, key)))
        elif key == "parameters" and isinstance(child, list) and _is_webhook(kind, value.get("type")):
            _add_storages(child, (*pointer, key), found)
        elif key in NESTED:
            _add_list(child, NESTED[key], (*pointer, key), found)


def _add_list(value: Value, kind: str, pointer: Pointer, found: list[Reference]) -> None:
    for index, each in enumerate(value if isinstance(value, list) else ()):
        _add_component(each, kind, (*pointer, index), found)


def _is_webhook(kind: str, named: Value) -> bool:
    return kind == LISTS["destinations"] and isinstance(named, str) and unversioned(named) == WEBHOOK.name


def _add_storages(parameters: list[Value], at: Pointer, found: list[Reference]) -> None:
    """An empty name is none: the default, which is built in, stands in for it."""
    for index, parameter in enumerate(parameters):
        if isinstance(parameter, dict) and parameter.get("name") == _STORAGE:
            name = parameter.get("value")
            if isinstance(name, str) and name:
                found.append(Reference("Extension", unversioned(name), (*at, index, "value")))
