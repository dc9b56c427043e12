"""Slots: who gets the next one, by hand and whatever happens."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.git.remotes.concurrency import ConcurrencyLimit, ConcurrencySlot

pytestmark = pytest.mark.anyio


async def settle() -> None:
    """Let every task go as far as it can."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_host_takes_no_more_than_its_share() -> None:
    slots = ConcurrencyLimit(3, each=2)
    dead = [slots.turn("dead") for _ in range(4)]
    alive = slots.turn("alive")
    for turn in (*dead, alive):
        slots.enter(turn)
    assert [turn.came.is_set() for turn in (*dead, alive)] == [True, True, False, False, True]
    slots.leave(dead[0])
    assert [turn.came.is_set() for turn in dead[2:]] == [True, False]


async def test_who_insists_passes_the_queue_and_takes_one_beyond_only_when_none_is_free() -> None:
    slots = ConcurrencyLimit(2, each=1, beyond=1)
    first, second, third, person, other = (slots.turn("a") for _ in range(5))
    for turn in (first, second, third, person, other):
        slots.enter(turn)
    person.insist()
    other.insist()
    assert [turn.came.is_set() for turn in (second, third, person, other)] == [False, False, True, False]
    slots.leave(first)
    assert [turn.came.is_set() for turn in (second, third, person, other)] == [False, False, True, True]
    elsewhere = slots.turn("b", insists=True)
    slots.enter(elsewhere)
    assert (elsewhere.came.is_set(), elsewhere.is_beyond) == (True, False)


async def test_who_is_cancelled_waits_no_more() -> None:
    slots = ConcurrencyLimit(1)

    async def have(turn: ConcurrencySlot) -> None:
        async with turn:
            await asyncio.Event().wait()

    first, second, third = (asyncio.create_task(have(slots.turn("a"))) for _ in range(3))
    await settle()
    second.cancel()
    first.cancel()
    await settle()
    assert not slots.are_free
    third.cancel()
    await asyncio.gather(first, second, third, return_exceptions=True)
    assert slots.are_free


# What may happen: somebody comes (of host, insisting or not), the n-th of those who are there insists, or leaves.
STEPS = st.lists(
    st.tuples(st.sampled_from(["come", "insist", "leave"]), st.sampled_from("abc"), st.integers(0, 20)), max_size=60
)


@settings(deadline=None)
@given(STEPS)
def test_whatever_happens_none_stays_free_while_somebody_may_have_it(steps: list[tuple[str, str, int]]) -> None:
    at_once, each, beyond = 4, 2, 1
    slots = ConcurrencyLimit(at_once, each=each, beyond=beyond)
    there: list[ConcurrencySlot] = []
    for what, host, number in steps:
        if what == "come":
            there.append(slots.turn(host, insists=number % 4 == 0))
            slots.enter(there[-1])
        elif there and what == "insist":
            there[number % len(there)].insist()
        elif there:
            slots.leave(there.pop(number % len(there)))
        taken = [turn.host for turn in there if turn.came.is_set() and not turn.is_beyond]
        left = beyond - sum(turn.is_beyond for turn in there)
        assert (len(taken) <= at_once, max(map(taken.count, "abc")) <= each, left >= 0) == (True, True, True)
        for turn in there:
            may_have = len(taken) < at_once and taken.count(turn.host) < each
            assert turn.came.is_set() or not (may_have or (turn.insists and left))
    for turn in there:
        slots.leave(turn)
    assert slots.are_free
