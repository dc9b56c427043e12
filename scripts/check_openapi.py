"""Checks the OpenAPI document: valid OpenAPI, and what our own rules add. Not what the API answers: tests do that.

`python scripts/check_openapi.py` checks the document that the API serves, `... FILE` another one. Every complaint is
one line; with any the program ends with 1.

Our rules: every operation has an operationId; every operation that is not declared public (`security: []`) describes
its 401; every example fits the schema beside it.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import referencing
import referencing.jsonschema
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from api import openapi
from reconciler.model import documents, positions
from reconciler.model.values import Value

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
HERE = "urn:service:openapi"  # the document's own name, so that an example's schema can be pointed at


def main(arguments: list[str]) -> int:
    name = arguments[0] if arguments else "api/openapi.yaml"
    found = list(complaints(load(Path(name)) if arguments else openapi.document()))
    for line in found:
        print(f"{Path(name).name}: {line}")
    return 1 if found else 0


def load(path: Path) -> dict[str, Value]:
    """The document, read as strictly as any other file of ours."""
    try:
        [document] = documents.read(path.read_bytes(), syntax=documents.Syntax.YAML, limits=positions.FILE_LIMITS)
    except documents.DocumentError as error:
        sys.exit(f"{path.name}:{error.line}:{error.column}: {error.message}")
    except OSError as error:
        sys.exit(f"{path}: {error.strerror}")
    if not isinstance(document.value, dict):
        sys.exit(f"{path.name}: the document is not an object")
    return document.value


def complaints(document: dict[str, Value]) -> Iterator[str]:
    """Every fault; our own rules are asked only of a document that is OpenAPI at all."""
    faults = [
        f"{'/'.join(map(str, error.absolute_path)) or 'the document'}: {error.message.splitlines()[0]}"
        for error in OpenAPIV31SpecValidator(document).iter_errors()
    ]
    yield from faults or (*operation_faults(document), *example_faults(document))


def operation_faults(document: dict[str, Value]) -> Iterator[str]:
    """Operations without an id, or without the 401 that they can answer. (Ids that occur twice are no OpenAPI.)"""
    for place, operation in operations(document):
        if "operationId" not in operation:
            yield f"{place}: has no operationId"
        public = operation.get("security", document.get("security")) in ([], None)
        responses = operation.get("responses")
        if not public and isinstance(responses, dict) and "401" not in responses:
            yield f"{place}: needs a credential and describes no 401 (public operations say `security: []`)"


def operations(document: dict[str, Value]) -> Iterator[tuple[str, dict[str, Value]]]:
    """Each operation with its place, `GET /v1/version`."""
    paths = document.get("paths")
    for path, item in (paths if isinstance(paths, dict) else {}).items():
        for method in METHODS:
            operation = item.get(method) if isinstance(item, dict) else None
            if isinstance(operation, dict):
                yield f"{method.upper()} {path}", operation


def example_faults(document: dict[str, Value]) -> Iterator[str]:
    """Examples that break the schema beside them, in media types, parameters and schemas alike."""
    whole = referencing.jsonschema.DRAFT202012.create_resource(document)
    registry: referencing.jsonschema.SchemaRegistry = referencing.Registry().with_resource(HERE, whole)
    for place, schema, example in examples(document, ""):
        validator = Draft202012Validator({"$ref": f"{HERE}#{schema}"}, registry=registry)
        for error in validator.iter_errors(example):
            yield f"{place}{error.json_path.removeprefix('$')}: {error.message}"


def examples(node: Value, place: str) -> Iterator[tuple[str, str, Value]]:
    """(place of the example, pointer of its schema, example) for each one beneath `node`."""
    if isinstance(node, list):
        for index, item in enumerate(node):
            yield from examples(item, f"{place}/{index}")
    if not isinstance(node, dict):
        return
    if "schema" in node:
        yield from beside_schema(node, place)
    elif isinstance(listed := node.get("examples"), list):  # a schema's own
        for index, example in enumerate(listed):
            yield f"{place}/examples/{index}", place, example
    for key, value in node.items():
        if key not in ("example", "examples"):
            yield from examples(value, f"{place}/{key.replace('~', '~0').replace('/', '~1')}")


def beside_schema(node: dict[str, Value], place: str) -> Iterator[tuple[str, str, Value]]:
    """The examples of a media type, parameter or header."""
    if "example" in node:
        yield f"{place}/example", f"{place}/schema", node["example"]
    named = node.get("examples")
    for name, example in (named if isinstance(named, dict) else {}).items():
        if isinstance(example, dict) and "value" in example:
            yield f"{place}/examples/{name}/value", f"{place}/schema", example["value"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
