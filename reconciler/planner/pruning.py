"""Pruning: the resources that a head no longer contains, and the guards that hold their deletion.

A resource counts as removed if its file is gone or no longer defines it. It does not count as removed if the file could
not be read, or had resources before and is now empty, a link, or has only documents for other programs.

An error or an empty read must never become "nothing is wanted". So nothing is pruned in these cases:

- A file in scope cannot be read, or the kind and name of a document are unknown.
- The tree has no resource at all, or the folder is missing.
- More would be deleted within 24 hours than the budget allows, or most resources at once.
- The head has no common history with the last one: then nothing at all is applied.

A single resource is held while a document of its file is refused, because a typo in a name looks like a deletion. An
admin's approval releases all of these except the first: such a file must be corrected.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import PurePosixPath

import msgspec
from msgspec import structs

from reconciler.model.desired import Desired
from reconciler.model.names import NAMED, Key, named
from reconciler.model.outcomes import Change, Outcome, PruneWindow, StoredState, UpdateStatus
from reconciler.model.repository_rules import PruneBudget
from reconciler.model.violations import Place
from reconciler.store.contract import PlanningView
from reconciler.store.repository_records import FileRow, HeldRow, WantedRow

NOT_OURS = "holds only documents that are not ours"


class FileReading(msgspec.Struct, frozen=True, gc=False):
    """One file that was read. A deleted file has `blob` None and no documents. `vacant` says why a file has no
    documents although it is named like a document; that matters only if it had some before. `given` are the former
    resources of a vacant or unreadable file that are stored from another place, so only the index knows them.
    """

    path: str
    blob: str | None
    documents: tuple[Desired, ...] = ()
    vacant: str | None = None
    given: tuple[Key, ...] = ()
    is_ignore_file: bool = False  # it holds rules, and no documents

    @property
    def fault(self) -> str | None:
        """The reason and place if a part could not be read: a document without kind or name may be any resource."""
        reasons = (one.reason for one in self.documents if one.key is None and one.reason is not None)
        return next((reason.split("\n", 1)[0] for reason in reasons), None)

    @property
    def is_skipped(self) -> bool:
        """True if it has documents, but none for this service."""
        is_present = self.blob is not None and self.vacant is None
        return is_present and not self.documents and not self.is_ignore_file


@dataclass(frozen=True)
class TreeReading:
    """The files that were read of a commit, sorted by path. `full`: these are all files, otherwise only some.

    `missing` is the message that the folder does not exist; then there are no files. The kept rows are those of the
    index below an unusable ignore file, where everything stays as it was.
    """

    tree: str
    full: bool
    files: tuple[FileReading, ...]
    missing: str | None = None
    kept_files: tuple[FileRow, ...] = ()
    kept_wanted: tuple[WantedRow, ...] = ()

    def documents(self) -> list[Desired]:
        """Return every resource document that was read, by path and position."""
        return [document for file in self.files for document in file.documents]

    @cached_property
    def present(self) -> frozenset[Key]:
        """The keys in the files that were read. Cached, because it is large and a first read does not need it."""
        kept = (row.key for row in self.kept_wanted if row.key is not None)
        return frozenset(one.key for file in self.files for one in file.documents if one.key).union(kept)

    @cached_property
    def paths(self) -> frozenset[str]:
        """The files that were read."""
        return frozenset(file.path for file in self.files)


@dataclass(frozen=True, slots=True)
class RemovedResources:
    """The removed resources, and the counts of the tree.

    `owned` is the number of resources that the repository owns; 0 if nothing is removed, since nobody needs it then.
    `unreadable` is (path, fault) of each file that could not be read whole. `documents` is the number of documents in
    the tree, with invalid ones; only 0 is exact. `missing` is the message that the folder does not exist.
    """

    gone: Sequence[StoredState]
    owned: int
    unreadable: Sequence[tuple[str, str]]
    documents: int
    missing: str | None = None


def marked_vacant(reading: TreeReading, view: PlanningView, *, repository: str, project: str) -> TreeReading:
    """Mark every file as `vacant` that had resources and now has only documents for other programs: the cause may be a
    typo in `apiVersion` or `kind`. Other files without resources do not matter.
    """
    unknown = [file.path for file in reading.files if file.vacant or file.fault or file.is_skipped]
    if not unknown:
        return reading
    stored = set(view.standing_at(repository, project, unknown))
    # An invalid, duplicate or forbidden document is stored from another path, or not at all.
    names, before = set(unknown), set(view.wanted_at(repository, unknown))
    for path, key in view.given(repository):
        before |= {(name, key) for name in (path, *map(str, PurePosixPath(path).parents)) if name in names}
    elsewhere = set[Key]()
    if not reading.full:
        found = view.wanted_of(repository, {key for _, key in before})
        elsewhere = {row.key for row in found if row.key is not None and row.path not in reading.paths}
    given = {(path, key) for path, key in before if key not in reading.present and key not in elsewhere} - stored
    keys: dict[str, list[Key]] = defaultdict(list)
    for path, key in sorted(given):
        keys[path].append(key)
    gave = {path for path, _ in stored | given}
    files = []
    for file in reading.files:
        held = tuple(keys[file.path])
        if file.vacant == NOT_OURS or file.is_skipped:
            files.append(structs.replace(file, vacant=NOT_OURS if file.path in gave else None, given=held))
        else:
            files.append(structs.replace(file, given=held) if held or file.given else file)
    return replace(reading, files=tuple(files))


def find_removed(
    reading: TreeReading, view: PlanningView, *, repository: str, project: str, look_back: bool
) -> RemovedResources:
    """Find everything that a repository owns and this commit does not contain.

    An invalid document with kind and name is contained, so its stored resource stays. With `look_back`, resources that
    earlier commits removed are included: their deletion may have been held.
    """
    if reading.full:
        owned: Iterable[StoredState] = view.owned(repository, project)
    else:
        before = view.wanted_in(repository, sorted(reading.paths))
        keys = {row.key for row in before if row.key is not None}
        known = view.stored(project, keys - reading.present).values()
        owned = [stored for stored in known if stored.owner == repository]
        if look_back:
            held = view.owned(repository, project, unwanted=True)
            owned = {stored.key: stored for stored in (*owned, *held)}.values()
    gone = [stored for stored in owned if stored.key not in reading.present]
    return RemovedResources(
        gone=gone,
        owned=view.owned_count(repository, project) if gone else 0,
        unreadable=_unreadable(reading, view, repository=repository, project=project),
        documents=_count(reading, view, repository=repository),
        missing=reading.missing,
    )


def _unreadable(reading: TreeReading, view: PlanningView, *, repository: str, project: str) -> list[tuple[str, str]]:
    """Return (path, fault) of every file that could not be read whole. Each is read again in every run.

    A file that had resources and is now a link, a submodule or empty counts as unreadable, not as deleted; the same
    holds for a folder. If all its resources are in other files now, it was moved.
    """
    faults = [(file.path, fault) for file in reading.files if (fault := file.fault) is not None]
    vacant = {file.path: file.vacant for file in reading.files if file.vacant is not None}
    given = [(file.path, key) for file in reading.files if file.vacant is not None for key in file.given]
    if not reading.full:
        vacant |= {path: why for path, why in view.vacant_files(repository) if path not in reading.paths}
    if not vacant:
        return sorted(faults)
    if not reading.full:
        earlier = view.given(repository)
        given += [(path, key) for path, key in earlier if path in vacant and path not in reading.paths]
    # Former resources of vacant files that are stored from another path: here they were invalid or duplicates.
    stored = view.stored(project, {key for _, key in given})
    mine = [(path, key) for path, key in given if key in stored and stored[key].owner == repository]
    gave: dict[str, set[Key]] = defaultdict(set)
    for path, key in (*view.standing_at(repository, project, sorted(vacant)), *mine):
        if key not in reading.present:
            gave[path].add(key)
    keys = {key for held in gave.values() for key in held}
    elsewhere = {row.key for row in view.wanted_of(repository, keys) if row.path not in reading.paths}
    for path in sorted(gave):
        if reading.full or not gave[path] <= elsewhere:
            told = f"gave resources and now {vacant[path]}; delete it or restore it"
            faults.append((path, f"{Place(path, 1, 1)}: {told}"))
    return sorted(faults)


def _count(reading: TreeReading, view: PlanningView, *, repository: str) -> int:
    here = sum(len(file.documents) for file in reading.files) + len(reading.kept_wanted)
    if here or reading.full:
        return here
    replaced = view.wanted_in(repository, sorted(reading.paths))
    return view.wanted_count(repository) - len(replaced)


UNRELATED = "The head has no known history in common with the commit that was applied last"
LEAVE_OUT = "A file that is not meant for the service is left out with a `.serviceignore` or the setting `exclude`."


class PruneHold(StrEnum):
    """The reason why nothing was pruned. The values are states of a repository."""

    HELD = "prune-held"
    EMPTY = "empty"
    PATH_MISSING = "path-missing"
    UNRELATED_ROOT = "unrelated-root"


@dataclass(frozen=True, slots=True)
class PruneCircumstances:
    """The facts that are known before a head is judged.

    `window` is the last 24 hours. `approved` are the keys that an admin released, None without an approval.
    `unrelated`: the commit has no known history in common with the one that was applied last. `released`: the last plan
    was of the same tree and held nothing. `stayed` are resources that the last plan kept although its head did not hold
    them.
    """

    window: PruneWindow
    approved: Set[Key] | None
    unrelated: bool = False
    released: bool = False
    stayed: frozenset[HeldRow] = frozenset()


@dataclass(frozen=True, slots=True)
class Pruning:
    """The deletions and the resources in use, in order; or the reason why all of them stay.

    `held` are deletions that wait. `protected` resources stay because of their label, as `note` says. `approvable` is 1
    if an admin can release the held ones, 0 if a file must be corrected first, otherwise None. `approved`: an admin
    released the deletions, so they do not count for the budget. `partly`: the held resources wait for their own file,
    and the others are deleted.
    """

    deletions: tuple[Outcome, ...] = ()
    in_use: tuple[Outcome, ...] = ()
    held: tuple[StoredState, ...] = ()
    protected: tuple[StoredState, ...] = ()
    hold: PruneHold | None = None
    message: str | None = None
    note: str | None = None
    approvable: int | None = None
    approved: bool = False
    partly: bool = False

    def names(self, path: str) -> bool:
        """Return True if the message names this file as unreadable."""
        return f"{path}:1:1: " in (self.message or "")

    @property
    def holds_all(self) -> bool:
        """True if nothing is deleted."""
        return self.hold is not None and not self.partly

    @property
    def unapproved(self) -> int:
        """The number of deletions that count for the budget of the next 24 hours."""
        return 0 if self.approved else len(self.deletions)

    def held_rows(self, repository: str) -> frozenset[HeldRow]:
        """Return the rows of resources that are kept although the head does not contain them."""
        held = (HeldRow(repository, *stored.key, "held") for stored in self.held)
        in_use = (HeldRow(repository, *outcome.key, "in-use") for outcome in self.in_use if outcome.key is not None)
        protected = (HeldRow(repository, *stored.key, "protected") for stored in self.protected)
        return frozenset((*held, *in_use, *protected))


def removed_resources(gone: Iterable[StoredState]) -> list[StoredState]:
    """Return the removed resources that may be deleted, in order. Protected ones stay."""
    return sorted((stored for stored in gone if not stored.protected), key=_order)


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

    `budget` is None if pruning is off. `in_use` are removed resources that cannot be deleted, with their users.
    `passing` are those that pass to another repository: they are held like the others, but neither deleted nor counted.
    `renamed` are those that the head has under another name. `refused` are the files with a refused document, and its
    place.
    """
    approved = around.approved
    everything = [] if budget is None else removed.gone
    to_go = removed_resources(everything)
    wanted = [stored for stored in to_go if stored.key not in in_use]
    # A removed resource waits while a document of its file is refused, perhaps for a typo in its name.
    unsure = [one for one in wanted if one.path in refused and (approved is None or one.key not in approved)]
    staying = passing | {stored.key for stored in unsure}
    lost = [stored for stored in wanted if stored.key not in staying]
    covered = approved is not None and all(stored.key in approved for stored in wanted)
    if around.unrelated and not covered:
        return _unrelated(removed, wanted)
    if removed.unreadable:  # reported even without pruning, because such a file is not applied
        # The resources of such a file may still be wanted, so they are not even counted as held.
        paths = {path for path, _ in removed.unreadable}
        held = tuple(stored for stored in wanted if stored.path not in paths)
        message = f"{_faults(removed.unreadable)}. Until then nothing is deleted{_would_go(len(held))}. {LEAVE_OUT}"
        return Pruning(held=held, hold=PruneHold.HELD, message=message, approvable=0)
    protected = tuple(sorted((stored for stored in everything if stored.protected), key=_order))
    reason = _reason(wanted, lost, removed, budget=budget, window=around.window, renamed=renamed)
    # An approval releases the keys that it names. When all of them are deleted, the same tree is not held again.
    is_released = covered if wanted else around.released
    waiting = _unsure_message(unsure, refused) if unsure else None
    if reason is not None and not is_released:
        hold, message = reason
        return Pruning(
            held=tuple(wanted),
            protected=protected,
            hold=hold,
            message=f"{message} {waiting}" if waiting else message,
            note=_note(protected),
            approvable=1 if wanted else None,
        )
    kept = tuple(stored for stored in protected if stored.key not in passing)
    return Pruning(
        deletions=tuple(Outcome(one.key, UpdateStatus.DELETED, Change.DELETE, stored=one) for one in lost),
        in_use=tuple(
            Outcome(one.key, UpdateStatus.IN_USE, stored=one, users=in_use[one.key])
            for one in to_go
            if one.key in in_use
        ),
        protected=kept,
        note=_note(kept),
        approved=covered and bool(wanted),
        held=tuple(unsure),
        hold=PruneHold.HELD if unsure else None,
        message=waiting,
        approvable=1 if unsure else None,
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
    """Return the guard that holds a head without unreadable files, and its message. `wanted` are the resources to
    delete; `lost` are those of them that neither pass to another repository nor wait for their own file.
    """
    if removed.missing is not None:
        return PruneHold.PATH_MISSING, f"{removed.missing}. Until then nothing is deleted{_would_go(len(wanted))}."
    if budget is None:
        return None
    owned = removed.owned
    if removed.documents == 0:
        told = (
            f", so nothing is deleted; {len(wanted)} stay as they were: restore them, or release this with"
            " `reconciler approve`."
            if wanted
            else "; commit one, or correct `path`, `include` or `exclude`."
        )
        return PruneHold.EMPTY, f"The head holds no resource at all{told}"
    most = max(owned, window.owned)
    if lost and not budget.covers(len(lost) + window.deleted, owned=most):
        before = f", after {window.deleted} within 24 hours" if window.deleted else ""
        return PruneHold.HELD, _over_message(lost, owned=most, than=f"{budget.max_percent} percent", before=before)
    vanishing = [stored for stored in lost if stored.key not in renamed]
    if not budget.spares(len(vanishing), owned=owned):
        return PruneHold.HELD, _over_message(vanishing, owned=owned, than="half")
    return None


def _unrelated(removed: RemovedResources, wanted: Sequence[StoredState]) -> Pruning:
    """Hold a head with an unrelated history. Unreadable files are reported too, and must be corrected first."""
    release = "release this with `reconciler approve`"
    if removed.unreadable:
        release = f"mend what cannot be read and then {release}: {_faults(removed.unreadable)}"
    return Pruning(
        held=tuple(wanted),
        hold=PruneHold.UNRELATED_ROOT,
        message=f"{UNRELATED}, so nothing of it is applied{_would_go(len(wanted))}; push that "
        f"history back, or {release}.",
        approvable=0 if removed.unreadable else 1,
    )


def _order(stored: StoredState) -> tuple[str, str, str]:
    return (stored.path or "", stored.key.kind, stored.key.name)


def _faults(unreadable: Sequence[tuple[str, str]]) -> str:
    more = f"; and {len(unreadable) - NAMED} more" if len(unreadable) > NAMED else ""
    return "; ".join(fault for _, fault in unreadable[:NAMED]) + more


def _over_message(wanted: Sequence[StoredState], *, owned: int, than: str, before: str = "") -> str:
    return (
        f"Nothing is deleted: {len(wanted)} of {owned} resources would go{before}, more than {than} "
        f"({_named(wanted)}); restore them, or release this with `reconciler approve`."
    )


def _unsure_message(unsure: Sequence[StoredState], refused: Mapping[str, str]) -> str:
    files = list(dict.fromkeys(refused[stored.path] for stored in unsure if stored.path is not None))
    told = ", ".join(files[:NAMED]) + (f" and {len(files) - NAMED} more" if len(files) > NAMED else "")
    return (
        f"Not deleted: {_named(unsure)}, since a document in the same file is refused ({told}); correct that "
        f"document, or release this with `reconciler approve`. {LEAVE_OUT}"
    )


def _note(protected: Sequence[StoredState]) -> str | None:
    """Report protected resources. Their state is sound, so this is a note and not a message."""
    if not protected:
        return None
    return f"Kept by the label `service/prune`, though the head does not hold it: {_named(protected)}."


def _named(resources: Sequence[StoredState]) -> str:
    return named([stored.key for stored in resources])


def _would_go(count: int) -> str:
    return f" ({count} would go)" if count else ""
