"""Limits on calls to remotes, calls that are shared, and their counts."""

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Generic, TypeVar

from reconciler.git.faults import GitFault
from reconciler.model import log_context

# How many calls may be under way: of all remotes together, and of each host, so that a dead one takes few of them.


class ConcurrencyLimit:
    """`at_once` for all, of which one host has at most `each` (None: all of them).

    They are given in the order of asking, but first to those who insist: because a person waits. When no slot is left
    for these, they take one of `beyond`, which are on top.
    """

    def __init__(self, at_once: int, *, each: int | None = None, beyond: int = 0) -> None:
        self._at_once = at_once
        self._each = at_once if each is None else each
        self._beyond = beyond
        self._taken: Counter[str] = Counter()  # by host, all but those beyond
        self._waiting: list[ConcurrencySlot] = []

    @property
    def are_free(self) -> bool:
        """Return whether nobody has one."""
        return not self._taken.total()

    def turn(self, host: str, *, insists: bool = False) -> "ConcurrencySlot":
        """To wait for a slot and have it: `async with slots.turn(host): ...`."""
        return ConcurrencySlot(self, host, insists=insists)

    # For the turns alone

    def enter(self, turn: "ConcurrencySlot") -> None:
        """It waits from now on; it may have its slot already when this returns."""
        self._waiting.append(turn)
        self.give()

    def leave(self, turn: "ConcurrencySlot") -> None:
        """It waits no more, or needs its slot no more."""
        if turn in self._waiting:
            self._waiting.remove(turn)
        elif turn.is_beyond:
            self._beyond += 1
        else:
            self._taken[turn.host] -= 1
        self.give()

    def give(self) -> None:
        """Give what is free to those who wait for it."""
        for turn in sorted(self._waiting, key=lambda turn: not turn.insists):  # stable: else the oldest first
            if self._taken.total() < self._at_once and self._taken[turn.host] < self._each:
                self._taken[turn.host] += 1
            elif turn.insists and self._beyond:
                self._beyond -= 1
                turn.is_beyond = True
            else:
                continue
            self._waiting.remove(turn)
            turn.came.set()


class ConcurrencySlot:
    """One who waits for a slot of a host, and then has it."""

    def __init__(self, slots: ConcurrencyLimit, host: str, *, insists: bool) -> None:
        self.host = host
        self.insists = insists
        self.is_beyond = False
        self.came = asyncio.Event()
        self._slots = slots

    def insist(self) -> None:
        """Somebody who insists waits for it too, from now on."""
        self.insists = True
        self._slots.give()

    async def __aenter__(self) -> None:
        self._slots.enter(self)
        try:
            await self.came.wait()
        except BaseException:
            self._slots.leave(self)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._slots.leave(self)


# Calls that are made together: who asks while one is under way shares the next with all the others.

Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class SharedAnswer(Generic[Value]):
    """The result of a call for one key. `began`: seconds on the clock of the rounds, when it was made."""

    began: float
    result: Value | Exception

    def value(self) -> Value:
        """The result; raises it when it is an exception."""
        if isinstance(self.result, Exception):
            raise self.result.with_traceback(None)  # many raise the same one
        return self.result


@dataclass(slots=True, eq=False)
class _Round(Generic[Key, Value]):
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    asked: set[Key] = field(default_factory=set)
    waiters: int = 0
    insists: bool = False  # whether one of them does
    began: float = math.inf
    context: Context = field(default_factory=copy_context)  # of whoever asked first: its log lines are that one's
    call: "asyncio.Task[Mapping[Key, Value | Exception]] | None" = None
    answers: dict[Key, SharedAnswer[Value]] = field(default_factory=dict)


class SharedCalls(Generic[Key, Value]):
    """At most one call at a time, each for all keys that were asked for before it began.

    `call` gives a result or an exception for each key, or raises for all of them. `slots` bounds how many calls of all
    who have it are under way, and those to `host`; a call begins when it has its slot. `clock` is in seconds.
    """

    def __init__(
        self,
        call: Callable[[frozenset[Key]], Awaitable[Mapping[Key, Value | Exception]]],
        *,
        slots: ConcurrencyLimit,
        host: str = "",
        clock: Callable[[], float],
    ) -> None:
        self._call = call
        self._slots = slots
        self._host = host
        self._clock = clock
        self._running: _Round[Key, Value] | None = None
        self._next: _Round[Key, Value] | None = None
        self._driver: asyncio.Task[None] | None = None
        self._turn: ConcurrencySlot | None = None  # of the next call

    async def ask(self, key: Key, *, since: float, insists: bool = False) -> SharedAnswer[Value]:
        """The answer of a call that began after `since`; of the one that is under way, if it did.

        Who `insists` does not wait for a slot behind those who do not.

        When all who wait for a call are cancelled, the call is too, and the last of them waits for its end.
        """
        joined = self._join(key, since=since)
        if insists:
            self._insist(joined)
        joined.waiters += 1
        try:
            await joined.ended.wait()
        finally:
            joined.waiters -= 1
            if not joined.waiters and not joined.ended.is_set():
                await self._give_up(joined)
        return joined.answers[key]

    async def close(self) -> None:
        """End the call that is under way; nobody may wait or ask any more."""
        call = None if self._running is None else self._running.call
        for task in (call, self._driver):
            if task is not None:
                task.cancel()
                await asyncio.wait({task})

    def _join(self, key: Key, *, since: float) -> _Round[Key, Value]:
        running = self._running
        # A call that nobody waits for any more is being ended.
        if running is not None and running.waiters and running.began > since and key in running.asked:
            return running
        if self._next is None:
            self._next = _Round()
        if self._driver is None:
            self._driver = asyncio.create_task(self._drive(), name="rounds", context=log_context.unbound())
        self._next.asked.add(key)
        return self._next

    def _insist(self, joined: _Round[Key, Value]) -> None:
        joined.insists = True
        if joined is self._next and self._turn is not None:
            self._turn.insist()

    async def _give_up(self, left: _Round[Key, Value]) -> None:
        if left is self._next:
            self._next = None
        elif left.call is not None:
            left.call.cancel()
            await asyncio.wait({left.call})

    async def _drive(self) -> None:
        try:
            while self._next is not None:
                self._turn = self._slots.turn(self._host, insists=self._next.insists)
                async with self._turn:
                    # Whoever asks while this waits for its slot still shares the call.
                    self._running, self._next, self._turn = self._next, None, None
                    if self._running is not None:
                        await self._make(self._running)
        finally:
            self._running = self._driver = self._turn = None

    async def _make(self, made: _Round[Key, Value]) -> None:
        made.began = self._clock()
        made.call = asyncio.create_task(self._called(frozenset(made.asked)), name="round", context=made.context)
        await asyncio.wait({made.call})
        if not made.call.cancelled():  # else nobody waits
            made.answers = {key: SharedAnswer(made.began, result) for key, result in made.call.result().items()}
        made.ended.set()

    async def _called(self, keys: frozenset[Key]) -> Mapping[Key, Value | Exception]:
        try:
            return await self._call(keys)
        except Exception as error:  # it is everybody's, whatever it is
            return dict.fromkeys(keys, error)


# What was asked of remotes, counted for whoever looks at the service from outside.


class RemoteCall(StrEnum):
    """The kinds of calls to a remote."""

    LOOK = "look"
    FETCH = "fetch"


@dataclass(slots=True)
class RemoteTally:
    """Calls since the start, and what failed of them, by the state in which that leaves a repository; empty for what is
    no fault of Git's.
    """

    calls: dict[RemoteCall, int] = field(default_factory=lambda: dict.fromkeys(RemoteCall, 0))
    failures: Counter[tuple[RemoteCall, str]] = field(default_factory=Counter)

    def counted(
        self, call: RemoteCall, make: Callable[[frozenset[Key]], Awaitable[Mapping[Key, Value | Exception]]]
    ) -> Callable[[frozenset[Key]], Awaitable[Mapping[Key, Value | Exception]]]:
        """The same call, counted from now on."""

        async def made(asked: frozenset[Key]) -> Mapping[Key, Value | Exception]:
            self.calls[call] += 1
            try:
                found = await make(asked)
            except Exception as fault:
                self._failed(call, fault)
                raise
            for result in found.values():
                if isinstance(result, Exception):
                    self._failed(call, result)
            return found

        return made

    def _failed(self, call: RemoteCall, fault: Exception) -> None:
        self.failures[call, fault.state.value if isinstance(fault, GitFault) else ""] += 1
