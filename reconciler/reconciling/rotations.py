"""Whether a file with credentials changed since a repository was looked at: then a look that failed may succeed now.

Belongs here: which files count, and asking after them. Does not: reading them (`remotes/program`), waiting for the next
look (`loops`).
"""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TypeAlias

from reconciler.reconciling.watched import WatchedRepository
from reconciler.settings import bounded_io
from reconciler.settings.bounded_io import BoundedIO, DiskHangs, FileIdentity

LOOK_AGAIN_SECONDS = 2.0  # between two looks at the files

Facts: TypeAlias = tuple[FileIdentity | None, ...]  # None: it is not there, or cannot be reached


def credential_files(watched: WatchedRepository) -> tuple[Path, ...]:
    """Every file that decides whether the remote lets this service in, and whether it trusts what it gets."""
    signers = () if watched.signers_file is None else (watched.signers_file,)
    return watched.credentials.files() + signers


def file_facts(paths: Iterable[Path]) -> Facts:
    """What tells each file from any that takes its place. Links are followed: Kubernetes swaps one above the files."""
    return tuple(map(bounded_io.file_identity, paths))


class CredentialFiles:
    """Some files, which may stand on a disk that hangs."""

    def __init__(self, paths: tuple[Path, ...]) -> None:
        self.paths = paths
        self._asking = BoundedIO("the files with credentials")

    async def facts(self) -> Facts:
        """The facts, within some seconds; those of files that cannot be reached when it takes longer, and at once as
        long as the disk hangs.
        """
        if not self.paths:
            return ()
        try:
            return await self._asking.answer(partial(file_facts, self.paths), seconds=LOOK_AGAIN_SECONDS)
        except DiskHangs:
            return (None,) * len(self.paths)
