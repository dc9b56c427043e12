"""`schema` prints a kind's schema, and every command judges the kind that it is given."""

import json

import pytest

import schemas
from reconciler.cli import options
from reconciler.model import names
from reconciler.model.errors import Refused
from tests.cli.conftest import Program


@pytest.mark.parametrize("spelling", ["Destination", "destinations", "DESTINATION"])
def test_schema_prints_the_schema(alone: Program, spelling: str) -> None:
    outcome = alone("schema", spelling)
    assert (outcome.code, outcome.err) == (0, "")
    assert json.loads(outcome.out) == schemas.load("Destination")


KNOWN = ", ".join(kind.name for kind in names.KINDS)


@pytest.mark.parametrize("command", [["schema"], ["get"], ["history", "x"], ["delete", "x"]])
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
