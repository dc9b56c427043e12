"""Pruning: what disappears from a repository is deleted, unless that could be a mistake."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.planning import pruning
from reconciler.planning.models import Change, Outcome, Stored
from reconciler.planning.pruning import Budget, Hold, Pruning, Tree
from reconciler.planning.statuses import UpdateStatus
from reconciler.resources.keys import Key


def stored(name: str, *, kind: str = "Destination", path: str | None = "a.yaml", protected: bool = False) -> Stored:
    return Stored(Key(kind, name), digest=b"", version=1, owner="telemetry", path=path, line=1, protected=protected)


def deletions(*gone: Stored) -> tuple[Outcome, ...]:
    return tuple(Outcome(key=one.key, status=UpdateStatus.DELETED, change=Change.DELETE, stored=one) for one in gone)


A, B, C, D = (stored(name) for name in "abcd")
KEPT = stored("kept", protected=True)
BAD = [("x.yaml", "x.yaml:3:1: is not YAML")]
FULL, EMPTY = Tree([], 5), Tree([], 0)
HELD_MESSAGE = "{}. Until then nothing is deleted{}."
EMPTY_MESSAGE = "The head holds no resource at all, so nothing is deleted; {} stay as they were."
OVER = Pruning(
    hold=Hold.HELD,
    message="Nothing is deleted: 4 of 8 resources would go, more than 25 percent (Destination a, Destination b, "
    "Destination c, Destination d); restore them, or raise the repository's `prune.maxPercent` for as long as this "
    "takes.",
)


def held(would_go: str) -> Pruning:
    return Pruning(hold=Hold.HELD, message=HELD_MESSAGE.format(BAD[0][1], would_go))


CASES = [
    ("what is gone goes", [A, B], FULL, 8, Budget(), Pruning(deletions(A, B))),
    ("nothing is gone", [], FULL, 8, Budget(), Pruning()),
    ("a protected one stays", [A, KEPT], FULL, 8, Budget(), Pruning(deletions(A))),
    ("only a protected one is gone", [KEPT], FULL, 8, Budget(), Pruning()),
    ("pruning is off", [A, B, C, D], FULL, 8, None, Pruning()),
    ("pruning is off, and a file cannot be read", [A], Tree(BAD, 5), 8, None, held(" (1 would go)")),
    ("pruning is off, and the tree is empty", [A], EMPTY, 8, None, Pruning()),
    ("a file cannot be read", [A, B, KEPT], Tree(BAD, 5), 8, Budget(), held(" (2 would go)")),
    ("a file cannot be read, and nothing is gone", [], Tree(BAD, 5), 8, Budget(), held("")),
    ("all that is left cannot be read", [A], Tree(BAD, 0), 8, Budget(), held(" (1 would go)")),
    ("a file cannot be read, and too many are gone", [A, B, C, D], Tree(BAD, 5), 8, Budget(), held(" (4 would go)")),
    ("the tree is empty", [A, KEPT], EMPTY, 8, Budget(), Pruning((), Hold.EMPTY, EMPTY_MESSAGE.format(1))),
    ("the tree is empty, and was", [], EMPTY, 0, Budget(), Pruning((), Hold.EMPTY, EMPTY_MESSAGE.format(0))),
    ("the tree is empty, in budget", [A], EMPTY, 8, Budget(9), Pruning((), Hold.EMPTY, EMPTY_MESSAGE.format(1))),
    ("too many are gone", [A, B, C, D], FULL, 8, Budget(), OVER),
    ("a protected one does not count", [A, B, C, KEPT], FULL, 8, Budget(), Pruning(deletions(A, B, C))),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_what_becomes_of_what_is_gone(
    case: tuple[str, list[Stored], Tree, int, Budget | None, Pruning],
) -> None:
    _, gone, tree, owned, budget, expected = case
    assert pruning.decide(iter(gone), tree=tree, owned=owned, budget=budget) == expected


@pytest.mark.parametrize(
    ("budget", "deleted", "owned", "covered"),
    [
        (Budget(), 3, 3, True),  # few are always allowed
        (Budget(), 4, 15, False),  # 26.7 percent
        (Budget(), 4, 16, True),  # 25 percent
        (Budget(), 25, 100, True),
        (Budget(), 26, 100, False),
        (Budget(), 4, 0, False),
        (Budget(min_count=0, max_percent=0), 0, 100, True),
        (Budget(min_count=0, max_percent=0), 1, 100, False),
        (Budget(min_count=0, max_percent=100), 100, 100, True),
        (Budget(min_count=10, max_percent=0), 10, 10, True),
        (Budget(min_count=10, max_percent=0), 11, 1_000_000, False),
    ],
)
def test_the_budget_is_a_number_or_a_share_whichever_is_more(
    budget: Budget, deleted: int, owned: int, covered: bool
) -> None:
    assert budget.covers(deleted, owned=owned) == covered


@given(st.integers(0, 50), st.integers(0, 100), st.integers(0, 200), st.integers(0, 200))
def test_what_a_budget_covers_it_covers_less_of_and_more_owned(
    min_count: int, max_percent: int, deleted: int, owned: int
) -> None:
    budget = Budget(min_count, max_percent)
    assert budget.covers(deleted, owned=owned) == (not (deleted > min_count and deleted * 100 > max_percent * owned))
    if budget.covers(deleted, owned=owned):
        assert budget.covers(max(0, deleted - 1), owned=owned)
        assert budget.covers(deleted, owned=owned + 1)


def test_deletions_are_in_order_of_path_kind_and_name() -> None:
    ordered = [
        stored("z", path=None),
        stored("b", kind="Destination", path="a.yaml"),
        stored("a", kind="Source", path="a.yaml"),
        stored("c", kind="Source", path="a.yaml"),
        stored("a", kind="Fleet", path="b.yaml"),
    ]
    shuffled = random.Random(7).sample(ordered, len(ordered))  # noqa: S311  # a fixed order, no secret
    decided = pruning.decide(shuffled, tree=FULL, owned=100, budget=Budget())
    assert decided == Pruning(deletions(*ordered))


@pytest.mark.parametrize(("files", "more"), [(5, ""), (6, "; and 1 more"), (40, "; and 35 more")])
def test_the_first_five_files_are_named_and_the_rest_counted(files: int, more: str) -> None:
    unreadable = [(f"{number}.yaml", f"{number}.yaml:1:1: bad") for number in range(files)]
    named = "; ".join(fault for _, fault in unreadable[:5])
    decided = pruning.decide([], tree=Tree(unreadable, 1), owned=1, budget=Budget())
    assert decided.message == HELD_MESSAGE.format(named + more, "")


def test_the_first_five_resources_over_the_budget_are_named_and_the_rest_counted() -> None:
    gone = [stored(f"{number}") for number in range(9)]
    decided = pruning.decide(gone, tree=FULL, owned=9, budget=Budget(max_percent=50))
    named = ", ".join(f"Destination {number}" for number in range(5))
    assert decided.hold is Hold.HELD
    assert decided.message is not None
    assert decided.message.startswith(
        f"Nothing is deleted: 9 of 9 resources would go, more than 50 percent ({named} and 4 more); "
    )


def test_the_reasons_to_hold_are_states_of_a_repository() -> None:
    assert [hold.value for hold in Hold] == ["prune-held", "empty"]
