"""Waiting in tests for what happens in other processes, which can set no event, and whether a process still runs."""

import asyncio
from collections.abc import Callable
from pathlib import Path

SECONDS = 30.0  # after which a test fails instead of waiting on; a machine may be busy
STEP_SECONDS = 0.01


async def until(holds: Callable[[], bool], *, seconds: float = SECONDS) -> None:
    """Return once something holds. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 - see above
            await asyncio.sleep(STEP_SECONDS)


def is_alive(process: int) -> bool:
    """Return True when a process runs, and is not only waiting to be reaped."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def ended(process: int) -> None:
    """Wait until a process is gone, or is only waiting to be reaped."""
    await until(lambda: not is_alive(process))
