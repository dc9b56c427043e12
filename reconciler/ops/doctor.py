"""The doctor: checks run at once, and their findings."""

import asyncio
import contextlib
import os
import re
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, TypeAlias

from reconciler.model.errors import ReconcilerError, system_reason
from reconciler.model.text import visible

# Findings of `reconciler doctor`: one sentence each, a status, and what to do.


class FindingStatus(StrEnum):
    """How bad something is."""

    OK = "ok"
    WARNING = "warning"  # it works, and may not for long
    ERROR = "error"  # it does not work


class DoctorFinding(NamedTuple):
    """`check` is what was looked at; `message` and `todo` together are a sentence, without its full stop."""

    check: str
    status: FindingStatus
    message: str
    todo: str = ""

    @property
    def sentence(self) -> str:
        """Both, on one line."""
        return visible(f"{self.message}; {self.todo}" if self.todo else self.message)


def ok(check: str, message: str) -> DoctorFinding:
    """All is well."""
    return DoctorFinding(check, FindingStatus.OK, message)


def warning(check: str, message: str, todo: str) -> DoctorFinding:
    """It works for now."""
    return DoctorFinding(check, FindingStatus.WARNING, message, todo)


def error(check: str, message: str, todo: str) -> DoctorFinding:
    """It does not work."""
    return DoctorFinding(check, FindingStatus.ERROR, message, todo)


def worst(found: Iterable[DoctorFinding]) -> FindingStatus:
    """The worst of them; ok when there are none."""
    return max((finding.status for finding in found), key=list(FindingStatus).index, default=FindingStatus.OK)


# Looking at everything that may be wrong with a service: all checks are made at once, each to its own end.

SECONDS = 20.0  # for a check that says nothing else

Look: TypeAlias = Callable[[], Awaitable[Sequence[DoctorFinding]]]


class DoctorCheck(NamedTuple):
    """One thing to look at, and how long that may take."""

    name: str
    look: Look
    seconds: float = SECONDS


async def run_checks(checks: Sequence[DoctorCheck]) -> list[DoctorFinding]:
    """Return their findings, in their order."""
    found = await asyncio.gather(*(_result(check) for check in checks))
    return [finding for each in found for finding in each]


def threaded(look: Callable[[], Sequence[DoctorFinding]]) -> Look:
    """A look that may wait for a disk, on a thread of its own: one that hangs keeps nobody from the end."""

    def start() -> Awaitable[Sequence[DoctorFinding]]:
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Sequence[DoctorFinding]] = loop.create_future()

        def end(result: Sequence[DoctorFinding] | Exception) -> None:
            if ended.done():
                return
            if isinstance(result, Exception):
                ended.set_exception(result)
            else:
                ended.set_result(result)

        def work() -> None:
            try:
                result: Sequence[DoctorFinding] | Exception = look()
            except Exception as problem:  # whoever waits is to have it, and not a thread that died unseen
                result = problem
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
                loop.call_soon_threadsafe(end, result)

        threading.Thread(target=work, name="doctor", daemon=True).start()
        return ended

    return start


async def _result(check: DoctorCheck) -> Sequence[DoctorFinding]:
    try:
        async with asyncio.timeout(check.seconds):
            return await check.look()
    except TimeoutError:
        told = f"this could not be looked at within {check.seconds:g} seconds"
        return [error(check.name, told, "look whether a disk or the network hangs")]
    except ReconcilerError as problem:
        return [error(check.name, problem.message.rstrip("."), "")]
    except OSError as problem:
        where = "" if problem.filename is None else f"{problem.filename}: "
        return [error(check.name, f"{where}{system_reason(problem)}", "mend that, and look again")]
    except Exception as problem:
        told = f"this could not be looked at ({type(problem).__name__})"
        return [error(check.name, told, "that is a fault of the program; report it")]


# Which process holds a state directory: whether the service runs. Looked up, never by taking the lock oneself, which
# would keep a service from starting at that moment.

LOCK = "lock"  # in the state directory (`reconciler.server.process`)
STORE_LOCK = ".lock"  # behind the name of the store, beside it
LOCKS = Path("/proc/locks")
_LINE = re.compile(r"FLOCK\s+ADVISORY\s+WRITE\s+(\d+)\s+([0-9a-f]+):([0-9a-f]+):(\d+)\s")


def directory_holder(state_directory: Path) -> int | None:
    """The process that uses it; None when there is none, or nobody can tell."""
    lock = state_directory / LOCK
    try:
        held = lock.stat()
        text = LOCKS.read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    return processes_holding(text, device=held.st_dev, inode=held.st_ino) or named_process(lock)


def processes_holding(locks: str, *, device: int, inode: int) -> int | None:
    """Return the process that holds a file, by the text of /proc/locks."""
    wanted = os.major(device), os.minor(device), inode
    for process, major, minor, node in _LINE.findall(locks):
        if (int(major, 16), int(minor, 16), int(node)) == wanted:
            return int(process)
    return None


def named_process(lock: Path) -> int | None:
    """The process that wrote its number into a lock and has it open still: disks with subvolumes have other numbers in
    /proc/locks than their files say.
    """
    try:
        told = lock.read_bytes()[:20].decode("ascii", "replace").strip()
        opened = list(Path(f"/proc/{int(told)}/fd").iterdir())
    except (OSError, ValueError):
        return None
    return int(told) if any(_leads_to(each, lock.resolve()) for each in opened) else None


def _leads_to(descriptor: Path, file: Path) -> bool:
    try:
        return descriptor.readlink() == file
    except OSError:  # it was closed meanwhile
        return False
