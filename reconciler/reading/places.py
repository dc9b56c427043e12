"""Where in its file a violation of a document stands, when the file was read long before the violation was found.

Positions cost a second parse, so they are looked up only for files with something to tell; the last file is kept, since
documents come file by file.
"""

from collections.abc import Sequence

from reconciler.git.snapshots import Snapshot
from reconciler.model import documents, positions
from reconciler.model.violations import Violation
from reconciler.planner import candidates
from reconciler.planner.candidates import Candidate
from reconciler.reading.allowances import Allowance
from reconciler.reading.one_file import FileReading
from reconciler.reading.trees import TreeReading


class ViolationPlaces:
    """The files of one reading."""

    def __init__(self, read: TreeReading, snapshot: Snapshot, allowance: Allowance) -> None:
        self._snapshot = snapshot
        self._allowance = allowance
        self._read = read
        self._documents: list[tuple[FileReading, Candidate]] | None = None
        self._path: str | None = None
        self._locations: documents.Locations | None = None

    def tell(self, ordinal: int, found: Sequence[Violation]) -> str:
        """The violations of the reading's document of this ordinal, as lines with their places.

        Raises GitFault, Exhausted: many documents, each with many violations, take longer to tell than to read.
        """
        self._allowance.time()
        if self._documents is None:  # of most commits there is nothing to tell
            self._documents = [(file, candidate) for file in self._read.files for candidate in file.candidates]
        file, candidate = self._documents[ordinal]
        if file.path != self._path or self._locations is None:
            syntax = documents.syntax_of(file.path)
            assert syntax is not None
            assert file.blob is not None
            data = self._snapshot.read(file.blob, positions.FILE_LIMITS.bytes)
            self._path, self._locations = file.path, documents.locate(data, syntax=syntax, limits=positions.FILE_LIMITS)
        return candidates.file_reason(
            self._in_order(found, candidate.position),
            path=file.path,
            index=candidate.position,
            locations=self._locations,
        )

    def _in_order(self, found: Sequence[Violation], index: int) -> list[Violation]:
        """As a reader of the file meets them."""
        locations = self._locations
        assert locations is not None

        def place(violation: Violation) -> tuple[int, int]:
            position = locations.of(index, violation.pointer, at_key=violation.at_key)
            return position.line, position.column

        return sorted(found, key=place)
