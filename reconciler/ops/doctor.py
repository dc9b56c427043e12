"""The doctor: checks run at once, and their findings."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

from reconciler.model.errors import ReconcilerError, system_reason
from reconciler.model.text import visible
from reconciler.settings import bounded_io

# Findings of `reconciler doctor`: one sentence each, a status, and what to do.


class FindingStatus(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    WARNING = "warning"  # it works now, but may fail later
    ERROR = "error"  # it does not work


class DoctorFinding(NamedTuple):
    """The result of a check. `message` and `todo` together are a sentence, without its full stop."""

    check: str
    status: FindingStatus
    message: str
    todo: str = ""

    @property
    def sentence(self) -> str:
        """Return `message` and `todo` on one line."""
        return visible(f"{self.message}; {self.todo}" if self.todo else self.message)


def ok(check: str, message: str) -> DoctorFinding:
    """Return a finding without a problem."""
    return DoctorFinding(check, FindingStatus.OK, message)


def warning(check: str, message: str, todo: str) -> DoctorFinding:
    """Return a finding of something that works only for now."""
    return DoctorFinding(check, FindingStatus.WARNING, message, todo)


def error(check: str, message: str, todo: str) -> DoctorFinding:
    """Return a finding of something that does not work."""
    return DoctorFinding(check, FindingStatus.ERROR, message, todo)


def worst(found: Iterable[DoctorFinding]) -> FindingStatus:
    """Return the worst status; ok without findings."""
    return max((finding.status for finding in found), key=list(FindingStatus).index, default=FindingStatus.OK)


# All checks run at the same time, each within its own limit.

SECONDS = 20.0  # the default for a check

Check: TypeAlias = Callable[[], Awaitable[Sequence[DoctorFinding]]]


class DoctorCheck(NamedTuple):
    """A check and its time limit."""

    name: str
    run: Check
    seconds: float = SECONDS


async def run_checks(checks: Sequence[DoctorCheck]) -> list[DoctorFinding]:
    """Run the checks and return their findings in the same order."""
    found = await asyncio.gather(*(_result(check) for check in checks))
    return [finding for each in found for finding in each]


def threaded(check: Callable[[], Sequence[DoctorFinding]]) -> Check:
    """Run a check that may wait for a disk on its own thread, so that a hang does not block the program's end."""
    return partial(bounded_io.on_thread, check)


async def _result(check: DoctorCheck) -> Sequence[DoctorFinding]:
    try:
        async with asyncio.timeout(check.seconds):
            return await check.run()
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


# The process that holds a state directory, which shows if the service runs. The lock is never taken to find out,
# because then a service could not start at that moment.

LOCK = "lock"  # in the state directory (`reconciler.server.process`)
WORKER = "worker"  # in the state directory: the protections of the last worker that the service started, as JSON
STORE_LOCK = ".lock"  # behind the name of the store, beside it


def directory_holder(state_directory: Path) -> int | None:
    """Return the process that holds the lock, by the number in it, if it still has the file open; None if there is
    none, or this is unknown.
    """
    lock = state_directory / LOCK
    try:
        number = int(lock.read_bytes()[:20])
        opened = list(Path(f"/proc/{number}/fd").iterdir())
    except (OSError, ValueError):
        return None
    return number if any(_is_same(each, lock) for each in opened) else None


def _is_same(descriptor: Path, file: Path) -> bool:
    try:
        return descriptor.samefile(file)
    except OSError:  # the file was closed meanwhile
        return False
