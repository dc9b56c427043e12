"""No command prints a secret: `Program` looks for canaries in whatever one writes."""

import json
from typing import Any

import pytest

from tests.cli.conftest import Program

SECRET = "canary-of-a-file"


def type_of(**definition: Any) -> str:
    parameter = {"name": "token", "options": {"sensitive": True}, **definition}
    return json.dumps(
        {
            "apiVersion": "service/v1",
            "kind": "DestinationType",
            "metadata": {"name": "own"},
            "spec": {"parameters": [parameter]},
        }
    )


def destination(value: object, **parameter: Any) -> str:
    given = {"name": "token", "value": value, **parameter}
    spec = {"type": "own", "parameters": [given]}
    return json.dumps({"apiVersion": "service/v1", "kind": "Destination", "metadata": {"name": "one"}, "spec": spec})


@pytest.mark.parametrize("output", [(), ("-o", "json")])
def test_validate_tells_what_is_wrong_with_a_secret_without_it(alone: Program, output: tuple[str, ...]) -> None:
    cases = [
        (type_of(type="int", maximum=5), destination(SECRET)),
        (type_of(type="enum", validValues=["x"]), destination(SECRET)),
        (type_of(type="timezone"), destination(SECRET)),
        (type_of(type="yaml"), destination(f"[{SECRET}")),
        (type_of(type="map"), destination({"k": [SECRET]})),
        (type_of(type="string"), destination([SECRET], sensitive=True)),
        (type_of(type="string"), destination(SECRET, name="unknown").replace('"own"', '"webhook"')),
        (type_of(type="string"), destination(SECRET, colour="red")),
        (type_of(type="string"), destination(SECRET) + SECRET),
        (type_of(type="string"), f"apiVersion: service/v1\nkind: Destination\nvalue: 'x'{SECRET}\n"),
    ]
    for number, (defined, given) in enumerate(cases):
        alone.write(f"{number}/type.yaml", defined)
        alone.write(f"{number}/one.yaml", given)
        outcome = alone("validate", *output, str(number))
        assert outcome.code == 3, outcome
        assert f"{number}/one.yaml" in outcome.out


@pytest.mark.parametrize("output", [(), ("-o", "json")])
def test_validate_warns_of_a_parameter_that_a_type_does_not_know_without_its_value(
    alone: Program, output: tuple[str, ...]
) -> None:
    alone.write("own/type.yaml", type_of(type="string"))
    alone.write("own/one.yaml", destination(SECRET, name="unknown"))
    outcome = alone("validate", *output, "own")
    assert outcome.code == 0, outcome
    assert "/spec/parameters/0/name" in outcome.out
    assert "is not a parameter of the type `own`" in outcome.out
    assert SECRET not in outcome.out + outcome.err
