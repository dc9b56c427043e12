"""Values that count once, and how many are remembered."""

import secrets

from reconciler.auth import rate_limits
from reconciler.auth.rate_limits import OnceOnly


def test_each_token_that_is_made_is_one() -> None:
    tokens = [secrets.token_urlsafe(rate_limits.FORM_TOKEN_BYTES) for _ in range(100)]
    assert all(map(rate_limits.is_form_token, tokens))
    assert not rate_limits.is_form_token(tokens[0][1:])


def test_a_value_counts_once() -> None:
    sent = OnceOnly(10)
    values = (("user:ana", "a"), ("user:ana", "a"), ("user:bob", "a"))
    assert [sent.take(value) for value in values] == [True, False, True]


def test_what_came_to_nothing_may_come_again() -> None:
    sent = OnceOnly(10)
    sent.take("a")
    sent.give_back("a")
    assert sent.take("a")


def test_the_oldest_is_forgotten_for_a_new_one() -> None:
    sent = OnceOnly(2)
    assert [sent.take(value) for value in ("a", "b", "c")] == [True] * 3
    assert [sent.take(value) for value in ("b", "c", "a")] == [False, False, True]
