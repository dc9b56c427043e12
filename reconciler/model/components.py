"""The components, parameters and references that a document contains.

The components are the resource itself, those written in place, and the processors of each. The search for secrets
covers the whole spec, also fields that no schema describes: otherwise a secret in such a field would leave the service.
Nesting is bounded by the readers.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from reconciler.model import secret_references
from reconciler.model.component_types import ComponentType
from reconciler.model.names import Key
from reconciler.model.values import Pointer, Value, pointer_text
from reconciler.model.violations import Violation

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
        """The key of its type."""
        return Key(f"{self.kind}Type", self.type)

    @property
    def at(self) -> Pointer:
        """The pointer of its parameters, even if it has none."""
        return (*self.pointer, "parameters")


def find_components(kind: str, spec: Value) -> tuple[Component, ...]:
    """Return the components of a document of this kind, outer ones before those nested in them."""
    found = []
    for part_kind, pointer, value in _parts(kind, spec):
        named = type_name_of(value)
        if named is not None:
            found.append(Component(part_kind, named, pointer, given_parameters(value)))
    return tuple(found)


def _parts(kind: Value, spec: Value) -> Iterator[tuple[str, Pointer, dict[str, Value]]]:
    """Yield each component of a document with its kind and pointer, outer ones before those nested in them."""
    if kind == "Configuration":
        yield from _listed_parts(spec, LISTS, ("spec",))
    elif isinstance(kind, str) and kind in KINDS and isinstance(spec, dict):
        yield kind, ("spec",), spec
        yield from _listed_parts(spec, NESTED, ("spec",))


def _listed_parts(
    value: Value, lists: dict[str, str], pointer: Pointer
) -> Iterator[tuple[str, Pointer, dict[str, Value]]]:
    for key, child in value.items() if isinstance(value, dict) else ():
        if key in lists and isinstance(child, list):
            for index, each in enumerate(child):
                if isinstance(each, dict):
                    yield lists[key], (*pointer, key, index), each
                    yield from _listed_parts(each, NESTED, (*pointer, key, index))


def component_types_of(
    found: Iterable[Component], lookup: Callable[[Key], ComponentType | None]
) -> dict[Pointer, ComponentType | None]:
    """Return the types for the search for secrets (`find_parameters`), by pointers from the spec down."""
    return {each.at[1:]: lookup(each.type_key) for each in found}


def type_name_of(spec: Value) -> str | None:
    """Return the name of the type in the spec of a component, without a version; None when it has none."""
    named = spec.get("type") if isinstance(spec, dict) else None
    return unversioned(named) if isinstance(named, str) else None


def unversioned(text: str) -> str:
    """Return the name in a reference, without a version as in `nginx:5`."""
    return text.partition(":")[0]


def given_parameters(component: Value) -> list[Value]:
    """Return the parameters of a component."""
    given = component.get("parameters") if isinstance(component, dict) else None
    return given if isinstance(given, list) else []


def parameter_name(parameter: Value) -> str | None:
    """Return the name of a parameter; None when it has none."""
    name = parameter.get("name") if isinstance(parameter, dict) else None
    return name if isinstance(name, str) else None


WEBHOOK = Key("DestinationType", "webhook")
STORAGE_TYPE = "file_storage"  # the type of an Extension in which a webhook keeps its queue
_STORAGE = "persistent_queue_storage"  # the parameter of a webhook that names the extension with its queue


class Reference(NamedTuple):
    """One mention of a resource, in the form in which it is looked up: without a version."""

    kind: str
    name: str
    pointer: Pointer  # of the name, from the document's root

    @property
    def key(self) -> Key:
        """The key of the target, in the project of the document."""
        return Key(self.kind, self.name)


def references(document: Value) -> tuple[Reference, ...]:
    """Return every reference of a document, in the order of its components. A resource may occur several times."""
    found: list[Reference] = []
    body = document if isinstance(document, dict) else {}
    for kind, pointer, value in _parts(body.get("kind"), body.get("spec")):
        for key, target in (("type", f"{kind}Type"), ("name", kind)):
            named = value.get(key)
            if isinstance(named, str):
                found.append(Reference(target, unversioned(named), (*pointer, key)))
        if kind == LISTS["destinations"] and type_name_of(value) == WEBHOOK.name:
            found += _storages(given_parameters(value), (*pointer, "parameters"))
    return tuple(found)


def storages(document: Value) -> tuple[Reference, ...]:
    """Return the references to Extensions in which webhooks keep their queues."""
    return tuple(one for one in references(document) if one.kind == "Extension" and one.pointer[-1] == "value")


def _storages(parameters: list[Value], at: Pointer) -> Iterator[Reference]:
    """Yield the references to Extensions for queues. An empty name means the built-in default, so it is none."""
    for index, parameter in enumerate(parameters):
        if isinstance(parameter, dict) and parameter.get("name") == _STORAGE:
            name = parameter.get("value")
            if isinstance(name, str) and name:
                yield Reference("Extension", unversioned(name), (*at, index, "value"))


MASK = "(sensitive)"
"""The text in place of a secret."""

_ALWAYS_SENSITIVE = "headers"  # the parameter of a webhook with its credentials

Types = Mapping[Pointer, ComponentType | None]
"""The type that a list of parameters belongs to, by the pointer of the list from the spec down; None if unknown."""

UNTYPED: Types = MappingProxyType({})


class ParameterMention(NamedTuple):
    """A text of a value that holds `${`, which may begin a reference to a secret; pointers from the spec down."""

    parameter: Pointer
    name: str  # of the parameter; '' when it has none
    pointer: Pointer  # of the text
    text: str
    sensitive: bool


@dataclass(frozen=True, slots=True)
class FoundParameters:
    """The results of a search, each with its pointer from the spec down, in document order."""

    lists: list[tuple[Pointer, list[Value]]] = field(
        default_factory=list, repr=False
    )  # the lists under keys `parameters`
    secrets: list[tuple[Pointer, Value]] = field(default_factory=list, repr=False)  # of a map, each of its values
    masks: list[Pointer] = field(default_factory=list)  # where a value is `(sensitive)`, sensitive or not
    mentions: list[ParameterMention] = field(
        default_factory=list, repr=False
    )  # in secrets, and in values of parameters


def find_parameters(spec: Value, types: Types = UNTYPED) -> FoundParameters:
    """Find the parameters of a spec and their secrets. In a list that `types` names, a value is a secret if its
    definition or the value itself is marked sensitive, or if it has no definition. A value that is one whole reference,
    `${env:NAME}`, is not the secret, so it is left out.
    """
    found = FoundParameters()
    _visit(spec, pointer=(), found=found, types=types)
    return found


def repeated_parameters(listed: list[Value], *, at: Pointer) -> list[Violation]:
    """Return the names in a list of parameters, or of their definitions; `at` is the list's pointer."""
    names = [parameter_name(each) for each in listed]
    if len(set(names)) == len(names):
        return []  # as nearly always
    first: dict[str, int] = {}
    found = []
    for index, name in enumerate(names):
        if name is not None and first.setdefault(name, index) != index:
            earlier = pointer_text((*at, first[name]))
            message = f"is the name of {earlier} already; keep one of them"
            found.append(Violation((*at, index, "name"), message))
    return found


def _visit(value: Value, *, pointer: Pointer, found: FoundParameters, types: Types) -> None:
    if isinstance(value, dict):
        sensitive = False
        if "value" in value:
            given = value["value"]
            sensitive = _is_sensitive(value, pointer, types)
            if sensitive or given == MASK or isinstance(given, (dict, list)):  # a call for every value would be slow
                _collect(given, (*pointer, "value"), found, sensitive=sensitive)
            if isinstance(given, (dict, list)) or (isinstance(given, str) and "${" in given):
                found.mentions.extend(_mentions(value, pointer, sensitive=sensitive))
        for key, child in value.items():
            if isinstance(child, (dict, list)) and not (sensitive and key == "value"):
                _visit(child, pointer=(*pointer, key), found=found, types=types)
    elif isinstance(value, list):
        if pointer and pointer[-1] == "parameters":
            found.lists.append((pointer, value))
        for index, child in enumerate(value):
            if isinstance(child, (dict, list)):
                _visit(child, pointer=(*pointer, index), found=found, types=types)


def _is_sensitive(value: dict[str, Value], pointer: Pointer, types: Types) -> bool:
    if value.get("sensitive") not in (None, False):
        return True  # any other value, unchecked by a schema: better hidden than shown
    name = value.get("name")
    if types and pointer[:-1] in types:
        type_ = types[pointer[:-1]]
        return type_ is None or not isinstance(name, str) or name not in type_.open
    return name == _ALWAYS_SENSITIVE and pointer[-2:-1] == ("parameters",)


def _collect(value: Value, pointer: Pointer, found: FoundParameters, *, sensitive: bool) -> None:
    leaves = (
        [((*pointer, key), child) for key, child in value.items()] if isinstance(value, dict) else [(pointer, value)]
    )
    found.masks.extend(_literals(value, pointer))
    if sensitive:
        found.secrets.extend((where, leaf) for where, leaf in leaves if not secret_references.is_secret_reference(leaf))


def _literals(value: Value, pointer: Pointer) -> Iterator[Pointer]:
    """Yield the pointers of `(sensitive)`, at any depth."""
    if value == MASK:
        yield pointer
    elif isinstance(value, dict):
        for key, child in value.items():
            yield from _literals(child, (*pointer, key))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _literals(child, (*pointer, index))


def _mentions(parameter: dict[str, Value], pointer: Pointer, *, sensitive: bool) -> Iterator[ParameterMention]:
    """Yield the texts of a value that contain `${`: in a secret at any depth, otherwise only at its top and in its
    entries.
    """
    if sensitive or pointer[-2:-1] == ("parameters",):
        name = parameter.get("name")
        for where, text in _texts(parameter["value"], (*pointer, "value"), depth=None if sensitive else 1):
            yield ParameterMention(pointer, name if isinstance(name, str) else "", where, text, sensitive)


def _texts(value: Value, pointer: Pointer, *, depth: int | None) -> Iterator[tuple[Pointer, str]]:
    """Yield the texts in a value that contain `${`, down to `depth`; None: at any depth."""
    if isinstance(value, str):
        if "${" in value:
            yield pointer, value
    elif depth != 0 and isinstance(value, (dict, list)):
        children = value.items() if isinstance(value, dict) else enumerate(value)
        for step, child in children:
            yield from _texts(child, (*pointer, step), depth=None if depth is None else depth - 1)
