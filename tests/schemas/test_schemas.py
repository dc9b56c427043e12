"""Schemas: what the files promise to editors and to the service."""

import pytest
from jsonschema import Draft202012Validator

import schemas
from reconciler.model import names


def test_there_is_one_schema_per_kind_and_the_envelope() -> None:
    assert schemas.names() == (*(kind.name for kind in names.KINDS), "envelope")


@pytest.mark.parametrize("name", schemas.names())
def test_every_example_validates_against_its_schema(name: str) -> None:
    schema = schemas.load(name)
    validator = Draft202012Validator(schema)

    assert [list(validator.iter_errors(example)) for example in schema["examples"]] == [[] for _ in schema["examples"]]


def test_loading_gives_each_caller_its_own_copy() -> None:
    schemas.load("Fleet")["title"] = "changed"

    assert schemas.load("Fleet")["title"] == "Fleet"


@pytest.mark.parametrize("name", ["Notification", "fleet", "../v1/Fleet", ""])
def test_a_name_without_a_schema_is_refused(name: str) -> None:
    with pytest.raises(LookupError, match="there is no schema named"):
        schemas.load(name)
