"""Removed resources: what a head no longer contains, going by the files that were read of it and by the index.

Files come in as they were read. Here it is told apart what is gone from what only could not be read: a file that gave
resources and is now empty, a link, or full of documents of others. Whether what is gone is deleted is decided in
`pruning`.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import msgspec
from msgspec import structs

from reconciler.model.desired import Desired
from reconciler.model.names import Key
from reconciler.model.outcomes import StoredState
from reconciler.model.violations import Place
from reconciler.store.contract import PlanningView
from reconciler.store.records import FileRow, WantedRow

NOT_OURS = "holds only documents that are not ours"


class FileReading(msgspec.Struct, frozen=True, gc=False):
    """One file that was read. A file that is not there any more has `blob` None and no documents.

    `vacant` says why a file holds nothing although its name says that it could; whether that matters depends on what
    it held before. `given` is what it held when it is vacant or cannot be read, and what is not stored from there, so
    that only the index knows of it.
    """

    path: str
    blob: str | None
    documents: tuple[Desired, ...] = ()
    vacant: str | None = None
    given: tuple[Key, ...] = ()
    is_ignore_file: bool = False  # it holds rules, and no documents

    @property
    def fault(self) -> str | None:
        """Why it could not be read whole, with its place: a document without known kind or name could be anything."""
        reasons = (one.reason for one in self.documents if one.key is None and one.reason is not None)
        return next((reason.split("\n", 1)[0] for reason in reasons), None)

    @property
    def is_skipped(self) -> bool:
        """It holds documents, and none of ours."""
        is_present = self.blob is not None and self.vacant is None
        return is_present and not self.documents and not self.is_ignore_file


@dataclass(frozen=True)
class TreeReading:
    """The files that were read of a commit, sorted by path. `full`: these are all files; otherwise those that matter.

    `missing` says that the folder is not there, which gives a tree without files. The kept rows of the index are those
    below an ignore file that cannot be used: there everything stays as it was.
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
        """The keys that the commit contains, as far as it was read; a first read has no use for it."""
        kept = (Key(row.kind, row.name) for row in self.kept_wanted if row.kind is not None and row.name is not None)
        return frozenset(one.key for file in self.files for one in file.documents if one.key).union(kept)

    @cached_property
    def paths(self) -> frozenset[str]:
        """The files that were read."""
        return frozenset(file.path for file in self.files)


@dataclass(frozen=True, slots=True)
class RemovedResources:
    """The resources that are gone, out of how many, and what the tree holds.

    `owned` is how many resources the repository owns, 0 when nothing is gone: nobody asks. `unreadable` is (path,
    fault) of each file that could not be read whole. `documents` counts the tree's, invalid ones included; it is exact
    only where that matters, at none. `missing` says that the folder is not there; such a tree has no documents.
    """

    gone: Sequence[StoredState]
    owned: int
    unreadable: Sequence[tuple[str, str]]
    documents: int
    missing: str | None = None


def told_empty(reading: TreeReading, view: PlanningView, *, repository: str, project: str) -> TreeReading:
    """Mark every file as `vacant` that gave resources and holds none any more, though documents: a slip in `apiVersion`
    and `kind` looks the same. Of other files with nothing of ours nobody wants to know.
    """
    unknown = [file.path for file in reading.files if file.vacant or file.fault or file.is_skipped]
    if not unknown:
        return reading
    stored = set(view.standing_at(repository, project, unknown))
    # The stored path of a document that is invalid, a duplicate or forbidden is another one, if it has any.
    names, before = set(unknown), set(view.wanted_at(repository, unknown))
    for path, key in view.given(repository):
        before |= {(name, key) for name in _itself_and_above(path) if name in names}
    elsewhere = set[Key]()
    if not reading.full:
        found = view.places_of(repository, {key for _, key in before})
        elsewhere = {key for key, path in found if path not in reading.paths}
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


def _itself_and_above(path: str) -> Iterator[str]:
    while path:
        yield path
        path = path.rpartition("/")[0]


def find_removed(
    reading: TreeReading, view: PlanningView, *, repository: str, project: str, look_back: bool
) -> RemovedResources:
    """Find everything that a repository owns and this commit does not contain.

    An invalid document with a known kind and name is contained: what is stored of it stays. `look_back`: what earlier
    commits took away may still be there, since it was held.
    """
    if reading.full:
        owned: Iterable[StoredState] = view.owned(repository, project)
    else:
        before = view.wanted_in(repository, sorted(reading.paths))
        keys = {Key(row.kind, row.name) for row in before if row.kind is not None and row.name is not None}
        known = view.stored(project, keys - reading.present).values()
        owned = [stored for stored in known if stored.owner == repository]
        if look_back:
            held = view.owned_unwanted(repository, project)
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
    """(path, fault) of every file that could not be read whole. Each is read again in every run.

    A file that gave resources and is now a link, a submodule or empty is unreadable, not absent; a folder likewise.
    Unless all that it gave is elsewhere now: then it was moved.
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
    # What vacant files held that was stored from elsewhere: while it was invalid there, a duplicate, or forbidden.
    stored = view.stored(project, {key for _, key in given})
    mine = [(path, key) for path, key in given if key in stored and stored[key].owner == repository]
    gave: dict[str, set[Key]] = defaultdict(set)
    for path, key in (*view.standing_at(repository, project, sorted(vacant)), *mine):
        if key not in reading.present:
            gave[path].add(key)
    keys = {key for held in gave.values() for key in held}
    elsewhere = {key for key, path in view.places_of(repository, keys) if path not in reading.paths}
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
