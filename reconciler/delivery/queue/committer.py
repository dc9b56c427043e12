"""The committer: one thread that writes for all queues.

The loop prepares lists of buffers and the thread makes system calls, which let go of the interpreter's lock; between
two of them it runs next to no Python. One round is under way at a time. What is asked for meanwhile is the next round,
which begins when the loop has heard of the end of this one: nothing waits for a timer, and 64 senders share a sync.
"""

import asyncio
import errno
import os
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from reconciler.delivery.queue.contract import Piece
from reconciler.delivery.queue.files import FULL, System

MOST_PIECES = 1000  # of one call; the kernel takes 1024
CLOSED = -1
END_SECONDS = 30.0  # for all that is written at the end; a disk that hangs does not keep the service from ending


@dataclass(eq=False, slots=True)
class CommitFile:
    """A file that is written. Only the thread touches the descriptor."""

    path: Path
    descriptor: int = CLOSED


@dataclass(eq=False, slots=True)
class QueueCommit:
    """Buffers that go to one place of one file together; none at all only synchronises it.

    `thorough` says that what was written before is not on disk either; `new` that the file is made. Afterwards `fault`
    is what went wrong, and `spoiled` says that the file cannot be trusted with another write.
    """

    file: CommitFile
    offset: int
    buffers: list[Piece]
    size: int
    synced: bool
    thorough: bool
    new: bool
    ended: Callable[["QueueCommit"], None]
    fault: OSError | None = None
    spoiled: bool = False


Chore = Callable[[System], None]


class CommitSource(Protocol):
    """A journal that has something to commit."""

    def prepare(self) -> QueueCommit | None:
        """What it has now, or None."""


@dataclass(slots=True)
class _Round:
    loop: asyncio.AbstractEventLoop
    commits: list[QueueCommit]
    chores: list[tuple[Chore, Callable[[Exception | None], None]]]
    failures: list[Exception | None] = field(default_factory=list)


class Committer:
    """Used from one loop. The thread starts with the first thing to write."""

    def __init__(self, system: System) -> None:
        self.faults = 0  # commits, later synchronisations, emptying a file, and acknowledgements, that the disk failed
        self._system = system
        self._rounds: queue.SimpleQueue[_Round | None] = queue.SimpleQueue()
        self._dirty: dict[CommitSource, None] = {}
        self._chores: list[tuple[Chore, Callable[[Exception | None], None]]] = []
        self._thread: threading.Thread | None = None
        self._is_busy = False
        self._is_due = False

    def wants(self, source: CommitSource) -> None:
        """Ask a journal what it has, at the end of this turn of the loop or when the round under way is over."""
        self._dirty[source] = None
        self._make_due()

    def do(self, chore: Chore, ended: Callable[[Exception | None], None]) -> None:
        """Run something on the thread after the commits; `ended` hears of its end, on the loop."""
        self._chores.append((chore, ended))
        self._make_due()

    async def done(self, chore: Chore) -> None:
        """Run something on the thread and wait for it. Raises what it raises."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def hear(failure: Exception | None) -> None:
            if not ended.done():
                ended.set_exception(failure) if failure else ended.set_result(None)

        self.do(chore, hear)
        await ended

    def stop(self) -> None:
        """End the thread behind what it was given. Whoever wants more of it has waited for it (`done`)."""
        if self._thread is not None:
            self._rounds.put(None)
            self._thread = None

    def _make_due(self) -> None:
        if not self._is_due and not self._is_busy:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        self._is_due = False
        if self._is_busy:
            return
        sources, self._dirty = self._dirty, {}
        chores, self._chores = self._chores, []
        commits = [commit for source in sources if (commit := source.prepare()) is not None]
        if not commits and not chores:
            return
        self._is_busy = True
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, args=(self._rounds,), name="queues", daemon=True)
            self._thread.start()
        self._rounds.put(_Round(asyncio.get_running_loop(), commits, chores))

    def _committed(self, ended: _Round) -> None:
        """On the loop: the commits of a round are over. Its chores may not be; the next round stands behind them."""
        self._is_busy = False
        for commit in ended.commits:
            self.faults += commit.fault is not None
            commit.ended(commit)
        self._begin_next()

    def _done(self, ended: _Round) -> None:
        """On the loop: the chores of a round are over."""
        for (_, hear), failure in zip(ended.chores, ended.failures, strict=True):
            hear(failure)

    def _begin_next(self) -> None:
        if self._dirty or self._chores:
            self._begin()

    # On the thread.

    def _work(self, rounds: "queue.SimpleQueue[_Round | None]") -> None:
        while (one := rounds.get()) is not None:
            for commit in one.commits:
                _write(self._system, commit)
            if not _tell(one.loop, self._committed, one):
                return
            if one.chores:
                one.failures = [_run(self._system, chore) for chore, _ in one.chores]
                if not _tell(one.loop, self._done, one):
                    return


def _tell(loop: asyncio.AbstractEventLoop, hear: Callable[[_Round], None], ended: _Round) -> bool:
    try:
        loop.call_soon_threadsafe(hear, ended)
    except RuntimeError:  # the loop has ended without closing the queues
        return False
    return True


def _run(system: System, chore: Chore) -> Exception | None:
    try:
        chore(system)
    except Exception as failure:  # the thread serves everybody; whoever asked hears of it
        return failure
    return None


def _write(system: System, commit: QueueCommit) -> None:
    file = commit.file
    try:
        if file.descriptor == CLOSED:
            file.descriptor = system.create(file.path) if commit.new else system.open(file.path)
        _put(system, commit)
        if commit.new:
            system.synchronise_folder(file.path.parent)
    except Exception as failure:  # the thread serves everybody; whoever asked hears of it
        fault = failure if isinstance(failure, OSError) else OSError(errno.EIO, repr(failure))
        commit.fault = fault
        commit.spoiled = fault.errno not in FULL
        _undo(system, commit)


def _put(system: System, commit: QueueCommit) -> None:
    buffers = commit.buffers
    if 0 < len(buffers) <= MOST_PIECES and not commit.thorough:
        written = system.write(commit.file.descriptor, buffers, commit.offset, synced=commit.synced)
        if written == commit.size:
            return
        buffers = rest(buffers, written)
        offset = commit.offset + written
    else:
        offset = commit.offset
    while buffers:
        written = system.write(commit.file.descriptor, buffers[:MOST_PIECES], offset, synced=False)
        if written == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        offset += written
        buffers = rest(buffers, written)
    if commit.synced:
        system.synchronise(commit.file.descriptor)


def rest(buffers: Sequence[Piece], written: int) -> list[Piece]:
    """What is left of buffers when so many bytes of them are written."""
    for place, buffer in enumerate(buffers):
        if written < len(buffer):
            return [memoryview(buffer)[written:], *buffers[place + 1 :]]
        written -= len(buffer)
    return []


def _undo(system: System, commit: QueueCommit) -> None:
    """Leave no trace: what was refused must not come back after a restart."""
    file = commit.file
    if file.descriptor == CLOSED:
        return
    try:
        system.cut(file.descriptor, commit.offset)
    except OSError:
        commit.spoiled = True
    if commit.spoiled or commit.new:
        try:
            system.close(file.descriptor)
            if commit.new:
                system.remove(file.path)
        except OSError:
            commit.spoiled = True
        file.descriptor = CLOSED
