"""Watching a repository on this machine for new commits. The only module that imports watchfiles.

An event says "look again" and nothing more: refs are packed, deleted and written again, and none of that is a news by
itself. Events can be lost (network disks, overlays), so whoever listens polls too.
"""

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import NamedTuple, TypeAlias

import watchfiles

from reconciler.errors import Transient

STEP_MILLISECONDS = 20  # how long refs must be quiet before an event is told
DEBOUNCE_MILLISECONDS = 100  # when refs are never quiet, an event is told after so long
TICK_MILLISECONDS = 100  # how often the few files outside `refs` are looked at
GITFILE_BYTES = 64 * 1024

Fact: TypeAlias = tuple[int, ...] | None  # what stat(2) tells of a file that was replaced or removed


class WatchEnded(Transient):
    """The repository cannot be watched (any longer): it vanished, was replaced, or the system refuses. Poll it."""


class Places(NamedTuple):
    """Where a repository keeps what names its commits."""

    refs: Path  # watched with everything below it
    folders: tuple[Path, ...]  # when one of these is another one than before, the watch is blind
    files: tuple[Path, ...]  # replaced whenever they change; and the folder of branches, see `find`


async def events(path: Path, *, stop: asyncio.Event) -> AsyncGenerator[None, None]:
    """Yield once when the watch stands, since what came before it is unknown, then after every change of a ref.

    Changes that come together, or while the consumer is busy, are one event. Ends soon after `stop` is set. Raises
    WatchEnded when the repository cannot be watched (any longer); poll until a new watch can be had.
    """
    loop = asyncio.get_running_loop()
    watch = Watch(path)
    woken = asyncio.Event()

    def wake() -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody listens any more
            loop.call_soon_threadsafe(woken.set)

    stopped = asyncio.create_task(stop.wait(), name=f"stop watching {path}")
    stopped.add_done_callback(lambda _: woken.set())
    # A thread of its own: watchfiles' own asynchronous way holds one of the 40 threads that all of anyio shares.
    threading.Thread(target=watch.run, args=(wake,), name=f"watch {path}").start()
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
        watch.stopping.set()
        stopped.cancel()


class Watch:
    """The thread's side: it watches until `stopping` is set, or leaves the reason why it cannot in `failure`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stopping = threading.Event()
        self.failure: WatchEnded | None = None

    def is_set(self) -> bool:
        """Whether to end: also when the program ends and nobody could say so, since Python waits for this thread."""
        return self.stopping.is_set() or not threading.main_thread().is_alive()

    def run(self, wake: Callable[[], None]) -> None:
        """Call `wake` when the watch stands, after changes, and at the end."""
        try:
            self._watch(wake)
        except (OSError, RuntimeError, ValueError) as error:  # watchfiles' own error is a RuntimeError
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            self.failure = WatchEnded(f"{self.path} cannot be watched ({reason}); it is polled instead")
        wake()

    def _watch(self, wake: Callable[[], None]) -> None:
        places = find(self.path)
        identities = [_identity(folder) for folder in places.folders]
        facts: list[Fact] | None = None
        changes = watchfiles.watch(
            places.refs,
            watch_filter=None,  # the default one leaves out everything in `.git`
            debounce=DEBOUNCE_MILLISECONDS,
            step=STEP_MILLISECONDS,
            rust_timeout=TICK_MILLISECONDS,
            yield_on_timeout=True,
            stop_event=self,
            raise_interrupt=False,
            force_polling=False,
        )
        for changed in changes:
            if identities != [_identity(folder) for folder in places.folders]:
                raise FileNotFoundError(0, "its folder was removed or replaced")
            before, facts = facts, [_fact(file) for file in places.files]
            if facts != before or any(not name.endswith(".lock") for _, name in changed):
                wake()


def find(path: Path) -> Places:
    """The places of a bare repository, an ordinary one or a linked worktree. Raises OSError or ValueError."""
    own = _git_folder(path)
    common = own
    with contextlib.suppress(FileNotFoundError):  # only a linked worktree has this file
        common = own / _line(own / "commondir")
    if not (common / "refs").is_dir() or not (own / "HEAD").exists():
        raise ValueError("it is not a Git repository")
    # watchfiles empties its list of changes after it has looked at it, and what comes in between is lost. So the folder
    # of branches is looked at as well: its time changes with every branch that is written in it.
    heads = common / "refs/heads"
    files = (own / "HEAD", common / "HEAD", common / "packed-refs", common / "reftable/tables.list", heads)
    return Places(common / "refs", (path, common, common / "refs"), files)


def _git_folder(path: Path) -> Path:
    inside = path / ".git"
    if inside.is_file():  # a linked worktree or a submodule: the file names the folder
        return path / _line(inside).removeprefix("gitdir:").strip()
    return inside if inside.is_dir() else path


def _line(path: Path) -> str:
    with path.open("rb") as file:
        return os.fsdecode(file.read(GITFILE_BYTES)).strip()


def _identity(folder: Path) -> tuple[int, int]:
    status = folder.stat()
    return status.st_dev, status.st_ino


def _fact(file: Path) -> Fact:
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
