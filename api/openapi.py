"""The OpenAPI document: `openapi.yaml`, written by hand, with the schema of each kind from the `schemas` package.

JSON Schemas of the kinds serve editors and the validator. Generators of clients know less of JSON Schema, so here each
definition is a component with a name of its own, and a reference that allows null says so with `anyOf`.
"""

import json
from functools import cache
from importlib import resources
from typing import TypeAlias

from starlette.responses import Response

import schemas
from api.calls import Call, Subject
from api.responses import Json
from api.routing import Routes
from reconciler.model import documents, positions
from reconciler.model.names import KINDS
from reconciler.model.values import Value
from reconciler.version import __version__

routes = Routes()

Object: TypeAlias = dict[str, Value]

COMPONENTS = "#/components/schemas/"
DEFINITIONS = "#/$defs/"
NULL: Object = {"type": "null"}
OF_VALIDATORS = frozenset({"$id", "$schema", "$defs", "errorMessage", "dependentSchemas"})
"""Members of the schemas that client generators do not know."""


@routes.add("GET /openapi.json", Subject.PUBLIC)
async def serve(_call: Call) -> Response:
    """Answer with the contract."""
    return Json(encoded())


@cache
def encoded() -> bytes:
    """Return the whole document as JSON; the same bytes for the life of the process."""
    return json.dumps(document(), ensure_ascii=False, separators=(",", ":")).encode()


def document() -> Object:
    """Return the whole document. Paths and members keep the order of the file, kinds that of `KINDS`."""
    text = resources.files("api").joinpath("openapi.yaml").read_bytes()
    whole = _object(documents.read(text, syntax=documents.Syntax.YAML, limits=positions.FILE_LIMITS)[0].value)
    _object(whole["info"])["x-service-version"] = __version__
    components = _each_for_clients(_object(_object(whole["components"])["schemas"]))
    _object(whole["components"])["schemas"] = components
    _object(components["KnownResource"])["anyOf"] = [{"$ref": COMPONENTS + kind.name} for kind in KINDS]
    _object(components["ResourceKind"])["enum"] = [kind.name for kind in KINDS]
    for kind in KINDS:
        add_schema(components, kind.name, schemas.load(kind.name))
    return whole


def add_schema(components: Object, name: str, schema: Object) -> None:
    """Add a schema as a component, and each of its `$defs` as one more, which kinds share: `ResourceMetadata`."""
    definitions = _object(schema.get("$defs", {}))
    for definition, value in definitions.items():
        shown = _for_clients(value)
        if components.setdefault(_shared(definition), shown) != shown:
            raise ValueError(f"the definition {definition} of {name} differs from that of another kind")
    components[name] = _for_clients(schema)


def _shared(definition: str) -> str:
    return f"Resource{definition[:1].upper()}{definition[1:]}"


def _for_clients(value: Value) -> Value:
    """Return a schema as generators of clients know it."""
    if isinstance(value, list):
        return [_for_clients(item) for item in value]
    if not isinstance(value, dict):
        return value
    shown = {member: _for_clients(item) for member, item in value.items() if member not in OF_VALIDATORS}
    if isinstance(properties := value.get("properties"), dict):
        shown["properties"] = _each_for_clients(properties)  # whose names may be those of validators
    if _only_requires(shown.get("anyOf")):
        del shown["anyOf"]
    reference = value.get("$ref")
    if isinstance(reference, str) and reference.startswith(DEFINITIONS):
        shown["$ref"] = COMPONENTS + _shared(reference.removeprefix(DEFINITIONS))
    if isinstance(shown.get("additionalProperties"), dict) and "$ref" not in shown:
        shown.setdefault("type", "object")
    types = shown.get("type")
    if types == "object" or (isinstance(types, list) and "object" in types):
        if "properties" not in shown and "$ref" not in shown:
            shown.setdefault("additionalProperties", True)
    elif types == "array" or (isinstance(types, list) and "array" in types):
        shown.setdefault("items", {})
    return _nullable(shown)


def _each_for_clients(schemas_by_name: Object) -> Object:
    return {name: _for_clients(schema) for name, schema in schemas_by_name.items()}


def _only_requires(choices: Value) -> bool:
    """Return True if a choice says no more than which members must be there: a generator would make a type of each."""
    return isinstance(choices, list) and all(isinstance(one, dict) and one.keys() == {"required"} for one in choices)


def _nullable(shown: Object) -> Object:
    """Return a schema of an object, an array or a reference that may be null as a choice; a scalar says it by type."""
    types = shown.get("type")
    if not isinstance(types, list) or "null" not in types:
        return shown
    [other] = [one for one in types if one != "null"]
    if "$ref" not in shown and other not in ("object", "array"):
        return shown
    rest = {member: item for member, item in shown.items() if member not in ("type", "description")}
    inner: Object = rest if "$ref" in shown else {"type": other, **rest}
    said: Object = {"description": shown["description"]} if "description" in shown else {}
    return said | {"anyOf": [inner, NULL]}


def _object(value: Value) -> Object:
    if not isinstance(value, dict):
        raise TypeError("the contract has something else where an object belongs")
    return value
