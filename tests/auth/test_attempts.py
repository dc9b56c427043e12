"""Slowing down whoever guesses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.auth.rate_limits import LONGEST, MOST, PER_ADDRESS, PER_PAIR, SECONDS, SignInAttempts


def failing(*pairs: tuple[str, str], now: float = 0.0) -> SignInAttempts:
    attempts = SignInAttempts()
    for name, address in pairs:
        attempts.failed(name, address, now=now)
    return attempts


@pytest.mark.parametrize(
    ("failures", "asked", "seconds"),
    [
        ([("una", "a")] * (PER_PAIR - 1), ("una", "a"), 0),
        ([("una", "a")] * PER_PAIR, ("una", "a"), SECONDS),
        ([("una", "a")] * (PER_PAIR + 2), ("una", "a"), 3 * SECONDS),
        ([("una", "a")] * PER_PAIR, ("una", "b"), 0),  # the person herself comes from elsewhere
        ([("una", "a")] * PER_PAIR, ("vic", "a"), 0),
        ([(f"name{number}", "a") for number in range(PER_ADDRESS)], ("una", "a"), SECONDS),
        ([("una", f"address{number}") for number in range(PER_ADDRESS)], ("una", "b"), 0),
    ],
)
def test_failures_are_counted_by_name_and_by_address(
    failures: list[tuple[str, str]], asked: tuple[str, str], seconds: float
) -> None:
    assert failing(*failures).wait(*asked, now=0.0) == seconds


def test_a_failure_is_forgotten_in_time() -> None:
    attempts = failing(*[("una", "a")] * PER_PAIR)
    assert attempts.wait("una", "a", now=SECONDS) == 0
    attempts.failed("una", "a", now=SECONDS)
    assert attempts.wait("una", "a", now=SECONDS) == SECONDS


def test_success_forgets_the_failures_of_that_name_from_there() -> None:
    attempts = failing(*[("una", "a")] * PER_PAIR)
    attempts.succeeded("una", "a")
    assert attempts.wait("una", "a", now=0.0) == 0


def test_memory_is_bounded_however_many_names_are_tried() -> None:
    attempts = failing(*[("una", "a")] * PER_PAIR)
    for number in range(MOST):
        attempts.failed(f"name{number}", f"address{number}", now=0.0)
    assert attempts.wait("una", "a", now=0.0) == 0


def test_a_long_name_is_kept_as_far_as_a_name_can_be_long() -> None:
    attempts = failing(*((f"{'n' * LONGEST}{number}", "a") for number in range(PER_PAIR)))
    assert attempts.wait("n" * LONGEST, "a", now=0.0) > 0
    attempts.succeeded("n" * 10_000, "a")
    assert attempts.wait("n" * LONGEST, "a", now=0.0) == 0


@given(st.lists(st.floats(0, 1_000), min_size=1, max_size=40))
def test_whoever_waits_as_told_may_try_again(steps: list[float]) -> None:
    attempts, now = SignInAttempts(), 0.0
    for step in steps:
        now += step
        wait = attempts.wait("una", "a", now=now)
        assert attempts.wait("una", "a", now=now + wait + 0.001) == 0
        attempts.failed("una", "a", now=now)
