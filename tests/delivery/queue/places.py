"""Queues of tests: real files in a folder of the test, a clock that stands still."""

import asyncio
import contextlib
import errno
import os
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from reconciler.delivery.queue import folders
from reconciler.delivery.queue.contract import Batch, FinalFailure, Piece, Queue, Reason
from reconciler.delivery.queue.disk import DeadLetters, DiskQueue
from reconciler.delivery.queue.files import System
from reconciler.delivery.queue.folders import PeekedState
from reconciler.delivery.queue.memory import MemoryQueue
from reconciler.delivery.queue.queues import Queues
from reconciler.model.routes import Storage
from tests.waiting import until

NOW = 1_790_000_000_000
PLENTY = 1 << 30
HERE = Storage(directory="here", max_bytes=PLENTY)
FINAL_FAILURE = FinalFailure(Reason.GIVEN_UP, NOW, 3, "The endpoint answered 503.", status=503, answer=b"busy\xff")


@dataclass(frozen=True)
class Wanted:
    """How a test wants its queue."""

    storage: Storage = HERE
    max_batches: int = 100_000
    dead_bytes: int = PLENTY
    name: str = "siem"

    def with_storage(self, **changes: object) -> "Wanted":
        return replace(self, storage=msgspec.structs.replace(self.storage, **changes))


def nothing(_call: str, _path: Path) -> None:
    """Let a call go on."""


class WatchedSystem(System):
    """Calls `before` with each call and its file, which may fail it, wait, or take note.

    `header` is the write of another header over a file that is emptied.
    """

    def __init__(self, before: Callable[[str, Path], None] = nothing) -> None:
        self.before = before
        self._paths: dict[int, Path] = {}

    def create(self, path: Path) -> int:
        self.before("create", path)
        descriptor = super().create(path)
        self._paths[descriptor] = path
        return descriptor

    def open(self, path: Path, *, make: bool = False) -> int:
        self.before("open", path)
        descriptor = super().open(path, make=make)
        self._paths[descriptor] = path
        return descriptor

    def write(self, descriptor: int, pieces: Sequence[Piece], offset: int, *, synced: bool) -> int:
        is_header = synced and offset == 0 and len(pieces) == 1
        self.before("header" if is_header else "synced write" if synced else "write", self._paths[descriptor])
        return super().write(descriptor, pieces, offset, synced=synced)

    def synchronise(self, descriptor: int) -> None:
        if descriptor in self._paths:
            self.before("synchronise", self._paths[descriptor])
        super().synchronise(descriptor)

    def cut(self, descriptor: int, length: int) -> None:
        self.before("cut", self._paths[descriptor])
        super().cut(descriptor, length)

    def remove(self, path: Path) -> None:
        self.before("remove", path)
        super().remove(path)

    def close(self, descriptor: int) -> None:
        self.before("close", self._paths.pop(descriptor))
        super().close(descriptor)


def fail(code: int = errno.EIO) -> None:
    raise OSError(code, os.strerror(code))


def on_disk(queue: DiskQueue) -> int:
    """The bytes of a queue's files, some of which may go at this moment."""
    total = 0
    for path in [*queue.folder.glob("*.seg"), *queue.folder.glob("*.ack")]:
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


async def settled(queue: DiskQueue) -> None:
    """Until everything that left is written down, and what the queue says of its files is so."""
    await until(lambda: queue.depth().disk == on_disk(queue))


async def open_queue(queues: Queues, wanted: Wanted = Wanted()) -> DiskQueue:
    return await queues.open(
        project="shop",
        name=wanted.name,
        storage=wanted.storage,
        max_batches=wanted.max_batches,
        dead_bytes=wanted.dead_bytes,
    )


def make(root: Path, *, system: System | None = None, reserve: int = 0) -> Queues:
    return Queues(root, reserve=reserve, clock=lambda: NOW, system=system)


@contextlib.asynccontextmanager
async def opened(
    root: Path, wanted: Wanted = Wanted(), *, system: System | None = None, reserve: int = 0
) -> AsyncIterator[DiskQueue]:
    """A queue for as long as the context lasts; afterwards it is closed in order."""
    queues = make(root, system=system, reserve=reserve)
    await queues.start()
    try:
        yield await open_queue(queues, wanted)
    finally:
        await queues.close()


def refusing(monkeypatch: pytest.MonkeyPatch, code: int = errno.EACCES) -> set[Path]:
    """Return a set of paths that cannot be opened or listed: chmod does not restrict root."""
    refused: set[Path] = set()
    opens, lists = os.open, os.listdir

    def check(path: object) -> None:
        if isinstance(path, Path) and path in refused:
            raise OSError(code, os.strerror(code))

    def refuse_open(path: Path, flags: int, mode: int = 0o777) -> int:
        check(path)
        return opens(path, flags, mode)

    def refuse_list(path: Path) -> list[str]:
        check(path)
        return lists(path)

    monkeypatch.setattr(os, "open", refuse_open)
    monkeypatch.setattr(os, "listdir", refuse_list)
    return refused


async def claimed(queue: Queue, *, most_records: int = 1 << 30, most_bytes: int = 1 << 40) -> list[Batch]:
    """All that can be claimed without new arrivals."""
    found: list[Batch] = []
    while len(found) < queue.depth().batches:
        some = queue.claim(most_records=most_records, most_bytes=most_bytes)
        if some:
            found += some
        elif queue.depth().claimed >= queue.depth().batches:
            break
        else:
            await queue.wait()
    return found


async def payloads(queue: Queue) -> list[bytes | None]:
    """The payloads of all that can be claimed, which stays claimed."""
    return [await queue.payload(batch) for batch in await claimed(queue)]


class Letter(NamedTuple):
    records: int
    taken_at: int
    final_failure: FinalFailure | None
    data: bytes | None


async def letters(queue: Queue) -> list[Letter]:
    """The dead letters, oldest first; of a queue on disk once it is written down which ones left."""
    if isinstance(queue, MemoryQueue):
        return [Letter(one.records, one.taken_at, one.final_failure, one.payload) for one in queue.letters]
    assert isinstance(queue, DiskQueue)
    identity = folders.read_identity(queue.folder)
    assert identity is not None

    def dead() -> list[Letter]:
        found = (one for one in folders.peek(identity) if one.state is PeekedState.DEAD)
        return [Letter(one.records, one.taken_at, one.final_failure, one.payload) for one in found]

    await until(lambda: len(dead()) == queue.depth().dead_batches)
    return dead()


async def bury_all(queue: Queue) -> None:
    """Make dead letters of all that can be claimed."""
    for batch in await claimed(queue):
        await queue.bury(batch, [await queue.payload(batch) or b""], FINAL_FAILURE, records=batch.records)


async def fill(queue: Queue, *texts: bytes, records: int = 1) -> None:
    for text in texts:
        await queue.append([text], records=records, at=NOW)


@contextlib.asynccontextmanager
async def changing(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """A change of the dead letters is under way for as long as the context lasts, since the disk does not answer."""
    begun, goes_on = asyncio.Event(), asyncio.Event()
    find_oldest = DeadLetters.find_oldest

    async def wait(letters: DeadLetters) -> None:
        begun.set()
        await goes_on.wait()
        await find_oldest(letters)

    with monkeypatch.context() as patch:
        patch.setattr(DeadLetters, "find_oldest", wait)
        change = asyncio.create_task(queue.replay(outages_only=True))
        await begun.wait()
    yield
    goes_on.set()
    await change
