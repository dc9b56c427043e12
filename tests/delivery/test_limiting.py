"""How many records one sender may send, and how many bytes are in memory at a time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.delivery import contract
from reconciler.delivery.contract import IntakeRoom, RecordRates


def test_a_sender_may_send_a_second_s_worth_at_once_and_then_as_much_as_time_gives() -> None:
    rates = RecordRates(100)
    assert rates.take("a", 100, now=0.0) == 0.0
    assert rates.take("a", 1, now=0.0) == pytest.approx(0.01)
    assert rates.take("a", 50, now=0.5) == 0.0
    assert rates.take("a", 1, now=0.5) == pytest.approx(0.01)
    assert rates.take("b", 100, now=0.5) == 0.0


def test_a_request_of_more_than_a_second_s_worth_passes_and_is_paid_for() -> None:
    rates = RecordRates(100)
    assert (rates.wait("a", now=0.0), rates.take("a", 1_000, now=0.0)) == (0.0, 0.0)
    assert rates.wait("a", now=0.0) == pytest.approx(9.0)
    assert rates.wait("a", now=8.0) == pytest.approx(1.0)
    assert rates.wait("a", now=9.5) == 0.0
    assert rates.take("a", 1_000, now=9.5) == pytest.approx(0.5)
    assert rates.take("a", 1_000, now=10.0) == 0.0


def test_a_refused_request_costs_nothing() -> None:
    rates = RecordRates(100)
    rates.take("a", 100, now=0.0)
    waits = [rates.take("a", 60, now=0.5) for _ in range(5)]
    assert waits == [pytest.approx(0.1)] * 5
    assert rates.take("a", 50, now=0.5) == 0.0


def test_what_is_refused_for_what_it_is_is_charged_even_into_debt() -> None:
    rates = RecordRates(100)
    rates.charge("a", 60, now=0.0)
    assert rates.take("a", 41, now=0.0) == pytest.approx(0.01)
    rates.charge("a", 60, now=0.0)
    assert rates.wait("a", now=0.0) == pytest.approx(0.2)
    assert rates.wait("b", now=0.0) == 0.0


def test_the_largest_body_costs_about_as_much_as_the_most_records() -> None:
    assert [contract.request_cost(size) for size in (0, 1023, 1024, 8 << 20)] == [1, 1, 2, 8193]


def test_no_records_always_pass_but_for_a_sender_in_debt() -> None:
    rates = RecordRates(10)
    assert [rates.take("a", 0, now=0.0) for _ in range(100)] == [0.0] * 100
    rates.take("a", 20, now=0.0)
    assert rates.take("a", 0, now=0.0) == pytest.approx(1.0)


@given(st.integers(1, 1_000), st.lists(st.tuples(st.floats(0, 2), st.integers(0, 3_000)), max_size=60))
def test_in_the_long_run_no_more_than_the_rate_passes(per_second: int, requests: list[tuple[float, int]]) -> None:
    rates, now, passed, last = RecordRates(per_second), 0.0, 0, 0
    for pause, records in requests:
        now += pause
        if rates.take("a", records, now=now) == 0.0:
            passed, last = passed + records, records
    assert passed - last <= per_second * (now + 1) + 1e-3


@given(st.integers(1, 1_000), st.lists(st.integers(0, 3_000), min_size=1, max_size=20))
def test_who_waits_as_long_as_told_passes(per_second: int, requests: list[int]) -> None:
    rates, now = RecordRates(per_second), 0.0
    for records in requests:
        wait = rates.take("a", records, now=now)
        if wait:
            now += wait + 1e-6
            assert rates.take("a", records, now=now) == 0.0


def test_nobody_in_debt_is_forgotten_however_many_senders_there_are() -> None:
    rates = RecordRates(10)
    rates.take("debtor", 1_000, now=0.0)
    for number in range(contract.MOST_SENDERS + 10):
        rates.take(f"sender {number}", 1, now=float(number) / 1_000)
    assert rates.wait("debtor", now=20.0) > 0.0


def test_there_is_room_until_there_is_none() -> None:
    room = IntakeRoom(100)
    assert room.change("a", 0, 50)
    assert not room.change("b", 0, 51)
    assert room.change("b", 0, 40)
    assert not room.change("b", 40, 51)
    assert room.change("b", 40, 10)
    assert room.taken == 60
    assert room.change("a", 50, 90)
    assert room.change("a", 90, 0)
    assert room.change("b", 10, 0)
    assert room.taken == 0


def test_a_sender_has_half_of_the_room_at_most_and_leaves_the_rest_to_others() -> None:
    room = IntakeRoom(100)
    assert room.change("greedy", 0, 30)
    assert not room.change("greedy", 0, 21)
    assert room.change("greedy", 0, 20)
    assert not room.change("greedy", 0, 1)
    assert room.change("b", 0, 40)
    assert room.change("greedy", 20, 0)
    assert room.change("greedy", 0, 10)


def test_what_is_larger_than_the_room_fits_while_it_is_alone() -> None:
    room = IntakeRoom(100)
    assert room.change("a", 0, 150)
    assert room.change("a", 150, 200)
    assert not room.change("a", 0, 1)
    assert room.change("a", 200, 150)
    assert room.change("a", 150, 0)
