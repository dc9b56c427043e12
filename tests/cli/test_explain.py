"""`schema` and `explain`: what they print from the schemas."""

import json
import re

import pytest

import schemas
from reconciler.cli import explain, options
from reconciler.model import names
from reconciler.model.errors import Refused
from reconciler.model.values import Value
from tests.cli.conftest import Program


@pytest.mark.parametrize("spelling", ["Destination", "destinations", "DESTINATION"])
def test_schema_prints_the_schema(alone: Program, spelling: str) -> None:
    outcome = alone("schema", spelling)
    assert (outcome.code, outcome.err) == (0, "")
    assert json.loads(outcome.out) == schemas.load("Destination")


KNOWN = ", ".join(kind.name for kind in names.KINDS)


@pytest.mark.parametrize("command", [["schema"], ["explain"], ["get"], ["history", "x"], ["delete", "x"]])
def test_every_command_judges_the_kind(alone: Program, command: list[str]) -> None:
    name, *rest = command
    sentence = f"error: there is no kind fleat, did you mean Fleet; the kinds are {KNOWN}\n"
    assert alone(name, "fleat", *rest) == (1, "", sentence)


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("pods", ""),
        ("destnations", ", did you mean Destination"),
        ("source_type", ", did you mean SourceType"),
        ("AgentVersoin", ", did you mean AgentVersion"),
    ],
)
def test_an_unknown_kind_names_the_nearest_and_all(word: str, hint: str) -> None:
    with pytest.raises(Refused) as caught:
        options.known_kind(word)
    assert caught.value.message == f"there is no kind {word}{hint}; the kinds are {KNOWN}"


def test_the_kind_before_a_slash_is_judged_too(alone: Program) -> None:
    assert alone("get", "fleat/x").err.startswith("error: there is no kind fleat, did you mean Fleet; ")


@pytest.mark.parametrize("kind", [kind.name for kind in names.KINDS])
def test_every_kind_is_explained_with_its_fields(kind: str) -> None:
    text = explain.described(kind, [], root=schemas.load(kind))
    assert text.startswith(f"KIND:    {kind}\n\nDESCRIPTION:\n  ")
    for field in ("apiVersion", "kind", "metadata", "spec", "status"):
        assert f"\n  {field} <" in text


def every_path(kind: str) -> list[list[str]]:
    """All fields of a kind, down to a depth that no schema reaches."""
    root = schemas.load(kind)
    found: list[list[str]] = []
    open_paths: list[list[str]] = [[]]
    while open_paths:
        path = open_paths.pop()
        found.append(path)
        if len(path) < 6:
            listed = explain.described(kind, path, root=root).partition("\nFIELDS:\n")[2]
            open_paths += [[*path, name] for name in re.findall(r"^  (\S+) <", listed, flags=re.MULTILINE)]
    return found


@pytest.mark.parametrize("kind", [kind.name for kind in names.KINDS])
def test_every_field_has_a_description(kind: str) -> None:
    root = schemas.load(kind)
    assert [path for path in every_path(kind) if "(none)" in explain.described(kind, path, root=root)] == []


def test_a_field_says_its_type_and_what_is_in_it(alone: Program) -> None:
    outcome = alone("explain", "destinations.spec.parameters")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("KIND:    Destination\nFIELD:   spec.parameters <list of object, or null>\n")
    assert "\nFIELDS:\n" in outcome.out
    assert "\n  name <string, required>\n" in outcome.out


def test_an_unknown_field_names_the_known_ones() -> None:
    with pytest.raises(Refused) as caught:
        explain.described("Fleet", ["metadata", "nmae"], root=schemas.load("Fleet"))
    assert caught.value.message.startswith("Fleet.metadata has no field nmae; its fields are ")


def test_references_and_allowed_values_are_resolved() -> None:
    root: dict[str, Value] = {
        "description": "A thing.",
        "properties": {"size": {"$ref": "#/$defs/size", "description": "How big."}, "loop": {"$ref": "#/$defs/loop"}},
        "required": ["size"],
        "$defs": {
            "size": {"type": "integer", "minimum": 1, "maximum": 9, "description": "Any size.", "examples": [3]},
            "loop": {"$ref": "#/$defs/loop"},
        },
    }
    assert explain.described("Thing", ["size"], root=root) == (
        "KIND:    Thing\n"
        "FIELD:   size <integer, required>\n"
        "\n"
        "DESCRIPTION:\n"
        "  How big.\n"
        "\n"
        "ALLOWED:\n"
        "  at least 1\n"
        "  at most 9\n"
        "\n"
        "EXAMPLE:\n"
        "  3\n"
    )
    assert "loop <any>" in explain.described("Thing", [], root=root)
