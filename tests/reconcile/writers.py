"""Writers that a test holds up: while one writes, it has the lock of its project."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

import pytest

from api.calls import Services
from reconciler.store.records import Changes, Record


class HeldUp:
    """A commit that waits. `begun`: it was begun; `end`: let it go on."""

    def __init__(self) -> None:
        self.begun, self.end = asyncio.Event(), asyncio.Event()
        self.seconds: float | None = None  # that it may take


@contextlib.contextmanager
def next_commit(services: Services) -> Iterator[HeldUp]:
    """Hold up the next commit, and no later one."""
    held = HeldUp()
    with pytest.MonkeyPatch.context() as patched:
        commit = services.store.commit

        async def waiting(parts: Iterable[Changes], **named: Any) -> int:
            patched.undo()  # whoever comes next is not held up
            held.seconds = named["timeout"]
            held.begun.set()
            await held.end.wait()
            return await commit(parts, **named)

        patched.setattr(services.store, "commit", waiting)
        yield held


@contextlib.asynccontextmanager
async def writing(services: Services, project: str) -> AsyncIterator[None]:
    """Something is written for as long as the context lasts: the store takes it at its end."""
    with next_commit(services) as held:
        writer = asyncio.create_task(services.applier.store_record(Record(), project=project))
        await held.begun.wait()
        try:
            yield
        finally:
            held.end.set()
            await writer
