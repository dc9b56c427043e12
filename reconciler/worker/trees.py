"""Which files of a commit are read, and what they hold."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec
from msgspec import structs

from reconciler.git import file_selection
from reconciler.git.file_selection import FileGlobs
from reconciler.git.snapshots import Snapshot
from reconciler.git.trees import EMPTY, TreeChange, TreeFile, TreeMode
from reconciler.model import components, positions
from reconciler.model.errors import Refused
from reconciler.model.names import Key
from reconciler.model.violations import Place
from reconciler.planner import candidates
from reconciler.planner.candidates import Candidate, CandidateRules
from reconciler.store.contract import FileRow, WantedRow
from reconciler.store.planning_view import PlanningView
from reconciler.worker.limits import Allowance

# One file of a commit: whether its content is read, and what it holds; and the ignore files, which hold rules.

LINKS = {
    TreeMode.SYMLINK: "is a symbolic link, which is not followed",
    TreeMode.SUBMODULE: "is a submodule, which is not followed",
}

NOT_OURS = "holds only documents that are not ours"


class ReadFiles(Protocol):
    """Read many files with the help of other processes (`crew`)."""

    def __call__(
        self, files: Sequence[TreeFile], snapshot: Snapshot, *, rules: CandidateRules, allowance: Allowance
    ) -> "list[FileReading]":
        """The files in their order, as `read` reads each of them."""


@dataclass(frozen=True, slots=True)
class FileScope:
    """Whose tree is read, and by which rules. `together`: how many files are read, when others may help."""

    repository: str
    project: str
    folder: str
    rules: CandidateRules
    allowance: Allowance
    globs: FileGlobs
    only: Set[str] | None = None  # the files that are looked at; None for all
    also: tuple[TreeChange, ...] = ()  # files that are read although they are what they were
    together: ReadFiles | None = None


class FileReading(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One file that was read. A file that is not there any more has `blob` None and no candidates.

    `vacant` says why a file holds nothing although its name says that it could; whether that matters depends on what
    it held before (`heads`). `given` is what it held when it is vacant or cannot be read, and what is not stored
    from there, so that only the index knows of it.
    """

    path: str
    blob: str | None
    candidates: tuple[Candidate, ...] = ()
    vacant: str | None = None
    given: tuple[Key, ...] = ()

    @property
    def fault(self) -> str | None:
        """Why it could not be read whole, with its place: a document without known kind or name could be anything."""
        reasons = (one.reason for one in self.candidates if one.key is None and one.reason is not None)
        return next((reason.split("\n", 1)[0] for reason in reasons), None)


def read_ignore_file(
    rules: Mapping[str, str], snapshot: Snapshot, *, scope: FileScope
) -> tuple[file_selection.IgnoreRules, dict[str, FileReading]]:
    """The rules of these ignore files, by path and blob; and the ignore files that cannot be used, by path."""
    texts: dict[str, str] = {}
    unusable: dict[str, FileReading] = {}
    for path, blob in rules.items():
        folder = path.rpartition("/")[0]
        try:
            text = file_selection.decoded_ignore_file(snapshot.read(blob, file_selection.MAX_IGNORE_BYTES))
            scope.allowance.ignore_file(file_selection.IgnoreRules({folder: text}, root=scope.folder).count)
        except Refused as refused:
            unusable[path] = _unusable(path, blob, refused.message)
        else:
            texts[folder] = text
    return file_selection.IgnoreRules(texts, root=scope.folder), unusable


def linked_ignore(file: TreeFile) -> FileReading:
    """Return the reading of a link or a submodule with the name of an ignore file: nobody knows its rules."""
    return _unusable(file.path, file.blob, f"it {LINKS[file.mode]}; make it a regular file, or remove it")


def _unusable(path: str, blob: str, why: str) -> FileReading:
    told = f"says which files count and cannot be read, so nothing below its folder changes: {why}"
    return FileReading(path, blob, candidates=(candidates.unreadable_candidate(Place(path, 1, 1), told),))


def read_one_file(file: TreeFile, snapshot: Snapshot, *, rules: CandidateRules, allowance: Allowance) -> FileReading:
    """One file, bounded."""
    if file.mode in LINKS:
        return FileReading(file.path, file.blob, vacant=LINKS[file.mode])
    if not file.readable:
        refusal = candidates.unreadable_candidate(
            Place(file.path, 1, 1), "has a name that no file should have; rename it"
        )
        return FileReading(file.path, file.blob, candidates=(refusal,))
    try:
        allowance.file(file.blob, taken(snapshot.size(file.blob)))
        data = snapshot.read(file.blob, positions.FILE_LIMITS.bytes)
    except Refused as refused:
        refusal = candidates.unreadable_candidate(Place(file.path, 1, 1), refused.message)
        return FileReading(file.path, file.blob, candidates=(refusal,))
    found = candidates.candidates_of_file(data, path=file.path, rules=rules)
    if found is None:
        return FileReading(file.path, file.blob, vacant="is empty")
    allowance.documents(len(found))
    return FileReading(file.path, file.blob, candidates=found)


def file_size(file: TreeFile, snapshot: Snapshot) -> int:
    """The bytes that reading a file takes, known before; none for one that is not read, which is told otherwise."""
    if not file.readable:
        return 0
    return taken(snapshot.size(file.blob))


def taken(size: int) -> int:
    """What a file of so many bytes takes: nothing, if it has too many to be read."""
    return size if size <= positions.FILE_LIMITS.bytes else 0


# Which files of a commit are read, and what they hold.
#
# Git's objects come in through a snapshot, what the store remembers through a view.
#
# A full read takes every considered file. Otherwise only files that changed are read, those that hold something that is
# not stored as Git wants it, and files that hold a resource that one of these held or holds: duplicates and moves are
# seen, and the cost follows the change and what depends on it, not the repository.

MANY = 200  # files from which on it pays to share the reading


@dataclass(frozen=True, slots=True)
class TreeReading:
    """What was read of a commit, sorted by path. `full`: these are all files; otherwise those that matter.

    `missing` says that the folder is not there, which gives a tree without files. The kept rows of the index are those
    below an ignore file that cannot be used: there everything stays as it was.
    """

    tree: str
    full: bool
    files: tuple[FileReading, ...]
    missing: str | None = None
    kept_files: tuple[FileRow, ...] = ()
    kept_wanted: tuple[WantedRow, ...] = ()

    def candidates(self) -> list[Candidate]:
        """Every resource document that was read, by path and position."""
        return [candidate for file in self.files for candidate in file.candidates]


def without_folder(missing: str) -> TreeReading:
    """The reading of a commit that lacks the folder."""
    return TreeReading(tree=EMPTY, full=True, files=(), missing=missing)


def told_empty(reading: TreeReading, view: PlanningView, *, scope: FileScope) -> TreeReading:
    """The reading, with every file `vacant` that gave resources and holds none any more, though documents: a slip in
    `apiVersion` and `kind` looks the same. Of other files with nothing of ours nobody wants to know.
    """
    unknown = [file.path for file in reading.files if file.vacant or file.fault or _is_skipped(file)]
    if not unknown:
        return reading
    standing = set(view.standing_at(scope.repository, scope.project, unknown))
    given = _given(reading, view, unknown, scope=scope) - standing
    keys: dict[str, list[Key]] = defaultdict(list)
    for path, key in sorted(given):
        keys[path].append(key)
    gave = {path for path, _ in standing | given}
    files = (_told(file, tuple(keys[file.path]), gave=file.path in gave) for file in reading.files)
    return replace(reading, files=tuple(files))


def _given(reading: TreeReading, view: PlanningView, unknown: list[str], *, scope: FileScope) -> set[tuple[str, Key]]:
    """(path, key) of what these files, or folders of their names, held before and what stands nowhere now.

    The stored path of a document that is invalid, a duplicate or forbidden is another one, if it has any.
    """
    paths, names = {file.path for file in reading.files}, set(unknown)
    before = set(view.wanted_at(scope.repository, unknown))
    for path, key in view.given(scope.repository):
        before |= {(name, key) for name in _itself_and_above(path) if name in names}
    keys = {key for _, key in before}
    standing = {found.key for found in reading.candidates()}
    standing |= {
        Key(row.kind, row.name) for row in reading.kept_wanted if row.kind is not None and row.name is not None
    }
    if not reading.full:
        standing |= {key for key, path in view.places_of(scope.repository, keys) if path not in paths}
    return {(path, key) for path, key in before if key not in standing}


def _told(file: FileReading, given: tuple[Key, ...], *, gave: bool) -> FileReading:
    if file.vacant == NOT_OURS or _is_skipped(file):
        return structs.replace(file, vacant=NOT_OURS if gave else None, given=given)
    return structs.replace(file, given=given) if given or file.given else file


def _is_skipped(file: FileReading) -> bool:
    is_present = file.blob is not None and file.vacant is None
    return is_present and not file.candidates and not _is_ignore_file(file.path)


def _itself_and_above(path: str) -> Iterator[str]:
    while path:
        yield path
        path = path.rpartition("/")[0]


def read_all(snapshot: Snapshot, view: PlanningView, *, scope: FileScope) -> TreeReading:
    """Every considered file of the commit, but below an ignore file that cannot be used what the index says of it.

    Raises GitFault.
    """
    matter, rules, unusable = _considered(snapshot, scope)
    scope.allowance.known(sum(file_size(file, snapshot) for file in matter), files=len(matter))
    read = _read(matter, snapshot, scope=scope)
    # Ignore files are in the index too, so that a changed file finds those above it without a walk.
    files = _ordered([*read, *(unusable.get(path) or FileReading(path, blob) for path, blob in rules.items())])
    reading = TreeReading(tree=snapshot.tree(scope.folder), full=True, files=files)
    return _keeping(reading, view, unusable, scope=scope) if unusable else reading


def _read(files: Sequence[TreeFile], snapshot: Snapshot, *, scope: FileScope) -> list[FileReading]:
    rules, allowance = scope.rules, scope.allowance
    if scope.together is not None and len(files) >= MANY:
        return scope.together(files, snapshot, rules=rules, allowance=allowance)
    return [read_one_file(file, snapshot, rules=rules, allowance=allowance) for file in files]


def considered(snapshot: Snapshot, *, scope: FileScope) -> list[TreeFile]:
    """The files of the commit that are read in full reads. Raises GitFault."""
    return _considered(snapshot, scope)[0]


def _considered(snapshot: Snapshot, scope: FileScope) -> tuple[list[TreeFile], dict[str, str], dict[str, FileReading]]:
    """The files that matter; the ignore files, by path and blob; and those of them that cannot be used."""
    present = list(snapshot.files(scope.folder))
    # Where nothing counts anyway, rules that cannot be used must not keep what counts elsewhere from going.
    holding = [
        file
        for file in present
        if _is_ignore_file(file.path) and not scope.globs.excluded_folder(file.path.rpartition("/")[0])
    ]
    rules = {file.path: file.blob for file in holding if file.readable}
    ignore, unusable = read_ignore_file(rules, snapshot, scope=scope)
    links = [file for file in holding if file.mode in LINKS]
    rules |= {file.path: file.blob for file in links}
    unusable |= {file.path: linked_ignore(file) for file in links}
    matter = [file for file in present if _matters(file, ignore, scope) and not _is_below(file.path, unusable)]
    return matter, rules, unusable


def _keeping(reading: TreeReading, view: PlanningView, unusable: Collection[str], *, scope: FileScope) -> TreeReading:
    """With the index of what is below these ignore files, since nobody knows which files they leave out."""
    files, wanted = view.index(scope.repository)

    def is_kept(path: str) -> bool:
        return _is_below(path, unusable) and not _is_ignore_file(path)

    return replace(
        reading,
        kept_files=tuple(row for row in files if is_kept(row.path)),
        kept_wanted=tuple(row for row in wanted if is_kept(row.path)),
    )


def _is_below(path: str, ignore_files: Collection[str]) -> bool:
    """Whether a file stands in the folder of one of these ignore files, or below it."""
    if not ignore_files:
        return False
    return any(path.startswith(one.removesuffix(file_selection.FILE_NAME)) for one in ignore_files)


def read_changed(snapshot: Snapshot, view: PlanningView, *, scope: FileScope, since: str) -> TreeReading | None:
    """What changed since a tree, or None when everything must be read: an ignore file changed or is a link, or the tree
    is gone.

    Below an ignore file that cannot be used nothing is read. Raises GitFault.
    """
    tree = snapshot.tree(scope.folder)
    if not snapshot.has(since):
        return None
    changed = snapshot.changes(since, tree, scope.folder)
    named = {change.path for change in changed}
    changed += [change for change in scope.also if change.path not in named]
    if any(_is_ignore_file(change.path) for change in changed):
        return None
    above = sorted({rules for change in changed for rules in _ignore_files_above(change.path)})
    waiting = set(view.unconverged(scope.repository))
    unusable_before = {path for path in waiting if _is_ignore_file(path)}
    if any(snapshot.blob(path) is None for path in unusable_before):
        return None  # a link or a submodule, whose object holds no rules
    rules = view.blobs(scope.repository, sorted(unusable_before.union(above)))
    ignore, unusable = read_ignore_file(rules, snapshot, scope=scope)
    if unusable.keys() != unusable_before:
        return None
    changed = [change for change in changed if not _is_below(change.path, unusable)]
    present = {change.path: change.new for change in changed if _matters(change.new or change, ignore, scope)}
    # What the index knows and does not matter any more, a link for instance: it is not there as what it was.
    known = view.blobs(scope.repository, [change.path for change in changed if change.path not in present])
    present |= dict.fromkeys(known)
    # What is not stored as Git wants it is judged again in every run: the store may let it in by now, and each run
    # tells all that is wrong with its head.
    unread = {path for path in waiting if not _is_below(path, unusable)} - {change.path for change in changed}
    present |= _unchanged(view, unread, scope=scope)
    files: dict[str, FileReading] = dict(unusable)
    while present:
        files |= {path: FileReading(path, None) for path, file in present.items() if file is None}
        there = [file for _, file in sorted(present.items()) if file is not None]
        files |= {found.path: found for found in _read(there, snapshot, scope=scope)}
        # A file that shares a resource with what was read must be judged too, or one whose components have a type that
        # was read, and so on until nothing is shared.
        keys = _keys(present, files, view, scope)
        types = [key for key in keys if key.kind in components.TYPES]
        users = {user for those in view.referrers(scope.project, types).values() for user in those}
        sharing = view.paths_wanting(scope.repository, keys | users) - files.keys()
        present = _unchanged(view, (path for path in sharing if not _is_below(path, unusable)), scope=scope)
    files |= _vacant_since(files, view, unusable, scope=scope)
    return TreeReading(tree=tree, full=False, files=_ordered(files.values()))


def _matters(file: TreeFile | TreeChange, ignore: file_selection.IgnoreRules, scope: FileScope) -> bool:
    """Whether a file is read, or, as a link of any name, may stand where a file or a folder of files stood before."""
    scope.allowance.path(file.path)
    if scope.only is not None and file.path not in scope.only:
        return False
    if _is_ignore_file(file.path):
        return False  # it holds rules
    globs = scope.globs
    # What a link stood for may have been included although the link is not: `teams/*` is no pattern of `teams`.
    is_link = isinstance(file, TreeFile) and file.mode in LINKS
    stands_in = is_link and not ignore.ignored(file.path) and not globs.excluded(file.path)
    return stands_in or file_selection.is_considered(file.path, ignore, globs)


def _vacant_since(
    files: Mapping[str, FileReading], view: PlanningView, unusable: Collection[str], *, scope: FileScope
) -> dict[str, FileReading]:
    """The vacant files that held what was read now: it stands elsewhere, so that they need not be remembered for it."""
    present = {found.key for file in files.values() for found in file.candidates}
    paths = {path for path, key in view.given(scope.repository) if key in present and path not in files}
    why = dict(view.vacant_files(scope.repository)) if paths else {}
    paths = {path for path in paths if path in why and not _is_below(path, unusable)}
    blobs = view.blobs(scope.repository, sorted(paths))
    return {path: FileReading(path, blob, vacant=why[path]) for path, blob in blobs.items()}


def _unchanged(view: PlanningView, paths: Iterable[str], *, scope: FileScope) -> dict[str, TreeFile | None]:
    """Files that did not change since the applied head, so that they are what its index says.

    Links are not among them: the index knows those by holding nothing. A hostile name is escaped with a backslash,
    which no harmless name holds.
    """
    blobs = view.blobs(scope.repository, sorted(paths))
    modes = {path: TreeMode.HOSTILE if "\\" in path else TreeMode.REGULAR for path in blobs}
    return {path: TreeFile(path, blob, modes[path]) for path, blob in blobs.items()}


def _ordered(files: Iterable[FileReading]) -> tuple[FileReading, ...]:
    return tuple(sorted(files, key=lambda file: file.path.encode("utf-8", "surrogateescape")))


def _is_ignore_file(path: str) -> bool:
    return path.endswith(file_selection.FILE_NAME) and path.rpartition("/")[2] == file_selection.FILE_NAME


def _ignore_files_above(path: str) -> Iterator[str]:
    folder = path
    while folder:
        folder = folder.rpartition("/")[0]
        yield f"{folder}/{file_selection.FILE_NAME}".removeprefix("/")


def file_rows(reading: TreeReading, *, repository: str) -> Iterator[FileRow]:
    """The index of what was read: a file to its blob, and to why it is vacant; and of what is kept."""
    for file in reading.files:
        if file.blob is not None:
            given = msgspec.json.encode([list(key) for key in file.given]).decode() if file.given else None
            yield FileRow(repository, file.path, file.blob, file.vacant, given)
    yield from reading.kept_files


def wanted_rows(reading: TreeReading, unconverged: Iterable[str | None], *, repository: str) -> Iterator[WantedRow]:
    """The index of what was read: a resource document to its key, digest and state; `unconverged` in the same order."""
    documents = ((file, candidate) for file in reading.files for candidate in file.candidates)
    for (file, candidate), state in zip(documents, unconverged, strict=True):
        kind, name = candidate.key or (None, None)
        digest = None if candidate.draft is None else candidate.draft.digest
        yield WantedRow(repository, file.path, candidate.position, kind, name, digest, state)
    yield from reading.kept_wanted


def _keys(paths: Iterable[str], files: dict[str, FileReading], view: PlanningView, scope: FileScope) -> set[Key]:
    """The keys that these files held at the last applied head, and hold now."""
    before = view.wanted_in(scope.repository, sorted(paths))
    keys = {Key(row.kind, row.name) for row in before if row.kind is not None and row.name is not None}
    return keys | {found.key for path in paths for found in files[path].candidates if found.key is not None}
