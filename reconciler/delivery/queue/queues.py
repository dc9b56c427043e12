"""All disk queues of the process. No other process uses the root folder."""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from reconciler.delivery.queue import appender, folders, recovery, segments
from reconciler.delivery.queue.appender import Committer
from reconciler.delivery.queue.contract import Queue, QueueFault
from reconciler.delivery.queue.disk import DiskQueue, QueueLimits
from reconciler.delivery.queue.files import QueueReader, System
from reconciler.delivery.queue.folders import FoundIdentity, QueueFolders, WantedQueue
from reconciler.delivery.queue.journal import Shared
from reconciler.delivery.queue.recovery import Recovered
from reconciler.model import errors
from reconciler.model.routes import Storage, Sync

__all__ = ["FoundIdentity", "Queues"]

log = logging.getLogger(__name__)

UNLIMITED = 1 << 62


class Queues:
    """All queues, used from one loop. Call `start` first and `close` last."""

    def __init__(
        self,
        root: Path,
        *,
        reserve: int,
        clock: Callable[[], int],
        randomness: Callable[[int], bytes] = os.urandom,
        system: System | None = None,
    ) -> None:
        """`reserve` is the number of bytes to leave free on the disk; `clock` returns Unix milliseconds."""
        self._root = root
        system = system or System()
        self._system = system
        self._folders = QueueFolders(root, system=system, clock=clock, randomness=randomness)
        self._shared = Shared(Committer(system, root, reserve=reserve), QueueReader(), clock)
        self._open: dict[Path, DiskQueue] = {}
        self._opening = asyncio.Lock()

    async def start(self) -> None:
        """Find the queues in the root folder, or create it. Raises Refused."""
        try:
            await self._shared.reader.run(self._prepare)
            self._folders.tell(await self._shared.reader.run(self._folders.scan))
        except OSError as fault:
            raise errors.Refused(
                f"The queues in {self._root} cannot be used ({fault.strerror}); mend the folder's permissions."
            ) from fault

    def _prepare(self) -> None:
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        folders.sweep_folders(self._root)
        self._shared.committer.measure()

    async def open(self, *, project: str, name: str, storage: Storage, max_batches: int, dead_bytes: int) -> DiskQueue:
        """Open the queue of a destination, or create it. Raises QueueFault."""
        limits = QueueLimits(max_batches, storage.max_bytes, dead_bytes)
        if folders.DIRECTORY.fullmatch(storage.directory) is None:
            raise QueueFault(f"The queue of {name} cannot be at {storage.directory}: choose a plain name.")
        wanted = WantedQueue(project, name, storage.directory)
        async with self._opening:
            with _faults(name):
                found = await self._shared.reader.run(lambda: self._folders.find_or_make(wanted))
                return await self._opened(found, limits, storage.sync)

    async def open_found(self, found: FoundIdentity, *, dead_bytes: int) -> DiskQueue:
        """Open a queue on disk whose settings are unknown: without limits. Raises QueueFault."""
        async with self._opening:
            with _faults(found.name):
                return await self._opened(found, QueueLimits(UNLIMITED, UNLIMITED, dead_bytes), Sync.COMMIT)

    async def _opened(self, found: FoundIdentity, limits: QueueLimits, sync: Sync) -> DiskQueue:
        if found.folder in self._open:
            raise QueueFault(f"The old queue of {found.name} is still being closed; look at the disk.")
        queued, buried = await self._shared.reader.run(lambda: self._recovered(found))
        queue = DiskQueue(found, queued=queued, buried=buried, shared=self._shared, limits=limits, sync=sync)
        await queue.start()
        self._open[found.folder] = queue
        return queue

    def _recovered(self, found: FoundIdentity) -> tuple[Recovered, Recovered]:
        buried = found.folder / folders.DEAD_LETTERS
        if not buried.exists():
            buried.mkdir(mode=0o700)
            self._system.synchronise_folder(found.folder)
        return (
            recovery.recover(found.folder, kind=segments.QUEUE, mark=found.mark),
            recovery.recover(buried, kind=segments.DEAD, mark=found.mark),
        )

    async def found(self) -> tuple[list[FoundIdentity], list[QueueFault]]:
        """Return the queues on disk, sorted by their folders, and a fault for each folder that is unreadable."""
        async with self._opening:
            return await self._shared.reader.run(self._folders.all)

    def is_open(self, found: FoundIdentity) -> bool:
        """Return True if this queue is open."""
        return found.folder in self._open

    async def remove(self, queue: Queue) -> None:
        """Close a queue, and remove the folder of an empty disk queue. Damaged files are kept.

        The caller must not open the queue again before this ends. It waits for a disk that hangs; meanwhile other
        queues can be opened.
        """
        if not isinstance(queue, DiskQueue):
            await queue.close()
            return
        if queue.folder not in self._open:  # all are closed
            return
        try:
            await queue.close()  # first, because this writes everything that waits
            if not any((queue.depth().batches, queue.depth().dead_batches)):
                with contextlib.suppress(OSError):
                    if await self._shared.reader.run(lambda: self._folders.remove(queue.folder)):
                        async with self._opening:
                            self._folders.forget(queue.folder)
        finally:
            self._open.pop(queue.folder, None)

    def spare(self) -> int:
        """Return the number of bytes that may be written before the disk reaches its reserve; negative if less is
        free.
        """
        self._shared.committer.has_space(0)  # it asks the disk when there is none
        return self._shared.committer.spare

    @property
    def faults(self) -> int:
        """The number of failed writes since the start."""
        return self._shared.committer.faults

    async def close(self) -> None:
        """Close all queues. If the disk hangs, this waits `appender.END_SECONDS` for all of them together."""
        closing = [(queue.identity, asyncio.create_task(queue.close())) for queue in self._open.values()]
        self._open.clear()
        try:
            async with asyncio.timeout(appender.END_SECONDS):
                await asyncio.gather(*(task for _, task in closing))
        except TimeoutError:
            log.error(
                "The disk of the queues does not answer; what was not written is not kept, of %s.",
                ", ".join(sorted(f"{one.name} ({one.project})" for one, task in closing if task.cancelled())),
            )
        finally:
            self._shared.committer.stop()
            self._shared.reader.close()


@contextlib.contextmanager
def _faults(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        raise QueueFault(f"The queue of {name} cannot be opened ({fault.strerror}); look at the disk.") from fault
