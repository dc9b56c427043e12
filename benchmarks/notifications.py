"""Ten thousand open notifications: how long a list of all of them takes over HTTP, and for how long a look that finds
them all again holds the loop.

The daemon finds them in its file at its start; they are of a project that it does not know, so that no look ends them.
"""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median

from benchmarks import delivery_pacing
from benchmarks.asking import Connection
from benchmarks.daemons import daemon
from benchmarks.figures import Figure
from reconciler import clock
from reconciler.notifications.ledger import MOST
from reconciler.notifications.models import Cause, Domain, Finding, Look, Severity, Type
from reconciler.notifications.rendering import Place
from reconciler.notifying.board import Board
from reconciler.operations.sqlite import SqliteOperations

PATH = "/v1/api/notifications"
LIST_LIMIT = 0.1  # seconds
HELD_LIMIT = 0.02  # that the loop may be held at a stretch
ROUNDS = 20
PROJECT = "elsewhere"


def measure() -> list[Figure]:
    """The figures."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "state").mkdir(mode=0o700)
        held = asyncio.run(_held_by_looks(folder / "state" / "ops.db"))
        listed, size = _listed(folder)
    return [
        _figure(f"list of {MOST:,} open notifications, {size / 1e6:.1f} MB", listed, LIST_LIMIT),
        _figure(f"longest hold of the loop by a look that finds {MOST:,} again", held, HELD_LIMIT),
    ]


def _listed(folder: Path) -> tuple[float, int]:
    """The median time of a whole list, and its bytes."""
    with daemon(folder, repository=None) as running, Connection(running.port) as ours:
        request = delivery_pacing.request("GET", PATH, key=running.key)
        times, body = [], b""
        for _ in range(ROUNDS):
            begun = time.perf_counter()
            answer = ours.ask(request)
            times.append(time.perf_counter() - begun)
            body = answer.body
    if body.count(b'"service/state":"open"') != MOST:
        raise RuntimeError("the list is another one")
    return median(times), len(body)


async def _held_by_looks(path: Path) -> float:
    """Open them, and look again and again: the longest time for which nothing else had its turn."""
    operations = SqliteOperations(path)
    board = Board(operations, clock=clock.now, place=Place("default", "http://127.0.0.1:3001"))
    found = tuple(
        Finding(Cause(Type.DEAD_LETTERS, f"destination-{number}", PROJECT), Severity.WARNING, {"batches": number + 1})
        for number in range(MOST)
    )
    look = Look(Domain.DELIVERY, found, PROJECT)
    await board.take(look)
    await board.tidy()

    async def looked() -> None:
        await board.take(look)
        await board.tidy()

    held = median([await _held(looked) for _ in range(ROUNDS)])
    await operations.close()
    return held


async def _held(work: Callable[[], Awaitable[None]]) -> float:
    """The longest time for which nothing else had its turn, while that was done."""
    longest, last, is_done = 0.0, time.perf_counter(), False

    async def beat() -> None:
        nonlocal longest, last
        while not is_done:
            await asyncio.sleep(0)
            now = time.perf_counter()
            longest, last = max(longest, now - last), now

    beating = asyncio.create_task(beat())
    await work()
    is_done = True
    await beating
    return longest


def _figure(what: str, seconds: float, limit: float) -> Figure:
    return Figure(what, f"{seconds * 1000:.1f} ms", f"limit {limit * 1000:.0f} ms", f"{seconds / limit:.2f}")
