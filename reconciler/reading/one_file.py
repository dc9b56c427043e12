"""One file of a commit: whether its content is read, and what it holds; and the ignore files, which hold rules.

Belongs here: bytes of one file to candidates, within what the commit is allowed. Does not: which files are read
(`trees`).
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Protocol

import msgspec

from reconciler.git import file_selection
from reconciler.git.file_selection import FileGlobs
from reconciler.git.snapshots import Snapshot
from reconciler.git.trees import TreeChange, TreeFile, TreeMode
from reconciler.model import positions
from reconciler.model.errors import Refused
from reconciler.model.names import Key
from reconciler.model.violations import Place
from reconciler.planner import candidates
from reconciler.planner.candidates import Candidate, CandidateRules
from reconciler.reading.allowances import Allowance

LINKS = {
    TreeMode.SYMLINK: "is a symbolic link, which is not followed",
    TreeMode.SUBMODULE: "is a submodule, which is not followed",
}

NOT_OURS = "holds only documents that are not ours"


class SharedLimits(Protocol):
    """Reads many files with the help of others (`crew`)."""

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
    together: SharedLimits | None = None


class FileReading(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One file that was read. A file that is not there any more has `blob` None and no candidates.

    `vacant` says why a file holds nothing although its name says that it could; whether that matters depends on what
    it held before (`departures`). `given` is what it held when it is vacant or cannot be read, and what is not stored
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
