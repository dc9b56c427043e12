"""Canonical form: equal values have equal bytes, different ones have different bytes."""

import json
import random

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model import values as model_values
from reconciler.model.values import Value
from tests.model.documents import VALUES


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": {"z": [3, 1], "y": None}}, '{"a":{"y":null,"z":[3,1]},"b":1}'),
        ({"é": 1, "z": 2, "😀": 3, "\uffee": 4}, '{"z":2,"é":1,"\uffee":4,"😀":3}'),
        (2**64 - 1, "18446744073709551615"),
        (-(2**63), "-9223372036854775808"),
        (0.1, "0.1"),
        (1e300, "1e300"),
        (1e-7, "1e-7"),
        (5e-324, "5e-324"),
        (9007199254740993, "9007199254740993"),  # not a double
        ('"\\/\n\x00\x7f\u2028', '"\\"\\\\/\\n\\u0000\x7f\u2028"'),
        (True, "true"),
        ([], "[]"),
        ({}, "{}"),
    ],
)
def test_values_are_written_so(value: Value, text: str) -> None:
    assert model_values.canonical_json(value) == text.encode()


def test_a_lone_surrogate_is_refused_rather_than_changed() -> None:
    with pytest.raises(UnicodeEncodeError):
        model_values.canonical_json({"a": "\ud800"})


def shuffled(value: Value, randomness: random.Random) -> Value:
    """The same value with every mapping's keys in another order."""
    if isinstance(value, dict):
        items = [(key, shuffled(child, randomness)) for key, child in value.items()]
        randomness.shuffle(items)
        return dict(items)
    return [shuffled(child, randomness) for child in value] if isinstance(value, list) else value


@given(VALUES, st.randoms(use_true_random=False))
def test_the_order_of_keys_never_matters(value: Value, randomness: random.Random) -> None:
    assert model_values.canonical_json(shuffled(value, randomness)) == model_values.canonical_json(value)


@given(st.lists(VALUES, min_size=2, max_size=4))
def test_the_order_of_a_list_matters(values: list[Value]) -> None:
    rotated = [*values[1:], values[0]]

    assert (model_values.canonical_json(rotated) == model_values.canonical_json(values)) == (
        repr(_typed(rotated)) == repr(_typed(values))
    )


@given(VALUES)
def test_what_was_encoded_parses_back_to_the_same(value: Value) -> None:
    assert repr(_typed(json.loads(model_values.canonical_json(value)))) == repr(_typed(value))


@given(VALUES)
def test_another_encoder_writes_the_same_bytes(value: Value) -> None:
    assert orjson.loads(model_values.canonical_json(value)) == orjson.loads(
        orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    )


def _typed(value: Value) -> Value:
    """Keys sorted, so that `repr`, which tells 1 from True, shows equal values alike."""
    if isinstance(value, dict):
        return {key: _typed(value[key]) for key in sorted(value)}
    return [_typed(child) for child in value] if isinstance(value, list) else value
