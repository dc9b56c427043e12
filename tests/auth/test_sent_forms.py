"""Values that count once, and how many are remembered."""

from reconciler.auth.rate_limits import OnceOnly


def test_a_value_counts_once() -> None:
    spent = OnceOnly(10)
    assert [spent.take(value) for value in ("a", "a", "b")] == [True, False, True]


def test_the_oldest_is_forgotten_for_a_new_one() -> None:
    spent = OnceOnly(2)
    assert [spent.take(value) for value in ("a", "b", "c")] == [True] * 3
    assert [spent.take(value) for value in ("b", "c", "a")] == [False, False, True]
