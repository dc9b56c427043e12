"""Watching repositories on this machine for new commits; the only module that imports watchfiles.

An event only means "poll now": refs are also packed, deleted and written again without any news. Events can be lost
(network disks, overlays), so polls continue. One thread and one kernel watch serve all repositories, because many
systems allow a user only 128 watches for all programs together.
"""

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, Generator
from pathlib import Path
from typing import TypeAlias

import watchfiles
from watchfiles.main import FileChange

from reconciler.git.remotes.local_repositories import LocalRepository
from reconciler.model.errors import Transient

log = logging.getLogger(__name__)

STEP_MILLISECONDS = 10  # for which refs must be quiet before an event is reported; 5 would cost 1 % of a core
DEBOUNCE_MILLISECONDS = 100  # if refs are never quiet, an event is reported after this time
TICK_MILLISECONDS = 200  # between two checks of the few files outside `refs`
REPOSITORIES_A_TICK = 5  # whose few files are checked in one tick; with more, each is checked less often
MOST_REFS = 100_000  # in files and folders of one repository
THREAD_NAME = "watch repositories"
ERRORS = (OSError, RuntimeError, ValueError)  # watchfiles' own error is a RuntimeError

FolderIdentity: TypeAlias = tuple[int, int]  # device and inode: the watch does not report a replaced folder
FileFact: TypeAlias = tuple[int, ...] | None  # the fields of stat(2) that show if a file was replaced or removed


class WatchEnded(Transient):
    """The repository cannot be watched (any longer): it is gone, was replaced, or the system refuses. Only poll it."""


class Watcher:
    """Watches any number of repositories. Its thread is there as long as one is watched."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watches: dict[Watch, None] = {}  # in the order of their addition
        self._thread: threading.Thread | None = None

    async def events(self, path: Path, *, stop: asyncio.Event) -> AsyncGenerator[None, None]:
        """Yield once when the watch begins, because earlier changes are unknown, then after every change of a ref.

        Changes that come together, or while the consumer is busy, are one event. Ends soon after `stop` is set. Raises
        WatchEnded when the repository cannot be watched (any longer); poll until a new watch can be had.
        """
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed, so nothing listens any more
                loop.call_soon_threadsafe(woken.set)

        watch = Watch(path, wake)
        stopped = asyncio.create_task(stop.wait(), name=f"stop watching {path}")
        stopped.add_done_callback(lambda _: woken.set())
        self._add(watch)
        try:
            while True:
                await woken.wait()
                woken.clear()
                if stop.is_set():
                    return
                if watch.failure is not None:
                    raise watch.failure
                yield
        finally:
            self._remove(watch)
            stopped.cancel()

    def is_set(self) -> bool:
        """Return True if the thread should end, or the program ends: Python waits for this thread."""
        return not self._watches or not threading.main_thread().is_alive()

    def _add(self, watch: "Watch") -> None:
        with self._lock:
            self._watches[watch] = None
            if self._thread is None:
                # A thread of its own: watchfiles' asynchronous function would hold one of anyio's 40 shared threads.
                self._thread = threading.Thread(target=self._run, name=THREAD_NAME)
                self._thread.start()

    def _remove(self, watch: "Watch") -> None:
        with self._lock:
            del self._watches[watch]

    def _run(self) -> None:
        while True:
            try:
                self._serve()
            except Exception as error:
                # Any error: if the thread ended silently, no change would be reported any more.
                if not isinstance(error, ERRORS):
                    log.exception("Watching repositories met a fault of the program; they are polled.")
                self._fail(error)
            with self._lock:
                if self.is_set():
                    self._thread = None
                    return

    def _fail(self, error: Exception) -> None:
        with self._lock:
            watches = list(self._watches)
        for watch in watches:
            watch.fail(error)

    def _serve(self) -> None:
        """Watch until there is nothing to watch. Raises ERRORS."""
        standing: Generator[None] | None = None
        try:
            while not self.is_set():
                with self._lock:
                    watches = list(self._watches)
                if any(watch.is_new for watch in watches):
                    standing = self._renewed(standing, watches)
                if standing is None:
                    time.sleep(TICK_MILLISECONDS / 1000)  # an unwatchable repository is about to be removed
                else:
                    next(standing)
        finally:
            if standing is not None:
                standing.close()

    def _renewed(self, standing: Generator[None] | None, watches: "list[Watch]") -> Generator[None] | None:
        """Return a kernel watch with the new repositories. It begins before the old one ends, so no event is lost."""
        kept = [watch for watch in watches if watch.is_there() and watch.is_closed()]
        fresh = _kernel_watch(kept, stop=self) if kept else None
        try:
            if fresh is not None:
                next(fresh)
        except ERRORS as error:
            for watch in kept:
                if watch.is_new:
                    watch.fail(error)
            return standing
        if standing is not None:
            next(standing)
            standing.close()
        for watch in kept:
            watch.begin()
        return fresh


def _kernel_watch(watches: "list[Watch]", *, stop: Watcher) -> Generator[None]:
    """Watch the refs of many repositories: yield when the watch begins, and then after each tick of at most a tenth of
    a second. Raises ERRORS.
    """
    by_refs: dict[str, list[Watch]] = {}
    for watch in watches:
        by_refs.setdefault(str(watch.refs), []).append(watch)
    changes = watchfiles.watch(
        *by_refs,
        watch_filter=None,  # the default one leaves out everything in `.git`
        debounce=DEBOUNCE_MILLISECONDS,
        step=STEP_MILLISECONDS,
        rust_timeout=TICK_MILLISECONDS,
        yield_on_timeout=True,
        stop_event=stop,
        raise_interrupt=False,
        force_polling=False,
    )
    turn = deque(watches)
    with contextlib.closing(changes):
        changed: set[FileChange] = next(changes, set())
        yield
        while True:
            for _, name in changed:
                if not name.endswith(".lock"):
                    for watch in by_refs.get(_watched_folder(name, by_refs), []):
                        watch.wake()
            for _ in range(min(REPOSITORIES_A_TICK, len(turn))):
                turn[0].check()
                turn.rotate(-1)
            yield
            changed = next(changes, set())


def _watched_folder(name: str, watched: Collection[str]) -> str:
    while name not in watched and len(name) > 1:
        name = os.path.dirname(name)  # noqa: PTH120 - thousands of these a second after a push
    return name


class Watch:
    """The state of one watched repository in the thread."""

    refs: Path  # watched with everything below it

    def __init__(self, path: Path, wake: Callable[[], None]) -> None:
        self.path = path
        self.wake = wake  # wakes the listener; call it from any thread
        self.failure: WatchEnded | None = None
        self.is_new = True
        self._folders: tuple[Path, ...] = ()
        self._identities: list[FolderIdentity] = []
        self._files: tuple[Path, ...] = ()  # replaced whenever they change; and the folder of branches
        self._facts: list[FileFact] = []

    def is_there(self) -> bool:
        """Return True if the repository is unchanged in its place; for a new one, if it is a repository."""
        if self.failure is None:
            try:
                self._check()
            except ERRORS as error:
                self.fail(error)
        return self.failure is None

    def is_closed(self) -> bool:
        """Return True if there is no link in its folder of refs: a watch would follow it out of the folder."""
        try:
            for number, path in enumerate(self.refs.rglob("*")):
                if number == MOST_REFS:
                    raise ValueError(f"it has more than {MOST_REFS} refs in files of their own")
                if path.is_symlink():
                    raise ValueError("there is a link among its refs")
        except ERRORS as error:
            self.fail(error)
        return self.failure is None

    def begin(self) -> None:
        """Record that the kernel watches it now. Earlier changes are unknown."""
        if self.is_new:
            self.is_new = False
            self.wake()

    def check(self) -> None:
        """Check the files that the kernel does not watch."""
        if self.is_there():
            before, self._facts = self._facts, list(map(_fact, self._files))
            if self._facts != before:
                self.wake()

    def fail(self, error: Exception) -> None:
        """Report that it cannot be watched any longer."""
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        self.failure = WatchEnded(f"{self.path} cannot be watched ({reason}); it is polled instead")
        self.is_new = False
        self.wake()

    def _check(self) -> None:
        if not self._folders:
            own, common = LocalRepository(self.path, reader=os.geteuid()).folders()
            self.refs = common / "refs"
            self._folders = (self.path, common, self.refs)
            self._identities = list(map(_identity, self._folders))
            # watchfiles empties its list of changes after reading it, so a change in between is lost. Therefore the
            # folder of branches is checked too: its time changes with every branch that is written.
            names = ("HEAD", "packed-refs", "reftable/tables.list", "refs/heads")
            self._files = (own / "HEAD", *(common / name for name in names))
            self._facts = list(map(_fact, self._files))
        elif self._identities != list(map(_identity, self._folders)):
            raise FileNotFoundError(0, "its folder was removed or replaced")


def _identity(folder: Path) -> FolderIdentity:
    status = folder.stat()
    return status.st_dev, status.st_ino


def _fact(file: Path) -> FileFact:
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
