"""What the page of the API has on it, made from the contract: its operations by tag, and its schemas.

Belongs here: choosing and ordering. Does not: HTML (the template), serving (`api.pages.reference`). Pure.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple

from api.reference import commands, shapes
from api.reference.prose import Piece, paragraphs, prose_pieces
from api.reference.shapes import SchemaField

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
        curl=commands.curl(method=method, path=path, operation=operation, parameters=parameters, public=public),
    )


def _parameter(told: Mapping[str, Any], document: Mapping[str, Any]) -> SchemaField:
    kind = (*shapes.type_words(told.get("schema", {}), document), Piece(f", {WHERE[told['in']]}"))
    return SchemaField(told["name"], kind, told.get("required", False), prose_pieces(told.get("description", "")))


def _answer(status: str, told: Mapping[str, Any], document: Mapping[str, Any]) -> Answer:
    whole = _resolved(told, document)
    phrase = HTTPStatus(int(status)).phrase
    return Answer(status, phrase, prose_pieces(whole["description"]), _bodies(whole, document))


def _bodies(told: Mapping[str, Any], document: Mapping[str, Any]) -> tuple[Body, ...]:
    return tuple(
        Body(
            media_type,
            shapes.type_words(content.get("schema", {}), document),
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
        shapes.schema_anchor(name),
        shapes.type_words(schema, document),
        paragraphs(schema.get("description", "")),
        tuple(shapes.schema_fields(schema, document)),
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
