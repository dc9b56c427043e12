"""A delivery without queues: it keeps what it takes, knows the destinations that it is told of, and does as it is told.

What real queues do is tested beside them; here are the doors alone.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from reconciler.delivery.contract import TakenRecords, UnknownDestination
from reconciler.delivery.otlp.models import Logs

SHOWN: dict[str, Any] = {
    "destination": "siem",
    "state": "idle",
    "message": "",
    "since": "2026-11-21T06:12:00.123Z",
    "queue": {
        "kind": "disk",
        "batches": 0,
        "records": 0,
        "bytes": 0,
        "diskBytes": 0,
        "load": 0.0,
        "maxBatches": 5000,
        "maxBytes": 1073741824,
        "oldest": None,
        "inFlight": 0,
        "waiting": 0,
        "quarantined": 0,
        "lost": 0,
        "refused": False,
    },
    "deadLetters": {"batches": 0, "records": 0, "bytes": 0, "oldest": None},
    "counts": dict.fromkeys(("taken", "delivered", "retried", "dead", "dropped", "discarded", "expired"), 0),
    "rates": {"taken": 0.5, "delivered": 0.25},
    "lastSuccess": None,
    "lastFailure": None,
    "window": None,
    "configurations": ["checkout"],
}
SAMPLES: list[dict[str, Any]] = [
    {
        "at": "2026-11-21T06:12:00.123Z",
        "taken": 30,
        "delivered": 15,
        "retried": 0,
        "dead": 0,
        "queued": 15,
        "oldestSeconds": 31,
    },
]
LETTER: dict[str, Any] = {
    "id": "01KAVZ3Q8Y4T2M6N9P0R5S7V1X-42",
    "buriedAt": "2026-11-22T01:41:43.000Z",
    "takenAt": "2026-11-22T01:41:42.000Z",
    "records": 2,
    "bytes": 246,
    "damaged": False,
    "reason": "no-retry",
    "attempts": 1,
    "status": 422,
    "cause": "The endpoint answered 422.",
    "answer": "",
    "preview": [{"time": None, "severity": "ERROR", "body": "payment 4711 refused", "truncated": False}],
}
ANSWERED = "canary-what-the-endpoint-said"
FAILURE = {"at": "2026-11-21T06:11:00.000Z", "status": 503, "cause": "The endpoint answered 503."}
TESTED = {"delivered": True, "status": 200, "seconds": 0.25, "message": "", "answer": ANSWERED}


async def _taken(_project: str, _logs: Logs) -> TakenRecords:
    return TakenRecords()


@dataclass
class Kept:
    """See `reconciler.delivery.reporting.Delivery`. `known` are names, `done` is what operators asked for."""

    known: set[str] = field(default_factory=set)
    taking: Callable[[str, Logs], Awaitable[TakenRecords]] = _taken
    taken: list[tuple[str, Logs]] = field(default_factory=list)
    done: list[tuple[object, ...]] = field(default_factory=list)
    queues: bool = True  # whether all that is sent is for queues that have room
    writes: bool = True  # at once; else `queued` end as the test says
    queued: list[asyncio.Future[None]] = field(default_factory=list)
    inline: set[str] = field(default_factory=set)  # projects with a destination without a queue
    handled: tuple[int, int] = (2, 30)  # the batches and records of a replay
    fault: Exception | None = None  # of a second queue, behind the first one's replay

    async def take(self, project: str, logs: Logs) -> TakenRecords:
        self.taken.append((project, logs))
        return await self.taking(project, logs)

    def enqueue(self, project: str, logs: Logs) -> asyncio.Future[None] | None:
        if not self.queues:
            return None
        self.taken.append((project, logs))
        self.queued.append(asyncio.get_running_loop().create_future())
        if self.writes:
            self.queued[-1].set_result(None)
        return self.queued[-1]

    def sends_at_once(self, project: str) -> bool:
        return project in self.inline

    def shown(self, project: str, name: str, *, answers: bool) -> dict[str, Any]:
        self._check(name)
        failure = {**FAILURE, "answer": ANSWERED} if answers else FAILURE
        return {**SHOWN, "destination": name, "lastFailure": failure, "configurations": [f"of-{project}"]}

    def all(self, project: str, *, answers: bool) -> dict[str, Any]:
        deliveries = [self.shown(project, name, answers=answers) for name in sorted(self.known)]
        return {"deliveries": deliveries, "unrouted": {"records": 40, "last": "2026-11-21T06:12:00.123Z"}}

    def history(self, _project: str, name: str) -> list[dict[str, Any]]:
        return SAMPLES if name in self.known else []

    async def dead_letters(self, _project: str, name: str, *, most: int) -> list[dict[str, Any]]:
        return [LETTER] * most if name in self.known else []

    async def replay(self, project: str, name: str, *, letter: str | None = None) -> AsyncIterator[tuple[int, int]]:
        self._check(name)
        self.done.append(("replay", project, name, *([] if letter is None else [letter])))
        yield self.handled
        if self.fault is not None:
            raise self.fault

    async def discard(
        self, project: str, name: str, *, queued: bool, dead: bool, letter: str | None = None
    ) -> AsyncIterator[tuple[int, int]]:
        self._check(name)
        self.done.append(("discard", project, name, queued, dead, *([] if letter is None else [letter])))
        yield 1, 10
        yield 2, 30

    async def receive(self, project: str, name: str, segment: bytes) -> tuple[int, int]:
        self.done.append(("receive", project, name, segment))
        if self.fault is not None:
            raise self.fault
        return 1, 10

    async def test(self, project: str, name: str) -> dict[str, Any]:
        self._check(name)
        self.done.append(("test", project, name))
        return dict(TESTED)

    def _check(self, name: str) -> None:
        if name not in self.known:
            raise UnknownDestination("There is no such destination that log records are delivered to.")
