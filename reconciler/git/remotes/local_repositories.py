"""Repositories on this machine: the places that they lead git to, and the places of their refs.

Whoever writes a repository chooses its links, its alternates, and the files that name another folder; git follows
them wherever the service's user may read. So each of them counts as the word of those who could have written it: a
stranger's may lead only to what is the stranger's own, and nobody's into the state directory, where other repositories'
commits are. Root and the service's own user are no strangers. Links to single objects are not checked: their names tell
nothing to somebody who does not know the content, and there are too many.
"""

import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.remotes import credentials
from reconciler.model.names import check_ref_name
from reconciler.settings import bounded_io

# This is done before every git, and `pathlib` would take more than half of its time.
# ruff: noqa: PTH109, PTH115, PTH116, PTH118, PTH119, PTH120


ROOT = 0
FILE_BYTES = 64 * 1024  # of a file that names something else
MOST_LINKS = 40  # on the way to one thing, as the kernel has it
MOST_SYMBOLIC = 5  # refs that name a ref, as git has it
MOST_STORES = 16  # folders of objects: its own, its alternates and theirs
MOST_IN_STORE = 4096  # entries of a folder of objects: 256 folders, two more, and what a killed git left

# All that git opens in either folder, the outer ones first.
FILES = (
    "config",
    "config.worktree",
    "packed-refs",
    "shallow",
    "info",
    "info/attributes",
    "info/grafts",
    "refs",
    "reftable",
    "reftable/tables.list",
)
OF_OBJECTS = (
    "info",
    "info/alternates",
    "info/commit-graph",
    "info/commit-graphs",
    "info/commit-graphs/commit-graph-chain",
    "pack",
    "pack/multi-pack-index",
)

_HEAD = re.compile(rb"ref:\s*refs/|[0-9a-fA-F]{40}")  # what git takes for a HEAD
_SYMBOLIC = b"ref:"

Owners: TypeAlias = frozenset[int]


class Astray(ValueError):
    """It leads where it must not. The words go on after `is not read, since `."""


class NoRepository(ValueError):
    """There is none: `is_gone` when a file names one that was there."""

    def __init__(self, *, is_gone: bool = False) -> None:
        super().__init__("it is not a Git repository")
        self.is_gone = is_gone


class RepositoryFolders(NamedTuple):
    """The folders of a repository: that of this working tree alone, and the one that all of them share."""

    own: Path
    common: Path


class FoundRepository(NamedTuple):
    """The end of a path, without links. `owners` are those of the links on the way."""

    path: str
    owner: int
    mode: int
    owners: Owners


class RepositoryReach:
    """The rules for links and files that lead git elsewhere. `state`: the folder where nothing may lead."""

    def __init__(self, *, reader: int, state: Path | None) -> None:
        self._friends = frozenset({ROOT, reader})
        self._state = None if state is None else f"{os.path.realpath(state).rstrip('/')}/"

    def judge(self, folder: Path, names: Iterable[str] = ()) -> RepositoryFolders:
        """Return where the repository is. `names` are the refs that are followed.

        Raises Astray, NoRepository, OSError.
        """
        top = find_repository(os.fspath(folder))
        self._check("its path", top, top.owners)
        authors = frozenset({top.owner})
        folders = self._folders(top.path, authors)
        for base in dict.fromkeys(folders):
            for name in FILES:
                self._entry(base, name, authors)
            judged: set[str] = set()
            for name in ("HEAD", *names):
                self._ref(base, name, authors, judged)
        own, common = folders
        self._stores(common, authors)
        return RepositoryFolders(Path(own), Path(common))

    # Where git finds it

    def _folders(self, top: str, authors: Owners) -> tuple[str, str]:
        """As git does it: `.git`, or else the folder itself."""
        inside = self._entry(top, ".git", authors)
        if inside is not None and stat.S_ISREG(inside.mode):
            own = self._named(f"{top}/.git", authors)
            folders = None if own is None else self._at(own, authors)
            if folders is None:
                raise NoRepository(is_gone=own is None)
            return folders
        folders = None if inside is None else self._at(inside.path, authors)
        folders = folders or self._at(top, authors)
        if folders is None:  # git would go on to a folder beside it
            raise NoRepository
        return folders

    def _named(self, gitfile: str, authors: Owners) -> str | None:
        """The folder that a file `.git` names; None when it is gone."""
        kind, _, name = _text(gitfile).partition("gitdir: ")
        if kind or not name:
            raise NoRepository
        place = self._led(".git", os.path.join(os.path.dirname(gitfile), name), authors | {os.stat(gitfile).st_uid})
        return None if place is None else place.path

    def _at(self, own: str, authors: Owners) -> tuple[str, str] | None:
        """The folders of a repository that is here; None when git takes it for none."""
        common = own
        pointer = self._entry(own, "commondir", authors)
        if pointer is not None:  # only a linked worktree has this file
            target = os.path.join(own, _text(f"{own}/commondir"))
            place = self._led("commondir", target, authors | {pointer.owner})
            if place is None:
                return None
            common = place.path
        modes = (_mode(f"{common}/{name}") for name in ("objects", "refs"))
        is_there = _is_head(f"{own}/HEAD") and all(mode is not None and stat.S_ISDIR(mode) for mode in modes)
        return (own, common) if is_there else None

    # What is in it

    def _entry(self, base: str, name: str, authors: Owners) -> FoundRepository | None:
        """Return what is there by this name; None when nothing is."""
        path = f"{base}/{name}"
        try:
            status = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if stat.S_ISLNK(status.st_mode):
            return self._led(name, path, authors | {status.st_uid})
        return _plain(name, FoundRepository(path, status.st_uid, status.st_mode, frozenset()))

    def _led(self, name: str, target: str, authors: Owners) -> FoundRepository | None:
        """Return the target of something that `authors` wrote; None when there is nothing, which a friend may say."""
        try:
            place = find_repository(target)
        except (OSError, ValueError):  # a stranger is not told what there is and what not
            if authors - self._friends:
                raise Astray(_foreign(f"its {name}")) from None
            return None
        self._check(f"its {name}", place, authors | place.owners)
        return _plain(name, place)

    def _check(self, what: str, place: FoundRepository, authors: Owners) -> None:
        if authors - self._friends - {place.owner}:  # first: a stranger is told the same whatever there is
            raise Astray(_foreign(what))
        if self._state is not None and f"{place.path}/".startswith(self._state):
            raise Astray(f"{what} leads into `stateDir`")

    def _ref(self, base: str, name: str, authors: Owners, judged: set[str]) -> None:
        """The file of a ref, the folders it is in, and those of the refs that it names in turn; each but once."""
        for _ in range(MOST_SYMBOLIC + 1):
            if name in judged:
                return
            judged.add(name)
            following = self._symbolic(base, name, authors)
            if following is None:
                return
            name = following

    def _symbolic(self, base: str, name: str, authors: Owners) -> str | None:
        """The ref that a ref names; None when it names none, or is not there."""
        if not _is_plain(name):
            raise Astray("its HEAD, or a ref that is followed, names what is no ref")
        *folders, last = (name[: found.end()] for found in re.finditer(r"[^/]+", name))
        if any(self._entry(base, folder, authors) is None for folder in folders):
            return None
        file = f"{base}/{last}"
        try:
            written = os.readlink(file)
        except OSError:  # no link
            written = ""
        is_name = _is_ref(written)  # which git takes for that of another ref
        place = None if is_name and _mode(file) is None else self._entry(base, last, authors)
        if is_name:
            return written
        if place is None or not stat.S_ISREG(place.mode):
            return None
        content = _read(place.path)
        return os.fsdecode(content[len(_SYMBOLIC) :].strip()) if content.startswith(_SYMBOLIC) else None

    # Its objects

    def _stores(self, common: str, authors: Owners) -> None:
        """Its own folder of objects, its alternates, and theirs."""
        own = self._entry(common, "objects", authors)
        waiting = [] if own is None else [(own, authors)]
        judged: set[str] = set()
        while waiting:
            store, who = waiting.pop()
            if store.path not in judged and stat.S_ISDIR(store.mode):
                judged.add(store.path)
                if len(judged) > MOST_STORES:
                    raise Astray(f"it has more than {MOST_STORES - 1} alternates")
                waiting += self._alternates(store.path, who | {store.owner})

    def _alternates(self, store: str, authors: Owners) -> list[tuple[FoundRepository, Owners]]:
        """Judge what is in a folder of objects, and say where else it has objects looked for."""
        for name in OF_OBJECTS:
            self._entry(store, name, authors)
        for link in _links(store):
            self._entry(store, link, authors)
        file = f"{store}/info/alternates"
        try:
            who, text = authors | {os.stat(file).st_uid}, os.fsdecode(_read(file))
        except (FileNotFoundError, NotADirectoryError):
            return []
        if '\n"' in f"\n{text}":
            raise Astray("its objects/info/alternates has a path in quotation marks")
        lines = [line for line in text.split("\n") if line and not line.startswith("#")]
        # Git takes `..` out by the text alone, and so a link before it.
        targets = (os.path.normpath(os.path.join(store, line)) for line in lines)
        places = [self._led("objects/info/alternates", target, who) for target in targets]
        return [(place, who) for place in places if place is not None]


def find_repository(path: str) -> FoundRepository:
    """Return where a path leads, one link after the other. Raises OSError, and ValueError for what is no path."""
    here, left, owners, links = "", _backwards(os.path.join(os.getcwd(), path)), set(), 0
    status = os.lstat("/")
    while left:
        part = left.pop()
        before, here = here, here.rpartition("/")[0] if part == ".." else f"{here}/{part}"
        status = os.lstat(here or "/")
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if links > MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            owners.add(status.st_uid)
            target = os.readlink(here)
            left += _backwards(target)
            here = "" if target.startswith("/") else before
            status = os.lstat(here or "/")
    return FoundRepository(here or "/", status.st_uid, status.st_mode, frozenset(owners))


def _backwards(path: str) -> list[str]:
    """Its parts, the last one first."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]


def _links(store: str) -> Iterator[str]:
    """The links among the folders of objects."""
    with os.scandir(store) as entries:
        for number, entry in enumerate(entries):
            if number == MOST_IN_STORE:
                raise Astray(f"its objects have more than {MOST_IN_STORE} entries")
            if entry.is_symlink():
                yield entry.name


def _plain(name: str, place: FoundRepository) -> FoundRepository:
    if not (stat.S_ISREG(place.mode) or stat.S_ISDIR(place.mode)):
        raise Astray(f"its {name} is neither a file nor a folder")
    return place


def _foreign(what: str) -> str:
    return f"{what} leads to nothing, or to what does not belong to the owner of the repository"


def _mode(path: str) -> int | None:
    """Of what a path leads to; None when that is nothing."""
    try:
        return os.stat(path).st_mode
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        raise


def _is_head(path: str) -> bool:
    try:
        if stat.S_ISLNK(os.lstat(path).st_mode):
            return os.readlink(path).startswith("refs/")
        return _HEAD.match(_read(path)) is not None
    except (FileNotFoundError, NotADirectoryError):
        return False


def _is_ref(name: str) -> bool:
    try:
        check_ref_name(name)
    except ValueError:
        return False
    return name.startswith("refs/")


def _is_plain(name: str) -> bool:
    """Return whether a name leads to something below its folder, by its text."""
    return "\0" not in name and not {"", ".", ".."} & set(name.split("/"))


def _text(path: str) -> str:
    """A file of one line."""
    return os.fsdecode(_read(path).rstrip(b"\r\n"))


def _read(path: str) -> bytes:
    try:
        return bounded_io.read_file(path, limit=FILE_BYTES)
    except bounded_io.NotAFile:
        raise Astray(f"its {os.path.basename(path)} is not a file") from None
    except bounded_io.FileTooLarge:
        raise Astray(f"its {os.path.basename(path)} is larger than {FILE_BYTES} bytes") from None


# Where a repository on this machine keeps what names its commits, and whether that is another one than before.

MOST_REFS = 100_000  # in files and folders

RefIdentity: TypeAlias = tuple[int, int]  # device and inode
RefFact: TypeAlias = tuple[int, ...] | None  # what stat(2) tells of a file that was replaced or removed


class RefPlaces(NamedTuple):
    """The files and folders of a repository that name its commits."""

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
    """Return what a file is now; None when there is none. Raises OSError."""
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


# A check of the files of a repository on this machine before git has it.


def check_repository(url: str, folder: Path, refs: Iterable[str], *, state: Path | None) -> None:
    """Raise the GitFault that keeps a repository from being read."""
    try:
        RepositoryReach(reader=os.geteuid(), state=state).judge(folder, refs)
    except Astray as astray:
        told = f"{url} is not read, since {astray}; let its owner mend that, or correct `url`"
        raise GitFault(RepositoryState.UNREACHABLE, told, lasting=True) from None
    except (NoRepository, OSError, ValueError) as fault:
        told_why = credentials.out_of_reach(url, folder)
        if told_why is not None:
            raise GitFault(RepositoryState.UNREACHABLE, told_why) from None
        never = "is not a Git repository; make one there, or correct `url`"
        if isinstance(fault, NoRepository) and fault.is_gone:
            never = "names a Git repository that is gone; put that back, or correct `url`"
        raise GitFault(RepositoryState.UNREACHABLE, f"{url} {never}", lasting=True) from None
