"""Waiting that costs nothing where there is nothing to wait for.

Setting a timer and taking it back costs more than reading a small body, which nearly always is there already.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from typing import Any, TypeVar

Result = TypeVar("Result")


class _Begun(Awaitable[Result]):
    """The rest of a coroutine that has run up to what it waits for first."""

    __slots__ = ("coroutine", "waits")

    def __init__(self, coroutine: Coroutine[Any, Any, Result], waits: Any) -> None:
        self.coroutine = coroutine
        self.waits = waits

    def __await__(self) -> Generator[Any, Any, Result]:
        waits = self.waits
        while True:
            try:
                sent = yield waits
            except BaseException as raised:  # it is the coroutine's, a cancellation too
                go_on = partial(self.coroutine.throw, raised)
            else:
                go_on = partial(self.coroutine.send, sent)
            try:
                waits = go_on()
            except StopIteration as ended:
                result: Result = ended.value
                return result


async def within(call: Callable[[], Awaitable[Result]], *, seconds: float) -> Result:
    """What a coroutine function gives, waited for no longer than that. Raises TimeoutError."""
    coroutine: Any = call()
    try:
        waits = coroutine.send(None)
    except StopIteration as ended:
        result: Result = ended.value
        return result
    async with asyncio.timeout(seconds):
        return await _Begun(coroutine, waits)
