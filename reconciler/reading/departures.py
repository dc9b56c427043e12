"""What a commit no longer contains of what its repository owns, and what of the commit could not be read.

Whether that is deleted is decided in `planning.pruning`. A full reading answers from itself; otherwise the index of the
applied head says what was not read.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from reconciler.model.names import Key
from reconciler.model.outcomes import StoredState
from reconciler.model.violations import Place
from reconciler.planner.pruning import TreeState
from reconciler.reading.trees import TreeReading
from reconciler.store.planning_view import PlanningView


@dataclass(frozen=True, slots=True)
class RemovedResources:
    """What is gone, out of how many, and what the tree holds. `owned` is 0 when nothing is gone: nobody asks."""

    gone: list[StoredState]
    owned: int
    tree: TreeState


@dataclass(frozen=True)
class _Scope:
    reading: TreeReading
    view: PlanningView
    repository: str
    project: str

    @cached_property
    def present(self) -> frozenset[Key]:
        """What the commit contains of what was read; a first read has no use for it."""
        kept = self.reading.kept_wanted
        known = (Key(row.kind, row.name) for row in kept if row.kind is not None and row.name is not None)
        return frozenset(one.key for file in self.reading.files for one in file.candidates if one.key).union(known)

    @cached_property
    def paths(self) -> frozenset[str]:
        """The files that were read."""
        return frozenset(file.path for file in self.reading.files)


def find_removed(
    reading: TreeReading, view: PlanningView, *, repository: str, project: str, look_back: bool
) -> RemovedResources:
    """Everything that a repository owns and this commit does not contain.

    `look_back`: what earlier commits took away may still be there, since it was held.
    """
    scope = _Scope(reading, view, repository, project)
    gone = _gone(scope, look_back=look_back)
    owned = view.owned_count(repository, project) if gone else 0
    tree = TreeState(_unreadable(scope), _documents(scope), missing=reading.missing)
    return RemovedResources(gone, owned, tree)


def _gone(scope: _Scope, *, look_back: bool) -> list[StoredState]:
    """An invalid document with a known kind and name is contained: what is stored of it stays."""
    view = scope.view
    if scope.reading.full:
        owned: Iterable[StoredState] = view.owned(scope.repository, scope.project)
    else:
        before = view.wanted_in(scope.repository, sorted(scope.paths))
        keys = {Key(row.kind, row.name) for row in before if row.kind is not None and row.name is not None}
        known = view.stored(scope.project, keys - scope.present).values()
        owned = [stored for stored in known if stored.owner == scope.repository]
        if look_back:
            held = view.owned_unwanted(scope.repository, scope.project)
            owned = {stored.key: stored for stored in (*owned, *held)}.values()
    return [stored for stored in owned if stored.key not in scope.present]


def _unreadable(scope: _Scope) -> list[tuple[str, str]]:
    """(path, fault) of every file that could not be read whole. Each is read again in every run."""
    files = scope.reading.files
    refused = {file.path: file for file in files for one in file.candidates if one.reason is not None}
    faults = [(path, file.fault) for path, file in refused.items() if file.fault is not None]
    vacant = {file.path: file.vacant for file in scope.reading.files if file.vacant is not None}
    if not scope.reading.full:
        vacant |= {path: why for path, why in scope.view.vacant_files(scope.repository) if path not in scope.paths}
    return sorted(faults + _vacated(scope, vacant))


def _vacated(scope: _Scope, vacant: dict[str, str]) -> list[tuple[str, str]]:
    """A file that gave resources and is now a link, a submodule or empty is unreadable, not absent; a folder likewise.

    Unless all that it gave stands elsewhere now: then it was moved.
    """
    if not vacant:
        return []
    gave: dict[str, set[Key]] = defaultdict(set)
    standing = scope.view.standing_at(scope.repository, scope.project, sorted(vacant))
    for path, key in (*standing, *_given(scope, vacant)):
        if key not in scope.present:
            gave[path].add(key)
    keys = {key for given in gave.values() for key in given}
    elsewhere = {key for key, path in scope.view.places_of(scope.repository, keys) if path not in scope.paths}
    faults = []
    for path in sorted(gave):
        if not scope.reading.full and gave[path] <= elsewhere:
            continue
        told = f"gave resources and now {vacant[path]}; delete it or restore it"
        faults.append((path, f"{Place(path, 1, 1)}: {told}"))
    return faults


def _given(scope: _Scope, vacant: dict[str, str]) -> list[tuple[str, Key]]:
    """What vacant files held that was stored from elsewhere: while it was invalid there, a duplicate, or forbidden."""
    given = [(file.path, key) for file in scope.reading.files if file.vacant is not None for key in file.given]
    if not scope.reading.full:
        before = scope.view.given(scope.repository)
        given += [(path, key) for path, key in before if path in vacant and path not in scope.paths]
    stored = scope.view.stored(scope.project, {key for _, key in given})
    owned = {one.key for one in stored.values() if one.owner == scope.repository}
    return [(path, key) for path, key in given if key in owned]


def _documents(scope: _Scope) -> int:
    """How many resource documents the tree holds; exact only where it matters, at none."""
    here = sum(len(file.candidates) for file in scope.reading.files) + len(scope.reading.kept_wanted)
    if here or scope.reading.full:
        return here
    replaced = scope.view.wanted_in(scope.repository, sorted(scope.paths))
    return scope.view.wanted_count(scope.repository) - len(replaced)
