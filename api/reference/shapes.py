"""Schemas as lists of fields: each with its whole name, its type in words, and what it means.

Belongs here: what a schema of the contract says to a reader. Does not: checking anything against it.

A reference to a schema with a name of its own is a link; any other is written out where it stands, once within itself.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from api.reference.prose import Piece, prose_pieces

COMPONENTS = "#/components/schemas/"
DEEPEST = 12  # of objects in objects; no schema of the contract goes so far
CONSTRAINTS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
}

Schema = Mapping[str, Any]


class SchemaField(NamedTuple):
    """One field of an object, or a parameter."""

    name: str
    type: tuple[Piece, ...]
    required: bool
    meaning: tuple[Piece, ...]


def schema_anchor(name: str) -> str:
    """What the part of the page about a schema is called in links."""
    return f"schema-{name}"


def schema_fields(
    schema: Schema, document: Schema, prefix: str = "", within: tuple[str, ...] = ()
) -> Iterator[SchemaField]:
    """Every field below a schema, in its order, each before what is in it."""
    if len(within) >= DEEPEST:
        return
    whole, within = _written_out(schema, document, within)
    if whole is None:
        return
    needed = whole.get("required", ())
    for name, of_field in whole.get("properties", {}).items():
        path = f"{prefix}{name}"
        yield SchemaField(path, type_words(of_field, document), name in needed, _meaning(of_field, document))
        yield from _below(of_field, document, path, (*within, ""))
    for part in _alternatives(whole):
        yield from schema_fields(part, document, prefix, (*within, ""))


def type_words(schema: Any, document: Schema) -> tuple[Piece, ...]:
    """The type of a value, in words."""
    if not isinstance(schema, Mapping):
        return (Piece("any value"),)
    reference = schema.get("$ref")
    if isinstance(reference, str):
        name = _own_name(reference)
        return type_words(_found(reference, document), document) if name is None else (_link(name),)
    if "const" in schema:
        return (Piece("always "), Piece(_json(schema["const"]), code=True))
    if "enum" in schema:
        return _listed([(Piece(_json(each), code=True),) for each in schema["enum"]], "one of ")
    alternatives = _alternatives(schema)
    if alternatives and "type" not in schema:
        return _listed(list(dict.fromkeys(type_words(each, document) for each in alternatives)), "")
    return (*_of_type(schema, document), *_bounds(schema))


def _of_type(schema: Schema, document: Schema) -> tuple[Piece, ...]:
    is_object = "properties" in schema or isinstance(schema.get("additionalProperties"), Mapping)
    told = schema.get("type", "object" if is_object else "any value")
    kinds = [told] if isinstance(told, str) else list(told)
    if "array" in kinds and "items" in schema:
        kinds.remove("array")
        return (Piece("list of: "), *type_words(schema["items"], document), *(Piece(f" or {kind}") for kind in kinds))
    more = schema.get("additionalProperties")
    if "object" in kinds and isinstance(more, Mapping) and "properties" not in schema:
        return (Piece("map to: "), *type_words(more, document))
    if "format" in schema:
        kinds = [f"{kind} ({schema['format']})" if kind == "string" else kind for kind in kinds]
    return (Piece(" or ".join(kinds)),)


def _bounds(schema: Schema) -> tuple[Piece, ...]:
    found = [words.format(schema[name]) for name, words in CONSTRAINTS.items() if name in schema]
    return (Piece(f", {', '.join(found)}"),) if found else ()


def _listed(parts: Sequence[Sequence[Piece]], before: str) -> tuple[Piece, ...]:
    found = [Piece(before)] if before else []
    for number, part in enumerate(parts):
        if number:
            found.append(Piece(" or " if number == len(parts) - 1 else ", "))
        found += part
    return tuple(found)


def _meaning(schema: Any, document: Schema) -> tuple[Piece, ...]:
    if not isinstance(schema, Mapping):
        return ()
    text = schema.get("description", "")
    if not text and "$ref" in schema and _own_name(schema["$ref"]) is None:
        return _meaning(_found(schema["$ref"], document), document)
    return prose_pieces(text)


def _below(schema: Any, document: Schema, path: str, within: tuple[str, ...]) -> Iterator[SchemaField]:
    """What is in a field: of an object its fields, of a list and a map those of what it holds."""
    if not isinstance(schema, Mapping) or len(within) >= DEEPEST:
        return
    whole, within = _written_out(schema, document, within)
    if whole is None:
        return
    yield from schema_fields(whole, document, f"{path}.", within)
    yield from _below(whole.get("items"), document, f"{path}[]", within)
    if "properties" not in whole:
        yield from _below(whole.get("additionalProperties"), document, f"{path}.*", within)


def _written_out(schema: Schema, document: Schema, within: tuple[str, ...]) -> tuple[Schema | None, tuple[str, ...]]:
    """The schema itself, where it is not told of elsewhere or being written out already."""
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return schema, within
    if _own_name(reference) is not None or reference in within:
        return None, within
    return _written_out(_found(reference, document), document, (*within, reference))


def _alternatives(schema: Schema) -> list[Schema]:
    return [part for name in ("anyOf", "oneOf", "allOf") for part in schema.get(name, ()) if _says_something(part)]


def _says_something(part: Schema) -> bool:
    return bool({"$ref", "type", "properties", "const", "enum", "anyOf", "oneOf"} & part.keys())


def _own_name(reference: str) -> str | None:
    """The name of a schema that the page has a part about."""
    name = reference.removeprefix(COMPONENTS)
    return None if name == reference or "/" in name else name


def _found(reference: str, document: Schema) -> Schema:
    found: Any = document
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    whole: Schema = found
    return whole


def _link(name: str) -> Piece:
    return Piece(name, place=f"#{schema_anchor(name)}")


def _json(value: object) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
