"""Work that ends when its client goes away. What the work is belongs to the handlers."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive

Result = TypeVar("Result")


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, Result]) -> Result:
    """The result of `work`, which is cancelled when the client closes the connection first.

    The request's body must have been read, or be of no interest: what arrives of it meanwhile is dropped.
    Raises `ClientDisconnect` once the work has ended.
    """
    working = asyncio.create_task(work, name="api-work")
    listening = asyncio.create_task(_gone(receive), name="api-disconnect")
    try:
        await asyncio.wait({working, listening}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ClientDisconnect
    finally:
        working.cancel()
        listening.cancel()
        # Waited for, so that nothing of this request outlives its handler.
        await asyncio.gather(working, listening, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
