"""A helper of the reader child: a process that reads files of a commit beside it, chunk by chunk.

It is the child, forked before there was a thread (`crew`), under the same limits. It knows no store, and between two
commits it keeps nothing open. It ends when the other end of its socket is closed.

Belongs here: what it does with what it is sent. Does not: how it is started (`crew`), reading a file (`one_file`).
"""

import contextlib
import socket
import traceback
from collections.abc import Iterator
from pathlib import Path

from reconciler.git.faults import GitFault
from reconciler.git.snapshots import Snapshot
from reconciler.model import errors
from reconciler.planner.candidates import CandidateRules
from reconciler.reading import crew_messages, freeing, one_file
from reconciler.reading.allowances import Allowance, Exhausted
from reconciler.reading.crew_messages import CrewBegin, CrewChunk, CrewRead, Report
from reconciler.reading.messages import Failed
from reconciler.reading.one_file import FileReading

READ_BYTES = 4 * 1024 * 1024  # of documents in one report, as far as no file has more


def serve_helper(connection: socket.socket) -> None:
    """Read what is asked for until the other end is closed.

    Raises OSError when it closes in the middle, msgspec.DecodeError and ValueError for nonsense.
    """
    while isinstance(begin := crew_messages.read_order(connection), CrewBegin):
        _serve(connection, begin)
        freeing.give_back_memory()


def _serve(connection: socket.socket, begin: CrewBegin) -> None:
    """Read the chunks of one commit."""
    with contextlib.ExitStack() as opened:
        reader = _Reader(begin, opened)
        while isinstance(chunk := crew_messages.read_order(connection), CrewChunk):
            for report in _chunk_reports(chunk, reader):
                crew_messages.send_message(connection, report)


class _Reader:
    """Reads files of one commit, which is opened when the first one is wanted."""

    def __init__(self, begin: CrewBegin, opened: contextlib.ExitStack) -> None:
        self._begin = begin
        self._rules = CandidateRules(api_versions=begin.api_versions, hmac_key=begin.hmac_key)
        self._opened = opened
        self._snapshot: Snapshot | None = None

    def read(self, chunk: CrewChunk) -> Iterator[CrewRead]:
        """The files of a chunk. Raises GitFault."""
        if self._snapshot is None:
            self._snapshot = self._opened.enter_context(Snapshot.open(Path(self._begin.mirror), self._begin.commit))
        self._snapshot.know(
            {file.blob: size for file, size in zip(chunk.files, chunk.sizes, strict=True) if file.readable}
        )
        allowance = Allowance(self._begin.limits, aside=self._begin.aside, used=chunk.used)
        found: list[FileReading] = []
        size = 0
        for file in chunk.files:
            found.append(one_file.read_one_file(file, self._snapshot, rules=self._rules, allowance=allowance))
            size += sum(len(one.draft.owned) for one in found[-1].candidates if one.draft is not None)
            if size > READ_BYTES:
                yield CrewRead(chunk.number, tuple(found), None)
                found, size = [], 0
        yield CrewRead(chunk.number, tuple(found), allowance.used.less(chunk.used))


def _chunk_reports(chunk: CrewChunk, reader: _Reader) -> Iterator[Report]:
    """What the chunk holds, or why it cannot be read."""
    try:
        yield from reader.read(chunk)
    except errors.ReconcilerError as error:
        state = error.state.value if isinstance(error, GitFault) else None
        yield Failed(chunk.number, message=error.message, state=state, lasting=isinstance(error, Exhausted))
    except Exception:
        # A fault of ours, or the memory limit: the child tells of it as of its own.
        yield Failed(chunk.number, message="", trace=traceback.format_exc())
