"""Questions that take their time: who asks the same shares one answer, and those about one thing take turns.

Belongs here: who waits for what, how many may, and the end of work that nobody waits for. Does not: what is asked.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from reconciler.model.errors import Transient

Answer = TypeVar("Answer")


class TooManyQuestions(Transient):
    """More wait already than may; the same question may pass later."""


@dataclass(slots=True, eq=False)
class _Work(Generic[Answer]):
    task: "asyncio.Task[Answer]"
    waiters: int = 0


class SharedQuestions(Generic[Answer]):
    """Work under way, by its question."""

    def __init__(self) -> None:
        self._under_way: dict[Hashable, _Work[Answer]] = {}

    async def ask(self, question: Hashable, work: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
        """The answer of the work that is under way for the question, or of new work. Raises what the work does.

        When all who wait are cancelled, the work is too, and the last of them waits for its end.
        """
        joined = self._under_way.get(question) or self._begin(question, work)
        joined.waiters += 1
        try:
            return await asyncio.shield(joined.task)
        finally:
            joined.waiters -= 1
            if not joined.waiters:
                await self._end(question, joined)

    def _begin(self, question: Hashable, work: Callable[[], Coroutine[Any, Any, Answer]]) -> _Work[Answer]:
        begun = _Work(asyncio.create_task(work(), name="question"))
        self._under_way[question] = begun
        # What is over answers nobody who asks later: the world may be another one by then.
        begun.task.add_done_callback(lambda _: self._forget(question, begun))
        return begun

    async def _end(self, question: Hashable, left: _Work[Answer]) -> None:
        self._forget(question, left)
        left.task.cancel()
        await asyncio.wait({left.task})
        if not left.task.cancelled():
            left.task.exception()  # nobody else may ask for it, and asyncio would complain of that

    def _forget(self, question: Hashable, ended: _Work[Answer]) -> None:
        if self._under_way.get(question) is ended:
            del self._under_way[question]


class QuestionTurns:
    """One at a time for each name, in the order of asking. `most_waiting` bounds those that wait, of all names."""

    def __init__(self, *, most_waiting: int) -> None:
        self._most = most_waiting
        self._waiting = 0
        self._locks: dict[str, asyncio.Lock] = {}
        self._users: Counter[str] = Counter()

    @asynccontextmanager
    async def turn(self, name: str) -> AsyncIterator[None]:
        """Be the only one of the name. Raises Crowded."""
        if self._users[name] and self._waiting >= self._most:
            raise TooManyQuestions("Too many plans are asked for at once; ask again in a moment.")
        self._users[name] += 1
        lock = self._locks.setdefault(name, asyncio.Lock())
        try:
            await self._wait(lock, has_company=self._users[name] > 1)
            try:
                yield
            finally:
                lock.release()
        finally:
            self._leave(name)

    async def _wait(self, lock: asyncio.Lock, *, has_company: bool) -> None:
        self._waiting += has_company
        try:
            await lock.acquire()
        finally:
            self._waiting -= has_company

    def _leave(self, name: str) -> None:
        self._users[name] -= 1
        if not self._users[name]:
            del self._users[name], self._locks[name]
