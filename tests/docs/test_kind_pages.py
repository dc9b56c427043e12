"""The pages of docs/kinds: their fields are those of the schemas, their parameters those of the built-in types."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner

import schemas
from reconciler.cli.validate import validate
from reconciler.model import builtins, components, names
from reconciler.model.names import Key
from reconciler.model.values import Value
from tests.docs import pages

NAMES = [kind.name for kind in names.KINDS]
INDEX = pages.read(pages.KINDS / "README.md")
EXAMPLES = [*sorted(pages.KINDS.glob("*.md")), pages.ROOT / "docs/parameters.md"]
TYPES = [key for key in builtins.built_in() if key.kind in components.TYPES and key in builtins.RESERVED]

Schema = dict[str, Any]


def page(kind: str) -> str:
    return pages.read(pages.KINDS / f"{kind}.md")


def page_of_type(key: Key) -> str:
    """Return where the parameters of a built-in type stand."""
    own = pages.KINDS / f"{key.kind.removesuffix('Type')}.{key.name}.md"
    return pages.read(own) if own.exists() else pages.section(page(key.kind.removesuffix("Type")), heading(key))


def heading(key: Key) -> str:
    return f"The type `{key.name}`"


# Fields


def resolved(schema: Schema, root: Schema) -> tuple[Schema, str]:
    """Return what a reference leads to, with what stands beside it, and the name of the definition."""
    reference = schema.get("$ref", "")
    if not reference:
        return schema, ""
    name = reference.removeprefix("#/$defs/")
    return {**root["$defs"][name], **schema}, name


def objects(schema: Schema, *, path: str, root: Schema, seen: set[str]) -> Iterator[tuple[str, Schema]]:
    """Every object with fields, by its path; each definition once, where it is met first."""
    schema, name = resolved(schema, root)
    if name:
        if name in seen:
            return
        seen.add(name)
    if schema.get("properties"):
        yield path, schema
    for field, child in schema.get("properties", {}).items():
        yield from objects(child, path=f"{path}.{field}".lstrip("."), root=root, seen=seen)
    if "items" in schema:
        yield from objects(schema["items"], path=f"{path}[]", root=root, seen=seen)


def type_of(schema: Schema, root: Schema) -> str:
    """The words of the column `type`."""
    schema, _ = resolved(schema, root)
    named = schema.get("type", "string" if isinstance(schema.get("const"), str) else None)
    if isinstance(named, list):
        # `null` in an optional member is the same as none, which the overview tells of all of them.
        named = [one for one in named if one != "null"]
        if len(named) > 1:
            return " or ".join(named)
        [named] = named
    if named == "array":
        inside = type_of(schema.get("items", {}), root)
        return f"list of {inside if inside == 'any value' else inside + 's'}"
    return str(named or "any value")


def described(schema: Schema, root: Schema) -> list[tuple[str, str, bool]]:
    """(field, type, whether it is required), in the order of the schema."""
    required = schema.get("required", [])
    return [(f"`{name}`", type_of(child, root), name in required) for name, child in schema["properties"].items()]


def told(text: str) -> list[tuple[str, str, bool]]:
    return [(row["field"], row["type"], row["default"] == "required") for row in pages.table(text)]


def fields_of(kind: str) -> dict[str, Schema]:
    """The objects below a kind's `spec`, by path. The index has the others, which are the same for all kinds."""
    root = schemas.load(kind)
    found = objects(root, path="", root=root, seen={"labels"})
    return {path: schema for path, schema in found if path.startswith("spec")}


def page_of_fields(kind: str) -> str:
    """The page with the tables of a kind: components share one, and so do their types."""
    shared = "components.md" if kind in components.KINDS else "types.md" if kind in components.TYPES else f"{kind}.md"
    assert shared == f"{kind}.md" or f"]({shared})" in page(kind)
    return pages.read(pages.KINDS / shared)


@pytest.mark.parametrize("kind", NAMES)
def test_a_page_has_the_fields_of_its_schema_and_no_others(kind: str) -> None:
    root = schemas.load(kind)
    expected = {path: described(schema, root) for path, schema in fields_of(kind).items()}
    text = page_of_fields(kind)
    headings = re.findall(r"^### `(spec[^`]*)`$", text, re.MULTILINE)
    found = {path: told(pages.section(text, f"`{path}`")) for path in headings}
    assert found == expected


@pytest.mark.parametrize("kind", NAMES)
def test_a_rule_of_the_schema_is_a_rule_on_the_page(kind: str) -> None:
    root = schemas.load(kind)
    for path, schema in fields_of(kind).items():
        rows = pages.table(pages.section(page_of_fields(kind), f"`{path}`"))
        for row, field in zip(rows, schema["properties"].values(), strict=True):
            child, _ = resolved(field, root)
            values = [*child.get("enum", []), *([child["const"]] if "const" in child else [])]
            assert [value for value in values if value is not None and f"`{value}`" not in row["rule"]] == [], row
            if {"pattern", "minLength", "minimum", "maximum"} & child.keys():
                assert row["rule"] != "none", row
            assert row["meaning"] != ""


def test_the_index_has_the_metadata_and_the_keys_of_every_document() -> None:
    root = schemas.load(schemas.ENVELOPE)
    found = objects(root, path="", root=root, seen={"labels"})
    expected = {path: described(schema, root) for path, schema in found}
    assert told(pages.section(INDEX, "The document")) == expected.pop("")
    assert {path: told(pages.section(INDEX, f"`{path}`")) for path in expected} == expected


# The index


def test_the_index_has_every_kind_with_its_plural() -> None:
    rows = pages.table(INDEX)
    found = {row["kind"]: row["in paths and commands"] for row in rows}
    assert found == {f"[`{kind.name}`]({kind.name}.md)": f"`{kind.plural}`" for kind in names.KINDS}
    assert {path.name for path in pages.KINDS.iterdir()} >= {f"{name}.md" for name in NAMES}


def test_the_index_has_what_is_built_in() -> None:
    rows = pages.table(pages.section(INDEX, "Built in"))
    found = {(row["kind"], name) for row in rows for name in row["names"].split(", ")}
    assert found == {(f"`{key.kind}`", f"`{key.name}`") for key in builtins.built_in()}
    reserved = pages.section(INDEX, "Built in").partition("names are taken")[2].replace("\n", " ")
    assert [key for key in builtins.RESERVED if f"{key.kind} `{key.name}`" not in reserved] == []


@pytest.mark.parametrize("kind", NAMES)
def test_every_page_begins_with_an_example(kind: str) -> None:
    before = page(kind).partition("\n## ")[0]
    assert before.startswith(f"# {kind}\n")
    assert len(pages.blocks(before, "yaml")) >= 1


# Parameters


def quoted(value: Value) -> str:
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def default(definition: Schema) -> str:
    value = definition.get("default")
    if value in (None, "", [], {}):
        return "empty"
    return ", ".join(map(quoted, value)) if isinstance(value, list) else quoted(value)


def allowed(definition: Schema) -> str:
    minimum, maximum = definition.get("minimum"), definition.get("maximum")
    if "validValues" in definition:
        more = ", or another" if definition.get("options", {}).get("creatable") else ""
        return ", ".join(map(quoted, definition["validValues"])) + more
    if minimum is not None and maximum is not None:
        return f"{minimum} to {maximum}"
    return (
        "any"
        if minimum is None and maximum is None
        else f"at {'most' if minimum is None else 'least'} " + str(maximum if minimum is None else minimum)
    )


def condition(one: Schema) -> str:
    name, value = one["name"], one["value"]
    match one["operator"], value:
        case "equals", _:
            return f"`{name}` is {quoted(value)}"
        case "notEquals", "":
            return f"`{name}` is not empty"
    raise AssertionError(f"no words for {one}")


def parameter(definition: Schema) -> dict[str, str]:
    """The row of a table."""
    secret = ", secret" if definition.get("options", {}).get("sensitive") else ""
    return {
        "parameter": f"`{definition['name']}`",
        "label": definition["label"],
        "type": f"`{definition['type']}`{secret}",
        "required": "yes" if definition.get("required") else "no",
        "default": default(definition),
        "allowed": allowed(definition),
        "matters when": " and ".join(map(condition, definition.get("relevantIf", []))) or "always",
        "meaning": definition["description"],
    }


@pytest.mark.parametrize("key", TYPES, ids=str)
def test_a_built_in_type_is_documented_with_every_parameter(key: Key) -> None:
    spec = cast("Schema", builtins.built_in()[key]["spec"])
    assert pages.table(page_of_type(key)) == [parameter(each) for each in spec["parameters"]]


def test_every_type_that_a_page_describes_is_run_by_the_service() -> None:
    found = {
        (f"{kind}Type", name)
        for kind in components.KINDS
        for name in re.findall(r"^### The type `(.+)`$", page(kind), re.MULTILINE)
    }
    own = {(f"{path.name.split('.')[0]}Type", path.name.split(".")[1]) for path in pages.KINDS.glob("*.*.md")}
    assert found | own == {tuple(key) for key in TYPES}


# Examples


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_is_valid(path: Path, tmp_path: Path) -> None:
    """The examples of a page one by one, each with all that it refers to."""
    for number, text in enumerate(pages.blocks(pages.read(path), "yaml")):
        file = tmp_path / f"{number}.yaml"
        file.write_text(text, encoding="utf-8")
        outcome = CliRunner().invoke(validate, ["--strict", str(file)])
        assert (outcome.stdout, outcome.exit_code) == ("", 0), text
        assert ", 0 skipped, 0 violations" in outcome.stderr


@pytest.mark.parametrize("kind", NAMES)
def test_the_first_example_of_a_page_is_of_its_kind(kind: str) -> None:
    assert f"kind: {kind}\n" in pages.blocks(page(kind), "yaml")[0]
