"""Each replica follows its share, and a group of repositories has one holder."""

from collections.abc import Sequence

import pytest

from reconciler.replicas.keeper import MOST_GIVEN, WORK, Group, Shares, shares
from reconciler.store.replica_records import Beat, HeldLease, ReplicaRow

ONES: tuple[Group, ...] = tuple((f"r{number}",) for number in range(7))


def replica(name: str, settings: str = "same") -> ReplicaRow:
    return ReplicaRow(name, f"http://{name}", "1", f"process-{name}", settings)


def beat(living: str, **held: str) -> Beat:
    """Replicas by their letters, and holders by repository."""
    rows = tuple(HeldLease(repository, 1, holder) for repository, holder in sorted(held.items()))
    return Beat(tuple(map(replica, living)), rows)


def of_a(
    told: Beat, *, groups: Sequence[Group] = ONES, busy: str = "", may_take: bool = True, settings: str = "same"
) -> Shares:
    return shares(
        groups,
        told,
        me=replica("a", settings),
        is_resting=lambda name: name not in busy.split(),
        may_take=may_take,
    )


@pytest.mark.parametrize(("living", "share"), [("a", 7), ("ab", 4), ("abc", 3), ("abcdefg", 1), ("abcdefgh", 1)])
def test_a_replica_takes_its_share_of_what_is_free(living: str, share: int) -> None:
    assert of_a(beat(living)) == Shares(take=ONES[:share])


def test_together_they_take_everything_and_then_rest() -> None:
    held: dict[str, str] = {}
    for name in "abc":
        decided = shares(ONES, beat("abc", **held), me=replica(name), is_resting=lambda _: True)
        held |= {one: name for group in decided.take for one in group}
    assert sorted(held) == sorted(name for (name,) in ONES)
    for name in "abc":
        assert shares(ONES, beat("abc", **held), me=replica(name), is_resting=lambda _: True) == Shares()


def test_what_a_dead_replica_held_is_divided() -> None:
    held = {"r0": "a", "r1": "a", "r2": "a", "r3": "b", "r4": "b", "r5": "b"}  # r6 was of c
    assert of_a(beat("ab", **held)) == Shares(take=(("r6",),))
    assert of_a(beat("ab", **held), may_take=False) == Shares()


def test_what_is_beyond_the_share_is_given_when_it_rests() -> None:
    held = {name: "a" for (name,) in ONES}
    assert of_a(beat("abc", **held)) == Shares(give=(("r6",), ("r5",), ("r4",), ("r3",)))
    assert of_a(beat("abc", **held), busy="r6 r4 r2 r0") == Shares(give=(("r5",), ("r3",), ("r1",)))
    assert of_a(beat("a", **held)) == Shares()


def test_few_are_given_at_a_time() -> None:
    many = tuple((f"r{number:03}",) for number in range(100))
    held = {name: "a" for (name,) in many}
    assert len(of_a(beat("ab", **held), groups=many).give) == MOST_GIVEN


def test_a_group_is_taken_and_given_whole() -> None:
    groups: tuple[Group, ...] = (("one", "two"), ("three",))
    assert of_a(beat("ab"), groups=groups) == Shares(take=(("one", "two"),))
    held = {"one": "a", "two": "a", "three": "a"}
    assert of_a(beat("ab", **held), groups=groups, busy="two three") == Shares()
    assert of_a(beat("ab", **held), groups=groups) == Shares(give=(("three",),))
    assert of_a(beat("ab", one="b"), groups=groups) == Shares(take=(("three",),))


def test_an_entry_that_joins_a_group_goes_to_its_holder() -> None:
    groups: tuple[Group, ...] = (("new", "one"), ("three",))
    held = {"one": "a", "three": "b"}
    assert of_a(beat("ab", **held), groups=groups) == Shares(take=(("new", "one"),))
    assert of_a(beat("ab", **held), groups=groups, may_take=False) == Shares(take=(("new", "one"),))
    assert of_a(beat("ab", one="b"), groups=groups) == Shares(take=(("three",),))


def test_two_holders_of_a_new_group_become_one() -> None:
    groups: tuple[Group, ...] = (("one", "two"),)
    assert of_a(beat("ab", one="b", two="a"), groups=groups) == Shares(give=(("two",),))
    assert of_a(beat("ab", one="a", two="b"), groups=groups) == Shares()


def test_what_is_not_in_the_settings_any_more_is_given_back_and_the_common_work_is_kept() -> None:
    assert of_a(beat("ab", gone="a", r0="a", **{WORK: "a"})) == Shares(take=ONES[1:4], give=(("gone",),))


def test_replicas_with_other_settings_do_not_count_because_they_may_not_know_the_repository() -> None:
    told = Beat((replica("a", "new"), replica("b"), replica("c")), ())
    assert of_a(told, settings="new") == Shares(take=ONES)
    assert of_a(told, settings="newer") == Shares(take=ONES)
