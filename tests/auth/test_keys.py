"""Keys as text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model import directory
from tests.auth import directories

RANDOMNESS = st.binary(min_size=directory.RANDOM_BYTES, max_size=directory.RANDOM_BYTES)


@given(RANDOMNESS)
def test_a_key_has_a_prefix_that_may_be_shown_and_256_bits_that_may_not(randomness: bytes) -> None:
    key = directory.make_key(randomness)
    assert re.fullmatch(r"rck_[a-z2-7]{12}_[A-Za-z0-9_-]{43}", key)
    assert directory.key_prefix(key) == key[:16]


@given(RANDOMNESS, RANDOMNESS)
def test_another_randomness_makes_another_key(one: bytes, other: bytes) -> None:
    relevant = slice(directory.PREFIX_BYTES, None)
    if one[relevant] != other[relevant]:
        assert directory.make_key(one) != directory.make_key(other)
        assert not directory.is_same_key(directory.make_key(one), directory.key_digest(directory.make_key(other)))


def test_a_key_is_recognised_by_its_digest_alone() -> None:
    key = directories.text(1)
    assert directory.is_same_key(key, directory.key_digest(key))
    assert not directory.is_same_key(key[:-1] + "_", directory.key_digest(key))


@pytest.mark.parametrize("key", ["", "x", directories.text(1)])
def test_no_key_is_the_one_that_is_not_there(key: str) -> None:
    assert not directory.is_same_key(key, None)


@pytest.mark.parametrize(
    "text", ["", "rck_", directories.text(1) + "x", directories.text(1).upper(), " " + directories.text(1), "é" * 60]
)
def test_other_text_has_no_prefix(text: str) -> None:
    assert directory.key_prefix(text) is None
