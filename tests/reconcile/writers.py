"""A writer that holds the lock of a project for as long as a test wants."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

from api.services import Services
from reconciler.store.records import Changes, Record


@contextlib.asynccontextmanager
async def writing(services: Services, project: str) -> AsyncIterator[None]:
    """Something is written for as long as the context lasts: the store takes it at its end."""
    begun, end = asyncio.Event(), asyncio.Event()
    with pytest.MonkeyPatch.context() as patched:
        commit = services.store.commit

        async def waiting(parts: Iterable[Changes], **named: Any) -> int:
            patched.undo()  # whoever comes next is not held up
            begun.set()
            await end.wait()
            return await commit(parts, **named)

        patched.setattr(services.store, "commit", waiting)
        writer = asyncio.create_task(services.applier.tell(Record(), project=project))
        await begun.wait()
        try:
            yield
        finally:
            end.set()
            await writer
