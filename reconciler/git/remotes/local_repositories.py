"""Repositories on this machine: the checks of links that lead git to other places, and the folders of refs.

The owner of a repository chooses its links, its alternates, and files that name another folder. Git follows them with
the rights of the service's user, for example to the objects of a repository that this owner may not read. So they count
only if root or the service's own user wrote them, in a repository of either. Links from refs or settings reveal
nothing: without the objects nothing is fetched, and git's messages about such a repository are never shown. Links to
single objects are not checked, because nobody knows the name of an object without its content.
"""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.remotes.credentials import this_user
from reconciler.settings import bounded_io

ROOT = 0
FILE_BYTES = 64 * 1024  # of a file that names another place
MOST_STORES = 16  # folders of objects: its own, its alternates and theirs
MOST_IN_STORE = 4096  # entries of a folder of objects: 256 folders, two more, and leftovers of a killed git

_HEAD = re.compile(rb"ref:\s*refs/|[0-9a-fA-F]{40}")  # the content of a valid HEAD


class Astray(ValueError):
    """The repository leads to a forbidden place. The message continues `is not read, since `."""


class NoRepository(ValueError):
    """There is no repository."""


class RepositoryFolders(NamedTuple):
    """The folders of a repository: that of this working tree, and the one that all working trees share."""

    own: Path
    common: Path


class LocalRepository:
    """The rules for links to other places. `reader` is the reading user; nothing may lead into `state`."""

    def __init__(self, folder: Path, *, reader: int, state: Path | None = None) -> None:
        self._folder = folder
        self._trusted = frozenset({ROOT, reader})
        self._state = None if state is None else state.resolve()

    def folders(self) -> RepositoryFolders:
        """Return the folders of the repository. Raises Astray, NoRepository, OSError."""
        owner = self._folder.stat().st_uid
        if not set(_link_owners(self._folder)) <= self._trusted | {owner}:
            raise Astray("its path goes through a link to what does not belong to the owner of the link")
        own = path = self._folder.resolve(strict=True)
        if self._leads(path, ".git"):
            own = _named(path / ".git", before="gitdir: ")
        elif (path / ".git").is_dir():
            own = path / ".git"
        common = _named(own / "commondir") if self._leads(own, "commondir") else own
        for place in (own / "HEAD", common / "config", common / "refs", common / "objects"):
            mode = os.R_OK | os.X_OK if place.is_dir() else os.R_OK
            if place.exists() and not os.access(place, mode, effective_ids=True):
                raise PermissionError(0, "it may not be read", str(place))
        # If this is no repository, git would try the folder beside it.
        is_there = (common / "objects").is_dir() and (common / "refs").is_dir()
        if not is_there or not _HEAD.match(_read(own / "HEAD")):
            raise NoRepository
        self._leads(common, "objects")
        self._check_stores(common / "objects")
        return RepositoryFolders(own.resolve(), common.resolve())

    def _leads(self, base: Path, name: str) -> bool:
        """Return True if a link or a file leads to another place. Raises Astray if that is forbidden."""
        try:
            status = os.lstat(base / name)
        except (FileNotFoundError, NotADirectoryError):
            return False
        if stat.S_ISDIR(status.st_mode):
            return False
        if not {status.st_uid, base.stat().st_uid} <= self._trusted:
            raise Astray(f"its {name} leads elsewhere, and another user wrote it")
        return not (base / name).is_dir()

    def _check_stores(self, own: Path) -> None:
        """Check its own folder of objects, its alternates, and theirs."""
        waiting, checked = [own], set[Path]()
        while waiting:
            store = waiting.pop().resolve()
            if store in checked or not store.is_dir():
                continue
            if self._state is not None and store.is_relative_to(self._state):
                raise Astray("its objects are in `stateDir`")
            checked.add(store)
            if len(checked) > MOST_STORES:
                raise Astray(f"it has more than {MOST_STORES - 1} alternates")
            for link in _links(store):
                self._leads(store, link)
            for link in _links(store / "info"):
                self._leads(store / "info", link)
            if self._leads(store / "info", "alternates"):
                # Git removes `..` from the text of a path, with the name before it, even if that is a link.
                lines = os.fsdecode(_read(store / "info/alternates")).split("\n")
                paths = (os.path.join(store, line) for line in lines if line and not line.startswith("#"))  # noqa: PTH118
                waiting += [Path(os.path.normpath(path)) for path in paths]


def _link_owners(path: Path) -> Iterator[int]:
    """Yield the owners of the links on a path, and on the paths that these name."""
    for place in (*reversed(path.parents), path):
        if place.is_symlink():
            yield place.lstat().st_uid
            yield from _link_owners(place.parent.resolve() / place.readlink())


def _links(folder: Path) -> Iterator[str]:
    """Yield the links in a folder of objects."""
    if not folder.is_dir():
        return
    with os.scandir(folder) as entries:
        for number, entry in enumerate(entries):
            if number == MOST_IN_STORE:
                raise Astray(f"its objects have more than {MOST_IN_STORE} entries")
            if entry.is_symlink():
                yield entry.name


def _named(file: Path, *, before: str = "") -> Path:
    """Return the folder that a file of one line names."""
    text = os.fsdecode(_read(file).rstrip(b"\r\n"))
    if not text.startswith(before) or text == before:
        raise NoRepository
    return file.parent / text.removeprefix(before)


def _read(path: Path) -> bytes:
    try:
        return bounded_io.read_file(path, limit=FILE_BYTES)
    except bounded_io.NotAFile:
        raise Astray(f"its {path.name} is not a file") from None
    except bounded_io.FileTooLarge:
        raise Astray(f"its {path.name} is larger than {FILE_BYTES} bytes") from None


def check_repository(url: str, folder: Path, *, state: Path) -> None:
    """Check a repository before git opens it. Raises GitFault if it must not be read."""
    is_lasting = True
    try:
        LocalRepository(folder, reader=os.geteuid(), state=state).folders()
        return
    except Astray as astray:
        told = f"is not read, since {astray}; let its owner mend that, or correct `url`"
    except PermissionError as denied:
        told = f"cannot be read by this user; let the user {this_user()} read {denied.filename}"
        is_lasting = False
    except (NoRepository, OSError, ValueError):
        is_lasting = folder.exists()
        never = "is not a Git repository; make one there" if is_lasting else "does not exist; put it there"
        told = f"{never}, or correct `url`"
    raise GitFault(RepositoryState.UNREACHABLE, f"{url} {told}", lasting=is_lasting)
