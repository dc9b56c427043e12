"""Looking again and again at all that may be wrong, beside what the service does and never in its way.

Belongs here: when to look, and that one look that fails spoils no other. Does not: what there is to find (the modules
beside this one), what becomes of it (`board`).
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from reconciler.model import errors
from reconciler.notifications.models import Look
from reconciler.notifying.board import Board

log = logging.getLogger(__name__)


class Observer(Protocol):
    """Knows where to look at one thing."""

    async def look(self) -> list[Look]:
        """What is found now. Raises StoreFault."""


class ObserverLoop:
    """All observers."""

    def __init__(self, board: Board, observers: Sequence[Observer], *, every: float) -> None:
        """`every` so many seconds all of them look, which costs less than a millisecond where nothing is wrong."""
        self._board = board
        self._observers = observers
        self._every = every
        self._failed: dict[int, str] = {}  # what was said of an observer's last look

    async def keep(self) -> None:
        """Look for ever."""
        while True:
            await self.look()
            await asyncio.sleep(self._every)

    async def look(self) -> None:
        """Look once. Raises nothing."""
        for number, observer in enumerate(self._observers):
            await self._guarded(number, observer)
        await self._guarded(-1, None)

    async def _guarded(self, number: int, observer: Observer | None) -> None:
        try:
            if observer is None:
                await self._board.tidy()
            else:
                for look in await observer.look():
                    await self._board.take(look)
        except errors.ReconcilerError as problem:
            self._say(number, problem.message)
        except Exception as fault:
            if self._failed.get(number) != repr(fault):
                log.exception("A look for what may be wrong met a fault of the program; it is made again.")
            self._failed[number] = repr(fault)
        else:
            self._failed.pop(number, None)

    def _say(self, number: int, message: str) -> None:
        """Once, and not at each look that meets it again."""
        if self._failed.get(number) != message:
            log.warning("Notifications are as they were: %s", message)
        self._failed[number] = message
