"""The files of a commit: which ones are read, the limits on reading them, and their documents.

A full read takes every considered file. A partial read takes files that changed, files with documents that are not
stored as Git wants, and files that share a resource with one of these, before or after the change. So it sees
duplicates and moves, and its cost depends on the size of the change, not of the repository.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property

import msgspec

from reconciler.git import file_selection
from reconciler.git.file_selection import FileGlobs
from reconciler.git.snapshots import Snapshot
from reconciler.git.trees import TreeChange, TreeFile, TreeMode
from reconciler.model import components, desired, documents, positions
from reconciler.model.desired import Desired, DocumentRules
from reconciler.model.documents import Locations
from reconciler.model.errors import Refused
from reconciler.model.names import Key
from reconciler.model.repository_rules import RepositoryRules
from reconciler.model.violations import Place, Violation
from reconciler.planner.pruning import FileReading, TreeReading
from reconciler.store.contract import PlanningView
from reconciler.store.repository_records import FileRow, WantedRow
from reconciler.worker.messages import Exhausted

MEBIBYTE = 2**20
ASIDE = (
    "ended the program that reads it, or kept it for a minute, twice, so it is not read until it changes; mend it or"
    " take it out"
)


@dataclass(frozen=True, slots=True)
class CommitLimits:
    """The limits on reading one commit, far above what people write by hand."""

    files: int = 250_000  # that count as documents
    bytes: int = 1024 * MEBIBYTE  # of them together; content under several paths counts several times
    documents: int = 500_000
    patterns: int = 10_000  # of all ignore files together
    seconds: float = 300.0  # of the thread's processor time, so that a busy machine refuses nothing


COMMIT = CommitLimits()


def _exhausted(what: str, remedy: str) -> Exhausted:
    return Exhausted(f"the commit {what}, and nothing of it is applied; {remedy}")


class Allowance:
    """The rest of one commit's limits. Create it on the thread that reads the commit: its processor time starts now.

    `at` is called with each file's blob before the file is read, and with '' when no more files are read.
    """

    def __init__(
        self,
        limits: CommitLimits = COMMIT,
        *,
        aside: frozenset[str] = frozenset(),
        at: Callable[[str], object] = str,
        clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self.limits = limits
        self.aside = aside
        self.at = at
        self._clock = clock
        self._end = clock() + limits.seconds
        self._files = self._bytes = self._documents = self._patterns = 0

    def known(self, size: int, *, files: int) -> None:
        """Check the number of files to read and their total size, before reading any. Raises Exhausted."""
        if files > self.limits.files:
            raise _exhausted(f"holds more than {self.limits.files:,} files to read", SMALLER)
        if size > self.limits.bytes:
            raise _exhausted(f"holds more than {self.limits.bytes // MEBIBYTE:,} MiB of files to read", SMALLER)

    def file(self, blob: str, size: int) -> None:
        """Count a file that will be read. Raises Exhausted, or Refused for a file that is set aside."""
        self._files += 1
        self._bytes += size
        self.known(self._bytes, files=self._files)
        self.time()
        if blob in self.aside:
            raise Refused(ASIDE)
        self.at(blob)

    def documents(self, number: int) -> None:
        """Count documents that were read. Raises Exhausted."""
        self._documents += number
        if self._documents > self.limits.documents:
            raise _exhausted(f"holds more than {self.limits.documents:,} documents", SMALLER)

    def ignore_file(self, patterns: int) -> None:
        """Count the patterns of an ignore file. Raises Exhausted."""
        self._patterns += patterns
        if self._patterns > self.limits.patterns:
            raise _exhausted(f"holds more than {self.limits.patterns:,} patterns in its ignore files", FEWER)
        self.time()

    def time(self) -> None:
        """Check the processor time. Raises Exhausted when it is used up."""
        if self._clock() > self._end:
            raise _exhausted(f"takes more than {self.limits.seconds:g} s of processor time to read", SMALLER)


SMALLER = (
    "configure a folder of it with `path`, leave files out with `include`, `exclude` or a .serviceignore, or split the"
    " repository"
)
FEWER = "use wildcards, and fewer ignore files"


LFS = "is a pointer of Git LFS, which is not followed"
LFS_POINTER, LFS_BYTES = b"version https://git-lfs.github.com/spec/", 1024  # as Git LFS documents it
LINKS = {
    TreeMode.SYMLINK: "is a symbolic link, which is not followed",
    TreeMode.SUBMODULE: "is a submodule, which is not followed",
}


@dataclass(frozen=True)
class FileScope:
    """The files of a repository that are read, and the rules and limits of reading them."""

    rules: RepositoryRules
    project: str
    documents: DocumentRules
    allowance: Allowance
    only: Set[str] | None = None  # the files that are considered; None for all
    also: tuple[TreeChange, ...] = ()  # files that are read although they did not change
    known: Mapping[str, FileReading] = field(default_factory=dict)  # files of this commit that were read before

    @cached_property
    def globs(self) -> FileGlobs:
        """The settings `include` and `exclude`."""
        return FileGlobs(include=self.rules.include, exclude=self.rules.exclude, root=self.rules.path)


def read_ignore_files(
    found: Mapping[str, str], snapshot: Snapshot, *, scope: FileScope
) -> tuple[file_selection.IgnoreRules, dict[str, FileReading]]:
    """Return the rules of ignore files, given as paths with blobs, and the files as they were read."""
    texts: dict[str, str] = {}
    files: dict[str, FileReading] = {}
    for path, blob in found.items():
        folder = path.rpartition("/")[0]
        try:
            text = file_selection.decoded_ignore_file(snapshot.read(blob, file_selection.MAX_IGNORE_BYTES))
            scope.allowance.ignore_file(file_selection.IgnoreRules({folder: text}, root=scope.rules.path).count)
        except Refused as refused:
            files[path] = _unusable(path, blob, refused.message)
        else:
            texts[folder] = text
            files[path] = FileReading(path, blob, is_ignore_file=True)
    return file_selection.IgnoreRules(texts, root=scope.rules.path), files


def _unusable(path: str, blob: str, why: str) -> FileReading:
    told = f"says which files count and cannot be read, so nothing below its folder changes: {why}"
    return FileReading(path, blob, documents=(desired.unreadable(Place(path, 1, 1), told),))


def read_one_file(file: TreeFile, snapshot: Snapshot, *, rules: DocumentRules, allowance: Allowance) -> FileReading:
    """Read a file within limits."""
    if file.mode in LINKS:
        return FileReading(file.path, file.blob, vacant=LINKS[file.mode])
    try:
        if not file.readable:
            raise Refused("has a name that no file should have; rename it")
        found = read_documents(file.path, file.blob, snapshot, rules=rules, allowance=allowance)
    except Refused as refused:
        found = (desired.unreadable(Place(file.path, 1, 1), refused.message),)
    vacant = "is empty" if found is None else None
    is_small = not found and snapshot.size(file.blob) < LFS_BYTES
    if is_small and snapshot.read(file.blob, LFS_BYTES).startswith(LFS_POINTER):
        vacant = LFS
    return FileReading(file.path, file.blob, documents=found or (), vacant=vacant)


def told_files(files: Iterable[FileReading]) -> Iterator[str]:
    """Yield a sentence for each ignore file, and for each file that looks like resources but is not read."""
    for file in files:
        if file.is_ignore_file:
            yield f"{file.path} says which files count, and changes."
        elif file.vacant is not None and (documents.syntax_of(file.path) or file.vacant == LINKS[TreeMode.SUBMODULE]):
            yield f"{file.path} is not read: it {file.vacant}."


def read_documents(
    path: str, blob: str, snapshot: Snapshot, *, rules: DocumentRules, allowance: Allowance
) -> tuple[Desired, ...] | None:
    """Read the documents of a file; None for an empty one. Raises Exhausted, and Refused for a file that is set aside
    or too large.
    """
    allowance.file(blob, read_size(blob, snapshot))
    found = desired.read_file(snapshot.read(blob, positions.FILE_LIMITS.bytes), path=path, rules=rules)
    allowance.documents(len(found or ()))
    return found


def read_size(blob: str, snapshot: Snapshot) -> int:
    """Return the number of bytes to read of a file: 0 if it is too large, since then it is not read."""
    size = snapshot.size(blob)
    return size if size <= positions.FILE_LIMITS.bytes else 0


def read_all(snapshot: Snapshot, view: PlanningView, *, scope: FileScope) -> TreeReading:
    """Read every considered file of the commit. Below an unusable ignore file, use the index instead.

    Raises GitFault.
    """
    matter, ignore_files = considered(snapshot, scope=scope)
    size = sum(read_size(file.blob, snapshot) for file in matter if file.readable)
    scope.allowance.known(size, files=len(matter))
    read = [_read(file, snapshot, scope=scope) for file in matter]
    # Ignore files are in the index too, so that a changed file finds those above it without a walk.
    files = _ordered([*read, *ignore_files.values()])
    reading = TreeReading(tree=snapshot.tree(scope.rules.path), full=True, files=files)
    unusable = _unusable_paths(ignore_files)
    return _keeping(reading, view, unusable, scope=scope) if unusable else reading


def _read(file: TreeFile, snapshot: Snapshot, *, scope: FileScope) -> FileReading:
    known = scope.known.get(file.path)
    return known or read_one_file(file, snapshot, rules=scope.documents, allowance=scope.allowance)


def considered(snapshot: Snapshot, *, scope: FileScope) -> tuple[list[TreeFile], dict[str, FileReading]]:
    """Return the files of a full read, and the ignore files, by path. Raises GitFault."""
    present = list(snapshot.files(scope.rules.path))
    # An unusable ignore file in an excluded folder must not hold deletions elsewhere.
    holding = [
        file
        for file in present
        if _is_ignore_file(file.path) and not scope.globs.excluded_folder(file.path.rpartition("/")[0])
    ]
    readable = {file.path: file.blob for file in holding if file.readable}
    ignore, ignore_files = read_ignore_files(readable, snapshot, scope=scope)
    for file in holding:
        if file.mode in LINKS:  # its rules are unknown
            why = f"it {LINKS[file.mode]}; make it a regular file, or remove it"
            ignore_files[file.path] = _unusable(file.path, file.blob, why)
    unusable = _unusable_paths(ignore_files)
    matter = [file for file in present if _matters(file, ignore, scope) and not _is_below(file.path, unusable)]
    return matter, ignore_files


def _unusable_paths(ignore_files: Mapping[str, FileReading]) -> list[str]:
    return [path for path, file in ignore_files.items() if not file.is_ignore_file]


def _keeping(reading: TreeReading, view: PlanningView, unusable: Collection[str], *, scope: FileScope) -> TreeReading:
    """Add the indexed files below these unusable ignore files: the rules are unknown."""
    files, wanted = view.index(scope.rules.name)

    def is_kept(path: str) -> bool:
        return _is_below(path, unusable) and not _is_ignore_file(path)

    return replace(
        reading,
        kept_files=tuple(row for row in files if is_kept(row.path)),
        kept_wanted=tuple(row for row in wanted if is_kept(row.path)),
    )


def _is_below(path: str, ignore_files: Collection[str]) -> bool:
    """Return True when a file is in the folder of one of these ignore files, or below it."""
    return any(path.startswith(one.removesuffix(file_selection.FILE_NAME)) for one in ignore_files)


def read_changed(snapshot: Snapshot, view: PlanningView, *, scope: FileScope, since: str) -> TreeReading | None:
    """Read what changed since a tree. Returns None when everything must be read: an ignore file changed or cannot be
    used, or the tree is gone. Raises GitFault.
    """
    tree = snapshot.tree(scope.rules.path)
    if not snapshot.has(since):
        return None
    changed = snapshot.changes(since, tree, scope.rules.path)
    named = {change.path for change in changed}
    changed += [change for change in scope.also if change.path not in named]
    waiting = set(view.unconverged(scope.rules.name))
    if any(map(_is_ignore_file, (*waiting, *(change.path for change in changed)))):
        return None
    above = {rules for change in changed for rules in _ignore_files_above(change.path)}
    rules = view.blobs(scope.rules.name, sorted(above))
    ignore, ignore_files = read_ignore_files(rules, snapshot, scope=scope)
    if _unusable_paths(ignore_files):
        return None
    present = {change.path: change.new for change in changed if _matters(change.new or change, ignore, scope)}
    # Files in the index that do not matter any more, such as a file that became a link, count as deleted.
    known = view.blobs(scope.rules.name, [change.path for change in changed if change.path not in present])
    present |= dict.fromkeys(known)
    # Documents that are not stored as Git wants are judged again in every run: the store may accept them by now, and a
    # run reports every error of its head.
    present |= _unchanged(view, waiting - {change.path for change in changed}, scope=scope)
    files: dict[str, FileReading] = {}
    while present:
        files |= {path: FileReading(path, None) for path, file in present.items() if file is None}
        there = [file for _, file in sorted(present.items()) if file is not None]
        files |= {found.path: found for found in (_read(file, snapshot, scope=scope) for file in there)}
        # Files that share a resource with the files that were read must be judged too, and files with components of a
        # type that was read, and so on until nothing is shared.
        keys = _keys(present, files, view, scope)
        types = [key for key in keys if key.kind in components.TYPES]
        users = {user for those in view.referrers(scope.project, types).values() for user in those}
        sharing = {row.path for row in view.wanted_of(scope.rules.name, keys | users)} - files.keys()
        present = _unchanged(view, sharing, scope=scope)
    files |= _vacant_since(files, view, scope=scope)
    return TreeReading(tree=tree, full=False, files=_ordered(files.values()))


def _matters(file: TreeFile | TreeChange, ignore: file_selection.IgnoreRules, scope: FileScope) -> bool:
    """Return True when a file is read, or is a link, which may replace a file or a folder of files."""
    scope.allowance.time()
    if scope.only is not None and file.path not in scope.only:
        return False
    if _is_ignore_file(file.path):
        return False  # it holds rules
    globs = scope.globs
    # A link may replace a folder with included files although it is not included: `teams/*` does not match `teams`.
    is_link = isinstance(file, TreeFile) and file.mode in LINKS
    may_replace = is_link and not ignore.ignored(file.path) and not globs.excluded(file.path)
    return may_replace or file_selection.is_considered(file.path, ignore, globs)


def _vacant_since(files: Mapping[str, FileReading], view: PlanningView, *, scope: FileScope) -> dict[str, FileReading]:
    """Find vacant files that can be forgotten: their former resources were read in other files."""
    present = {found.key for file in files.values() for found in file.documents}
    paths = {path for path, key in view.given(scope.rules.name) if key in present and path not in files}
    why = dict(view.vacant_files(scope.rules.name)) if paths else {}
    blobs = view.blobs(scope.rules.name, sorted(paths & why.keys()))
    return {path: FileReading(path, blob, vacant=why[path]) for path, blob in blobs.items()}


def _unchanged(view: PlanningView, paths: Iterable[str], *, scope: FileScope) -> dict[str, TreeFile | None]:
    """Find files that did not change since the applied head: its index describes them.

    Links are left out, because the index has no documents of them. Only hostile names have a backslash, as an escape.
    """
    blobs = view.blobs(scope.rules.name, sorted(paths))
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
    """Yield the index rows of files: the blob, and the reason why a file is vacant. Kept files are included."""
    for file in reading.files:
        if file.blob is not None:
            given = msgspec.json.encode([list(key) for key in file.given]).decode() if file.given else None
            yield FileRow(repository, file.path, file.blob, file.vacant, given)
    yield from reading.kept_files


def wanted_rows(reading: TreeReading, unconverged: Iterable[str | None], *, repository: str) -> Iterator[WantedRow]:
    """Yield the index rows of documents: key, digest and state. `unconverged` has the same order as the documents."""
    documents = ((file, document) for file in reading.files for document in file.documents)
    for (file, document), state in zip(documents, unconverged, strict=True):
        kind, name = document.key or (None, None)
        yield WantedRow(repository, file.path, document.position, kind, name, document.digest or None, state)
    yield from reading.kept_wanted


def _keys(paths: Iterable[str], files: dict[str, FileReading], view: PlanningView, scope: FileScope) -> set[Key]:
    """Return the keys that these files define now or defined at the last applied head."""
    before = view.wanted_in(scope.rules.name, sorted(paths))
    keys = {row.key for row in before if row.key is not None}
    return keys | {found.key for path in paths for found in files[path].documents if found.key is not None}


class FileLocations:
    """The positions of parts of documents, found after the files were read.

    Positions cost a second parse, so only files with messages are parsed again. The last file is kept, since documents
    come file by file.
    """

    def __init__(self, files: Iterable[FileReading], snapshot: Snapshot, allowance: Allowance) -> None:
        self._files = files
        self._snapshot = snapshot
        self._allowance = allowance
        self._path: str | None = None
        self._locations: Locations | None = None

    @cached_property
    def _blobs(self) -> dict[str, str]:
        # Lazy, because most commits have no messages.
        return {file.path: file.blob for file in self._files if file.blob is not None}

    def of(self, document: Desired) -> Locations | None:
        """Return the positions in a document's file; None when it is not one of these. Raises GitFault."""
        if document.place is None or document.place.path not in self._blobs:
            return None
        path = document.place.path
        if path != self._path or self._locations is None:
            syntax = documents.syntax_of(path)
            assert syntax is not None
            data = self._snapshot.read(self._blobs[path], positions.FILE_LIMITS.bytes)
            self._path, self._locations = path, documents.locate(data, syntax=syntax, limits=positions.FILE_LIMITS)
        return self._locations

    def tell(self, document: Desired, found: Sequence[Violation]) -> str:
        """Return violations as lines with their places, in the order of the file.

        Raises GitFault, and Exhausted, because many violations in many documents take longer to report than to read.
        """
        self._allowance.time()
        locations = self.of(document)
        assert document.place is not None
        assert locations is not None
        index = document.position

        def place(violation: Violation) -> tuple[int, int]:
            position = locations.of(index, violation.pointer, at_key=violation.at_key)
            return position.line, position.column

        ordered = sorted(found, key=place)
        return desired.placed_reason(ordered, path=document.place.path, position=index, locations=locations)
