"""Where a repository on this machine keeps what names its commits, and whether that is another one than before.

Belongs here: looking at files. Does not: when to look, or what a change leads to (`watching`).
"""

import os
from pathlib import Path
from typing import NamedTuple, TypeAlias

from reconciler.remotes.reaching import RepositoryReach

MOST_REFS = 100_000  # in files and folders

RefIdentity: TypeAlias = tuple[int, int]  # device and inode
RefFact: TypeAlias = tuple[int, ...] | None  # what stat(2) tells of a file that was replaced or removed


class RefPlaces(NamedTuple):
    """Where a repository keeps what names its commits."""

    refs: Path  # watched with everything below it
    folders: tuple[Path, ...]  # when one of these is another one than before, the watch is blind
    files: tuple[Path, ...]  # replaced whenever they change; and the folder of branches, see `find`


def find_ref_places(path: Path) -> RefPlaces:
    """The places of a bare repository, an ordinary one or a linked worktree. Raises OSError or ValueError.

    One that leads where it must not is not watched either: to watch is to go through all folders of refs.
    """
    own, common = RepositoryReach(reader=os.geteuid(), state=None).judge(path)
    # watchfiles empties its list of changes after it has looked at it, and what comes in between is lost. So the folder
    # of branches is looked at as well: its time changes with every branch that is written in it.
    heads = common / "refs/heads"
    files = (own / "HEAD", common / "HEAD", common / "packed-refs", common / "reftable/tables.list", heads)
    return RefPlaces(common / "refs", (path, common, common / "refs"), files)


def check_refs(refs: Path) -> None:
    """Raise OSError or ValueError when to watch a folder of refs is to watch what is not in it: links are followed."""
    waiting, seen = [refs], 0
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                seen += 1
                if seen > MOST_REFS:
                    raise ValueError(f"it has more than {MOST_REFS} refs in files of their own")
                if entry.is_symlink():
                    raise ValueError("there is a link among its refs")
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(Path(entry.path))


def ref_identity(folder: Path) -> RefIdentity:
    """Which folder it is. Raises OSError."""
    status = folder.stat()
    return status.st_dev, status.st_ino


def ref_fact(file: Path) -> RefFact:
    """What a file is now; None when there is none. Raises OSError."""
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
