"""The reader child's crew: processes that read files beside it, and what their end means.

They are forked when the child starts, before it has threads: a fork takes over locks that other threads hold, those of
libraries too. Forked, they share the memory of the child's modules. Between commits they wait.

Belongs here: how they begin and end, and who has them. Does not: which files each reads (`sharing`), what one does
(`helper`).
"""

import contextlib
import os
import signal
import socket
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import NoReturn

import msgspec

from reconciler.git.snapshots import Snapshot
from reconciler.git.trees import TreeFile
from reconciler.planner.candidates import CandidateRules
from reconciler.reading import confining, crew_messages, helper
from reconciler.reading.allowances import Allowance
from reconciler.reading.crew_messages import CrewBegin, CrewEnd, Order, Report
from reconciler.reading.one_file import FileReading, SharedLimits
from reconciler.reading.sharing import CrewBroken, SharedReading

MOST = 3  # beside the child's own thread, which puts together what they read
BUFFER_BYTES = 256 * 1024  # for what a helper has not taken yet: see `sharing`


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
            crew_messages.send_message(self._connection, order)
        except OSError as error:
            raise CrewBroken(self.process, "it is gone") from error

    def report(self) -> Report:
        """What it has done; waits for it. Raises Broken."""
        try:
            report = crew_messages.read_report(self._connection)
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

    def of(self, mirror: str, commit: str) -> SharedLimits | None:
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
        """As `Together`. Raises GitFault; Broken, after which this process should end."""
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
        confining.end_with_parent(parent)
        confining.close_files()
        for other in others:
            os.close(other)
        _leave_pipes()
        helper.serve_helper(connection)
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
    """To the daemon, which makes log lines of it (`complaints`)."""
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
