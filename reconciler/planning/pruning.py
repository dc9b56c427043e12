"""Pruning: what a repository owned and no longer contains is deleted, unless that could be a mistake. Pure.

An error or an empty read must never become "nothing is wanted". So nothing is pruned while any file in scope cannot be
read or any document's kind and name are unknown, nor when the tree holds no resource at all, nor when one commit would
take more than the budget.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from reconciler.planning.models import Change, Outcome, Stored
from reconciler.planning.statuses import UpdateStatus

NAMED = 5  # a message names this many files or resources, and counts the rest


class Hold(StrEnum):
    """Why nothing was pruned; the values are states of a repository."""

    HELD = "prune-held"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class Budget:
    """How much one commit may delete: so many resources at least, and so many percent of what is owned."""

    min_count: int = 3
    max_percent: int = 25

    def covers(self, deletions: int, *, owned: int) -> bool:
        """Whether so many deletions are allowed when the repository owns so many resources."""
        return deletions <= self.min_count or deletions * 100 <= self.max_percent * owned


@dataclass(frozen=True, slots=True)
class Tree:
    """What a commit holds: (path, fault) of each file in scope that could not be read whole, and how many documents."""

    unreadable: Sequence[tuple[str, str]]
    documents: int  # invalid ones included


@dataclass(frozen=True, slots=True)
class Pruning:
    """What goes, in order; or why it stays."""

    deletions: tuple[Outcome, ...] = ()
    hold: Hold | None = None
    message: str | None = None


def decide(gone: Iterable[Stored], *, tree: Tree, owned: int, budget: Budget | None) -> Pruning:
    """What becomes of the stored resources that a repository owns and its head does not contain.

    `owned` is how many it owns, `budget` None when nothing is ever pruned.
    """
    leaving = sorted((stored for stored in gone if not stored.protected), key=_order)
    if tree.unreadable:  # told even when nothing is ever pruned: what is in such a file is not applied
        return Pruning(hold=Hold.HELD, message=_unreadable_message(tree.unreadable, leaving))
    if budget is None:
        return Pruning()
    if tree.documents == 0:
        message = f"The head holds no resource at all, so nothing is deleted; {len(leaving)} stay as they were."
        return Pruning(hold=Hold.EMPTY, message=message)
    if not budget.covers(len(leaving), owned=owned):
        return Pruning(hold=Hold.HELD, message=_budget_message(leaving, owned=owned, budget=budget))
    return Pruning(deletions=tuple(_deletion(stored) for stored in leaving))


def _order(stored: Stored) -> tuple[str, str, str]:
    return (stored.path or "", stored.key.kind, stored.key.name)


def _deletion(stored: Stored) -> Outcome:
    return Outcome(key=stored.key, status=UpdateStatus.DELETED, change=Change.DELETE, stored=stored)


def _unreadable_message(unreadable: Sequence[tuple[str, str]], leaving: Sequence[Stored]) -> str:
    """What is wrong first, then what follows. What stood in such a file is not among what would go."""
    named = "; ".join(fault for _, fault in unreadable[:NAMED])
    more = f"; and {len(unreadable) - NAMED} more" if len(unreadable) > NAMED else ""
    paths = {path for path, _ in unreadable}
    elsewhere = sum(1 for stored in leaving if stored.path not in paths)
    kept = f" ({elsewhere} would go)" if elsewhere else ""
    return f"{named}{more}. Until then nothing is deleted{kept}."


def _budget_message(leaving: Sequence[Stored], *, owned: int, budget: Budget) -> str:
    named = ", ".join(f"{stored.key.kind} {stored.key.name}" for stored in leaving[:NAMED])
    more = f" and {len(leaving) - NAMED} more" if len(leaving) > NAMED else ""
    return (
        f"Nothing is deleted: {len(leaving)} of {owned} resources would go, more than {budget.max_percent} percent "
        f"({named}{more}); restore them, or raise the repository's `prune.maxPercent` for as long as this takes."
    )
