"""How many calls may be under way: of all remotes together, and of each host, so that a dead one takes few of them.

Belongs here: who gets the next slot. Does not: what is done with it (`rounds`), what a host is (`sources`).
"""

import asyncio
from collections import Counter
from types import TracebackType


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
        """Whether nobody has one."""
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
