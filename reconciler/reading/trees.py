"""Which files of a commit are read, and what they hold.

Git's objects come in through a snapshot, what the store remembers through a view.

A full read takes every considered file. Otherwise only files that changed are read, those that hold something that is
not stored as Git wants it, and files that hold a resource that one of these held or holds: duplicates and moves are
seen, and the cost follows the change and what depends on it, not the repository.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from reconciler.deciding import candidates
from reconciler.deciding.candidates import Candidate, Rules
from reconciler.documents import limits
from reconciler.errors import Refused
from reconciler.git import ignoring, selecting
from reconciler.git.snapshots import Snapshot
from reconciler.git.trees import EMPTY, Change, File, Mode
from reconciler.resources import components
from reconciler.resources.keys import Key
from reconciler.resources.violations import Place
from reconciler.store.contract import FileRow, WantedRow
from reconciler.store.planning_view import PlanningView

LINKS = {
    Mode.SYMLINK: "is a symbolic link, which is not followed",
    Mode.SUBMODULE: "is a submodule, which is not followed",
}

NOT_OURS = "holds only documents that are not ours"


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose tree is read, and by which rules."""

    repository: str
    project: str
    folder: str
    rules: Rules


@dataclass(frozen=True, slots=True)
class FileReading:
    """One file that was read. A file that is not there any more has `blob` None and no candidates.

    `vacant` says why a file holds nothing although its name says that it could; whether that matters depends on what
    it held before (`departures`).
    """

    path: str
    blob: str | None
    candidates: tuple[Candidate, ...] = ()
    vacant: str | None = None

    @property
    def fault(self) -> str | None:
        """Why it could not be read whole, with its place: a document without known kind or name could be anything."""
        reasons = (one.reason for one in self.candidates if one.key is None and one.reason is not None)
        return next((reason.split("\n", 1)[0] for reason in reasons), None)


@dataclass(frozen=True, slots=True)
class TreeReading:
    """What was read of a commit, sorted by path. `full`: these are all files; otherwise those that matter.

    `missing` says that the folder is not there, which gives a tree without files.
    """

    tree: str
    full: bool
    files: tuple[FileReading, ...]
    missing: str | None = None

    def candidates(self) -> list[Candidate]:
        """Every resource document that was read, by path and position."""
        return [candidate for file in self.files for candidate in file.candidates]


def without_folder(missing: str) -> TreeReading:
    """The reading of a commit that lacks the folder."""
    return TreeReading(tree=EMPTY, full=True, files=(), missing=missing)


def told_empty(reading: TreeReading, view: PlanningView, *, scope: Scope) -> TreeReading:
    """The reading, with every file `vacant` that gave resources and holds none any more, though documents: a slip in
    `apiVersion` and `kind` looks the same. Of other files with nothing of ours nobody wants to know.
    """
    skipped = [file.path for file in reading.files if _is_skipped(file)]
    gave = {path for path, _ in view.standing_at(scope.repository, scope.project, skipped)} if skipped else set()
    files = (replace(file, vacant=NOT_OURS) if file.path in gave else file for file in reading.files)
    return replace(reading, files=tuple(files)) if gave else reading


def _is_skipped(file: FileReading) -> bool:
    is_present = file.blob is not None and file.vacant is None
    return is_present and not file.candidates and not _is_ignore_file(file.path)


def read_all(snapshot: Snapshot, *, scope: Scope) -> TreeReading:
    """Every considered file of the commit. Raises GitFault, Refused."""
    present = list(snapshot.files(scope.folder))
    rules = {file.path: file.blob for file in present if _is_ignore_file(file.path) and file.readable}
    ignore = _ignore(rules, snapshot, scope=scope)
    read = [_read(file, snapshot, scope=scope) for file in present if _matters(file, ignore)]
    # Ignore files are in the index too, so that a changed file finds those above it without a walk.
    files = _ordered([*read, *(FileReading(path, blob) for path, blob in rules.items())])
    return TreeReading(tree=snapshot.tree(scope.folder), full=True, files=files)


def read_changed(snapshot: Snapshot, view: PlanningView, *, scope: Scope, since: str) -> TreeReading | None:
    """What changed since a tree, or None when everything must be read: an ignore file changed, or the tree is gone.

    Raises GitFault, Refused.
    """
    tree = snapshot.tree(scope.folder)
    if not snapshot.has(since):
        return None
    changed = snapshot.changes(since, tree, scope.folder)
    if any(_is_ignore_file(change.path) for change in changed):
        return None
    above = sorted({rules for change in changed for rules in _ignore_files_above(change.path)})
    ignore = _ignore(view.blobs(scope.repository, above), snapshot, scope=scope)
    present = {change.path: change.new for change in changed if _matters(change.new or change, ignore)}
    # What the index knows and does not matter any more, a link for instance: it is not there as what it was.
    known = view.blobs(scope.repository, [change.path for change in changed if change.path not in present])
    present |= dict.fromkeys(known)
    # What is not stored as Git wants it is judged again in every run: the store may let it in by now, and each run
    # tells all that is wrong with its head.
    unread = set(view.unconverged(scope.repository)) - {change.path for change in changed}
    present |= _unchanged(view, unread, scope=scope)
    files: dict[str, FileReading] = {}
    while present:
        for path in sorted(present):
            file = present[path]
            files[path] = FileReading(path, None) if file is None else _read(file, snapshot, scope=scope)
        # A file that shares a resource with what was read must be judged too, or one whose components have a type that
        # was read, and so on until nothing is shared.
        keys = _keys(present, files, view, scope)
        types = [key for key in keys if key.kind in components.TYPES]
        users = {user for those in view.referrers(scope.project, types).values() for user in those}
        sharing = view.paths_wanting(scope.repository, keys | users) - files.keys()
        present = _unchanged(view, sharing, scope=scope)
    return TreeReading(tree=tree, full=False, files=_ordered(files.values()))


def _matters(file: File | Change, ignore: ignoring.Ignore) -> bool:
    """Whether a file is read, or, as a link of any name, may stand where a file or a folder of files stood before."""
    if _is_ignore_file(file.path):
        return False  # rules when it is a file, nothing when it is a link
    is_link = isinstance(file, File) and file.mode in LINKS and not ignore.ignored(file.path)
    return is_link or selecting.considered(file.path, ignore)


def _unchanged(view: PlanningView, paths: Iterable[str], *, scope: Scope) -> dict[str, File | None]:
    """Files that did not change since the applied head, so that they are what its index says.

    Links are not among them: the index knows those by holding nothing. A hostile name is escaped with a backslash,
    which no harmless name holds.
    """
    blobs = view.blobs(scope.repository, sorted(paths))
    modes = {path: Mode.HOSTILE if "\\" in path else Mode.REGULAR for path in blobs}
    return {path: File(path, blob, modes[path]) for path, blob in blobs.items()}


def _ordered(files: Iterable[FileReading]) -> tuple[FileReading, ...]:
    return tuple(sorted(files, key=lambda file: file.path.encode("utf-8", "surrogateescape")))


def _is_ignore_file(path: str) -> bool:
    return path.rpartition("/")[2] == ignoring.FILE_NAME


def _ignore_files_above(path: str) -> Iterator[str]:
    folder = path
    while folder:
        folder = folder.rpartition("/")[0]
        yield f"{folder}/{ignoring.FILE_NAME}".removeprefix("/")


def _ignore(rules: Mapping[str, str], snapshot: Snapshot, *, scope: Scope) -> ignoring.Ignore:
    """The rules of these ignore files, by path and blob."""
    texts = {
        path.rpartition("/")[0]: snapshot.read(blob, ignoring.MAX_BYTES).decode("utf-8", "replace")
        for path, blob in rules.items()
    }
    return ignoring.Ignore(texts, root=scope.folder)


def file_rows(reading: TreeReading, *, repository: str) -> Iterator[FileRow]:
    """The index of what was read: a file to its blob and its fault."""
    for file in reading.files:
        if file.blob is not None:
            yield FileRow(repository, file.path, file.blob, file.vacant)


def wanted_rows(reading: TreeReading, unconverged: Iterable[str | None], *, repository: str) -> Iterator[WantedRow]:
    """The index of what was read: a resource document to its key, digest and state; `unconverged` in the same order."""
    documents = ((file, candidate) for file in reading.files for candidate in file.candidates)
    for (file, candidate), state in zip(documents, unconverged, strict=True):
        kind, name = candidate.key or (None, None)
        digest = None if candidate.draft is None else candidate.draft.digest
        yield WantedRow(repository, file.path, candidate.position, kind, name, digest, state)


def _keys(paths: Iterable[str], files: dict[str, FileReading], view: PlanningView, scope: Scope) -> set[Key]:
    """The keys that these files held at the last applied head, and hold now."""
    before = view.wanted_in(scope.repository, sorted(paths))
    keys = {Key(row.kind, row.name) for row in before if row.kind is not None and row.name is not None}
    return keys | {found.key for path in paths for found in files[path].candidates if found.key is not None}


def _read(file: File, snapshot: Snapshot, *, scope: Scope) -> FileReading:
    """One file, bounded."""
    if file.mode in LINKS:
        return FileReading(file.path, file.blob, vacant=LINKS[file.mode])
    if not file.readable:
        refusal = candidates.unreadable(Place(file.path, 1, 1), "has a name that no file should have; rename it")
        return FileReading(file.path, file.blob, candidates=(refusal,))
    try:
        data = snapshot.read(file.blob, limits.FILE.bytes)
    except Refused as refused:
        refusal = candidates.unreadable(Place(file.path, 1, 1), refused.message)
        return FileReading(file.path, file.blob, candidates=(refusal,))
    found = candidates.of_file(data, path=file.path, rules=scope.rules)
    if found is None:
        return FileReading(file.path, file.blob, vacant="is empty")
    return FileReading(file.path, file.blob, candidates=found)
