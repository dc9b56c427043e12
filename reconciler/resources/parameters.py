"""Where parameters stand in a spec, and which of their values are secrets.

Belongs here: finding them, whatever the kind. Does not: what a parameter may be (`conforming`), nor masking
(`preparing`).

The search covers the whole spec, fields that no schema describes included: a secret must not leave the service because
it stood where nobody looked. Nesting is bounded by the readers.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from reconciler.documents.values import Pointer, Value, pointer_text
from reconciler.resources import secret_references
from reconciler.resources.component_types import ComponentType
from reconciler.resources.violations import Violation

MASK = "(sensitive)"
"""What the service shows in place of a secret."""

_ALWAYS_SENSITIVE = "headers"  # of a webhook; they carry its credentials

_HEADERS = b'"%b"' % _ALWAYS_SENSITIVE.encode()
_MASK = MASK.encode()
_LIST = "parameters"  # the key of every list of them
_LIST_KEY = b'"%b"' % _LIST.encode()

Types = Mapping[Pointer, ComponentType | None]
"""The type that a list of parameters belongs to, by the pointer of the list from the spec down; None if unknown."""

UNTYPED: Types = MappingProxyType({})


class Mention(NamedTuple):
    """A text of a value that holds `${`, which may begin a reference to a secret; pointers from the spec down."""

    parameter: Pointer
    name: str  # of the parameter; '' when it has none
    pointer: Pointer  # of the text
    text: str
    sensitive: bool


@dataclass(frozen=True, slots=True)
class Found:
    """What a search came across, each with its pointer from the spec down, in document order."""

    lists: list[tuple[Pointer, list[Value]]] = field(
        default_factory=list, repr=False
    )  # what stands under a key `parameters`
    secrets: list[tuple[Pointer, Value]] = field(default_factory=list, repr=False)  # of a map, each of its values
    masks: list[Pointer] = field(default_factory=list)  # where a value is `(sensitive)`, sensitive or not
    mentions: list[Mention] = field(default_factory=list, repr=False)  # in secrets, and in values of parameters


def find(spec: Value, types: Types = UNTYPED) -> Found:
    """The parameters of a spec and their secrets.

    In a list that `types` names, a value is a secret when its definition or it itself says so, and whenever nobody
    knows its definition. A value that is one whole reference, `${env:NAME}`, is not the secret but says where it is:
    it is left out.
    """
    found = Found()
    _visit(spec, pointer=(), found=found, types=types)
    return found


def may_tell(document: bytes) -> bool:
    """Whether `find` may come across anything in the spec of a document, in canonical JSON, but what its types call
    secrets.
    """
    # `sensitive` stands in the mask as well, and what is one byte is found many times as fast as what is two.
    return b"sensitive" in document or _HEADERS in document or (b"$" in document and b"${" in document)


def lists_and_masks(spec: Value, document: bytes | None) -> tuple[list[tuple[Pointer, list[Value]]], list[Pointer]]:
    """Of what `find` comes across in a spec, the lists and the masks.

    `document` is canonical JSON of a document with this spec, if there is any yet: there it shows at once that there is
    no mask, and only the list that a component has.
    """
    if document is not None and _MASK not in document:
        number = document.count(_LIST_KEY)
        listed = spec.get(_LIST) if isinstance(spec, dict) else None
        if number == 0:
            return [], []
        if number == 1 and isinstance(listed, list):
            return [((_LIST,), listed)], []
    found = find(spec)
    return found.lists, found.masks


def repeated(listed: list[Value], *, at: Pointer) -> list[Violation]:
    """The names that stand in a list of parameters, or of their definitions, already; `at` is the list's pointer."""
    names = [name for each in listed if isinstance(each, dict) and isinstance(name := each.get("name"), str)]
    if len(set(names)) == len(names):
        return []  # as nearly always
    first: dict[str, int] = {}
    found = []
    for index, parameter in enumerate(listed):
        name = parameter.get("name") if isinstance(parameter, dict) else None
        if isinstance(name, str) and first.setdefault(name, index) != index:
            earlier = pointer_text((*at, first[name]))
            message = f"is the name of {earlier} already; keep one of them"
            found.append(Violation((*at, index, "name"), message))
    return found


def _visit(value: Value, *, pointer: Pointer, found: Found, types: Types) -> None:
    if isinstance(value, dict):
        sensitive = False
        if "value" in value:
            given = value["value"]
            sensitive = _is_sensitive(value, pointer, types)
            if sensitive or given == MASK or isinstance(given, (dict, list)):  # a call for each of all would show
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
        return True  # whatever it says instead, where no schema looked: rather hidden than shown
    name = value.get("name")
    if types and pointer[:-1] in types:
        type_ = types[pointer[:-1]]
        return type_ is None or not isinstance(name, str) or name not in type_.open
    return name == _ALWAYS_SENSITIVE and pointer[-2:-1] == ("parameters",)


def _collect(value: Value, pointer: Pointer, found: Found, *, sensitive: bool) -> None:
    leaves = (
        [((*pointer, key), child) for key, child in value.items()] if isinstance(value, dict) else [(pointer, value)]
    )
    found.masks.extend(_literals(value, pointer))
    if sensitive:
        found.secrets.extend((where, leaf) for where, leaf in leaves if not _is_reference(leaf))


def _literals(value: Value, pointer: Pointer) -> Iterator[Pointer]:
    """Where `(sensitive)` stands, however deep."""
    if value == MASK:
        yield pointer
    elif isinstance(value, dict):
        for key, child in value.items():
            yield from _literals(child, (*pointer, key))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _literals(child, (*pointer, index))


def _mentions(parameter: dict[str, Value], pointer: Pointer, *, sensitive: bool) -> Iterator[Mention]:
    """In a secret however deep; in another value the text itself, those of a map and those of a list."""
    if sensitive or pointer[-2:-1] == ("parameters",):
        name = parameter.get("name")
        for where, text in _texts(parameter["value"], (*pointer, "value"), depth=None if sensitive else 1):
            yield Mention(pointer, name if isinstance(name, str) else "", where, text, sensitive)


def _texts(value: Value, pointer: Pointer, *, depth: int | None) -> Iterator[tuple[Pointer, str]]:
    """The texts in a value that hold `${`; `depth` None: however deep."""
    if isinstance(value, str):
        if "${" in value:
            yield pointer, value
    elif depth != 0 and isinstance(value, (dict, list)):
        children = value.items() if isinstance(value, dict) else enumerate(value)
        for step, child in children:
            yield from _texts(child, (*pointer, step), depth=None if depth is None else depth - 1)


def _is_reference(value: Value) -> bool:
    return isinstance(value, str) and value.startswith("${") and secret_references.whole(value) is not None
