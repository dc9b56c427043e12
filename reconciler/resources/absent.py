"""Members of a document that are there and mean that they are not: `null`, and here and there an empty value.

Belongs here: which these are, and the document without them, in which it is judged, compared and stored. Does not: what
the members say. Other servers and their clients write them out, where ours leave them out.

A `null` in an optional member of an object whose members a schema lists is absent. So are an empty `id`, `displayName`
and `description`, an empty map of labels, and empty lists of components. Values of parameters, defaults, templates and
all else that may be any JSON stay as they are, and so does what an open object holds.
"""

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import msgspec

import schemas
from reconciler.documents.values import Value
from reconciler.resources.components import LISTS
from reconciler.resources.kinds import Kind

EMPTY: dict[str, Value] = {"id": "", "displayName": "", "description": "", "labels": {}, **{key: [] for key in LISTS}}
"""The members that are absent when they are empty."""

_MARKS = (b"null", b'""', b"{}", b"[]")


@dataclass(slots=True)
class _Object:
    """An object whose members a schema lists: those that are optional and typed, and what is beneath."""

    optional: frozenset[str] = frozenset()
    members: "dict[str, _Object]" = field(default_factory=dict)


def removed(document: dict[str, Value], kind: Kind | None) -> dict[str, Value]:
    """The document without the members that are absent, and with a spec; the same one when it is so already."""
    if document.get("spec") is None:
        document = {**document, "spec": {}}
    if not may_hold(msgspec.json.encode(document)):
        return document
    without = _removed(document, _shape(schemas.ENVELOPE if kind is None else kind.name))
    assert isinstance(without, dict)
    return without


def may_hold(encoded: bytes) -> bool:
    """Whether a document may hold such members; nearly none does. `encoded` is JSON without spare white space."""
    return any(mark in encoded for mark in _MARKS)


def _removed(value: Value, shape: _Object) -> Value:
    if isinstance(value, list):
        found = [_removed(item, shape) for item in value]
        return found if any(one is not other for one, other in zip(found, value, strict=True)) else value
    if not isinstance(value, dict):
        return value
    kept = {}
    is_same = True
    for name, child in value.items():
        if name in shape.optional and (child is None or (not child and EMPTY.get(name) == child)):
            is_same = False
            continue
        beneath = shape.members.get(name)
        kept[name] = child if beneath is None else _removed(child, beneath)
        is_same = is_same and kept[name] is child
    return value if is_same else kept


@cache
def _shape(name: str) -> _Object:
    schema = schemas.load(name)
    known: dict[str, _Object] = {}
    return _object(schema, schema, known) or _Object()


def _object(schema: dict[str, Any], root: dict[str, Any], known: dict[str, _Object]) -> _Object | None:
    """The shape of a closed object, or of the entries of a list of such; None of everything else."""
    reference = schema.get("$ref")
    if reference is not None:
        # Components hold components.
        if reference not in known:
            known[reference] = _Object()
            found = _object(root["$defs"][reference.rpartition("/")[2]], root, known)
            if found is not None:
                known[reference].optional, known[reference].members = found.optional, found.members
        return known[reference]
    if isinstance(schema.get("items"), dict):
        return _object(schema["items"], root, known)
    if schema.get("additionalProperties") is not False:
        return None
    properties: dict[str, dict[str, Any]] = schema["properties"]
    required = {*schema.get("required", ()), "spec"}
    shape = _Object(frozenset(name for name, each in properties.items() if _is_typed(each) and name not in required))
    for name, each in properties.items():
        beneath = _object(each, root, known)
        if beneath is not None:
            shape.members[name] = beneath
    return shape


def _is_typed(schema: dict[str, Any]) -> bool:
    """Whether a member is more than any JSON."""
    return not {"type", "$ref", "enum", "const"}.isdisjoint(schema)
