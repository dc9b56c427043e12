"""Preparing: hashes that follow every change and tell no secret, and bodies without secrets."""

import copy
import hashlib
import hmac
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model import desired as model_resource
from reconciler.model import rendering, type_checks, values
from reconciler.model.rendering import Bound, Prepared
from reconciler.model.values import Value, pointer_text
from tests.model.documents import API_VERSIONS, EXAMPLES, SCALARS, at, pointers, replaced
from tests.model.lookups import look_up

KEY = b"k" * 32
CANARY = "hunter2-canary"
BOUND = Bound(project="default", resource_id="01JD7Z", version=3)
PLANTS: list[Value] = [CANARY, {"k": CANARY}, [CANARY], {"k": [CANARY, {"l": CANARY}]}]


def owned(document: Value) -> dict[str, Value]:
    judged = model_resource.judge(document, api_versions=API_VERSIONS)
    assert judged.owned is not None, judged.violations
    return judged.owned


def prepare(document: Value, hmac_key: bytes = KEY, bound: Bound = BOUND) -> Prepared:
    """A document, prepared as the built-in types have it."""
    resource = owned(document)
    return rendering.prepare(resource, type_checks.fit(resource, look_up).secrets, hmac_key=hmac_key, bound=bound)


def destination(*, own: Value = "t", header: Value = "h", port: Value = 443) -> dict[str, Any]:
    """A Destination with a secret of its own, a secret in a map, one in a nested processor, and a plain value."""
    return {
        "apiVersion": "service/v1",
        "kind": "Destination",
        "metadata": {"name": "siem"},
        "spec": {
            "type": "webhook",
            "parameters": [
                {"name": "port", "value": port},
                {"name": "own", "value": own, "sensitive": True},
                {"name": "headers", "value": {"A/b": header, "X": "${env:DESTINATION_DEFAULT__X}"}},
            ],
            "processors": [{"type": "t", "parameters": [{"name": "deep", "value": own, "sensitive": True}]}],
        },
    }


def covered(value: Value, place: str) -> str:
    bound: list[Value] = ["default", "01JD7Z", 3, "Destination", "siem", place, value]
    return "hmac-sha256:" + hmac.new(KEY, values.canonical_json(bound), "sha256").hexdigest()


def test_a_resource_is_prepared_so() -> None:
    document = destination()
    own, header = "/spec/parameters/1/value", "/spec/parameters/2/value/A~1b"
    hashed = destination(own=covered("t", own), header=covered("h", header))
    [deep] = hashed["spec"]["processors"][0]["parameters"]
    deep["value"] = covered("t", "/spec/processors/0/parameters/0/value")

    assert prepare(document) == Prepared(
        spec_hash=hashlib.sha256(values.canonical_json(hashed["spec"])).hexdigest(),
        masked=destination(own="(sensitive)", header="(sensitive)"),
        secrets=values.canonical_json(
            {
                "/spec/parameters/1/value": "t",
                "/spec/parameters/2/value/A~1b": "h",
                "/spec/processors/0/parameters/0/value": "t",
            }
        ),
    )


def test_without_secrets_no_key_matters() -> None:
    document: dict[str, Value] = {
        "apiVersion": "service/v1",
        "kind": "Fleet",
        "metadata": {"name": "a"},
        "spec": {},
    }
    expected = Prepared(spec_hash=hashlib.sha256(b"{}").hexdigest(), masked=document, secrets=None)

    assert (prepare(document), prepare(document, b"another key")) == (expected, expected)


SECRETS = st.one_of(SCALARS, st.lists(st.text(max_size=3), max_size=2)).filter(lambda value: value != "(sensitive)")


@given(SECRETS, SECRETS)
def test_the_hash_changes_exactly_when_a_secret_does(one: Value, other: Value) -> None:
    same = values.canonical_json(one) == values.canonical_json(other)
    first, second = prepare(destination(own=one)), prepare(destination(own=other))

    assert (first.spec_hash == second.spec_hash) == same
    assert (first.secrets == second.secrets) == same
    assert first.masked == second.masked


def test_another_key_gives_another_hash() -> None:
    one, other = prepare(destination()), prepare(destination(), b"another key")

    assert one.spec_hash != other.spec_hash
    assert (one.masked, one.secrets) == (other.masked, other.secrets)


@pytest.mark.parametrize(
    ("change", "elsewhere"),
    [
        ({}, BOUND._replace(project="another")),
        ({}, BOUND._replace(resource_id="another")),
        ({}, BOUND._replace(version=4)),
        ({"metadata": {"name": "another"}}, BOUND),
        ({"kind": "Processor"}, BOUND),
    ],
    ids=["project", "id", "version", "name", "kind"],
)
def test_the_same_secrets_elsewhere_give_another_hash(change: dict[str, Value], elsewhere: Bound) -> None:
    """Else whoever may store a resource could store a guess and compare."""
    here = owned(destination())
    secrets = type_checks.fit(here, look_up).secrets
    one = rendering.prepare(here, secrets, hmac_key=KEY, bound=BOUND)
    other = rendering.prepare(here | change, secrets, hmac_key=KEY, bound=elsewhere)

    assert one.spec_hash != other.spec_hash
    assert (one.masked["spec"], one.secrets) == (other.masked["spec"], other.secrets)


def test_two_equal_secrets_of_one_resource_look_like_two() -> None:
    """Else a copy of a secret in another place of the resource would tell whether it is one."""
    document = destination()
    stands = [covered("t", place) for place in json.loads(prepare(document).secrets or b"")]

    assert len(set(stands)) == 3


def test_the_hash_of_a_guessed_secret_is_not_the_hash() -> None:
    document = destination()
    guesses = [values.canonical_json(document["spec"]), values.canonical_json(destination(own="(sensitive)")["spec"])]

    assert prepare(document).spec_hash not in [hashlib.sha256(guess).hexdigest() for guess in guesses]


@pytest.mark.parametrize(
    ("change", "hash_changes"),
    [
        ({"spec": {"type": "custom"}}, True),
        ({"spec": {"type": "file", "parameters": []}}, True),
        ({"metadata": {"name": "a", "description": "other"}}, False),
        ({"metadata": {"name": "a", "labels": {}}}, False),
        ({"metadata": {"name": "a", "id": "x", "hash": 1, "version": 2, "dateModified": 3}}, False),
        ({"status": {"latest": True}}, False),
    ],
)
def test_the_hash_follows_the_spec_alone(change: dict[str, Value], hash_changes: bool) -> None:
    document: dict[str, Value] = {
        "apiVersion": "service/v1",
        "kind": "Source",
        "metadata": {"name": "a"},
        "spec": {"type": "file"},
    }
    before, after = prepare(document), prepare({**document, **change})

    assert (before.spec_hash != after.spec_hash) == hash_changes


def test_a_reference_and_what_stands_for_a_secret_never_give_the_same_hash() -> None:
    own = "/spec/parameters/1/value"
    reference, literal = "${env:A}", covered("${env:A}", own)
    values = (reference, literal, covered(literal, own))

    assert len({prepare(destination(own=value)).spec_hash for value in values}) == 3
    assert prepare(destination(own=reference)).masked == destination(own=reference, header="(sensitive)")


@given(st.data())
def test_a_secret_is_in_secrets_and_nowhere_else(data: st.DataObject) -> None:
    """Plant a secret parameter in every list of parameters that an example has, then look for it everywhere."""
    document = data.draw(st.sampled_from([each for each in EXAMPLES if "Type" not in each["kind"]]))
    lists = [pointer for pointer in pointers(document) if pointer[-1:] == ("parameters",)]
    place = data.draw(st.sampled_from([*lists, None])) if lists else None
    value = data.draw(st.sampled_from(PLANTS))
    planted = {"name": "planted", "value": value, "sensitive": True}
    if place is not None:
        document = replaced(document, place, [*at(document, place), planted])
    before = copy.deepcopy(document)

    mine = owned(document)
    fit = type_checks.fit(mine, look_up)
    prepared = rendering.prepare(mine, fit.secrets, hmac_key=KEY, bound=BOUND)

    assert document == before
    assert CANARY not in json.dumps(prepared.masked)
    assert CANARY not in repr((fit, prepared))
    assert (CANARY.encode() in (prepared.secrets or b"")) == (place is not None)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["metadata"]["name"])
def test_secrets_put_back_into_the_masked_form_give_the_resource(example: dict[str, Any]) -> None:
    prepared = prepare(example)
    restored: Any = prepared.masked
    secrets = json.loads(prepared.secrets or b"{}")
    for pointer in pointers(prepared.masked):
        if pointer_text(pointer) in secrets:
            restored = replaced(restored, pointer, secrets[pointer_text(pointer)])

    assert restored == owned(example)
