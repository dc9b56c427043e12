"""One reading of many files, shared between the thread that wants it and the helpers of its process.

The files are cut into chunks, in order. Whoever is done with one gets the next, so that nobody waits for a half that
takes longer; towards the end chunks are smaller. What comes of it is put in order, and of several failures the one of
the first file counts: all is as if one thread had read file after file.

Belongs here: who reads what, and putting it together. Does not: the processes (`crew`), reading a file (`one_file`).
"""

import select
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.snapshots import Snapshot
from reconciler.git.trees import TreeFile
from reconciler.planner.candidates import CandidateRules
from reconciler.reading import one_file
from reconciler.reading.allowances import Allowance, Exhausted
from reconciler.reading.crew_messages import CrewChunk, Order, Report
from reconciler.reading.messages import Failed
from reconciler.reading.one_file import FileReading

CHUNK_FILES = 64  # some milliseconds, so that the last chunk keeps nobody waiting for long
LEAST_FILES = 8
CHUNK_BYTES = 256 * 1024  # of files
PATH_CHARACTERS = 16 * 1024  # so that all that a helper has not taken yet fits into its socket's buffer: see `_AHEAD`

# Chunks that a helper has, the one that it reads included: it does not wait while its reports are taken. More of them,
# and sending could block: a helper that sends a long report takes nothing, and would wait for us while we wait for it.
_AHEAD = 2

SILENT_SECONDS = 120.0  # a chunk takes milliseconds, and the largest file some seconds: a helper that stands still


class CrewBroken(Exception):
    """A helper is gone, or talks nonsense: the process that has it should end, as if it had done so itself."""

    def __init__(self, process: int, why: str) -> None:
        super().__init__(why)
        self.process = process
        self.why = why


class CrewMember(Protocol):
    """A helper as whoever shares with it sees it. All raise Broken."""

    process: int

    def fileno(self) -> int:
        """To wait for a report with."""

    def send(self, order: Order) -> None:
        """Send it something to do."""

    def report(self) -> Report:
        """What it has done; waits for it."""


class SharedReading:
    """One reading, begun in all members. Belongs to the thread that reads the snapshot."""

    def __init__(
        self,
        files: Sequence[TreeFile],
        snapshot: Snapshot,
        *,
        members: Sequence[CrewMember],
        rules: CandidateRules,
        allowance: Allowance,
    ) -> None:
        self._files = files
        self._snapshot = snapshot
        self._members = members
        self._rules = rules
        self._allowance = allowance
        self._cut = self._chunks = 0  # files that were cut off, and chunks
        self._read: dict[int, list[FileReading]] = {}
        self._failures: dict[int, Exception] = {}
        self._under_way: dict[CrewMember, deque[CrewChunk]] = {member: deque() for member in members}

    def run(self) -> list[FileReading]:
        """The files, in order. Raises GitFault, and Broken."""
        self._hand_out()
        while (chunk := self._next()) is not None:
            self._read_here(chunk)
            self._take(wait=False)
            self._hand_out()
        # After a failure, too: what is read for this must not come while the next commit is read.
        while any(self._under_way.values()):
            self._take(wait=True)
        if self._failures:
            raise self._failures[min(self._failures)]
        return [file for number in range(self._chunks) for file in self._read[number]]

    def _next(self) -> CrewChunk | None:
        """The next chunk; None at the end, and after a failure: all before it are under way or done."""
        left = len(self._files) - self._cut
        if not left or self._failures:
            return None
        most = max(LEAST_FILES, min(CHUNK_FILES, left // (_AHEAD * (1 + len(self._members)))))
        number, self._chunks = self._chunks, self._chunks + 1
        try:
            sizes = self._sizes(most)
        except GitFault as fault:
            self._failures[number] = fault
            return None
        begin, self._cut = self._cut, self._cut + len(sizes)
        return CrewChunk(number, tuple(self._files[begin : self._cut]), tuple(sizes), self._allowance.used)

    def _sizes(self, most: int) -> list[int]:
        """Those of the files of the next chunk: a file at least, and as few bytes as one of many small files has."""
        sizes: list[int] = []
        taken = characters = 0
        for file in self._files[self._cut : self._cut + most]:
            size = self._snapshot.size(file.blob) if file.readable else 0
            taken += one_file.taken(size)
            characters += len(file.path)
            if sizes and (taken > CHUNK_BYTES or characters > PATH_CHARACTERS):
                break
            sizes.append(size)
        return sizes

    def _hand_out(self) -> None:
        for member, chunks in self._under_way.items():
            while len(chunks) < _AHEAD and (chunk := self._next()) is not None:
                chunks.append(chunk)
                member.send(chunk)

    def _read_here(self, chunk: CrewChunk) -> None:
        try:
            self._read[chunk.number] = [
                one_file.read_one_file(file, self._snapshot, rules=self._rules, allowance=self._allowance)
                for file in chunk.files
            ]
        except Exception as error:  # raised when its turn comes
            self._failures[chunk.number] = error

    def _take(self, *, wait: bool) -> None:
        """Take reports. Waiting lets go of the interpreter."""
        waiting = [member for member, chunks in self._under_way.items() if chunks]
        ready, _, _ = select.select(waiting, (), (), SILENT_SECONDS if wait else 0)
        if wait and not ready:
            raise CrewBroken(waiting[0].process, "it says nothing")
        for member in ready:
            self._keep(member.report(), member)

    def _keep(self, report: Report, member: CrewMember) -> None:
        chunk = self._under_way[member][0]
        if report.number != chunk.number:
            raise CrewBroken(member.process, "it reported what it was not asked for")
        if isinstance(report, Failed):
            self._under_way[member].popleft()
            try:
                self._failures[chunk.number] = _failure(report)
            except ValueError as error:
                raise CrewBroken(member.process, "it reported a state that there is not") from error
            return
        found = self._read.setdefault(chunk.number, [])
        found += report.files
        is_whole = report.used is not None
        if not _are(found, chunk.files, whole=is_whole):
            raise CrewBroken(member.process, "it reported other files than it was asked for")
        if report.used is not None:
            self._under_way[member].popleft()
            try:
                self._allowance.add(report.used)
            except Exhausted as exhausted:
                self._failures[chunk.number] = exhausted


def _are(found: Sequence[FileReading], files: Sequence[TreeFile], *, whole: bool) -> bool:
    told = [(one.path, one.blob) for one in found]
    asked = [(file.path, file.blob) for file in files]
    return told == (asked if whole else asked[: len(told)])


def _failure(failed: Failed) -> Exception:
    if failed.lasting:
        return Exhausted(failed.message)
    if failed.state is not None:
        return GitFault(RepositoryState(failed.state), failed.message)
    return RuntimeError(f"a helper failed\n{failed.trace or failed.message}")
