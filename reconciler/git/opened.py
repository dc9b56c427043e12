"""A repository opened so that something can be made in it, a merge for instance, and nothing reaches a disk.

Belongs here: opening and closing it, its commits, and the options of merges. Does not: how memory takes what is written
(`memory`), the merge itself (`merging`), where a repository is.
"""

from pathlib import Path
from types import TracebackType
from typing import Any

import pygit2
from pygit2.enums import RepositoryOpenFlag

from reconciler.git import snapshots
from reconciler.git.memory import MemoryObjects
from reconciler.git.snapshots import Snapshot

MAX_RENAMES = 1000  # files that came, or went, to be compared with one another

_NOBODY = pygit2.Signature("Reconciler", "reconciler@localhost", 0, 0)  # the same merge has the same id


class Merger(pygit2.Repository):
    """Objects alone, for merges: without a folder there is no configuration, no index and no file of attributes."""

    @staticmethod
    def _merge_options(*arguments: Any) -> Any:
        options = pygit2.Repository._merge_options(*arguments)
        options.target_limit = MAX_RENAMES
        return options


class MemoryRepository:
    """Where merges can be made: what is written to it stays in memory, until it is closed. Of one thread.

    `damaged` is what to say of an object that is not there whole, `deepen` what to do when a history is cut off.
    Raises what pygit2 raises when it cannot be opened, and Refused when libgit2 cannot merge in memory.
    """

    def __init__(self, path: Path, *, damaged: str, deepen: str, objects: pygit2.Odb | None = None) -> None:
        snapshots.ignore_configuration_of_others()
        self.git = pygit2.Repository(str(path), RepositoryOpenFlag.NO_SEARCH | RepositoryOpenFlag.BARE)
        if objects is not None:
            self.git.set_odb(objects)
        self.memory = MemoryObjects(self.git)
        self.merger = Merger()
        self.merger.set_odb(self.git.odb)
        self.damaged = damaged
        self.deepen = deepen

    def close(self) -> None:
        """Give back files and memory; snapshots of it end with it."""
        self.merger.free()
        self.git.free()

    def __enter__(self) -> "MemoryRepository":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def snapshot(self, commit: str) -> Snapshot:
        """One commit by its full id. Raises GitFault when it is not there."""
        with snapshots.damage(self.damaged):
            found = self.git[commit]
            if not isinstance(found, pygit2.Commit):
                raise ValueError("not a commit")
        return Snapshot(self.git, found, damaged=self.damaged, memory=self.memory)

    def commit(self, tree: str, *parents: str) -> str:
        """A commit of a tree, in memory."""
        with snapshots.damage(self.damaged):
            made = self.git.create_commit(None, _NOBODY, _NOBODY, "", pygit2.Oid(hex=tree), list(parents))
        return str(made)
