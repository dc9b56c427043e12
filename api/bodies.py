"""Reading a request's body, bounded in bytes and in time. What the bytes mean belongs to the applier."""

import asyncio
from collections.abc import Callable

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from api import errors, judging
from api.calls import Call

READ_SECONDS = 60.0  # for the whole body: a client that sends a byte a minute must not hold a handler


async def read(call: Call, *, limit: int | None = None) -> bytes:
    """The body, of at most `limit` bytes when there is a limit below that of all bodies.

    Who sends slowly may be gone by the end, so the call is judged again: `call.principal` and `call.project` count from
    then on. Raises `UnknownEncoding`, `TooLarge`, `BadRequest`, `ClientDisconnect`, and what `judging.again` does.
    """
    pieces: list[bytes] = []
    await pass_on(call, pieces.append, limit=limit)
    judging.again(call)
    return b"".join(pieces)


async def pass_on(call: Call, take: Callable[[bytes], None], *, limit: int | None) -> None:
    """Hand over the body piece by piece, as `read` would read it, and keep none of it. The call is not judged again.

    Raises `UnknownEncoding`, `TooLarge`, `BadRequest`, `ClientDisconnect`.
    """
    most = min(call.services.max_body_bytes, limit or call.services.max_body_bytes)
    _check_encoding(call.header(b"content-encoding"))
    try:
        _check_length(call.header(b"content-length"), limit=most)
        await receive_each(call.receive, take, limit=most, seconds=READ_SECONDS)
    except errors.TooLarge:
        if limit is None:
            raise
        raise errors.TooLarge(f"The body is over {most} bytes.") from None  # it holds no resources to be split up


async def receive_each(receive: Receive, take: Callable[[bytes], None], *, limit: int, seconds: float) -> None:
    """Hand over what the client sends, until it is over a limit."""
    try:
        async with asyncio.timeout(seconds):
            await _receive(receive, take, limit=limit)
    except TimeoutError:
        # The rest would be taken for the next request's beginning, or waited for: the connection ends here.
        raise errors.BadRequest(
            f"The body did not arrive within {seconds:g} seconds.", headers=((b"connection", b"close"),)
        ) from None


async def _receive(receive: Receive, take: Callable[[bytes], None], *, limit: int) -> None:
    size = 0
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk: bytes = message.get("body", b"")
        more = message.get("more_body", False)
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        take(chunk)


def _check_encoding(values: list[bytes]) -> None:
    if any(value.strip().lower() not in (b"", b"identity") for value in values):
        raise errors.UnknownEncoding("The body is compressed; send it without a Content-Encoding.")


def _check_length(values: list[bytes], *, limit: int) -> None:
    for value in (each.strip(b" \t") for each in values):  # which is around a value (RFC 9110, 5.5)
        if not value.isdigit():
            raise errors.BadRequest("The header Content-Length is not a number of bytes.")
        # A number of more digits than the limit is larger: it need not become an integer, whose cost has no bound.
        if len(value.lstrip(b"0")) > len(str(limit)) or int(value) > limit:
            raise _too_large(limit)


def _too_large(limit: int) -> errors.TooLarge:
    return errors.TooLarge(f"The body is over {limit} bytes; send the resources in several requests.")
