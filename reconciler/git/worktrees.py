"""What stands in a worktree, as a tree in memory: tracked files as they are, and untracked ones that are not ignored.

Files are taken as their bytes are: no filter, no conversion of line ends, no program that a repository's configuration
names. A file that git's index knows to be unchanged is taken from there, so that what a filter made is no change.

Ignored is what git ignores: by .gitignore, by .git/info/exclude and by the core.excludesFile of the person. For that,
and for what makes a file a changed one (core.fileMode and the like), the person's own configuration counts.
"""

import contextlib
import errno
import os
import posixpath
import stat
from collections.abc import Iterator
from pathlib import Path

import pygit2
from pygit2.enums import DeltaStatus, DiffOption, FileMode, RepositoryOpenFlag
from pygit2.ffi import C

from reconciler.git import merging, snapshots, trees
from reconciler.git.opened import MemoryRepository
from reconciler.model import positions
from reconciler.model.errors import Refused

MAX_BYTES = 256 << 20  # 256 MiB, of all files that are not committed: they are held in memory

SKIP_WORKTREE = 1 << 14  # GIT_INDEX_ENTRY_SKIP_WORKTREE, of the extended flags

# By what libgit2 calls them: what an index may have that it cannot read.
_EXTENSIONS = {
    "extension: 'link'": "has a split index, which is not supported; `git update-index --no-split-index` ends that",
    "extension: 'sdir'": "has a sparse index, which is not supported; `git sparse-checkout reapply --no-sparse-index`"
    " ends that",
}
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_COMPARED = (
    DiffOption.INCLUDE_UNTRACKED
    | DiffOption.RECURSE_UNTRACKED_DIRS
    | DiffOption.INCLUDE_TYPECHANGE
    | DiffOption.INCLUDE_UNREADABLE
    | DiffOption.INCLUDE_UNREADABLE_AS_UNTRACKED  # a folder, which would make the whole comparison fail
    | DiffOption.IGNORE_SUBMODULES  # they stay as they are, and are not opened
    | DiffOption.SKIP_BINARY_CHECK
)


def worktree_tree(repository: MemoryRepository, place: Path, root: Path) -> str:
    """The id of the tree of the worktree at `root`; `place` is its own folder of Git, which is not written.

    A file with more bytes than a document may have is not held: what stands for it has its size, and cannot be read.
    Raises Refused for what cannot be read, for more than may be held, and while a merge is not resolved.
    """
    try:
        with snapshots.configuration_of_the_person():
            worktree = pygit2.Repository(str(place), RepositoryOpenFlag.NO_SEARCH)
            try:
                return _tree(repository, worktree, root)
            finally:
                worktree.free()
    except (pygit2.GitError, KeyError, ValueError, OSError) as error:
        told = next((told for extension, told in _EXTENSIONS.items() if extension in str(error)), None)
        told = told or f"cannot be read ({error}); see what `git status` says"
        raise Refused(f"the worktree {root} {told}") from error


def _tree(repository: MemoryRepository, worktree: pygit2.Repository, root: Path) -> str:
    index = worktree.index
    _check_resolved(index)
    changed = [(one.status, one.new_file) for one in index.diff_to_workdir(_COMPARED).deltas]
    _Taking(repository, root, index).take(changed)
    return str(index.write_tree(repository.git))


def _check_resolved(index: pygit2.Index) -> None:
    if index.conflicts is not None:
        names = ", ".join(merging.names(index)[: merging.MAX_SHOWN])
        raise Refused(f"a merge in the worktree is not resolved: {names}; resolve it, and `git add` the files")


class _Taking:
    """Brings the changes of a worktree into its index, in memory."""

    def __init__(self, repository: MemoryRepository, root: Path, index: pygit2.Index) -> None:
        self._repository = repository
        self._root = os.fsencode(root)
        self._index = index
        self._left = MAX_BYTES

    def take(self, changed: list[tuple[DeltaStatus, pygit2.DiffFile]]) -> None:
        """Bring in all of them. What is gone goes first: a folder may stand where a file was."""
        gone = [file for status, file in changed if status is DeltaStatus.DELETED]
        # What is gone is not looked for: a folder above it may be a link by now, which leads to another place.
        for file in gone:
            if not self._is_left_out(file):
                self._check_listed(posixpath.dirname(file.raw_path))
                self._index.remove(os.fsdecode(file.raw_path))
        for status, file in changed:
            if status is not DeltaStatus.DELETED and not file.raw_path.endswith(b"/"):  # another repository inside
                self._bring(file)

    def _is_left_out(self, file: pygit2.DiffFile) -> bool:
        """Whether a file is absent because a sparse checkout leaves it out. pygit2 has no other way to know."""
        entry = C.git_index_get_bypath(self._index._index, file.raw_path, 0)
        return bool(entry and entry.flags_extended & SKIP_WORKTREE)

    def _check_listed(self, folder: bytes) -> None:
        """Raise Refused for a folder that cannot be listed: to libgit2 it is empty."""
        path = os.path.join(self._root, folder)  # noqa: PTH118 - bytes, which no Path can be made of
        with _named(folder), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if stat.S_ISDIR(os.lstat(path).st_mode) and not os.access(path, os.R_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    def _bring(self, file: pygit2.DiffFile) -> None:
        with _named(file.raw_path), contextlib.suppress(FileNotFoundError):  # it may have gone in the meantime
            blob, mode = self._stored(file)
            if blob is not None:
                self._index.add(pygit2.IndexEntry(os.fsdecode(file.raw_path), blob, mode))

    def _stored(self, file: pygit2.DiffFile) -> tuple[pygit2.Oid | None, FileMode]:
        path = os.path.join(self._root, file.raw_path)  # noqa: PTH118 - bytes, which no Path can be made of
        if stat.S_ISLNK(os.lstat(path).st_mode):
            return self._repository.git.create_blob(os.readlink(path)), FileMode.LINK  # noqa: PTH115 - the same
        descriptor = os.open(path, _FLAGS)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return None, FileMode.UNREADABLE
            executable = file.mode == FileMode.BLOB_EXECUTABLE
            return self._content(descriptor, status.st_size), FileMode.BLOB_EXECUTABLE if executable else FileMode.BLOB
        finally:
            os.close(descriptor)

    def _content(self, descriptor: int, size: int) -> pygit2.Oid:
        limit = positions.FILE_LIMITS.bytes
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(limit + 1) if size <= limit else None
        if data is None or len(data) > limit:
            return self._too_large(max(size, limit + 1))
        self._left -= len(data)
        if self._left < 0:
            raise Refused(
                f"the worktree has more than {MAX_BYTES >> 20} MiB of files that are not committed; "
                "commit them, or let git ignore what does not belong to the repository"
            )
        return self._repository.git.create_blob(data)

    def _too_large(self, size: int) -> pygit2.Oid:
        """What stands for a file that no reader would take: a line, which has the file's size for whoever asks."""
        blob = self._repository.git.create_blob(f"This stands for a file of {size} bytes.\n".encode())
        self._repository.memory.sizes[str(blob)] = size
        return blob


@contextlib.contextmanager
def _named(path: bytes) -> Iterator[None]:
    """Name what cannot be read."""
    try:
        yield
    except OSError as error:
        why = f"{trees.escaped_path(path)} cannot be read ({error.strerror})"
        raise Refused(f"{why}; let yourself read it, or let git ignore it") from None
