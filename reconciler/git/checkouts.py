"""A checkout of a person or a CI job, and its worktree as a tree in memory."""

import contextlib
import errno
import os
import posixpath
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pygit2
from pygit2.enums import DeltaStatus, DiffOption, FileMode, ObjectType, RepositoryOpenFlag
from pygit2.ffi import C

from reconciler.git import merging, refs, snapshots, trees
from reconciler.git.merging import MemoryRepository, Merged
from reconciler.model import positions
from reconciler.model.errors import Refused

# A worktree as a tree in memory: tracked files as they are, and untracked ones that are not ignored.
#
# The bytes of files are taken without filters, conversion of line ends, or programs from a repository's configuration.
# A file that is unchanged according to git's index is taken from the index, so the work of a filter is no change.
#
# The rules of git decide which files are ignored: .gitignore, .git/info/exclude and the person's core.excludesFile.
# For them, and for settings such as core.fileMode, the person's own configuration is read.

MAX_BYTES = 256 << 20  # 256 MiB, of all files that are not committed: they are in memory

SKIP_WORKTREE = 1 << 14  # GIT_INDEX_ENTRY_SKIP_WORKTREE, of the extended flags

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_COMPARED = (
    DiffOption.INCLUDE_UNTRACKED
    | DiffOption.RECURSE_UNTRACKED_DIRS
    | DiffOption.INCLUDE_TYPECHANGE
    | DiffOption.INCLUDE_UNREADABLE
    | DiffOption.INCLUDE_UNREADABLE_AS_UNTRACKED  # an unreadable folder, which would make the whole comparison fail
    | DiffOption.IGNORE_SUBMODULES  # submodules stay as they are, and are not opened
    | DiffOption.SKIP_BINARY_CHECK
)


def worktree_tree(repository: MemoryRepository, place: Path, root: Path) -> str:
    """Return the id of the tree of the worktree at `root`. `place` is its Git folder, which is not written.

    A file that is too large for a document is replaced by a placeholder with its size, which cannot be read. Raises
    Refused for files that cannot be read, for too many bytes, and while a merge is not resolved.
    """
    try:
        with snapshots.configuration_of_the_person():
            worktree = pygit2.Repository(str(place), RepositoryOpenFlag.NO_SEARCH)
            try:
                index = worktree.index
                if index.conflicts is not None:
                    names = ", ".join([*merging.conflicts(index)][: merging.MAX_SHOWN])
                    told = f"a merge in the worktree is not resolved: {names}; resolve it, and `git add` the files"
                    raise Refused(told)
                changed = [(one.status, one.new_file) for one in index.diff_to_workdir(_COMPARED).deltas]
                _Taking(repository, root, index).take(changed)
                return str(index.write_tree(repository.git))
            finally:
                worktree.free()
    except (pygit2.GitError, KeyError, ValueError, OSError) as error:
        raise Refused(f"the worktree {root} cannot be read ({error}); see what `git status` says") from error


class _Taking:
    """Adds the changes of a worktree to its index, in memory."""

    def __init__(self, repository: MemoryRepository, root: Path, index: pygit2.Index) -> None:
        self._repository = repository
        self._root = os.fsencode(root)
        self._index = index
        self._left = MAX_BYTES

    def take(self, changed: list[tuple[DeltaStatus, pygit2.DiffFile]]) -> None:
        """Add all changes. Deletions come first, because a folder may have replaced a file."""
        gone = [file for status, file in changed if status is DeltaStatus.DELETED]
        # Deleted files are not opened: a folder above one may be a link now, which leads to another place.
        for file in gone:
            if not self._is_left_out(file):
                self._check_listed(posixpath.dirname(file.raw_path))
                self._index.remove(os.fsdecode(file.raw_path))
        for status, file in changed:
            if status is not DeltaStatus.DELETED and not file.raw_path.endswith(b"/"):  # another repository inside
                self._bring(file)

    def _is_left_out(self, file: pygit2.DiffFile) -> bool:
        """Return True if a sparse checkout leaves the file out. pygit2 has no other way to know."""
        entry = C.git_index_get_bypath(self._index._index, file.raw_path, 0)
        return bool(entry and entry.flags_extended & SKIP_WORKTREE)

    def _check_listed(self, folder: bytes) -> None:
        """Raise Refused for a folder that cannot be listed, because libgit2 treats it as empty."""
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
        """Return a placeholder for a file that is too large to be read: a blob of one line. Its size is in `sizes`."""
        blob = self._repository.git.create_blob(f"This stands for a file of {size} bytes.\n".encode())
        self._repository.memory.sizes[str(blob)] = size
        return blob


@contextlib.contextmanager
def _named(path: bytes) -> Iterator[None]:
    """Turn an OSError of the block into a Refused that names the file."""
    try:
        yield
    except OSError as error:
        why = f"{trees.escaped_path(path)} cannot be read ({error.strerror})"
        raise Refused(f"{why}; let yourself read it, or let git ignore it") from None


# The repository of a person or a CI job: its folder, the commits of its names, and its merges.
#
# It is only read, and no program from its configuration is run. So it may belong to another user, as checkouts in CI
# often do: Git refuses such repositories only because they could make it run programs.

MAIN_BRANCHES = ("main", "master")
ORIGIN = "refs/remotes/origin/"
SHOWN_CHARACTERS = 200
PREFIX = re.compile(r"^refs/(heads|tags|remotes)/")
HEAD = re.compile(r"HEAD(?![\w/-])")
OF_ORIGIN = re.compile(r"origin/([A-Za-z0-9][A-Za-z0-9._/-]{0,199})")  # only characters that a shell does not change

DEEPEN = "fetch the rest with `git fetch --unshallow`"
NO_COMMITS = "the repository has no commits yet; commit something first"
DAMAGED = "an object is missing or damaged in this repository; see what `git fsck` says, or clone it again"
PARTIAL = "this is a partial clone, which lacks a file that is needed; clone it without --filter"


class Checkout:
    """One repository with or without a worktree. Use it on one thread, and close it or use a `with` statement."""

    def __init__(self, repository: MemoryRepository, root: Path | None) -> None:
        self._repository = repository
        self._git = repository.git
        self.root = root  # of the worktree

    @classmethod
    def open(cls, folder: Path) -> "Checkout":
        """Open the repository of a folder, or of a folder above it. Raises Refused."""
        snapshots.ignore_configuration_of_others()
        try:
            with _of_anybody():
                place = pygit2.discover_repository(str(folder))
                if place is None:
                    raise Refused(f"there is no Git repository at {folder} or above it; run it in one")
                workdir = pygit2.Repository(place).workdir
                repository = MemoryRepository(Path(place), damaged=DAMAGED, deepen=DEEPEN)
        except (pygit2.GitError, KeyError, ValueError, OSError) as error:
            told = f"the Git repository at {folder} cannot be opened ({error}); see what `git fsck` says"
            raise Refused(told) from error
        if any(entry.name.endswith(".promisor") for entry in repository.git.config):
            repository.damaged = PARTIAL
        return cls(repository, None if workdir is None else Path(workdir))

    def close(self) -> None:
        """Release files and memory. Merges of this repository end with it."""
        self._repository.close()

    def __enter__(self) -> "Checkout":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def remotes(self) -> list[str]:
        """Return the URLs of its remotes, as its configuration has them."""
        return [remote.url for remote in self._git.remotes if remote.url]

    def default_base(self) -> str:
        """Return the full name of the default branch: the one that origin/HEAD names, otherwise main, otherwise master.
        A local branch comes before that of origin. Raises Refused if there is none.
        """
        for name in self._default_bases():
            if self._has(name):
                return name
        if self._has_no_commits():
            raise Refused(NO_COMMITS)
        raise Refused("there is no origin/HEAD and no branch main or master; fetch the base, and name it with --base")

    def resolve(self, name: str) -> tuple[str, str]:
        """Return the name to show and the full id of its commit, as in `git rev-parse`. `HEAD` is shown as its branch.

        Raises Refused if the name has no commit.
        """
        try:
            found = self._git.revparse_single(name if "\0" not in name else "")  # libgit2 would stop at a NUL
            shown = self._branch() if name == "HEAD" else name
            return PREFIX.sub("", shown[:SHOWN_CHARACTERS]), str(found.peel(ObjectType.COMMIT).id)
        except (pygit2.GitError, KeyError, ValueError) as error:
            raise Refused(self._no_commit(name, str(error))) from None

    def worktree_commit(self) -> str:
        """Make a commit in memory of all files of the worktree that git does not ignore, with HEAD as its parent.

        Raises Refused without a worktree, and for unreadable files.
        """
        if self.root is None:
            raise Refused("a bare repository has no worktree; leave out --worktree")
        head = self.resolve("HEAD")[1]
        with _of_anybody():
            tree = worktree_tree(self._repository, Path(self._git.path), self.root)
        return self._repository.commit(tree, head)

    def merge(self, base: str, head: str) -> Merged:
        """Return the merge of two commits: see `merging.merge`. It lives as long as the checkout is open."""
        return merging.merge(self._repository, base, head)

    def _default_bases(self) -> Iterator[str]:
        with contextlib.suppress(pygit2.GitError, KeyError, ValueError):
            target = self._git.lookup_reference(f"{ORIGIN}HEAD").target
            if isinstance(target, str):
                yield target
        for branch in MAIN_BRANCHES:
            yield refs.BRANCHES + branch
            yield ORIGIN + branch

    def _branch(self) -> str:
        """Return the full name of HEAD's branch; `HEAD` if it is detached."""
        with contextlib.suppress(pygit2.GitError, KeyError, ValueError):
            target = self._git.lookup_reference("HEAD").target
            if isinstance(target, str):
                return target
        return "HEAD"

    def _has(self, ref: str) -> bool:
        with contextlib.suppress(pygit2.GitError, KeyError, ValueError):
            return ref in self._git.references
        return False

    def _has_no_commits(self) -> bool:
        return self._git.head_is_unborn and not self._git.raw_listall_references()

    def _no_commit(self, name: str, error: str) -> str:
        shown = refs.shown_name(name)
        if self._has_no_commits() or (HEAD.match(name) and self._git.head_is_unborn):
            return NO_COMMITS
        if "ambiguous" in error:
            return f"{shown} stands for more than one commit; give more digits of its id"
        if found := OF_ORIGIN.fullmatch(name):  # a clone of one branch has no other branch, even a full clone
            fetch = f"git fetch origin +refs/heads/{found[1]}:refs/remotes/origin/{found[1]}"
            return f"there is no commit {shown}; fetch it with `{fetch}`"
        if self._git.is_shallow:
            return f"there is no commit {shown} in this shallow clone; fetch it, or {DEEPEN}"
        return f"there is no commit {shown}; name a branch, a tag or a commit that is here, or fetch it first"


@contextlib.contextmanager
def _of_anybody() -> Iterator[None]:
    """Allow repositories of other owners inside this context. It is a setting of the whole process: keep it short."""
    before = pygit2.settings.owner_validation
    pygit2.settings.owner_validation = False
    try:
        yield
    finally:
        pygit2.settings.owner_validation = before
