"""Pruning: what disappears from a repository is deleted, unless that could be a mistake."""

import random
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.names import Key
from reconciler.model.outcomes import Change, Outcome, PruneWindow, StoredState, UpdateStatus
from reconciler.model.repository_rules import PruneBudget
from reconciler.planner import pruning
from reconciler.planner.pruning import PruneCircumstances, PruneHold, Pruning, RemovedResources


def stored(
    name: str, *, kind: str = "Destination", path: str | None = "a.yaml", protected: bool = False
) -> StoredState:
    return StoredState(
        Key(kind, name), digest=b"", version=1, owner="telemetry", path=path, line=1, protected=protected
    )


def deletions(*gone: StoredState) -> tuple[Outcome, ...]:
    return tuple(Outcome(key=one.key, status=UpdateStatus.DELETED, change=Change.DELETE, stored=one) for one in gone)


@dataclass(frozen=True, slots=True)
class Tree:
    """The content of a commit, and its history."""

    unreadable: Sequence[tuple[str, str]]
    documents: int
    missing: str | None = None
    unrelated: bool = False
    released: bool = False

    def removed(self, gone: Sequence[StoredState], *, owned: int) -> RemovedResources:
        return RemovedResources(gone, owned, self.unreadable, self.documents, self.missing)

    def circumstances(self, window: PruneWindow, approved: Set[Key] | None) -> PruneCircumstances:
        return PruneCircumstances(window, approved, self.unrelated, self.released)


A, B, C, D, E = (stored(name) for name in "abcde")
ALL = [A, B, C, D]
KEPT = stored("kept", protected=True)
USER = Key("Configuration", "user")
BAD = [("x.yaml", "x.yaml:3:1: is not YAML")]
FULL, EMPTY = Tree([], 5), Tree([], 0)
MISSING = Tree([], 0, missing="there is no folder x; add it")
UNRELATED = Tree([], 5, unrelated=True)
LEFT_OUT = "A file that is not meant for the service is left out with a `.serviceignore` or the setting `exclude`."
TOLD = "x.yaml:3:1: is not YAML. Until then nothing is deleted{}. " + LEFT_OUT
NO_FOLDER = "there is no folder x; add it. Until then nothing is deleted{}."
NOTHING_LEFT = "The head holds no resource at all; commit one, or correct `path`, `include` or `exclude`."
NOTHING = (
    "The head holds no resource at all, so nothing is deleted; {} stay as they were: restore them, or release this "
    "with `reconciler approve`."
)
OVER = (
    "Nothing is deleted: {} resources would go{}, more than 25 percent (Destination a, Destination b, Destination c, "
    "Destination d); restore them, or release this with `reconciler approve`."
)
MOST = (
    "Nothing is deleted: {} resources would go, more than half (Destination {}); restore them, or release this with "
    "`reconciler approve`."
)
UNSURE, REFUSED = stored("unsure", path="u.yaml"), {"u.yaml": "u.yaml:7:1 is invalid"}
WAITS = (
    "Not deleted: Destination unsure, since a document in the same file is refused (u.yaml:7:1 is invalid); correct "
    f"that document, or release this with `reconciler approve`. {LEFT_OUT}"
)
ROOT = (
    "The head has no known history in common with the commit that was applied last, so nothing of it is applied{}; "
    "push that history back, or {}release this with `reconciler approve`{}."
)
NOTE = "Kept by the label `service/prune`, though the head does not hold it: Destination kept."


def keys(*found: StoredState) -> frozenset[Key]:
    return frozenset(one.key for one in found)


def held(hold: PruneHold, message: str, *kept: StoredState, approvable: int | None = 1) -> Pruning:
    return Pruning(hold=hold, message=message, held=kept, approvable=approvable)


def unreadable(would_go: str, *kept: StoredState) -> Pruning:
    return held(PruneHold.HELD, TOLD.format(would_go), *kept, approvable=0)


def noted(pruning: Pruning) -> Pruning:
    """The same, with the protected one."""
    return replace(pruning, protected=(KEPT,), note=NOTE)


def waiting(pruning: Pruning) -> Pruning:
    """The same, with one that waits for its own file."""
    return replace(pruning, held=(UNSURE,), hold=PruneHold.HELD, message=WAITS, approvable=1, partly=True)


def staying(*kept: StoredState) -> tuple[Outcome, ...]:
    return tuple(Outcome(one.key, UpdateStatus.IN_USE, stored=one, users=(USER,)) for one in kept)


class Case(NamedTuple):
    """A head, with 8 resources owned."""

    gone: Sequence[StoredState]
    expected: Pruning
    tree: Tree = FULL
    budget: PruneBudget | None = PruneBudget()
    window: PruneWindow = PruneWindow()
    in_use: Sequence[StoredState] = ()
    passing: Sequence[StoredState] = ()
    approved: frozenset[Key] | None = None
    owned: int = 8
    renamed: Sequence[StoredState] = ()
    refused: Mapping[str, str] = {}

    def decide(self) -> Pruning:
        return pruning.decide_prune(
            self.tree.removed(self.gone, owned=self.owned),
            self.tree.circumstances(self.window, self.approved),
            budget=self.budget,
            in_use={one.key: (USER,) for one in self.in_use},
            passing=keys(*self.passing),
            renamed=keys(*self.renamed),
            refused=self.refused,
        )


CASES = {
    "what is gone goes": Case([A, B], Pruning(deletions(A, B))),
    "nothing is gone": Case([], Pruning()),
    "a protected one stays": Case([A, KEPT], noted(Pruning(deletions(A)))),
    "only a protected one is gone": Case([KEPT], noted(Pruning())),
    # Off
    "pruning is off": Case(ALL, Pruning(), budget=None),
    "pruning is off, and a file cannot be read": Case([A], unreadable(""), Tree(BAD, 5), None),
    "pruning is off, and the tree is empty": Case([A], Pruning(), EMPTY, None),
    "pruning is off, and the folder is missing": Case(
        [A], held(PruneHold.PATH_MISSING, NO_FOLDER.format(""), approvable=None), MISSING, None
    ),
    "pruning is off, and the root is unrelated": Case(
        [A], held(PruneHold.UNRELATED_ROOT, ROOT.format("", "", "")), UNRELATED, None
    ),
    # A file that cannot be read
    "a file cannot be read": Case([A, B, KEPT], unreadable(" (2 would go)", A, B), Tree(BAD, 5)),
    "a file cannot be read, and nothing is gone": Case([], unreadable(""), Tree(BAD, 5)),
    "what stood in that file is not known to be gone": Case(
        [A, stored("x", path="x.yaml")], unreadable(" (1 would go)", A), Tree(BAD, 5)
    ),
    "all that is left cannot be read": Case([A], unreadable(" (1 would go)", A), Tree(BAD, 0)),
    "a file cannot be read, and too many are gone": Case(ALL, unreadable(" (4 would go)", *ALL), Tree(BAD, 5)),
    "a file cannot be read, whatever is approved": Case(
        [A], unreadable(" (1 would go)", A), Tree(BAD, 5), approved=keys(A)
    ),
    # Nothing at all
    "the tree is empty": Case([A, KEPT], noted(held(PruneHold.EMPTY, NOTHING.format(1), A)), EMPTY),
    "the tree is empty, and was": Case([], held(PruneHold.EMPTY, NOTHING_LEFT, approvable=None), EMPTY),
    "the tree is empty, in budget": Case([A], held(PruneHold.EMPTY, NOTHING.format(1), A), EMPTY, PruneBudget(9)),
    "the tree is empty, and that is approved": Case(
        ALL, Pruning(deletions(*ALL), approved=True), EMPTY, approved=keys(*ALL)
    ),
    "the tree is empty, and something else is approved": Case(
        [A], held(PruneHold.EMPTY, NOTHING.format(1), A), EMPTY, approved=keys(B)
    ),
    "the tree is empty, and all went as approved": Case(
        [], held(PruneHold.EMPTY, NOTHING_LEFT, approvable=None), EMPTY, approved=keys(A)
    ),
    "the tree is empty, and is the one that was released": Case([], Pruning(), replace(EMPTY, released=True)),
    "the tree is the one that was released, and more is gone": Case(
        [A], held(PruneHold.EMPTY, NOTHING.format(1), A), replace(EMPTY, released=True)
    ),
    "the folder is missing": Case(
        [A, B], held(PruneHold.PATH_MISSING, NO_FOLDER.format(" (2 would go)"), A, B), MISSING
    ),
    "the folder is missing, and nothing was there": Case(
        [], held(PruneHold.PATH_MISSING, NO_FOLDER.format(""), approvable=None), MISSING
    ),
    "the folder is missing, and that is approved": Case(
        [A, B], Pruning(deletions(A, B), approved=True), MISSING, approved=keys(A, B)
    ),
    # The budget
    "too many are gone": Case(ALL, held(PruneHold.HELD, OVER.format("4 of 8", ""), *ALL)),
    "a protected one does not count": Case([A, B, C, KEPT], noted(Pruning(deletions(A, B, C)))),
    "one in use does not count, and is told": Case(
        [A, B, C, D], Pruning(deletions(A, B, D), in_use=staying(C)), in_use=[C]
    ),
    "one in use is not told of what is held": Case(
        [*ALL, E], held(PruneHold.HELD, OVER.format("4 of 8", ""), *ALL), in_use=[E]
    ),
    "too many went today already": Case(
        ALL, held(PruneHold.HELD, OVER.format("4 of 20", ", after 2 within 24 hours"), *ALL), window=PruneWindow(20, 2)
    ),
    "what went today already leaves room": Case(ALL, Pruning(deletions(*ALL)), window=PruneWindow(24, 2)),
    "more was owned today": Case(ALL, Pruning(deletions(*ALL)), window=PruneWindow(16, 0)),
    "too many went today, and nothing is gone": Case([], Pruning(), window=PruneWindow(20, 20)),
    "few a day are always allowed": Case([A], Pruning(deletions(A)), window=PruneWindow(3, 2)),
    "and not one more": Case(
        [A],
        held(
            PruneHold.HELD,
            OVER.format("1 of 8", ", after 3 within 24 hours").replace(
                "Destination a, Destination b, Destination c, Destination d", "Destination a"
            ),
            A,
        ),
        window=PruneWindow(3, 3),
    ),
    # Most of what there is
    "most of a small repository is gone": Case(
        [A, B, C], held(PruneHold.HELD, MOST.format("3 of 4", "a, Destination b, Destination c"), A, B, C), owned=4
    ),
    "half of a small repository is gone": Case([A, B], Pruning(deletions(A, B)), owned=4),
    "the only one is gone": Case([A], Pruning(deletions(A)), owned=1),
    "two of three are gone": Case(
        [A, B], held(PruneHold.HELD, MOST.format("2 of 3", "a, Destination b"), A, B), owned=3
    ),
    "more was owned today, and most of the rest is gone": Case(
        [A, B],
        held(PruneHold.HELD, MOST.format("2 of 3", "a, Destination b"), A, B),
        owned=3,
        window=PruneWindow(100, 0),
    ),
    "most is gone, and only in part": Case([A, B, KEPT], noted(Pruning(deletions(A, B))), owned=4),
    "most is gone, and one is in use": Case([A, B, C], Pruning(deletions(A, B), staying(C)), owned=4, in_use=[C]),
    "most is gone, and one passes on": Case([A, B, C], Pruning(deletions(A, B)), owned=4, passing=[C]),
    "most is gone, and one is renamed": Case([A, B, C], Pruning(deletions(A, B, C)), owned=4, renamed=[C]),
    "most is gone, one is renamed, and others are most": Case(
        [A, B, C, D],
        held(PruneHold.HELD, MOST.format("3 of 5", "a, Destination b, Destination c"), A, B, C, D),
        owned=5,
        renamed=[D],
        budget=PruneBudget(min_count=9),
    ),
    "most is gone, and that is approved": Case(
        [A, B, C], Pruning(deletions(A, B, C), approved=True), owned=4, approved=keys(A, B, C)
    ),
    "most is gone, and the budget is off": Case(
        ALL, Pruning(deletions(*ALL)), owned=4, budget=PruneBudget(max_percent=100)
    ),
    # A document in the same file is refused
    "its own file is refused": Case([UNSURE], waiting(Pruning()), refused=REFUSED),
    "its own file is refused, and another is gone": Case([A, UNSURE], waiting(Pruning(deletions(A))), refused=REFUSED),
    "its own file is refused, and that is approved": Case(
        [UNSURE], Pruning(deletions(UNSURE), approved=True), refused=REFUSED, approved=keys(UNSURE)
    ),
    "its own file is refused, that is approved, and another is gone": Case(
        [A, UNSURE], Pruning(deletions(A, UNSURE)), refused=REFUSED, approved=keys(UNSURE)
    ),
    "its own file is refused, and it is in use": Case(
        [UNSURE], Pruning(in_use=staying(UNSURE)), refused=REFUSED, in_use=[UNSURE]
    ),
    "its own file is refused, and it is protected": Case(
        [stored("kept", path="u.yaml", protected=True)],
        replace(noted(Pruning()), protected=(stored("kept", path="u.yaml", protected=True),)),
        refused=REFUSED,
    ),
    "its own file is refused, and too many others are gone": Case(
        [*ALL, UNSURE], held(PruneHold.HELD, f"{OVER.format('4 of 8', '')} {WAITS}", *ALL, UNSURE), refused=REFUSED
    ),
    "its own file is refused, and does not count": Case(
        [A, B, UNSURE], waiting(Pruning(deletions(A, B))), owned=4, refused=REFUSED
    ),
    # Approvals
    "too many are gone, and that is approved": Case(ALL, Pruning(deletions(*ALL), approved=True), approved=keys(*ALL)),
    "fewer are gone than were approved": Case([A, B], Pruning(deletions(A, B), approved=True), approved=keys(*ALL)),
    "more are gone than were approved": Case(
        ALL, held(PruneHold.HELD, OVER.format("4 of 8", ""), *ALL), approved=keys(A, B, C)
    ),
    "one in use needs no approval": Case(
        [*ALL, E], Pruning(deletions(*ALL), staying(E), approved=True), in_use=[E], approved=keys(*ALL)
    ),
    # What another repository takes over
    "what passes on is not deleted": Case([A, B], Pruning(deletions(A)), passing=[B]),
    "what passes on does not count": Case(ALL, Pruning(deletions(A, B, C)), passing=[D]),
    "what passes on is not kept by its label": Case([KEPT], Pruning(), passing=[KEPT]),
    "too many are gone besides": Case([*ALL, E], held(PruneHold.HELD, OVER.format("4 of 8", ""), *ALL, E), passing=[E]),
    "the tree is empty, and all would pass on": Case(
        [A, B], held(PruneHold.EMPTY, NOTHING.format(2), A, B), EMPTY, passing=[A, B]
    ),
    "the tree is empty, all would pass on, and that is approved": Case(
        [A, B], Pruning(approved=True), EMPTY, passing=[A, B], approved=keys(A, B)
    ),
    # Another history
    "the root is unrelated": Case(
        [A, KEPT], held(PruneHold.UNRELATED_ROOT, ROOT.format(" (1 would go)", "", ""), A), UNRELATED
    ),
    "the root is unrelated, and nothing is gone": Case(
        [], held(PruneHold.UNRELATED_ROOT, ROOT.format("", "", "")), UNRELATED
    ),
    "the root is unrelated, and a file cannot be read": Case(
        [A],
        held(
            PruneHold.UNRELATED_ROOT,
            ROOT.format(" (1 would go)", "mend what cannot be read and then ", ": x.yaml:3:1: is not YAML"),
            A,
            approvable=0,
        ),
        Tree(BAD, 5, unrelated=True),
    ),
    "the root is unrelated, and that is approved": Case(
        ALL, Pruning(deletions(*ALL), approved=True), UNRELATED, approved=keys(*ALL)
    ),
    "the root is unrelated and nothing is gone, and that is approved": Case(
        [], Pruning(), UNRELATED, approved=frozenset()
    ),
    "the root is unrelated, and less is approved": Case(
        [A, B], held(PruneHold.UNRELATED_ROOT, ROOT.format(" (2 would go)", "", ""), A, B), UNRELATED, approved=keys(A)
    ),
    "the root is unrelated and empty": Case(
        [A], held(PruneHold.UNRELATED_ROOT, ROOT.format(" (1 would go)", "", ""), A), Tree([], 0, unrelated=True)
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_becomes_of_what_is_gone(case: Case) -> None:
    decided = case.decide()
    assert decided == case.expected
    # What is approved is free.
    assert decided.unapproved == (0 if decided.approved else len(decided.deletions))
    assert decided.holds_all == (decided.hold is not None and not decided.deletions and not decided.partly)


@pytest.mark.parametrize(
    ("budget", "deleted", "owned", "covered"),
    [
        (PruneBudget(), 3, 3, True),  # few are always allowed
        (PruneBudget(), 4, 15, False),  # 26.7 percent
        (PruneBudget(), 4, 16, True),  # 25 percent
        (PruneBudget(), 25, 100, True),
        (PruneBudget(), 26, 100, False),
        (PruneBudget(), 4, 0, False),
        (PruneBudget(min_count=0, max_percent=0), 0, 100, True),
        (PruneBudget(min_count=0, max_percent=0), 1, 100, False),
        (PruneBudget(min_count=0, max_percent=100), 100, 100, True),
        (PruneBudget(min_count=0, max_percent=100), 300, 100, True),  # off: a day of churn may take more than there is
        (PruneBudget(min_count=10, max_percent=0), 10, 10, True),
        (PruneBudget(min_count=10, max_percent=0), 11, 1_000_000, False),
    ],
)
def test_the_budget_is_a_number_or_a_share_whichever_is_more(
    budget: PruneBudget, deleted: int, owned: int, covered: bool
) -> None:
    assert budget.covers(deleted, owned=owned) == covered


@pytest.mark.parametrize(
    ("budget", "deleted", "owned", "spared"),
    [
        (PruneBudget(), 1, 1, True),  # the last one may go
        (PruneBudget(), 2, 4, True),
        (PruneBudget(), 2, 3, False),
        (PruneBudget(), 3, 4, False),
        (PruneBudget(min_count=10), 3, 4, False),
        (PruneBudget(max_percent=99), 3, 4, False),
        (PruneBudget(max_percent=100), 4, 4, True),  # off
    ],
)
def test_no_head_may_take_more_than_half_of_what_there_is(
    budget: PruneBudget, deleted: int, owned: int, spared: bool
) -> None:
    assert budget.spares(deleted, owned=owned) == spared


@given(st.integers(0, 50), st.integers(0, 99), st.integers(0, 200), st.integers(0, 200))
def test_what_a_budget_covers_it_covers_less_of_and_more_owned(
    min_count: int, max_percent: int, deleted: int, owned: int
) -> None:
    budget = PruneBudget(min_count, max_percent)
    assert budget.covers(deleted, owned=owned) == (not (deleted > min_count and deleted * 100 > max_percent * owned))
    if budget.covers(deleted, owned=owned):
        assert budget.covers(max(0, deleted - 1), owned=owned)
        assert budget.covers(deleted, owned=owned + 1)


GONE = st.lists(
    st.builds(stored, st.from_regex(r"[a-z]{1,2}", fullmatch=True), protected=st.booleans()),
    unique_by=lambda one: one.key,
)


@given(st.data(), GONE, st.integers(0, 40), st.integers(0, 5), st.integers(0, 100))
def test_whatever_comes_together_only_what_is_allowed_goes(
    data: st.DataObject, gone: list[StoredState], more: int, min_count: int, max_percent: int
) -> None:
    some = st.sets(st.sampled_from(sorted(keys(*gone)))) if gone else st.just(set[Key]())
    in_use, approved = data.draw(some), data.draw(st.none() | some)
    passing, renamed = data.draw(some) - in_use, data.draw(some)
    refused = data.draw(st.sampled_from([{}, {"a.yaml": "a.yaml:1:1 is invalid"}]))
    tree = data.draw(
        st.builds(
            Tree,
            st.sampled_from([[], BAD]),
            st.integers(0, 1),
            st.sampled_from([None, "no folder"]),
            released=st.booleans(),
        )
    )
    window = data.draw(st.builds(PruneWindow, st.integers(0, 60), st.integers(0, 9)))
    owned, budget = len(gone) + more, PruneBudget(min_count, max_percent)
    decided = pruning.decide_prune(
        tree.removed(gone, owned=owned),
        tree.circumstances(window, approved),
        budget=budget,
        in_use=dict.fromkeys(in_use, (USER,)),
        passing=passing,
        renamed=renamed,
        refused=refused,
    )
    free = {one.key for one in gone if not one.protected} - in_use
    unsure = free - (approved or set()) if refused else set[Key]()  # all are in one file
    lost = free - passing - unsure
    is_over = bool(lost) and not budget.covers(len(lost) + window.deleted, owned=max(owned, window.owned))
    is_over = is_over or not budget.spares(len(lost - renamed), owned=owned)
    is_approved = approved is not None and free <= approved
    is_bare = tree.documents == 0 or tree.missing is not None
    is_held = bool(tree.unreadable) or ((is_over or is_bare) and not (is_approved if free else tree.released))
    assert (decided.hold is not None, decided.holds_all) == (is_held or bool(unsure), is_held)
    assert is_held or {one.key for one in decided.held} == unsure
    assert {outcome.key for outcome in decided.deletions} == (set() if is_held else lost)
    assert {outcome.key for outcome in decided.in_use} <= in_use
    assert is_held or decided.unapproved == (0 if is_approved else len(lost))


@given(st.lists(st.integers(1, 12), max_size=12), st.integers(0, 5), st.integers(0, 100), st.integers(1, 100))
def test_heads_in_a_row_never_take_more_than_the_budget_of_their_day(
    sizes: list[int], min_count: int, max_percent: int, owned: int
) -> None:
    """However the deletions are spread over commits of one day, no more go than one commit might take."""
    budget, deleted, left = PruneBudget(min_count, max_percent), 0, owned
    for size in sizes:
        gone = [stored(f"{number}") for number in range(min(size, left))]
        window = PruneWindow(owned, deleted) if deleted else PruneWindow()
        decided = Case(gone, Pruning(), budget=budget, window=window, owned=left).decide()
        deleted, left = deleted + decided.unapproved, left - len(decided.deletions)
    assert deleted <= max(min_count, max_percent * owned // 100)


def test_deletions_are_in_order_of_path_kind_and_name() -> None:
    ordered = [
        stored("z", path=None),
        stored("b", kind="Destination", path="a.yaml"),
        stored("a", kind="Source", path="a.yaml"),
        stored("c", kind="Source", path="a.yaml"),
        stored("a", kind="Fleet", path="b.yaml"),
    ]
    shuffled = random.Random(7).sample(ordered, len(ordered))  # noqa: S311  # a fixed order, no secret
    decided = Case(shuffled, Pruning(), owned=100).decide()
    assert decided == Pruning(deletions(*ordered))


@pytest.mark.parametrize(("files", "more"), [(5, ""), (6, "; and 1 more"), (40, "; and 35 more")])
def test_the_first_five_files_are_named_and_the_rest_counted(files: int, more: str) -> None:
    unreadable = [(f"{number}.yaml", f"{number}.yaml:1:1: bad") for number in range(files)]
    named = "; ".join(fault for _, fault in unreadable[:5])
    decided = Case([], Pruning(), Tree(unreadable, 1)).decide()
    assert decided.message == f"{named}{more}. Until then nothing is deleted. {LEFT_OUT}"


def test_the_first_five_resources_over_the_budget_are_named_and_the_rest_counted() -> None:
    gone = [stored(f"{number}") for number in range(9)]
    decided = Case(gone, Pruning(), budget=PruneBudget(max_percent=50), owned=9).decide()
    named = ", ".join(f"Destination {number}" for number in range(5))
    assert decided.hold is PruneHold.HELD
    assert decided.message is not None
    assert decided.message.startswith(
        f"Nothing is deleted: 9 of 9 resources would go, more than 50 percent ({named} and 4 more); "
    )


def test_the_reasons_to_hold_are_states_of_a_repository() -> None:
    assert [hold.value for hold in PruneHold] == ["prune-held", "empty", "path-missing", "unrelated-root"]
