"""The reference page, made from the contract."""

import asyncio
import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import quote

from starlette.responses import Response

from api import openapi
from api.calls import Call
from api.pages import paths
from api.pages.forms import Elsewhere, Page, page

# A line for a shell that asks for an operation, with the values of its examples.

SERVER = "$SERVICE_SERVER"
KEY = '-H "Authorization: Bearer $SERVICE_API_KEY"'
PERSON = '--user "$SERVICE_USER"'  # curl asks for the password
OF_PEOPLE = frozenset({"changeMyPassword", "setNotificationStatus"})
JSON = "application/json"


def curl(
    *, method: str, path: str, operation: Mapping[str, Any], parameters: Sequence[Mapping[str, Any]], public: bool
) -> str:
    """The line; `parameters` are those of the path and the operation, written out."""
    here = re.sub(r"\{(\w+)\}", lambda found: _in_path(found[1], parameters), path)
    asked = [
        f"{one['name']}={_quoted(example(one))}" for one in parameters if one["in"] == "query" and one.get("required")
    ]
    query = f"?{'&'.join(asked)}" if asked else ""
    words = ["curl"]
    if method != "get":
        words += ["-X", method.upper()]
    if not public:
        words.append(PERSON if operation["operationId"] in OF_PEOPLE else KEY)
    words.append(f'"{SERVER}{here}{query}"')
    body = operation.get("requestBody", {}).get("content", {}).get(JSON)
    if body is not None:
        words += ["-H", f'"Content-Type: {JSON}"', "-d", _in_shell(example(body))]
    return " ".join(words)


def example(told: Mapping[str, Any]) -> Any:
    """The first example of a parameter or a body; None where there is none."""
    if "example" in told:
        return told["example"]
    return next((one.get("value") for one in told.get("examples", {}).values()), None)


def _in_path(name: str, parameters: Sequence[Mapping[str, Any]]) -> str:
    return next(_quoted(example(one)) for one in parameters if one["in"] == "path" and one["name"] == name)


def _quoted(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return quote(text, safe=":")


def _in_shell(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
    return "'" + text.replace("'", "'\\''") + "'"


# Text of the contract as pieces for a page: paragraphs, what is code in them, and where a word leads.

_CODE = re.compile(r"`([^`]+)`")


class Piece(NamedTuple):
    """Some text; code where it is an identifier, and a link where `place` is not empty."""

    text: str
    code: bool = False
    place: str = ""


def prose_pieces(text: str) -> tuple[Piece, ...]:
    """One paragraph, cut at its backticks."""
    cut = enumerate(_CODE.split(" ".join(text.split())))
    return tuple(Piece(piece, code=place % 2 == 1) for place, piece in cut if piece)


def paragraphs(text: str) -> tuple[tuple[Piece, ...], ...]:
    """A text, cut at its empty lines and backticks."""
    return tuple(prose_pieces(paragraph) for paragraph in re.split(r"\n\s*\n", text.strip()) if paragraph)


# Schemas as lists of fields: each with its whole name, its type in words, and what it means.
#
# A reference to a schema with a name of its own is a link; any other is written out where it stands, once within
# itself.

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


# What the page of the API has on it, made from the contract: its operations by tag, and its schemas.

METHODS = ("get", "put", "post", "patch", "delete")
WHERE = {"path": "in the path", "query": "in the query", "header": "a header"}


class Example(NamedTuple):
    """Some JSON, or text, and what it shows."""

    title: str
    text: str


class Body(NamedTuple):
    """One of the forms that a body may have."""

    media_type: str
    type: tuple[Piece, ...]
    examples: tuple[Example, ...]


class Answer(NamedTuple):
    """One way in which an operation is answered."""

    status: str
    phrase: str
    meaning: tuple[Piece, ...]
    bodies: tuple[Body, ...]


class Operation(NamedTuple):
    """One method of one path."""

    id: str
    method: str
    path: str
    summary: str
    description: tuple[tuple[Piece, ...], ...]
    public: bool
    parameters: tuple[SchemaField, ...]
    bodies: tuple[Body, ...]
    answers: tuple[Answer, ...]
    curl: str


class Section(NamedTuple):
    """The operations of a tag."""

    name: str
    description: str
    operations: tuple[Operation, ...]


class Shape(NamedTuple):
    """A schema with a name of its own."""

    name: str
    anchor: str
    type: tuple[Piece, ...]
    description: tuple[tuple[Piece, ...], ...]
    fields: tuple[SchemaField, ...]


class Contents(NamedTuple):
    """The whole page."""

    title: str
    version: str
    description: tuple[tuple[Piece, ...], ...]
    credentials: tuple[tuple[str, tuple[Piece, ...]], ...]
    sections: tuple[Section, ...]
    shapes: tuple[Shape, ...]


def reference_contents(document: Mapping[str, Any]) -> Contents:
    """The page of a contract. Tags, paths and schemas keep their order."""
    operations = list(_operations(document))
    schemes = document["components"]["securitySchemes"]
    return Contents(
        title=document["info"]["title"],
        version=document["info"]["version"],
        description=paragraphs(document["info"]["description"]),
        credentials=tuple((name, prose_pieces(scheme["description"])) for name, scheme in schemes.items()),
        sections=tuple(
            Section(tag["name"], tag["description"], tuple(made for name, made in operations if name == tag["name"]))
            for tag in document["tags"]
        ),
        shapes=tuple(_shape(name, schema, document) for name, schema in document["components"]["schemas"].items()),
    )


def _operations(document: Mapping[str, Any]) -> Iterator[tuple[str, Operation]]:
    """Each operation after its tag."""
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                operation = item[method]
                shared = (*item.get("parameters", ()), *operation.get("parameters", ()))
                parameters = [_resolved(one, document) for one in shared]
                yield operation["tags"][0], _operation(method, path, operation, parameters, document)


def _operation(
    method: str,
    path: str,
    operation: Mapping[str, Any],
    parameters: Sequence[Mapping[str, Any]],
    document: Mapping[str, Any],
) -> Operation:
    public = operation.get("security") == []
    return Operation(
        id=operation["operationId"],
        method=method.upper(),
        path=path,
        summary=operation["summary"],
        description=paragraphs(operation.get("description", "")),
        public=public,
        parameters=tuple(_parameter(one, document) for one in parameters),
        bodies=_bodies(operation.get("requestBody", {}), document),
        answers=tuple(_answer(status, told, document) for status, told in operation["responses"].items()),
        curl=curl(method=method, path=path, operation=operation, parameters=parameters, public=public),
    )


def _parameter(told: Mapping[str, Any], document: Mapping[str, Any]) -> SchemaField:
    kind = (*type_words(told.get("schema", {}), document), Piece(f", {WHERE[told['in']]}"))
    return SchemaField(told["name"], kind, told.get("required", False), prose_pieces(told.get("description", "")))


def _answer(status: str, told: Mapping[str, Any], document: Mapping[str, Any]) -> Answer:
    whole = _resolved(told, document)
    phrase = HTTPStatus(int(status)).phrase
    return Answer(status, phrase, prose_pieces(whole["description"]), _bodies(whole, document))


def _bodies(told: Mapping[str, Any], document: Mapping[str, Any]) -> tuple[Body, ...]:
    return tuple(
        Body(
            media_type,
            type_words(content.get("schema", {}), document),
            tuple(_example(_resolved(one, document)) for one in content.get("examples", {}).values()),
        )
        for media_type, content in told.get("content", {}).items()
    )


def _example(told: Mapping[str, Any]) -> Example:
    value = told["value"]
    return Example(
        told.get("summary", ""), value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    )


def _shape(name: str, schema: Mapping[str, Any], document: Mapping[str, Any]) -> Shape:
    return Shape(
        name,
        schema_anchor(name),
        type_words(schema, document),
        paragraphs(schema.get("description", "")),
        tuple(schema_fields(schema, document)),
    )


def _resolved(told: Mapping[str, Any], document: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = told.get("$ref")
    if not isinstance(reference, str):
        return told
    found: Any = document
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    whole: Mapping[str, Any] = found
    return _resolved(whole, document)


# `/docs`: every operation of the interface and every schema, to read.
#
# It is the contract of `/openapi.json`, and as public: it tells nothing of this installation.

_making = threading.Lock()  # so that it is made once, however many ask at first


async def show(_call: Call) -> Response:
    """GET /docs"""
    # Elsewhere than on the loop: a tenth of a second, the first time.
    return Page(await asyncio.to_thread(_whole))


async def lead(_call: Call) -> Response:
    """GET /docs/"""
    return Elsewhere(paths.REFERENCE)


def _whole() -> bytes:
    with _making:
        return rendered()


@cache
def rendered() -> bytes:
    """The page; the same bytes for the life of the process."""
    return bytes(page("reference", contents=reference_contents(json.loads(openapi.encoded()))).body)
