"""Looking at everything that may be wrong with a service: all checks are made at once, each to its own end.

Belongs here: that none waits for another, takes the others with it, or lasts for ever. Does not: what is looked at
(`checks`), who asks (`reconciler.cli.doctor`).
"""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeAlias

from reconciler.model.errors import ReconcilerError
from reconciler.upkeep import findings
from reconciler.upkeep.findings import DoctorFinding

SECONDS = 20.0  # for a check that says nothing else

Look: TypeAlias = Callable[[], Awaitable[Sequence[DoctorFinding]]]


class DoctorCheck(NamedTuple):
    """One thing to look at, and how long that may take."""

    name: str
    look: Look
    seconds: float = SECONDS


async def run_checks(checks: Sequence[DoctorCheck]) -> list[DoctorFinding]:
    """What they find, in their order."""
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
        return [findings.error(check.name, told, "look whether a disk or the network hangs")]
    except ReconcilerError as problem:
        return [findings.error(check.name, problem.message.rstrip("."), "")]
    except OSError as problem:
        where = "" if problem.filename is None else f"{problem.filename}: "
        return [findings.error(check.name, f"{where}{problem.strerror}", "mend that, and look again")]
    except Exception as problem:
        told = f"this could not be looked at ({type(problem).__name__})"
        return [findings.error(check.name, told, "that is a fault of the program; report it")]
