"""Helper processes of the worker, which read files beside it."""

import contextlib
import os
import select
import signal
import socket
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import NoReturn, Protocol, TypeAlias

import msgspec

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.snapshots import Snapshot
from reconciler.git.trees import TreeFile
from reconciler.model import errors
from reconciler.planner.candidates import CandidateRules
from reconciler.worker import limits, trees
from reconciler.worker.limits import Allowance, CommitLimits, Exhausted, UsedAllowance
from reconciler.worker.messages import FRAME_LIMIT, LENGTH, Failed
from reconciler.worker.trees import FileReading, ReadFiles

# What crosses the sockets between the reader child and its helpers, framed as between it and the daemon.
#
# A helper parses what strangers commit, as the child does: nothing of what it sends is evaluated, and what does not
# have its declared type ends both.


class CrewBegin(msgspec.Struct, frozen=True, kw_only=True, tag="begin"):
    """Chunks of this commit follow. `aside`: see `CommitJob`."""

    mirror: str
    commit: str
    api_versions: frozenset[str]
    hmac_key: bytes
    limits: CommitLimits
    aside: frozenset[str]

    def __repr__(self) -> str:
        """Without the key."""
        return f"Begin({self.commit})"


class CrewChunk(msgspec.Struct, frozen=True, tag="chunk"):
    """Files to be read; `used` is what the commit took before. Each of the `sizes` is that of a file's content, which
    the child has looked up; 0 for what is not read.
    """

    number: int
    files: tuple[TreeFile, ...]
    sizes: tuple[int, ...]
    used: UsedAllowance


class CrewEnd(msgspec.Struct, frozen=True, tag="end"):
    """No more chunks follow of this commit."""


class CrewRead(msgspec.Struct, frozen=True, tag="read"):
    """Files of a chunk, in its order. `used` is what the whole chunk took, and comes with its last files."""

    number: int
    files: tuple[FileReading, ...]
    used: UsedAllowance | None

    def __repr__(self) -> str:
        """Without the documents, in which secrets are in clear."""
        return f"Read({self.number}, {len(self.files)} files)"


Order: TypeAlias = CrewBegin | CrewChunk | CrewEnd
Report: TypeAlias = CrewRead | Failed
"""What a helper sends. `Failed` has the number of the chunk."""

_encoder = msgspec.msgpack.Encoder()
_orders: msgspec.msgpack.Decoder[Order] = msgspec.msgpack.Decoder(Order)
_reports: msgspec.msgpack.Decoder[Report] = msgspec.msgpack.Decoder(Report)


def send_message(connection: socket.socket, message: Order | Report) -> None:
    """Send a message whole. Raises OSError."""
    payload = _encoder.encode(message)
    connection.sendall(LENGTH.pack(len(payload)))
    connection.sendall(payload)


def read_order(connection: socket.socket) -> Order | None:
    """The next order, None when the other end is closed. Raises OSError, msgspec.DecodeError, ValueError."""
    payload = _frame(connection)
    return None if payload is None else _orders.decode(payload)


def read_report(connection: socket.socket) -> Report | None:
    """The next report, None when the other end is closed. Raises OSError, msgspec.DecodeError, ValueError."""
    payload = _frame(connection)
    return None if payload is None else _reports.decode(payload)


def _frame(connection: socket.socket) -> bytearray | None:
    head = _exactly(connection, LENGTH.size)
    if head is None:
        return None
    (length,) = LENGTH.unpack(head)
    if length > FRAME_LIMIT:
        raise ValueError(f"a frame of {length} bytes")
    return _exactly(connection, length)


def _exactly(connection: socket.socket, size: int) -> bytearray | None:
    data = bytearray(size)
    view, got = memoryview(data), 0
    while got < size:
        more = connection.recv_into(view[got:])
        if not more:
            return None
        got += more
    return data


# A helper of the reader child: a process that reads files of a commit beside it, chunk by chunk.
#
# It is the child, forked before there was a thread (`crew`), under the same limits. It knows no store, and between two
# commits it keeps nothing open. It ends when the other end of its socket is closed.

READ_BYTES = 4 * 1024 * 1024  # of documents in one report, as far as no file has more


def serve_helper(connection: socket.socket) -> None:
    """Read what is asked for until the other end is closed.

    Raises OSError when it closes in the middle, msgspec.DecodeError and ValueError for nonsense.
    """
    while isinstance(begin := read_order(connection), CrewBegin):
        _serve(connection, begin)
        limits.give_back_memory()


def _serve(connection: socket.socket, begin: CrewBegin) -> None:
    """Read the chunks of one commit."""
    with contextlib.ExitStack() as opened:
        reader = _Reader(begin, opened)
        while isinstance(chunk := read_order(connection), CrewChunk):
            for report in _chunk_reports(chunk, reader):
                send_message(connection, report)


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
            found.append(trees.read_one_file(file, self._snapshot, rules=self._rules, allowance=allowance))
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


# One reading of many files, shared between the thread that wants it and the helpers of its process.
#
# The files are cut into chunks, in order. Whoever is done with one gets the next, so that nobody waits for a half that
# takes longer; towards the end chunks are smaller. What comes of it is put in order, and of several failures the one of
# the first file counts: all is as if one thread had read file after file.

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
            taken += trees.taken(size)
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
                trees.read_one_file(file, self._snapshot, rules=self._rules, allowance=self._allowance)
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


# The reader child's crew: processes that read files beside it, and what their end means.
#
# They are forked when the child starts, before it has threads: a fork takes over locks that other threads hold, those
# of libraries too. Forked, they share the memory of the child's modules. Between commits they wait.

MOST = 3  # beside the child's own thread, which puts together what they read
BUFFER_BYTES = 256 * 1024  # for what a helper has not taken yet: see `SharedReading`


class Helper:
    """A helper, as the child sees it."""

    def __init__(self, process: int, connection: socket.socket) -> None:
        self.process = process
        self._connection = connection
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)

    def fileno(self) -> int:
        """Of its socket."""
        return self._connection.fileno()

    def send(self, order: Order) -> None:
        """Send it something to do. Raises Broken."""
        try:
            send_message(self._connection, order)
        except OSError as error:
            raise CrewBroken(self.process, "it is gone") from error

    def report(self) -> Report:
        """What it has done; waits for it. Raises Broken."""
        try:
            report = read_report(self._connection)
        except OSError as error:
            raise CrewBroken(self.process, "it is gone") from error
        except (msgspec.DecodeError, ValueError) as error:
            raise CrewBroken(self.process, "it reported nonsense") from error
        except MemoryError as error:  # the rest of the report would be taken for the next one
            raise CrewBroken(self.process, "it reported more than there is memory for") from error
        if report is None:
            raise CrewBroken(self.process, "it is gone")
        return report


class Crew:
    """All helpers. One thread at a time reads with them."""

    def __init__(self, helpers: Sequence[Helper]) -> None:
        self._helpers = tuple(helpers)

    def __len__(self) -> int:
        """How many helpers there are."""
        return len(self._helpers)

    def of(self, mirror: str, commit: str) -> ReadFiles | None:
        """To read files of a commit together with the helpers; None when there are none."""
        return partial(self._read, mirror, commit) if self._helpers else None

    def _read(
        self,
        mirror: str,
        commit: str,
        files: Sequence[TreeFile],
        snapshot: Snapshot,
        *,
        rules: CandidateRules,
        allowance: Allowance,
    ) -> list[FileReading]:
        """As `ReadFiles`. Raises GitFault; Broken, after which this process should end."""
        begin = CrewBegin(
            mirror=mirror,
            commit=commit,
            api_versions=rules.api_versions,
            hmac_key=rules.hmac_key,
            limits=allowance.limits,
            aside=allowance.aside,
        )
        self._send(begin)
        try:
            return SharedReading(files, snapshot, members=self._helpers, rules=rules, allowance=allowance).run()
        finally:
            self._send(CrewEnd())

    def _send(self, order: Order) -> None:
        for each in self._helpers:
            each.send(order)


def most_helpers() -> int:
    """How many helpers have a core, of those that this process may use, beside the child's own."""
    return max(0, min(len(os.sched_getaffinity(0)) - 1, MOST))


def start_crew(number: int) -> Crew:
    """Fork so many, or as many as may be. Threads that run now are a mistake: there is no crew then."""
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        return Crew(())
    signal.signal(signal.SIGCHLD, _ended)
    helpers: list[Helper] = []
    parent = os.getpid()
    with contextlib.suppress(OSError):  # no room for another process: whoever started us may allow fewer
        for _ in range(number):
            ours, theirs = socket.socketpair()
            process = os.fork()
            if not process:
                _help(theirs, parent, others=[ours.fileno(), *map(Helper.fileno, helpers)])
            theirs.close()
            helpers.append(Helper(process, ours))
    return Crew(helpers)


def _help(connection: socket.socket, parent: int, *, others: Sequence[int]) -> NoReturn:
    """Be a helper, until the parent ends. Never returns into what the parent was doing.

    `others` are the parent's ends of sockets: it is not over for a helper while another one holds them.
    """
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        limits.end_with_parent(parent)
        limits.close_files()
        for other in others:
            os.close(other)
        _leave_pipes()
        serve_helper(connection)
        code = 0
    except ConnectionError:
        code = 0  # the parent is gone in the middle
    except BaseException:
        _complain(traceback.format_exc())
    finally:
        os._exit(code)


def _leave_pipes() -> None:
    """The pipes to the daemon are the child's: the daemon sees in their end that it is gone."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)


def _complain(text: str) -> None:
    """To the daemon, which makes log lines of it (`process`)."""
    with contextlib.suppress(OSError):
        os.write(2, text.encode("utf-8", "backslashreplace"))


def end_crew(broken: CrewBroken) -> NoReturn:
    """End this process as the helper ended, for whom it is one with us; end the helper if it did not."""
    _complain(f"A helper of the reader failed: {broken.why}.\n")
    with contextlib.suppress(ProcessLookupError):
        os.kill(broken.process, signal.SIGKILL)  # harms no end that it has come to already
    with contextlib.suppress(ChildProcessError):
        # It stays to be waited for, since the signal of its end may be on its way to the main thread.
        _end_like(os.waitid(os.P_PID, broken.process, os.WEXITED | os.WNOWAIT))
    os._exit(1)


def _ended(_number: int, _frame: FrameType | None) -> None:
    """A helper ended while nobody read with it, or while somebody does: soon is best."""
    with contextlib.suppress(ChildProcessError):
        _end_like(os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT))


def _end_like(ended: os.waitid_result | None) -> None:
    if ended is None:
        return
    if ended.si_code != os.CLD_EXITED:
        signal.raise_signal(ended.si_status)  # the daemon tells of it, and has its way of finding the file
    os._exit(ended.si_status or 1)
