"""docs/parameters.md says what the code that judges parameters does."""

import json

import yaml

from reconciler.model import component_types
from reconciler.model.component_types import Operator
from reconciler.model.components import MASK
from tests.docs import pages

PAGE = pages.read(pages.ROOT / "docs/parameters.md")


def test_the_types_are_those_there_are_with_their_empty_values() -> None:
    rows = pages.table(pages.section(PAGE, "Types"))
    named = [(name, row) for row in rows for name in row["type"].split(", ")]
    assert [name for name, _ in named] == [f"`{name}`" for name in component_types.NAMES]
    known, others = named[: len(component_types.TYPES)], named[len(component_types.TYPES) :]
    for name, row in known:
        empty = [f"`{json.dumps(value)}`" for value in component_types.TYPES[name.strip("`")].empty]
        assert row["empty values"].partition(";")[0] == (", ".join(empty) or "none"), name
    empty = [f"`{json.dumps(value)}`" for value in component_types.ANYTHING.empty]
    assert {row["empty values"] for _, row in others} == {", ".join(empty)}


def test_the_values_that_are_compared_in_another_form_are_those_of_the_code() -> None:
    rows = {row["type"]: row["compared"] for row in pages.table(pages.section(PAGE, "Types"))}
    converted = [name for name, told in rows.items() if told != "as it is"]
    assert converted == [f"`{name}`" for name, each in component_types.TYPES.items() if each.canonical is not None]


def test_every_operator_is_explained() -> None:
    rows = pages.table(pages.section(PAGE, "When a parameter matters"))
    assert [row["operator"] for row in rows] == [f"`{operator}`" for operator in Operator]


def test_the_schema_is_what_the_example_compiles_to() -> None:
    type_, _ = yaml.safe_load_all(pages.blocks(PAGE, "yaml")[0])
    compiled = component_types.compiled(type_["metadata"]["name"], component_types.read_definitions(type_["spec"]))
    assert json.loads(pages.blocks(PAGE, "json")[0]) == compiled.schema


def test_the_mask_is_the_one_of_the_service() -> None:
    assert f"### `{MASK}`\n" in PAGE
