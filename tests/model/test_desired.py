"""Desired documents: a digest that decides equality and tells no secret, and all that follows from a document alone."""

import copy
import hashlib
import hmac
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model import components, desired, values
from reconciler.model.desired import Desired, Judged
from reconciler.model.names import Key
from reconciler.model.values import Value
from tests.model.documents import API_VERSIONS, EXAMPLES, SCALARS, mutated

KEY = b"k" * 32
CANARY = "hunter2-canary"


def judged(document: Value) -> Judged:
    return desired.judge(document, api_versions=API_VERSIONS, placeholders=True)


def owned_of(document: Value) -> dict[str, Value]:
    found = judged(document)
    assert found.owned is not None, found.violations
    return found.owned


def made(document: Value, hmac_key: bytes = KEY) -> Desired:
    return desired.of_judged(judged(document), hmac_key=hmac_key)


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


def test_a_valid_document_becomes_this() -> None:
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

    found = made(source("p:2", "o", "p", metadata=metadata, token=CANARY) | {"status": {"latest": True}})

    assert found == Desired(
        Key("Source", "a"),
        digest=hmac.digest(KEY, encoded, "sha256"),
        owned=encoded,
        references=(Key("Processor", "o"), Key("Processor", "p"), Key("SourceType", "file")),
        has_placeholders=False,
        proposed_id="01J",
        deprecated=True,
        protected=True,
    )
    assert CANARY not in repr(found)


def test_without_any_of_that_it_says_so() -> None:
    fleet: dict[str, Value] = {"apiVersion": "service/v1", "kind": "Fleet", "metadata": {"name": "a"}}
    owned = values.canonical_json({**fleet, "spec": {}})

    assert made(fleet) == Desired(Key("Fleet", "a"), digest=hmac.digest(KEY, owned, "sha256"), owned=owned)


@given(mutated(), mutated())
def test_digests_are_equal_exactly_when_what_a_user_owns_is(one: Value, other: Value) -> None:
    first, second = (desired.judge(each, api_versions=API_VERSIONS) for each in (one, other))
    if first.owned is None or second.owned is None:
        return
    same = values.canonical_json(first.owned) == values.canonical_json(second.owned)

    digests = [desired.of_judged(each, hmac_key=KEY).digest for each in (first, second)]
    assert (digests[0] == digests[1]) == same


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

    assert (made(document).digest != made({**document, **change}).digest) == differs


@given(SCALARS, SCALARS)
def test_a_digest_changes_when_a_secret_does(one: Value, other: Value) -> None:
    same = values.canonical_json(one) == values.canonical_json(other)

    assert (made(source(token=one)).digest == made(source(token=other)).digest) == same


def test_a_digest_does_not_depend_on_who_calls_a_value_a_secret() -> None:
    """`Prepared` depends on types; a digest is of the document alone. To call a value sensitive is a change."""
    open_, secret = source(token="x"), source(token="x")
    secret["spec"]["parameters"][0]["sensitive"] = True

    assert made(open_).digest == made(copy.deepcopy(open_)).digest
    assert made(open_).digest != made(secret).digest


def test_a_guess_is_not_confirmed_without_the_key() -> None:
    document = source(token=CANARY)
    plain = hashlib.sha256(values.canonical_json(owned_of(document))).digest()

    assert len({plain, made(document).digest, made(document, b"another key").digest}) == 3


@pytest.mark.parametrize(
    ("value", "has"),
    [("(sensitive)", True), ({"k": "(sensitive)"}, True), ({"k": "x"}, False), ("(sensitive) ", False), ("x", False)],
)
def test_a_document_knows_whether_something_stands_for_a_stored_value(value: Value, has: bool) -> None:
    assert made(source(token=value)).has_placeholders is has


def test_with_its_values_in_place_it_is_that_of_the_whole_document() -> None:
    metadata: dict[str, Value] = {"id": "01J", "deprecated": True}
    shown = made(source("p", metadata=metadata, token=components.MASK))
    whole = source("p", "q", metadata=metadata, token=CANARY)

    restored = desired.restored(shown, owned_of(whole), hmac_key=KEY)

    assert restored == made(whole)
    assert CANARY not in repr(restored)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["metadata"]["name"])
def test_what_a_user_owns_is_had_back_and_may_be_changed(example: dict[str, Any]) -> None:
    found = made(example)
    owned = found.document()
    assert owned == owned_of(example)
    assert desired.digest(owned, hmac_key=KEY) == found.digest

    owned["spec"] = {}

    assert found.document() == owned_of(example)


@given(st.permutations(["p", "q", "r", "p"]))
def test_each_reference_is_kept_once_in_order(names: list[str]) -> None:
    expected = (*(Key("Processor", name) for name in "pqr"), Key("SourceType", "file"))

    assert made(source(*names)).references == expected
