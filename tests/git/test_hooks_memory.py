"""The memory between deliveries recognises repetitions, is bounded, and lasts for a while."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.git import hooks
from reconciler.git.hooks import LoggedRefusals, RecentDeliveries


def test_a_delivery_is_new_once_within_an_hour_and_in_each_repository() -> None:
    memory = RecentDeliveries()
    assert memory.is_new("a", b"1", now=0.0)
    assert not memory.is_new("a", b"1", now=hooks.DELIVERY_SECONDS - 1)
    assert memory.is_new("b", b"1", now=0.0)
    assert memory.is_new("a", b"2", now=0.0)
    assert memory.is_new("a", b"1", now=hooks.DELIVERY_SECONDS)


def test_a_delivery_that_came_before_is_not_new_under_another_id() -> None:
    memory = RecentDeliveries()
    assert memory.is_new("a", b"1", b"body", now=0.0)
    assert not memory.is_new("a", b"2", b"body", now=1.0)
    assert not memory.is_new("a", b"2", b"other body", now=2.0)
    assert memory.is_new("b", b"2", b"body", now=3.0)


def test_one_without_a_mark_is_always_new_and_takes_no_room() -> None:
    memory = RecentDeliveries()
    assert [memory.is_new("a", b"", now=0.0) for _ in range(3)] == [True, True, True]
    assert len(memory) == 0


def test_as_many_are_remembered_as_there_is_room_for_and_the_oldest_go_first() -> None:
    memory = RecentDeliveries()
    for number in range(hooks.MOST + 1):
        assert memory.is_new("a", b"%d" % number, now=float(number) / 10)
    assert len(memory) == hooks.MOST
    assert not memory.is_new("a", b"1", now=1_000.1)
    assert memory.is_new("a", b"0", now=1_000.1)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 5), st.floats(0, 3_000)), max_size=40))
def test_it_tells_what_a_full_record_would_tell(calls: list[tuple[str, int, float]]) -> None:
    memory, record, now = RecentDeliveries(), dict[tuple[str, int], float](), 0.0
    for repository, number, passed in calls:
        now += passed
        known_until = record.get((repository, number))
        is_new = known_until is None or known_until <= now
        assert memory.is_new(repository, b"%d" % number, now=now) == is_new
        if is_new:
            record[repository, number] = now + hooks.DELIVERY_SECONDS


def test_what_is_forgotten_takes_no_room() -> None:
    memory = RecentDeliveries()
    for number in range(100):
        memory.is_new("a", b"%d" % number, now=0.0)
    memory.is_new("a", b"new", now=hooks.DELIVERY_SECONDS)
    assert len(memory) == 1


def test_the_log_tells_once_a_minute_of_each_repository_and_how_many_it_left_out() -> None:
    memory = LoggedRefusals()
    assert [memory.due("a", now=0.0), memory.due("b", now=1.0)] == [0, 0]
    assert [memory.due("a", now=second) for second in (1.0, 2.0, 59.9)] == [None, None, None]
    assert memory.due("a", now=hooks.REFUSAL_SECONDS) == 3
    assert memory.due("a", now=hooks.REFUSAL_SECONDS + 1) is None
    assert memory.due("a", now=2 * hooks.REFUSAL_SECONDS + 1) == 1


def test_the_log_s_memory_is_bounded() -> None:
    memory = LoggedRefusals()
    for number in range(hooks.REFUSAL_MOST + 10):
        memory.due(str(number), now=0.0)
    assert len(memory) == hooks.REFUSAL_MOST
