"""Calls that are made together: by a model of who asks, who is cancelled and when calls end, and by hand."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.git.remotes.concurrency import ConcurrencyLimit, SharedAnswer, SharedCalls

pytestmark = pytest.mark.anyio

PATIENT = float("-inf")


@dataclass
class Calls:
    """Calls that end when a test says so, on a clock that grows with every look at it."""

    clock: Callable[[], float] = field(default_factory=lambda: itertools.count(1.0).__next__)
    asked: list[frozenset[str]] = field(default_factory=list)
    ends: list[asyncio.Future[None]] = field(default_factory=list)
    cancelled: list[int] = field(default_factory=list)
    under_way: int = 0

    async def __call__(self, keys: frozenset[str]) -> Mapping[str, int | Exception]:
        number = len(self.asked)
        self.asked.append(keys)
        self.ends.append(asyncio.get_running_loop().create_future())
        self.under_way += 1
        assert self.under_way == 1
        try:
            await self.ends[-1]
        except asyncio.CancelledError:
            self.cancelled.append(number)
            raise
        finally:
            self.under_way -= 1
        return dict.fromkeys(keys, number)

    def rounds(self, slots: int = 1) -> SharedCalls[str, int]:
        return SharedCalls(self, slots=ConcurrencyLimit(slots), clock=self.clock)


async def settle() -> None:
    """Let every task go as far as it can."""
    for _ in range(20):
        await asyncio.sleep(0)


def ask(rounds: SharedCalls[str, int], key: str, *, since: float) -> "asyncio.Task[SharedAnswer[int]]":
    return asyncio.create_task(rounds.ask(key, since=since))


async def test_who_asks_during_a_call_shares_the_next_one() -> None:
    calls = Calls()
    rounds = calls.rounds()
    first = ask(rounds, "a", since=calls.clock())
    await settle()
    later = [ask(rounds, key, since=calls.clock()) for key in ("a", "b", "a")]
    await settle()
    assert calls.asked == [{"a"}]
    calls.ends[0].set_result(None)
    await settle()
    assert (await first).value() == 0
    assert calls.asked == [{"a"}, {"a", "b"}]
    calls.ends[1].set_result(None)
    assert [answer.value() for answer in await asyncio.gather(*later)] == [1, 1, 1]


async def test_who_is_patient_takes_the_call_that_is_under_way() -> None:
    calls = Calls()
    rounds = calls.rounds()
    first = ask(rounds, "a", since=calls.clock())
    await settle()
    patient, other = ask(rounds, "a", since=PATIENT), ask(rounds, "b", since=PATIENT)
    await settle()
    calls.ends[0].set_result(None)
    await settle()
    assert [(await task).value() for task in (first, patient)] == [0, 0]
    assert calls.asked == [{"a"}, {"b"}]  # the first one did not ask for b
    calls.ends[1].set_result(None)
    assert (await other).value() == 1


async def test_a_call_ends_with_the_last_who_waits_for_it() -> None:
    calls = Calls()
    rounds = calls.rounds()
    waiting = [ask(rounds, "a", since=calls.clock()) for _ in range(2)]
    await settle()
    next_one = ask(rounds, "b", since=calls.clock())
    waiting[0].cancel()
    await settle()
    assert calls.cancelled == []
    waiting[1].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert calls.cancelled == [0]
    await settle()
    assert calls.asked == [{"a"}, {"b"}]
    calls.ends[1].set_result(None)
    assert (await next_one).value() == 1


async def test_nobody_joins_a_call_that_is_being_ended() -> None:
    ends = asyncio.Event()
    began: list[frozenset[str]] = []

    async def reluctant(keys: frozenset[str]) -> Mapping[str, int | Exception]:
        began.append(keys)
        if len(began) == 1:
            try:
                await asyncio.Event().wait()
            finally:
                await ends.wait()  # as a process takes a moment to end
        return dict.fromkeys(keys, len(began))

    clock = itertools.count(1.0).__next__
    rounds: SharedCalls[str, int] = SharedCalls(reluctant, slots=ConcurrencyLimit(1), clock=clock)
    gone = ask(rounds, "a", since=clock())
    await settle()
    gone.cancel()
    await settle()
    patient = ask(rounds, "a", since=PATIENT)
    await settle()
    ends.set()
    assert (await patient).value() == 2
    await asyncio.gather(gone, return_exceptions=True)


async def test_a_call_that_nobody_waits_for_before_it_began_is_not_made() -> None:
    calls = Calls()
    slots = ConcurrencyLimit(1)
    rounds: SharedCalls[str, int] = SharedCalls(calls, slots=slots, clock=calls.clock)
    async with slots.turn(""):
        gone = ask(rounds, "a", since=calls.clock())
        await settle()
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
    await settle()
    assert (calls.asked, slots.are_free) == ([], True)


async def test_who_asks_before_there_is_a_slot_shares_the_call() -> None:
    calls = Calls()
    slots = ConcurrencyLimit(1)
    rounds: SharedCalls[str, int] = SharedCalls(calls, slots=slots, clock=calls.clock)
    async with slots.turn(""):
        early = ask(rounds, "a", since=calls.clock())
        await settle()
        late = ask(rounds, "b", since=calls.clock())
        await settle()
    await settle()
    assert calls.asked == [{"a", "b"}]
    calls.ends[0].set_result(None)
    assert [(await task).value() for task in (early, late)] == [0, 0]


async def test_a_fault_reaches_all_who_wait() -> None:
    clock = itertools.count(1.0).__next__

    async def failing(keys: frozenset[str]) -> Mapping[str, int | Exception]:
        if "b" in keys:
            raise OSError("disk")
        return {"a": ValueError("of a alone")}

    rounds: SharedCalls[str, int] = SharedCalls(failing, slots=ConcurrencyLimit(1), clock=clock)
    both = await asyncio.gather(rounds.ask("a", since=clock()), rounds.ask("b", since=clock()))
    for answer in both:
        with pytest.raises(OSError, match="disk"):
            answer.value()
    with pytest.raises(ValueError, match="of a alone"):
        (await rounds.ask("a", since=clock())).value()


async def test_slots_are_given_in_the_order_of_asking() -> None:
    slots = ConcurrencyLimit(2)
    clock = itertools.count(1.0).__next__
    began: list[str] = []
    gate = asyncio.Event()

    def of(name: str) -> Callable[[frozenset[str]], Awaitable[Mapping[str, int | Exception]]]:
        async def call(keys: frozenset[str]) -> Mapping[str, int | Exception]:
            began.append(name)
            if name == "slow":
                await gate.wait()
            return dict.fromkeys(keys, 0)

        return call

    remotes = {name: SharedCalls(of(name), slots=slots, clock=clock) for name in ("slow", "a", "b", "c")}
    tasks = [asyncio.create_task(rounds.ask("x", since=clock())) for rounds in remotes.values()]
    again = asyncio.create_task(remotes["slow"].ask("x", since=clock()))
    await asyncio.gather(*tasks[1:])
    assert began == ["slow", "a", "b", "c"]  # one slow remote keeps one slot, however many ask it
    gate.set()
    await asyncio.gather(tasks[0], again)


async def test_who_insists_does_not_wait_for_a_slot_behind_the_others() -> None:
    calls, slots = Calls(), ConcurrencyLimit(1, beyond=1)
    rounds: SharedCalls[str, int] = SharedCalls(calls, slots=slots, host="a", clock=calls.clock)
    async with slots.turn("b"):
        first = ask(rounds, "a", since=calls.clock())
        await settle()
        assert calls.asked == []
        person = asyncio.create_task(rounds.ask("b", since=calls.clock(), insists=True))
        await settle()
        assert calls.asked == [{"a", "b"}]
        later = asyncio.create_task(rounds.ask("c", since=calls.clock(), insists=True))
        await settle()
        calls.ends[0].set_result(None)
        await settle()
        assert calls.asked == [{"a", "b"}, {"c"}]  # though nobody waited when the call before ended but who insists
        calls.ends[1].set_result(None)
        assert [(await task).value() for task in (first, person, later)] == [0, 0, 1]


async def test_nothing_is_left_after_the_close() -> None:
    calls = Calls()
    rounds = calls.rounds()
    before = asyncio.all_tasks()
    asked = ask(rounds, "a", since=calls.clock())
    await settle()
    asked.cancel()
    await rounds.close()
    await asyncio.gather(asked, return_exceptions=True)
    assert asyncio.all_tasks() == before
    assert calls.cancelled == [0]


# What may happen: somebody asks for a key (now, or with patience), somebody leaves, a call ends.
STEPS = st.lists(st.tuples(st.sampled_from(["ask", "ask patiently", "leave", "end"]), st.integers(0, 5)), max_size=30)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_whatever_happens_everybody_gets_a_call_that_began_after_they_asked(steps: list[tuple[str, int]]) -> None:
    asyncio.run(_live(steps))


async def _live(steps: list[tuple[str, int]]) -> None:
    calls = Calls()
    rounds = calls.rounds()
    waiting: list[tuple[str, float, asyncio.Task[SharedAnswer[int]]]] = []
    everybody = []
    for what, number in steps:
        open_calls = [end for end in calls.ends if not end.done()]
        if what == "leave" and waiting:
            waiting.pop(number % len(waiting))[2].cancel()
        elif what == "end" and open_calls:
            open_calls[0].set_result(None)
        elif what.startswith("ask"):
            key, since = "abc"[number % 3], calls.clock() if what == "ask" else PATIENT
            waiting.append((key, since, ask(rounds, key, since=since)))
            everybody.append(waiting[-1])
        await settle()
        waiting = [one for one in waiting if not one[2].done()]
        assert calls.under_way == bool(waiting)  # a call is under way exactly while somebody waits
    while open_calls := [end for end in calls.ends if not end.done()]:
        open_calls[0].set_result(None)
        await settle()
    for key, since, task in everybody:
        if not task.cancelled():
            answer = await task
            assert answer.began > since
            assert key in calls.asked[answer.value()]
            assert answer.value() not in calls.cancelled
    assert len(calls.asked) <= len(everybody)
