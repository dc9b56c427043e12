#!/usr/bin/env python3
"""Check the JSON Schemas: one line per mistake, and exit status 1 when there is any.

check_schemas.py [FOLDER]    FOLDER holds one file per kind and envelope.json; schemas/v1 unless given
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from jsonschema import Draft202012Validator

from reconciler.model import names

Schema: TypeAlias = dict[str, Any]

FOLDER = Path(__file__).parent.parent / "schemas" / "v1"
ENVELOPE = "envelope"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
MAPS = ("properties", "$defs")  # keywords that hold named fields, each of which wants a description
CONDITIONS = ("dependentSchemas",)  # keywords that hold subschemas by name which restate a field described elsewhere
SINGLE = ("items", "additionalProperties", "propertyNames", "not", "if", "then", "else")
LISTS = ("allOf", "anyOf", "oneOf")
WIDE = ("\\d", "\\w", "\\s")  # what these match differs between engines


def main(arguments: list[str]) -> int:
    folder = Path(arguments[0]) if arguments else FOLDER
    mistakes = list(check(folder))
    for mistake in mistakes:
        print(mistake)
    return 1 if mistakes else 0


def check(folder: Path) -> Iterator[str]:
    """Every mistake in the schemas of a folder, as `file: pointer: sentence`."""
    files = {path.stem: path for path in sorted(folder.glob("*.json"))}
    yield from _agree_with_kinds(set(files))
    read: dict[str, Schema] = {}
    for name, path in files.items():
        try:
            read[name] = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_unique)
        except ValueError as error:
            yield f"{path.name}: {error}"
    for name, schema in read.items():
        yield from (f"{name}.json: {mistake}" for mistake in _mistakes(name, schema))
    yield from _shared(read)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in unique if keys.count(key) > 1)
        raise ValueError(f"the key {twice} stands twice in one object")
    return unique


def _agree_with_kinds(files: set[str]) -> Iterator[str]:
    wanted = {kind.name for kind in names.KINDS} | {ENVELOPE}
    yield from (f"{name}.json: is missing" for name in sorted(wanted - files))
    yield from (f"{name}.json: is the schema of no kind" for name in sorted(files - wanted))


def _mistakes(name: str, schema: Schema) -> Iterator[str]:
    errors = list(Draft202012Validator(Draft202012Validator.META_SCHEMA).iter_errors(schema))
    if errors:  # anything else would trip over these
        yield from (f"{_pointer(list(error.absolute_path))}: {error.message}" for error in errors)
        return
    yield from _identity(name, schema)
    subschemas = list(_walk([], schema))
    for pointer, subschema in subschemas:
        yield from (f"{_pointer(pointer)}: {sentence}" for sentence in _in_subschema(pointer, subschema, schema))
    if all(_resolves(subschema.get("$ref", "#"), schema) for _, subschema in subschemas):
        yield from _examples(schema)


def _identity(name: str, schema: Schema) -> Iterator[str]:
    expected = {"$schema": DIALECT, "$id": f"urn:service:v1:{name}"}
    yield from (f"/{key}: is not {text}" for key, text in expected.items() if schema.get(key) != text)
    yield from (f"/{key}: is missing" for key in ("title", "description", "examples") if not schema.get(key))
    if name != ENVELOPE and schema.get("properties", {}).get("kind", {}).get("const") != name:
        yield f"/properties/kind: is not the constant {name}"


def _in_subschema(pointer: list[str | int], subschema: Schema, schema: Schema) -> Iterator[str]:
    if _is_field(pointer) and not subschema.get("description"):
        yield "has no description"
    if not _resolves(subschema.get("$ref", "#"), schema):
        yield "refers to nothing in this file"
    pattern = subschema.get("pattern")
    if pattern is not None:
        if not (pattern.startswith("^") and pattern.endswith("$")):
            yield "has a pattern that is not anchored at both ends"
        if any(wide in pattern for wide in WIDE):
            yield "has a pattern with a class that is not spelled out, as [0-9] is"
        if not subschema.get("errorMessage"):
            yield "has a pattern and no errorMessage"


def _examples(schema: Schema) -> Iterator[str]:
    validator = Draft202012Validator(schema)
    for index, example in enumerate(schema.get("examples", [])):
        for error in validator.iter_errors(example):
            yield f"/examples/{index}{_pointer(list(error.absolute_path))}: {error.message}"


def _shared(read: dict[str, Schema]) -> Iterator[str]:
    """A definition of one name says the same in every file: the files are self-contained, so they repeat each other."""
    first: dict[str, str] = {}
    for name, schema in read.items():
        for definition, subschema in schema.get("$defs", {}).items():
            origin = first.setdefault(definition, name)
            if read[origin]["$defs"][definition] != subschema:
                yield f"{name}.json: /$defs/{definition}: differs from the one in {origin}.json"


def _walk(pointer: list[str | int], subschema: object) -> Iterator[tuple[list[str | int], Schema]]:
    """Every subschema with its pointer, from the root down."""
    if not isinstance(subschema, dict):
        return
    yield pointer, subschema
    for keyword in (*MAPS, *CONDITIONS):
        for key, child in subschema.get(keyword, {}).items():
            yield from _walk([*pointer, keyword, key], child)
    for keyword in SINGLE:
        yield from _walk([*pointer, keyword], subschema.get(keyword))
    for keyword in LISTS:
        for index, child in enumerate(subschema.get(keyword, [])):
            yield from _walk([*pointer, keyword, index], child)


def _is_field(pointer: list[str | int]) -> bool:
    return len(pointer) > 1 and pointer[-2] in MAPS and not any(keyword in pointer for keyword in CONDITIONS)


def _resolves(reference: str, schema: Schema) -> bool:
    target: Any = schema
    for step in reference.removeprefix("#").split("/")[1:]:
        target = target.get(step) if isinstance(target, dict) else None
    return reference.startswith("#") and target is not None


def _pointer(steps: list[str | int]) -> str:
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in steps)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
