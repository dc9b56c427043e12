"""A look at the files of a repository on this machine before git has it, and what people are told of it.

Belongs here: the thread, its time, the sentences. Does not: the rule (`reaching`).
"""

import asyncio
import contextlib
import os
import threading
from collections.abc import Iterable
from pathlib import Path

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.remotes import permissions
from reconciler.remotes.mirrors import SLOW_DISK
from reconciler.remotes.reaching import Astray, NoRepository, RepositoryReach

THREAD_NAME = "inspect a repository"


class Inspector:
    """Of one repository, called `url`. `state`: the folder where nothing may lead.

    A disk that hangs holds one thread, and never one of those that everybody shares.
    """

    def __init__(self, url: str, folder: Path, *, state: Path) -> None:
        self._url = url
        self._folder = folder
        self._state = state
        self._running: asyncio.Future[Exception | None] | None = None

    async def inspect(self, refs: Iterable[str], *, seconds: float) -> None:
        """Return when it leads to nothing that it must not. `refs`: the full names that are followed.

        Raises GitFault: unreachable, also when its disk takes longer than `seconds`.
        """
        try:
            async with asyncio.timeout(seconds):
                while self._running is not None:
                    await asyncio.wait([self._running])
                running = self._running = self._started(tuple(refs))
                await asyncio.wait([running])
        except TimeoutError:
            told = f"{self._url} did not answer within {seconds:g} seconds; {SLOW_DISK}"
            raise GitFault(RepositoryState.UNREACHABLE, told) from None
        if (fault := running.result()) is not None:
            raise fault

    def _started(self, refs: tuple[str, ...]) -> asyncio.Future[Exception | None]:
        loop = asyncio.get_running_loop()
        ended = loop.create_future()

        def end(fault: Exception | None) -> None:
            self._running = None
            ended.set_result(fault)

        def work() -> None:
            try:
                fault: Exception | None = why_unreadable(self._url, self._folder, refs, state=self._state)
            except Exception as error:  # of the program: who waits is to have it, and not a thread that died unseen
                fault = error
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
                loop.call_soon_threadsafe(end, fault)

        threading.Thread(target=work, name=THREAD_NAME, daemon=True).start()
        return ended


def why_unreadable(url: str, folder: Path, refs: Iterable[str], *, state: Path | None) -> GitFault | None:
    """What keeps a repository from being read; None when nothing does."""
    try:
        RepositoryReach(reader=os.geteuid(), state=state).judge(folder, refs)
    except Astray as astray:
        told = f"{url} is not read, since {astray}; let its owner mend that, or correct `url`"
        return GitFault(RepositoryState.UNREACHABLE, told, lasting=True)
    except (NoRepository, OSError, ValueError) as fault:
        return _none(url, folder, is_gone=isinstance(fault, NoRepository) and fault.is_gone)
    return None


def _none(url: str, folder: Path, *, is_gone: bool) -> GitFault:
    told = permissions.out_of_reach(url, folder)
    if told is not None:
        return GitFault(RepositoryState.UNREACHABLE, told)
    gone = "names a Git repository that is gone; put that back, or correct `url`"
    never = "is not a Git repository; make one there, or correct `url`"
    return GitFault(RepositoryState.UNREACHABLE, f"{url} {gone if is_gone else never}", lasting=True)
