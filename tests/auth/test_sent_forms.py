"""Forms that count once, and how many are remembered."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.auth import rate_limits
from reconciler.auth.rate_limits import SentForms


@given(st.binary(min_size=rate_limits.RANDOM_BYTES, max_size=rate_limits.RANDOM_BYTES))
def test_each_value_that_is_made_is_one(randomness: bytes) -> None:
    assert rate_limits.is_form_token(rate_limits.form_token(randomness))


def test_a_form_counts_once_for_each_person() -> None:
    sent = SentForms()
    assert [sent.take("user:ana", "a"), sent.take("user:ana", "a"), sent.take("user:bob", "a")] == [True, False, True]


def test_what_came_to_nothing_may_be_sent_again() -> None:
    sent = SentForms()
    sent.take("user:ana", "a")
    sent.give_back("user:ana", "a")
    assert sent.take("user:ana", "a")


def test_the_oldest_is_forgotten_for_a_new_one() -> None:
    sent = SentForms(most=2)
    assert [sent.take("user:ana", value) for value in ("a", "b", "c")] == [True] * 3
    assert [sent.take("user:ana", value) for value in ("b", "c", "a")] == [False, False, True]
