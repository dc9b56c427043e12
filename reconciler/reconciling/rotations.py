"""Whether a file with credentials changed since a repository was looked at: then a look that failed may succeed now.

Belongs here: which files count, and asking after them. Does not: reading them (`remotes/program`), waiting for the next
look (`loops`).
"""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from reconciler import regular_files
from reconciler.reconciling.watched import Watched
from reconciler.regular_files import Identity

LOOK_AGAIN_SECONDS = 2.0  # between two looks at the files

Facts: TypeAlias = tuple[Identity | None, ...]  # None: it is not there, or cannot be reached


def files(watched: Watched) -> tuple[Path, ...]:
    """Every file that decides whether the remote lets this service in, and whether it trusts what it gets."""
    signers = () if watched.signers_file is None else (watched.signers_file,)
    return watched.credentials.files() + signers


def facts(paths: Iterable[Path]) -> Facts:
    """What tells each file from any that takes its place. Links are followed: Kubernetes swaps one above the files."""
    return tuple(map(regular_files.identity, paths))


class Files:
    """Some files, which may stand on a disk that hangs: then one thread waits for it, and nobody else does."""

    def __init__(self, paths: tuple[Path, ...]) -> None:
        self.paths = paths
        self._asked: asyncio.Future[Facts] | None = None

    async def facts(self) -> Facts:
        """The facts, within some seconds; those of files that cannot be reached when it takes longer.

        As long as that thread waits, the answer is the same, at once.
        """
        if not self.paths:
            return ()
        if self._asked is None:
            self._asked = asyncio.get_running_loop().run_in_executor(None, facts, self.paths)
            await asyncio.wait([self._asked], timeout=LOOK_AGAIN_SECONDS)
        if not self._asked.done():
            return (None,) * len(self.paths)
        told, self._asked = self._asked.result(), None
        return told
