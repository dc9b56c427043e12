"""Bodies of requests, out of what was queued.

Belongs here: putting JSON fragments together, in slices that let the loop go on. Does not: what a fragment is
(`otlp.bodies`), how many records go together (`supply`).
"""

import asyncio
from collections.abc import Sequence

from reconciler.model import errors
from reconciler.otlp.bodies import body_fragments


class UnreadablePayload(errors.Refused):
    """What is stored is no export request of log records, though it was one when it came."""


async def record_bodies(payload: bytes) -> list[bytes]:
    """Each record of an export request, in order, as JSON. Raises Unreadable, MemoryError."""
    found: list[bytes] = []
    try:
        for number, part in enumerate(body_fragments(payload)):
            if number:
                await asyncio.sleep(0)
            found += part
    except MemoryError:
        raise  # which says nothing of what is stored
    except Exception as problem:  # whatever the decoder says of bytes that nobody should have stored
        raise UnreadablePayload(
            f"What is stored is no export request of log records ({type(problem).__name__}); look at it with "
            "`reconciler queue peek`."
        ) from None
    return found


def json_array(parts: Sequence[bytes]) -> bytes:
    """One body of several records."""
    return b"[" + b",".join(parts) + b"]"
