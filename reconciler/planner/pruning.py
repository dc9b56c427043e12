"""Pruning: deletions of what a repository no longer contains, and the guards that hold them.

An error or an empty read must never become "nothing is wanted". So nothing is pruned while any file in scope cannot be
read or any document's kind and name are unknown, nor when the tree holds no resource at all or the folder is missing,
nor when more would go within 24 hours than the budget allows, or at once most of what there is; and of a head without
common history nothing at all is applied. A single resource is held while its own file is refused: a slip in the name
looks like a deletion. An admin's approval releases all of these but the first: a file is mended, not approved.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum

from reconciler.model.names import Key
from reconciler.model.outcomes import Change, Outcome, PruneWindow, StoredState, UpdateStatus
from reconciler.planner.removed import RemovedResources
from reconciler.store.records import HeldRow

NAMED = 5  # a message names this many files or resources, and counts the rest
UNRELATED = "The head has no history in common with the commit that was applied last"
LOST = (
    "Nobody knows whether the head has history in common with the commit that was applied last, which the mirror lacks"
    " and the remote gives out no more"
)
LEAVE_OUT = "A file that is not meant for the service is left out with a `.serviceignore` or the setting `exclude`."


class PruneHold(StrEnum):
    """Why nothing was pruned; the values are states of a repository."""

    HELD = "prune-held"
    EMPTY = "empty"
    PATH_MISSING = "path-missing"
    UNRELATED_ROOT = "unrelated-root"


@dataclass(frozen=True, slots=True)
class PruneBudget:
    """How much may be deleted in 24 hours: so many resources at least, and so many percent of what is owned."""

    min_count: int = 3
    max_percent: int = 25

    @property
    def is_off(self) -> bool:
        """Any number may be deleted."""
        # 100 is the switch: who deletes and creates all day may delete more than there ever was.
        return self.max_percent >= 100

    def covers(self, deletions: int, *, owned: int) -> bool:
        """So many deletions are allowed when the repository owns so many resources."""
        return self.is_off or deletions <= self.min_count or deletions * 100 <= self.max_percent * owned

    def spares(self, deletions: int, *, owned: int) -> bool:
        """So many deletions by one head leave enough: one may always go, more only with at most half."""
        return self.is_off or deletions < 2 or deletions * 2 <= owned


@dataclass(frozen=True, slots=True)
class PruneCircumstances:
    """The facts that are known before a head is judged.

    `window` is the last 24 hours. `approved` are the keys that an admin released, None when nobody did. `unrelated`:
    the commit has no history in common with the one that was applied last; `lost`, since that one is nowhere any more,
    so that nobody knows. `released`: the last plan held nothing, and was of this very tree. `stayed` is what the last
    plan kept though its head did not hold it.
    """

    window: PruneWindow
    approved: Set[Key] | None
    unrelated: bool = False
    lost: bool = False
    released: bool = False
    stayed: frozenset[HeldRow] = frozenset()


@dataclass(frozen=True, slots=True)
class Pruning:
    """The deletions and the resources in use, in order; or why all of them stay.

    `held` would go and stays, `protected` stays by its label, of which `note` tells. `approvable`: an admin can
    release what is held; `unreadable`: a file must be mended first. `approved`: somebody did release it, so that these
    deletions do not count for the budget. `partly`: what is held waits for its own file, and all else goes.
    """

    deletions: tuple[Outcome, ...] = ()
    in_use: tuple[Outcome, ...] = ()
    held: tuple[StoredState, ...] = ()
    protected: tuple[StoredState, ...] = ()
    hold: PruneHold | None = None
    message: str | None = None
    note: str | None = None
    approvable: bool = False
    unreadable: bool = False
    approved: bool = False
    partly: bool = False

    @property
    def holds_all(self) -> bool:
        """Nothing is deleted."""
        return self.hold is not None and not self.partly

    @property
    def applies(self) -> bool:
        """Something of the head is applied, apart from deletions."""
        return self.hold is not PruneHold.UNRELATED_ROOT

    @property
    def unapproved(self) -> int:
        """How many deletions count for the budget of the next 24 hours."""
        return 0 if self.approved else len(self.deletions)

    @property
    def approvable_flag(self) -> int | None:
        """1 when an admin can release what is held, 0 when a file must be mended first; None otherwise."""
        if self.hold is None:
            return None
        if self.approvable:
            return 1
        return 0 if self.unreadable else None

    def held_rows(self, repository: str) -> frozenset[HeldRow]:
        """Return the rows of what is kept although the head does not contain it."""
        held = (HeldRow(repository, *stored.key, "held") for stored in self.held)
        in_use = (HeldRow(repository, *outcome.key, "in-use") for outcome in self.in_use if outcome.key is not None)
        protected = (HeldRow(repository, *stored.key, "protected") for stored in self.protected)
        return frozenset((*held, *in_use, *protected))


def removed_resources(gone: Iterable[StoredState]) -> list[StoredState]:
    """Return what is to be deleted of what is gone, in order: a protected resource stays."""
    return sorted((stored for stored in gone if not stored.protected), key=_order)


def is_unsure(stored: StoredState, *, refused: Mapping[str, str], approved: Set[Key] | None) -> bool:
    """Return True when what is gone waits for its own file: a document there is refused, maybe for a slip in a name."""
    return stored.path in refused and (approved is None or stored.key not in approved)


def decide_prune(
    removed: RemovedResources,
    around: PruneCircumstances,
    *,
    budget: PruneBudget | None,
    in_use: Mapping[Key, tuple[Key, ...]],
    passing: Set[Key],
    renamed: Set[Key],
    refused: Mapping[str, str],
) -> Pruning:
    """Decide about the stored resources that a repository owns and its head does not contain.

    `budget` is None when nothing is ever pruned. `in_use` are those that are gone and cannot be deleted, with what
    refers to them. `passing` are those that pass to another repository: they are held like the others, and are neither
    deleted nor counted. `renamed` are those that the head holds under another name. `refused` are the files of which a
    document is refused, and where.
    """
    approved = around.approved
    everything = [] if budget is None else removed.gone
    to_go = removed_resources(everything)
    wanted = [stored for stored in to_go if stored.key not in in_use]
    unsure = [stored for stored in wanted if is_unsure(stored, refused=refused, approved=approved)]
    staying = passing | {stored.key for stored in unsure}
    lost = [stored for stored in wanted if stored.key not in staying]
    covered = approved is not None and all(stored.key in approved for stored in wanted)
    if around.unrelated and not covered:
        return _unrelated(removed, wanted, lost=around.lost)
    if removed.unreadable:  # told even when nothing is ever pruned: what is in such a file is not applied
        held = _elsewhere(wanted, removed.unreadable)
        message = f"{_faults(removed.unreadable)}. Until then nothing is deleted{_would_go(len(held))}. {LEAVE_OUT}"
        return Pruning(held=tuple(held), hold=PruneHold.HELD, message=message, unreadable=True)
    protected = tuple(sorted((stored for stored in everything if stored.protected), key=_order))
    reason = _reason(wanted, lost, removed, budget=budget, window=around.window, renamed=renamed)
    # An approval lets go what it was given for; once all of that is gone, the same tree is not held again.
    is_released = covered if wanted else around.released
    if reason is not None and not is_released:
        hold, message = reason
        message = " ".join([message, *_unsure_message(unsure, refused)])
        return Pruning(
            held=tuple(wanted),
            protected=protected,
            hold=hold,
            message=message,
            note=_note(protected),
            approvable=bool(wanted),
        )
    kept = tuple(stored for stored in protected if stored.key not in passing)
    return Pruning(
        deletions=tuple(_deletion(stored) for stored in lost),
        in_use=tuple(_staying(stored, in_use[stored.key]) for stored in to_go if stored.key in in_use),
        protected=kept,
        note=_note(kept),
        approved=covered and bool(wanted),
        held=tuple(unsure),
        hold=PruneHold.HELD if unsure else None,
        message=next(_unsure_message(unsure, refused), None),
        approvable=bool(unsure),
        partly=bool(unsure),
    )


def _reason(
    wanted: Sequence[StoredState],
    lost: Sequence[StoredState],
    removed: RemovedResources,
    *,
    budget: PruneBudget | None,
    window: PruneWindow,
    renamed: Set[Key],
) -> tuple[PruneHold, str] | None:
    """Find what holds a head whose files can all be read, and the sentence for it. `lost` is what is `wanted` away and
    neither passes to another repository nor waits for its own file.
    """
    if removed.missing is not None:
        return PruneHold.PATH_MISSING, f"{removed.missing}. Until then nothing is deleted{_would_go(len(wanted))}."
    if budget is None:
        return None
    owned = removed.owned
    if removed.documents == 0:
        return PruneHold.EMPTY, _empty_message(wanted)
    most = max(owned, window.owned)
    if lost and not budget.covers(len(lost) + window.deleted, owned=most):
        before = f", after {window.deleted} within 24 hours" if window.deleted else ""
        return PruneHold.HELD, _over_message(lost, owned=most, than=f"{budget.max_percent} percent", before=before)
    vanishing = [stored for stored in lost if stored.key not in renamed]
    if not budget.spares(len(vanishing), owned=owned):
        return PruneHold.HELD, _over_message(vanishing, owned=owned, than="half")
    return None


def _empty_message(wanted: Sequence[StoredState]) -> str:
    if not wanted:
        return "The head holds no resource at all; commit one, or correct `path`, `include` or `exclude`."
    return (
        f"The head holds no resource at all, so nothing is deleted; {len(wanted)} stay as they were: restore them, or "
        "release this with `reconciler approve`."
    )


def _unrelated(removed: RemovedResources, wanted: Sequence[StoredState], *, lost: bool) -> Pruning:
    """Nothing of such a head is applied. What cannot be read is told with it, and must be mended first."""
    release = "release this with `reconciler approve`"
    if removed.unreadable:
        release = f"mend what cannot be read and then {release}: {_faults(removed.unreadable)}"
    return Pruning(
        held=tuple(wanted),
        hold=PruneHold.UNRELATED_ROOT,
        message=f"{LOST if lost else UNRELATED}, so nothing of it is applied{_would_go(len(wanted))}; push that "
        f"history back, or {release}.",
        approvable=not removed.unreadable,
        unreadable=bool(removed.unreadable),
    )


def _order(stored: StoredState) -> tuple[str, str, str]:
    return (stored.path or "", stored.key.kind, stored.key.name)


def _deletion(stored: StoredState) -> Outcome:
    return Outcome(key=stored.key, status=UpdateStatus.DELETED, change=Change.DELETE, stored=stored)


def _staying(stored: StoredState, users: tuple[Key, ...]) -> Outcome:
    return Outcome(key=stored.key, status=UpdateStatus.IN_USE, stored=stored, users=users)


def _elsewhere(wanted: Sequence[StoredState], unreadable: Sequence[tuple[str, str]]) -> list[StoredState]:
    """Leave out what was in a file that cannot be read: it is not known to be gone."""
    paths = {path for path, _ in unreadable}
    return [stored for stored in wanted if stored.path not in paths]


def _faults(unreadable: Sequence[tuple[str, str]]) -> str:
    more = f"; and {len(unreadable) - NAMED} more" if len(unreadable) > NAMED else ""
    return "; ".join(fault for _, fault in unreadable[:NAMED]) + more


def _over_message(wanted: Sequence[StoredState], *, owned: int, than: str, before: str = "") -> str:
    return (
        f"Nothing is deleted: {len(wanted)} of {owned} resources would go{before}, more than {than} "
        f"({_named(wanted)}); restore them, or release this with `reconciler approve`."
    )


def _unsure_message(unsure: Sequence[StoredState], refused: Mapping[str, str]) -> Iterator[str]:
    """The sentence for what waits for its own file, if there is any."""
    if unsure:
        files = list(dict.fromkeys(refused[stored.path] for stored in unsure if stored.path is not None))
        told = ", ".join(files[:NAMED]) + (f" and {len(files) - NAMED} more" if len(files) > NAMED else "")
        yield (
            f"Not deleted: {_named(unsure)}, since a document in the same file is refused ({told}); correct that "
            f"document, or release this with `reconciler approve`. {LEAVE_OUT}"
        )


def _note(protected: Sequence[StoredState]) -> str | None:
    """Tell of protected resources. They are as they should be, so this is no message of a hold."""
    if not protected:
        return None
    return f"Kept by the label `service/prune`, though the head does not hold it: {_named(protected)}."


def _named(resources: Sequence[StoredState]) -> str:
    named = ", ".join(f"{stored.key.kind} {stored.key.name}" for stored in resources[:NAMED])
    return named + (f" and {len(resources) - NAMED} more" if len(resources) > NAMED else "")


def _would_go(count: int) -> str:
    return f" ({count} would go)" if count else ""
