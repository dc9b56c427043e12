"""Ten thousand open notifications: how long lists take over HTTP, of all and of the few that somebody sees at the far
end, for a key and for a person who dismissed every one; and for how long a look that finds them all again holds the
loop. And as many as one project may have, which begin and end again and again, with as many targets of alerts that take
none: for how long that holds it.

The daemon finds them in its file at its start; they are of a project that it does not know and of a person, so that no
look ends them.
"""

import asyncio
import contextlib
import gc
import sqlite3
import tempfile
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.asking import Connection
from benchmarks.daemons import Daemon, daemon
from benchmarks.figures import Figure
from reconciler.model import clock
from reconciler.model.notification_types import NotificationType
from reconciler.notifications.board import Board
from reconciler.notifications.ledger import MOST
from reconciler.notifications.models import Cause, Domain, Finding, Observation
from reconciler.notifications.rendering import NotificationPlace
from reconciler.server.daemon import YOUNG_OBJECTS
from reconciler.settings.models import AlertTarget
from reconciler.store.operations import SqliteOperations

PATH = "/v1/api/notifications"
LIST_LIMIT = 0.5  # seconds
HELD_LIMIT = 0.1  # of processor time that the loop may be held at a stretch, as long as a reader may wait
TICK = 0.0002  # seconds between two looks whether it was
ROUNDS, LONG_ROUNDS = 20, 5
CAUSES, TARGETS = MOST // 2, 20
PLACE = NotificationPlace("default", "http://127.0.0.1:3001")
PROJECT, ANA, BEN = "elsewhere", "ana", "ben"
FEW = 5  # the oldest, which are one person's
PASSWORD = "a password of ten thousand"  # noqa: S105 - of a daemon that lives for seconds


class Asked(NamedTuple):
    """A list: what it is, its request, and how many notifications it must hold."""

    what: str
    request: bytes
    number: int


def measure() -> list[Figure]:
    """The figures."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        ana, ben = _people(folder)
        file = folder / "state" / "ops.db"
        held, ids = asyncio.run(_held_by_looks(file, ben))
        _dismissed(file, ids, ana)
        with daemon(folder, repository=None) as running:
            listed = [_listed(running, asked) for asked in _asked(running.key, ids)]
        alerts = asyncio.run(_held_by_alerts(folder / "alerts.db"))
    told = f"longest hold of the loop by {CAUSES:,} causes that begin and end, with {TARGETS} targets of alerts"
    return [
        *listed,
        _figure(f"longest hold of the loop by a look that finds {MOST:,} again", held, HELD_LIMIT),
        _figure(told, alerts, HELD_LIMIT),
    ]


def _asked(key: str, ids: list[str]) -> list[Asked]:
    of, root = f"of {MOST:,} open notifications", f"Bearer {key}"
    return [
        Asked(f"list {of}, all", _request(PATH, root), MOST - FEW),
        Asked(f"list {of}, all, for who dismissed them", _request(PATH, _basic(ANA)), MOST - FEW),
        Asked(f"list {of}, the {FEW} oldest for who sees no other", _request(PATH, _basic(BEN)), FEW),
        Asked(f"list {of}, the last 200", _request(f"{PATH}?limit=200&after={ids[FEW + 200]}", root), 200),
    ]


def _request(path: str, authorization: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {authorization}\r\n\r\n".encode()


def _basic(name: str) -> str:
    return f"Basic {b64encode(f'{name}:{PASSWORD}'.encode()).decode()}"


def _people(folder: Path) -> list[str]:
    """Somebody who sees all that is a project's, and somebody who sees nothing of that: their ids."""
    with daemon(folder, repository=None) as running:
        for name in (ANA, BEN):
            asked = {"name": name, "password": PASSWORD, "organizationAdmin": name == ANA}
            if running.post("/v1/users", asked).status != 201:
                raise RuntimeError("somebody could not be made")
    with contextlib.closing(sqlite3.connect(folder / "state" / "store.db")) as connection:
        known = dict(connection.execute("select name, id from user").fetchall())
    return [known[name] for name in (ANA, BEN)]


def _dismissed(file: Path, ids: list[str], user: str) -> None:
    """Somebody dismissed all of them, in one transaction."""
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        rows = [(one, user, "dismissed") for one in ids]
        connection.executemany("insert into notification_status (notification, user, status) values (?, ?, ?)", rows)


def _listed(running: Daemon, asked: Asked) -> Figure:
    """The median time of a whole list."""
    times, body = [], b""
    with Connection(running.port) as ours:
        for _ in range(ROUNDS):
            begun = time.perf_counter()
            body = ours.ask(asked.request).body
            times.append(time.perf_counter() - begun)
    found = body.count(b'"service/state":"open"')
    if found != asked.number:
        raise RuntimeError(f"the list holds {found} and not {asked.number}: {body[:200]!r}")
    return _figure(f"{asked.what}, {len(body) / 1e6:.1f} MB", median(times), LIST_LIMIT)


async def _held_by_looks(path: Path, user: str) -> tuple[float, list[str]]:
    """Open them, the few of a person first, and look again and again: the longest time for which nothing else had its
    turn; and their ids, the oldest first.
    """
    operations = SqliteOperations(path)
    # One project gets half of the room, and here it is to have that of all.
    board = Board(operations, clock=clock.now, place=PLACE, most=2 * MOST)
    await board.take(Observation(Domain.DELIVERY, _found(FEW, user=user), frozenset({""})))
    look = Observation(Domain.DELIVERY, _found(MOST - FEW, project=PROJECT), frozenset({PROJECT}))
    await board.take(look)
    await board.tidy()
    ids = [row.id for row in (await operations.notifications()).rows]

    async def looked() -> None:
        await board.take(look)
        await board.tidy()

    held = median([await _held(looked) for _ in range(ROUNDS)])
    await operations.close()
    return held, ids


async def _held_by_alerts(path: Path) -> float:
    """Begin and end all of them again and again: the longest time for which nothing else had its turn."""
    operations = SqliteOperations(path)
    targets = [AlertTarget(name=f"target-{number}", url="http://127.0.0.1:1/") for number in range(TARGETS)]
    board = Board(operations, clock=clock.now, place=PLACE, targets=targets)
    looks = [
        Observation(Domain.DELIVERY, found, frozenset({PROJECT})) for found in (_found(CAUSES, project=PROJECT), ())
    ]

    async def looked() -> None:
        for look in looks:
            await board.take(look)
            await board.tidy()

    before = gc.get_threshold()
    gc.freeze()  # as the daemon does
    gc.set_threshold(YOUNG_OBJECTS, *before[1:])
    held = median([await _held(looked) for _ in range(LONG_ROUNDS)])
    gc.set_threshold(*before)
    await operations.close()
    return held


def _found(number: int, *, project: str = "", user: str = "") -> tuple[Finding, ...]:
    return tuple(
        Finding(
            Cause(NotificationType.DEAD_LETTERS, f"destination-{each}", project, user),
            details=f"{each + 1} batches",
        )
        for each in range(number)
    )


async def _held(work: Callable[[], Awaitable[None]]) -> float:
    """The most processor time of the loop's thread without a turn for anything else, while that was done: what other
    processes take of a busy machine is no hold of ours.
    """
    longest, last, is_done = 0.0, time.thread_time(), False

    async def beat() -> None:
        nonlocal longest, last
        while not is_done:
            await asyncio.sleep(TICK)  # and not at once, or what writes on another thread would wait for its turn
            now = time.thread_time()
            longest, last = max(longest, now - last), now

    beating = asyncio.create_task(beat())
    await asyncio.sleep(0)  # it begins before the work, which may give it no turn
    await work()
    is_done = True
    await beating
    return longest


def _figure(what: str, seconds: float, limit: float) -> Figure:
    return Figure(what, f"{seconds * 1000:.1f} ms", f"limit {limit * 1000:.0f} ms", f"{seconds / limit:.2f}")
