"""References to secrets: how they are written, and which lead to something that a project may use."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model import components, secret_references
from reconciler.model.secret_references import AvailableSecrets, SecretReference, SecretSource
from reconciler.model.values import Value


def env(name: str) -> SecretReference:
    return SecretReference(SecretSource.ENV, name)


def file(name: str) -> SecretReference:
    return SecretReference(SecretSource.FILE, name)


LONG = "n" * 255


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("plain $ {env:A} ${ENV:A} ${other:A} $env:A ${env}", []),
        ("${env:A}", [env("A")]),
        ("${env:_a-b.C9}", [env("_a-b.C9")]),
        ("${file:a}", [file("a")]),
        ("${file:a/b.c/-d}", [None]),
        ("${file:a/b.c/d-}", [file("a/b.c/d-")]),
        ("${file:a..b/c}", [file("a..b/c")]),
        ("Bearer ${file:t} and ${env:A}${env:A}\n", [file("t"), env("A"), env("A")]),
        (f"${{file:{LONG}}}", [file(LONG)]),
        (f"${{file:{LONG}n}}", [None]),
        (f"${{env:{LONG}n}}", [None]),
        # Whatever begins like one and is none.
        ("${env:", [None]),
        ("${env:}", [None]),
        ("${env:A", [None]),
        ("${env:A ${env:B}", [None, env("B")]),
        ("${env:${file:a}}", [None, file("a")]),
        ("${env:A:-x}", [None]),
        ("${env:A:?x}", [None]),
        ("${env:A/B}", [None]),
        ("${env:Ä}", [None]),
        ("${env:A\n}", [None]),
        ("${env: A}", [None]),
        ("${file:..}", [None]),
        ("${file:../a}", [None]),
        ("${file:a/../b}", [None]),
        ("${file:a/..}", [None]),
        ("${file:./a}", [None]),
        ("${file:a//b}", [None]),
        ("${file:a/}", [None]),
        ("${file:/etc/passwd}", [None]),
        ("${file:.hidden}", [None]),
        ("${file:a/.hidden}", [None]),
        ("${file:%2e%2e/a}", [None]),
        ("${file:a\\b}", [None]),
        ("${file:a\0}", [None]),
        # There is no way to escape one.
        ("$${env:A}", [env("A")]),
        ("\\${env:A}", [env("A")]),
    ],
)
def test_references_are_found_in_order_and_malformed_ones_too(text: str, found: list[SecretReference | None]) -> None:
    assert list(secret_references.find_secret_references(text)) == found
    [*_, last] = [None, *found]
    is_whole = len(found) == 1 and str(last) == text
    assert secret_references.whole_secret_reference(text) == (last if is_whole else None)


TEXT = st.lists(
    st.sampled_from(
        ["${env:", "${file:", "}", "A", "a/b", "..", "/", "$", "{", ":-", " ", "\n", "ö", "${env:A}", "n" * 130]
    )
).map("".join)


@given(TEXT)
def test_the_pieces_are_the_whole_text_and_plain_ones_hold_no_reference(text: str) -> None:
    pieces = list(secret_references.text_pieces(text))
    assert all(isinstance(piece, SecretReference) or piece != "" for piece in pieces)
    plain = [piece for piece in pieces if isinstance(piece, str)]
    assert [piece for piece in plain if "${env:" in piece or "${file:" in piece] == []
    # With the beginnings back that nobody could read, it is the text again.
    pattern = "".join(r"\$\{(?:env|file):" if piece is None else re.escape(str(piece)) for piece in pieces)
    assert re.fullmatch(pattern, text)


@given(st.sampled_from(SecretSource), st.from_regex(r"[A-Za-z0-9_][-A-Za-z0-9_.]{0,254}", fullmatch=True))
def test_a_reference_is_read_as_it_is_written(source: SecretSource, name: str) -> None:
    reference = SecretReference(source, name)
    assert secret_references.whole_secret_reference(str(reference)) == reference


def test_a_long_text_of_beginnings_takes_no_time() -> None:
    begin = time.process_time()
    for part in ("${env:", "${file:a/", "${env:A}", "$", "${env:A" + "a" * 1000):
        secret_references.find_secret_references(part * (400_000 // len(part)))
    assert time.process_time() - begin < 5.0  # seconds; what grows with the square takes hours


HELD = AvailableSecrets(env=frozenset({"A", "SERVICE_X", "service_y"}), files=frozenset({"a", "b/c", "d_e"}))


@pytest.mark.parametrize(
    ("reference", "nested", "flat"),
    [
        (env("A"), True, True),
        (env("a"), False, False),
        (env("B"), False, False),
        (file("A"), False, False),
        (file("a"), True, True),
        (file("b/c"), True, False),
        (file("d_e"), True, True),
        (file("d/e"), False, True),
        # Never, not even if somebody listed them.
        (env("SERVICE_X"), False, False),
        (env("service_y"), False, False),
    ],
)
def test_what_is_available_is_what_is_listed(reference: SecretReference, nested: bool, flat: bool) -> None:
    assert HELD.has(reference) is nested
    assert AvailableSecrets(HELD.env, HELD.files, flat=True).has(reference) is flat


def test_of_nothing_nothing_is_available() -> None:
    assert not secret_references.NO_SECRETS.has(env("A"))
    assert not secret_references.NO_SECRETS.has(file("a"))


@pytest.mark.parametrize(
    ("text", "covered"),
    [
        ("${env:DESTINATION_A__X}", True),
        ("tcp://${env:HOST}:${env:DESTINATION_A__X:-y}", True),
        ("${env:DESTINATION_B__X}", False),
        ("DESTINATION_A__X", False),
        ("${file:DESTINATION_A__X}", False),
        ("${DESTINATION_A__X}", True),
        ("tcp://${HOST}:${DESTINATION_A__X:-y}", True),
        ("${DESTINATION_B__X}", False),
        ("${DESTINATION_A__X:y}", False),
        ("${env:SERVICE_NAME}", False),  # no pattern covers what begins so
        ("${env:", False),
    ],
)
def test_the_names_that_are_for_the_service_alone_are_those_that_a_pattern_covers(text: str, covered: bool) -> None:
    assert AvailableSecrets(patterns=("DESTINATION_A__*", "SERVICE_*")).covers(text) is covered
    assert not secret_references.NO_SECRETS.covers(text)


@pytest.mark.parametrize(
    ("value", "hidden"),
    [
        ("${env:A}", False),
        ("${file:a/b}", False),
        ("${file:a/../b}", True),
        ("${file:a/b} ", True),
        (f"${{env:{LONG}}}", False),
        (f"${{env:{LONG}n}}", True),
        ("${env:A}${env:B}", True),
        ("Bearer ${env:A}", False),
        ("basic ${env:A}", False),
        ("Api-Token ${env:A}", False),
        ("Bearer ${file:a}", True),
        ("Bearer  ${env:A}", True),
        ("Bearer ${env:A} ", True),
        ("Bearer Bearer ${env:A}", True),
        ("hunter2 ${env:A}", True),
        ("x-bearer ${env:A}", True),
        ("Bearer ${env:A:-hunter2}", True),
    ],
)
def test_a_secret_that_is_one_whole_reference_or_that_after_a_scheme_of_http_is_shown(value: str, hidden: bool) -> None:
    spec: Value = {"parameters": [{"name": "a", "value": value, "sensitive": True}]}
    assert bool(components.find_parameters(spec).secrets) is hidden
