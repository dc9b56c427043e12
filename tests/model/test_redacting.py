"""Redacting: the text is nowhere afterwards, everything else is as it was, and a second time changes nothing."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from reconciler.model import rendering, values
from reconciler.model.rendering import MARK, Bound
from reconciler.model.values import Value

KEY = b"k" * 32
TEXT = "hunter2!"

# Few characters, among them those of the mark and of what numbers a key, so that texts meet themselves and the mark.
characters = st.sampled_from('ab1 2-~/"\\()redct.\né')
texts = st.text(characters, min_size=4, max_size=6).filter(lambda text: rendering.redaction_problem(text) is None)
strings = st.text(characters, max_size=12)
numbers = st.integers(-99_999, 99_999) | st.floats(allow_nan=False, allow_infinity=False).filter(lambda n: n % 1 != 0)
scalars: st.SearchStrategy[Value] = st.none() | st.booleans() | numbers | strings


@st.composite
def holding(draw: st.DrawFn) -> tuple[str, Value]:
    """A text and a value that is likely to hold it, in strings and keys."""
    text = draw(texts)
    pieces = st.lists(strings | st.just(text) | st.sampled_from([MARK, text[1:], text[:-1]]), max_size=4).map("".join)
    values: st.SearchStrategy[Value] = st.recursive(
        scalars | pieces,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(pieces, inner, max_size=4),
        max_leaves=12,
    )
    return text, draw(values)


@pytest.mark.parametrize(
    ("text", "told", "left"),
    [
        ("abc/d+e==", "a.yaml:1:2: /spec/abc~1d+e==: is not known", f"a.yaml:1:2: /spec/{MARK}: is not known"),
        ("a~/b~1", "/spec/a~0~1b~01: is not known", f"/spec/{MARK}: is not known"),
        ("one\ntwo", "/spec/one\\ntwo: is not known", f"/spec/{MARK}: is not known"),
        ("\u202e/x/y", "/spec/\\u202e~1x~1y: is not `\\u202e/x/y`", f"/spec/{MARK}: is not `{MARK}`"),
    ],
)
def test_a_sentence_is_rewritten_however_it_spells_the_text(text: str, told: str, left: str) -> None:
    """As it is, in a JSON pointer, and escaped for people."""
    assert rendering.redaction_sentence(told, text) == left
    assert rendering.redaction_sentence(text, text) == MARK


def leaves(value: Value) -> Iterator[str]:
    """Every string and key, and every number as JSON writes it."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from leaves(each)
    elif isinstance(value, list):
        for each in value:
            yield from leaves(each)
    elif isinstance(value, str):
        yield value
    elif value is not None and not isinstance(value, bool):
        yield values.canonical_json(value).decode()


def shape(value: Value) -> Value:
    """How many of what stand where, whatever they are called."""
    if isinstance(value, dict):
        return sorted((shape(each) for each in value.values()), key=values.canonical_json)
    return [shape(each) for each in value] if isinstance(value, list) else None


@settings(max_examples=60)
@given(holding())
@example(("abc(", "abcabc(("))  # what stands around it makes it again
@example(("d)(r", "d)(rd)(r"))
@example(("ed) ", {"ed) ": 1, "(redacted)": 2, "(redacted)-2": 3}))
def test_the_text_is_nowhere_afterwards_and_a_second_time_changes_nothing(held: tuple[str, Value]) -> None:
    text, value = held
    left = rendering.redacted_value(value, text)
    assert not any(text in leaf for leaf in leaves(left.value))
    assert left.places == sum(text in leaf for leaf in leaves(value))
    assert rendering.redacted_value(left.value, text) == rendering.Redacted(left.value, 0, {})
    assert (left.value == value) == (left.places == 0)
    assert shape(left.value) == shape(value)


@settings(max_examples=60)
@given(holding())
def test_what_does_not_hold_the_text_is_as_it_was(held: tuple[str, Value]) -> None:
    text, value = held
    left = rendering.redacted_value(value, text).value

    def check(before: Value, after: Value) -> None:
        if isinstance(before, dict):
            assert isinstance(after, dict)
            for key, each in before.items():
                if text not in key:
                    check(each, after[key])
        elif isinstance(before, list):
            assert isinstance(after, list)
            for one, other in zip(before, after, strict=True):
                check(one, other)
        elif not any(text in leaf for leaf in leaves(before)):
            assert before == after

    check(value, left)


@settings(max_examples=60)
@given(st.dictionaries(strings, scalars, min_size=2, max_size=5), texts)
def test_the_order_of_keys_does_not_matter(value: dict[str, Value], text: str) -> None:
    held: dict[str, Value] = {text: 1, f"{text} ": 2, **value}
    turned = dict(reversed(held.items()))
    assert rendering.redacted_value(held, text).value == rendering.redacted_value(turned, text).value


def document(**spec: Value) -> dict[str, Value]:
    metadata: dict[str, Value] = {"name": "siem", "description": "fine", "labels": {"team": "a"}}
    return {"apiVersion": "service/v1", "kind": "Destination", "metadata": metadata, "spec": spec}


def stored(owned: dict[str, Value], secrets: dict[tuple[str | int, ...], Value]) -> tuple[bytes, bytes | None]:
    """A version as it is stored."""
    bound = Bound("default", "an-id", 3)
    ready = rendering.prepare(owned, secrets.items(), hmac_key=KEY, bound=bound)
    identity = rendering.ResourceIdentity(id="an-id", version=3, date_modified="2026-11-21T06:12:00.123Z")
    return rendering.body(ready, identity=identity), ready.secrets


def redact(body: bytes, secrets: bytes | None, text: str = TEXT) -> rendering.RedactedVersion | None:
    return rendering.redacted_version(body, secrets, text, project="default", hmac_key=KEY)


def metadata(body: bytes) -> dict[str, Any]:
    return dict(json.loads(body)["metadata"])


def test_a_version_is_left_so() -> None:
    secret = ("spec", "parameters", 1, "value", f"X-{TEXT}")
    parameters: Value = [{"name": "raw", "value": f"a: {TEXT}\n"}, {"name": "headers", "value": {f"X-{TEXT}": "h"}}]
    body, secrets = stored(document(parameters=parameters), {secret: f"Bearer {TEXT}"})
    assert secrets == b'{"/spec/parameters/1/value/X-hunter2!":"Bearer hunter2!"}'
    left = redact(body, secrets)
    assert left is not None
    assert json.loads(left.body)["spec"]["parameters"] == [
        {"name": "raw", "value": "a: (redacted)\n"},
        {"name": "headers", "value": {"X-(redacted)": "(sensitive)"}},
    ]
    assert left.secrets == b'{"/spec/parameters/1/value/X-(redacted)":"Bearer (redacted)"}'
    assert left.places == 2
    kept = {key: value for key, value in metadata(left.body).items() if key != "hash"}
    assert kept == {key: value for key, value in metadata(body).items() if key != "hash"}
    assert metadata(left.body)["hash"] != metadata(body)["hash"]
    assert redact(left.body, left.secrets) is None


def test_the_hash_is_of_what_is_left() -> None:
    body, secrets = stored(document(raw=f"a {TEXT}"), {})
    left = redact(body, secrets)
    assert left is not None
    assert left.body == stored(document(raw="a (redacted)"), {})[0]


def test_a_redacted_secret_shows_in_nothing_that_a_reader_gets() -> None:
    place = ("spec", "parameters", 0, "value")
    parameters: Value = [{"name": "own", "value": "?", "sensitive": True}]
    body, secrets = stored(document(parameters=parameters, note=TEXT), {place: f"a {TEXT}"})
    left = redact(body, secrets)
    assert left is not None
    assert left.body == stored(document(parameters=parameters, note=MARK), {place: f"a {TEXT}"})[0]
    assert (left.places, left.secrets) == (1, b'{"/spec/parameters/0/value":"a (redacted)"}')
    quiet = redact(*stored(document(parameters=parameters), {place: TEXT}))
    assert quiet is not None
    assert (quiet.body, quiet.places) == (stored(document(parameters=parameters), {place: TEXT})[0], 0)


@pytest.mark.parametrize("text", ["spec", "metadata", "labels", "service/v1", "Destination", "2026", "an-i", "siem"])
def test_the_frame_of_a_version_and_what_it_is_known_by_stay(text: str) -> None:
    body, secrets = stored(document(type="otlp"), {})
    assert redact(body, secrets, text) is None


def test_the_name_and_the_id_are_told() -> None:
    body, _ = stored(document(type="otlp"), {})
    assert [rendering.is_known_by(body, text) for text in ("siem", "n-id", "otlp")] == [True, True, False]


@settings(max_examples=60)
@given(st.text(min_size=4, max_size=8).filter(lambda text: rendering.redaction_problem(text) is None))
def test_no_escape_hides_the_text(text: str) -> None:
    assume("team" not in text)
    body, _ = stored(document(raw=f"1{text}2"), {})
    assume(not rendering.is_known_by(body, text))
    left = redact(body, None, text)
    assert left is not None
    assert msgspec.json.decode(left.body)["spec"]["raw"] in {"1(redacted)2", MARK}


@pytest.mark.parametrize(
    ("body", "secrets"),
    [
        (b"{", None),
        (b"[]", None),
        (b"{}", None),
        (b'{"metadata":1,"spec":{}}', None),
        (stored(document(), {})[0], b'{"/x":1}'),
    ],
)
def test_what_is_damaged_is_told(body: bytes, secrets: bytes | None) -> None:
    with pytest.raises((LookupError, ValueError)):
        redact(body, secrets)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("abcd", None),
        ("x" * 65_536, None),
        ("(redacted)!", None),
        ("abc", "must have 4 to 65,536 characters"),
        ("x" * 65_537, "must have 4 to 65,536 characters"),
        ("acte", "must not be a part of `(redacted)` or `(sensitive)`, which the service writes itself"),
        ("itive)", "must not be a part of `(redacted)` or `(sensitive)`, which the service writes itself"),
        ("half \ud800", "must be Unicode text, without half of a pair"),
    ],
)
def test_a_text_is_judged_without_being_repeated(text: str, problem: str | None) -> None:
    assert rendering.redaction_problem(text) == problem
