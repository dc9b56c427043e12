"""Drafts: a digest that decides equality and tells no secret, and all that follows from a document alone."""

import copy
import hashlib
import hmac
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model import components, resource, values
from reconciler.model.names import Key
from reconciler.model.resource import Draft, Resource
from reconciler.model.values import Value
from tests.model.documents import API_VERSIONS, EXAMPLES, SCALARS, mutated

KEY = b"k" * 32
CANARY = "hunter2-canary"


def resource_of(document: Value) -> Resource:
    judged = resource.judge(document, api_versions=API_VERSIONS, placeholders=True)
    assert judged.resource is not None, judged.violations
    return judged.resource


def draft(document: Value, hmac_key: bytes = KEY) -> Draft:
    return resource.make_draft(resource_of(document), hmac_key=hmac_key)


def source(*processors: str, metadata: dict[str, Value] | None = None, **values: Value) -> dict[str, Any]:
    """A Source with these parameters that names these processors."""
    return {
        "apiVersion": "service/v1",
        "kind": "Source",
        "metadata": {"name": "a", **(metadata or {})},
        "spec": {
            "type": "file",
            "parameters": [{"name": name, "value": value} for name, value in values.items()],
            "processors": [{"name": name} for name in processors],
        },
    }


def test_a_resource_is_drafted_so() -> None:
    metadata: dict[str, Value] = {
        "id": "01J",
        "version": 7,
        "deprecated": True,
        "labels": {"service/prune": "disabled"},
    }
    owned = source(
        "p:2", "o", "p", metadata={"deprecated": True, "labels": {"service/prune": "disabled"}}, token=CANARY
    )
    encoded = values.canonical_json(owned)

    found = draft(source("p:2", "o", "p", metadata=metadata, token=CANARY) | {"status": {"latest": True}})

    assert found == Draft(
        digest=hmac.digest(KEY, encoded, "sha256"),
        owned=encoded,
        references=(Key("Processor", "o"), Key("Processor", "p"), Key("SourceType", "file")),
        has_placeholders=False,
        proposed_id="01J",
        deprecated=True,
        protected=True,
    )
    assert CANARY not in repr(found)


def test_without_any_of_that_a_draft_says_so() -> None:
    fleet: dict[str, Value] = {"apiVersion": "service/v1", "kind": "Fleet", "metadata": {"name": "a"}}
    owned = values.canonical_json({**fleet, "spec": {}})

    assert draft(fleet) == Draft(digest=hmac.digest(KEY, owned, "sha256"), owned=owned)


@given(mutated(), mutated())
def test_digests_are_equal_exactly_when_what_a_user_owns_is(one: Value, other: Value) -> None:
    judged = [resource.judge(each, api_versions=API_VERSIONS).resource for each in (one, other)]
    first, second = (resource for resource in judged)
    if first is None or second is None:
        return
    same = values.canonical_json(first.owned) == values.canonical_json(second.owned)

    assert (resource.make_draft(first, hmac_key=KEY).digest == resource.make_draft(second, hmac_key=KEY).digest) == same


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({"spec": {"type": "custom"}}, True),
        ({"metadata": {"name": "a", "description": "other"}}, True),
        ({"metadata": {"name": "a", "labels": {}}}, False),
        ({"metadata": {"name": "a", "id": "x", "hash": 1, "version": 2, "dateModified": 3}}, False),
        ({"status": {"latest": True}}, False),
        ({"spec": {"disabled": False, "type": "file"}}, True),
    ],
)
def test_a_digest_follows_what_a_user_owns(change: dict[str, Value], differs: bool) -> None:
    document: dict[str, Value] = {
        "apiVersion": "service/v1",
        "kind": "Source",
        "metadata": {"name": "a"},
        "spec": {"type": "file"},
    }

    assert (draft(document).digest != draft({**document, **change}).digest) == differs


@given(SCALARS, SCALARS)
def test_a_digest_changes_when_a_secret_does(one: Value, other: Value) -> None:
    same = values.canonical_json(one) == values.canonical_json(other)

    assert (draft(source(token=one)).digest == draft(source(token=other)).digest) == same


def test_a_digest_does_not_depend_on_who_calls_a_value_a_secret() -> None:
    """`Prepared` depends on types; a digest is of the document alone. To call a value sensitive is a change."""
    open_, secret = source(token="x"), source(token="x")
    secret["spec"]["parameters"][0]["sensitive"] = True

    assert draft(open_).digest == draft(copy.deepcopy(open_)).digest
    assert draft(open_).digest != draft(secret).digest


def test_a_guess_is_not_confirmed_without_the_key() -> None:
    document = source(token=CANARY)
    plain = hashlib.sha256(values.canonical_json(resource_of(document).owned)).digest()

    assert len({plain, draft(document).digest, draft(document, b"another key").digest}) == 3


@pytest.mark.parametrize(
    ("value", "has"),
    [("(sensitive)", True), ({"k": "(sensitive)"}, True), ({"k": "x"}, False), ("(sensitive) ", False), ("x", False)],
)
def test_a_draft_knows_whether_something_stands_for_a_stored_value(value: Value, has: bool) -> None:
    assert draft(source(token=value)).has_placeholders is has


def test_with_its_values_in_place_a_draft_is_that_of_the_whole_document() -> None:
    metadata: dict[str, Value] = {"id": "01J", "deprecated": True}
    shown = draft(source("p", metadata=metadata, token=components.MASK))
    whole = source("p", "q", metadata=metadata, token=CANARY)

    restored = resource.restored_draft(shown, resource_of(whole).owned, hmac_key=KEY)

    assert restored == draft(whole)
    assert CANARY not in repr(restored)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["metadata"]["name"])
def test_what_a_user_owns_is_had_back_and_may_be_changed(example: dict[str, Any]) -> None:
    found = draft(example)
    owned = resource.owned_by_user(found)
    assert owned == resource_of(example).owned
    assert resource.digest_draft(owned, hmac_key=KEY) == found.digest

    owned["spec"] = {}

    assert resource.owned_by_user(found) == resource_of(example).owned


@given(st.permutations(["p", "q", "r", "p"]))
def test_each_reference_is_kept_once_in_order(names: list[str]) -> None:
    expected = (*(Key("Processor", name) for name in "pqr"), Key("SourceType", "file"))

    assert draft(source(*names)).references == expected


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["metadata"]["name"])
def test_the_members_of_a_draft_are_encoded_as_what_it_owns(example: dict[str, Any]) -> None:
    found = draft(example)

    assert values.canonical_json(resource.draft_members(found)) == found.owned
    assert found.references is draft(example).references


@pytest.mark.parametrize(("number", "stay"), [(resource.SHARED, True), (resource.SHARED + 1, False)])
def test_references_outlive_their_draft_only_if_they_are_few(number: int, stay: bool) -> None:
    """What is shared is bounded in number, so one draft that refers to thousands must not be among it."""
    references = tuple(Key("Processor", f"outliving-{each}") for each in range(number))
    before = sys.getrefcount(references)

    Draft(b"digest", b"{}", references)

    assert (sys.getrefcount(references) > before) is stay
