"""The contract: `openapi.yaml`, written by hand, with the schema of every kind put in from the `schemas` package."""

import json
from functools import cache
from importlib import resources
from typing import TypeAlias

from starlette.responses import Response

import schemas
from api.answers import Json
from api.calls import Call
from reconciler.model import documents, positions
from reconciler.model.names import KINDS
from reconciler.model.values import Value

Object: TypeAlias = dict[str, Value]

OPENAPI_COMPONENTS = "#/components/schemas/"


async def serve_openapi(_call: Call) -> Response:
    """GET /openapi.json"""
    return Json(encoded_document())


@cache
def encoded_document() -> bytes:
    """The whole document as JSON; the same bytes for the life of the process."""
    return json.dumps(openapi_document(), ensure_ascii=False, separators=(",", ":")).encode()


def openapi_document() -> Object:
    """The whole document. Paths and members keep the order of the file, kinds that of `KINDS`."""
    text = resources.files("api").joinpath("openapi.yaml").read_bytes()
    whole = _object(documents.read(text, syntax=documents.Syntax.YAML, limits=positions.FILE_LIMITS)[0].value)
    components = _object(_object(whole["components"])["schemas"])
    _object(components["KnownResource"])["anyOf"] = [{"$ref": f"{OPENAPI_COMPONENTS}{kind.name}"} for kind in KINDS]
    for kind in KINDS:
        components[kind.name] = schema_component(kind.name, schemas.load(kind.name))
    return whole


def schema_component(name: str, schema: Object) -> Object:
    """A schema as a component: without an identity of its own, so that each reference in it starts at the document."""
    kept = {member: value for member, value in schema.items() if member not in ("$id", "$schema")}
    return _object(_moved(kept, root=OPENAPI_COMPONENTS + name))


def _moved(value: Value, *, root: str) -> Value:
    if isinstance(value, list):
        return [_moved(item, root=root) for item in value]
    if not isinstance(value, dict):
        return value
    moved = {member: _moved(item, root=root) for member, item in value.items()}
    reference = value.get("$ref")
    if isinstance(reference, str) and reference.startswith("#"):
        moved["$ref"] = root + reference[1:]
    return moved


def _object(value: Value) -> Object:
    if not isinstance(value, dict):
        raise TypeError("the contract has something else where an object belongs")
    return value
