"""A person's or a CI job's own repository: where it is, what its names stand for, and what it would merge to.

Belongs here: finding and opening it, and the commits that names stand for. Does not: the merge (`merging`), files that
are not committed (`worktrees`).

It is only read, and nothing that its configuration names is run. That is why it may belong to somebody else: in CI a
checkout often has another owner than the process, and Git's check of the owner guards from programs that such a
repository could have run.
"""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import pygit2
from pygit2.enums import ObjectType

from reconciler.git import merging, refs, snapshots, worktrees
from reconciler.git.merging import Merged
from reconciler.git.opened import MemoryRepository
from reconciler.model.errors import Refused

MAIN_BRANCHES = ("main", "master")
ORIGIN = "refs/remotes/origin/"
SHOWN_CHARACTERS = 200
PREFIX = re.compile(r"^refs/(heads|tags|remotes)/")
HEAD = re.compile(r"HEAD(?![\w/-])")
OF_ORIGIN = re.compile(r"origin/([A-Za-z0-9][A-Za-z0-9._/-]{0,199})")  # what a shell leaves as it is

DEEPEN = "fetch the rest with `git fetch --unshallow`"
NO_COMMITS = "the repository has no commits yet; commit something first"
DAMAGED = "an object is missing or damaged in this repository; see what `git fsck` says, or clone it again"
PARTIAL = "this is a partial clone, which lacks a file that is needed; clone it without --filter"
EXTENSION = re.compile(r"unsupported extension name extensions\.([A-Za-z0-9-]{1,50})")


class Checkout:
    """One repository with or without a worktree. Of one thread; close it, or use it in a `with` statement."""

    def __init__(self, repository: MemoryRepository, root: Path | None) -> None:
        self._repository = repository
        self._git = repository.git
        self.root = root  # of the worktree

    @classmethod
    def open(cls, folder: Path) -> "Checkout":
        """The repository that a folder is in, or is. Raises Refused."""
        snapshots.ignore_configuration_of_others()
        with _of_anybody(), _understood(folder):
            place = pygit2.discover_repository(str(folder))
            if place is None:
                raise Refused(f"there is no Git repository at {folder} or above it; run it in one")
            workdir = pygit2.Repository(place).workdir
            repository = MemoryRepository(Path(place), damaged=DAMAGED, deepen=DEEPEN)
        if _is_partial(repository.git):
            repository.damaged = PARTIAL
        return cls(repository, None if workdir is None else Path(workdir))

    def close(self) -> None:
        """Give back files and memory; what was merged here ends with it."""
        self._repository.close()

    def __enter__(self) -> "Checkout":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def default_base(self) -> str:
        """The full name of the default branch: what origin/HEAD names, else main, else master, of which one's own comes
        before that of origin. Raises Refused when there is none of them.
        """
        for name in self._default_bases():
            if self._has(name):
                return name
        if self._has_no_commits():
            raise Refused(NO_COMMITS)
        raise Refused("there is no origin/HEAD and no branch main or master; fetch the base, and name it with --base")

    def resolve(self, name: str) -> tuple[str, str]:
        """The name as it is shown, and the full id of the commit that it stands for, as `git rev-parse` has it. `HEAD`
        is shown as the branch that it is on.

        Raises Refused when it stands for none.
        """
        try:
            found = self._git.revparse_single(name if "\0" not in name else "")  # it would stop there
            shown = self._branch() if name == "HEAD" else name
            return PREFIX.sub("", shown[:SHOWN_CHARACTERS]), str(found.peel(ObjectType.COMMIT).id)
        except (pygit2.GitError, KeyError, ValueError) as error:
            raise Refused(self._no_commit(name, str(error))) from None

    def worktree_commit(self) -> str:
        """A commit in memory of all that stands in the worktree and that git does not ignore; its parent is HEAD.

        Raises Refused without a worktree, and for what cannot be read.
        """
        if self.root is None:
            raise Refused("a bare repository has no worktree; leave out --worktree")
        head = self.resolve("HEAD")[1]
        with _of_anybody():
            tree = worktrees.worktree_tree(self._repository, Path(self._git.path), self.root)
        return self._repository.commit(tree, head)

    def merge(self, base: str, head: str) -> Merged:
        """What merging one commit into another gives: see `merging.merge`. It lives as long as the checkout is open."""
        return merging.merge(self._repository, base, head)

    def read_file(self, commit: str, path: str, limit: int) -> bytes | None:
        """A file of a commit; None when there is no such file, or something else. Raises Refused when it has more than
        `limit` bytes.
        """
        snapshot = self._repository.snapshot(commit)
        blob = snapshot.blob(path)
        return None if blob is None else snapshot.read(blob, limit)

    def _default_bases(self) -> Iterator[str]:
        with contextlib.suppress(pygit2.GitError, KeyError, ValueError):
            target = self._git.lookup_reference(f"{ORIGIN}HEAD").target
            if isinstance(target, str):
                yield target
        for branch in MAIN_BRANCHES:
            yield refs.BRANCHES + branch
            yield ORIGIN + branch

    def _branch(self) -> str:
        """The full name of the branch that HEAD is on; `HEAD` on none."""
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
        if found := OF_ORIGIN.fullmatch(name):  # a clone of one branch fetches no other, however deep
            fetch = f"git fetch origin +refs/heads/{found[1]}:refs/remotes/origin/{found[1]}"
            return f"there is no commit {shown}; fetch it with `{fetch}`"
        if self._git.is_shallow:
            return f"there is no commit {shown} in this shallow clone; fetch it, or {DEEPEN}"
        return f"there is no commit {shown}; name a branch, a tag or a commit that is here, or fetch it first"


def _is_partial(repository: pygit2.Repository) -> bool:
    return any(entry.name.endswith(".promisor") for entry in repository.config)


@contextlib.contextmanager
def _of_anybody() -> Iterator[None]:
    """Open repositories whoever owns them. It is a setting of the whole process, so no longer than needed."""
    before = pygit2.settings.owner_validation
    pygit2.settings.owner_validation = False
    try:
        yield
    finally:
        pygit2.settings.owner_validation = before


@contextlib.contextmanager
def _understood(folder: Path) -> Iterator[None]:
    """Say what is wrong with a repository that cannot be opened."""
    try:
        yield
    except (pygit2.GitError, KeyError, ValueError, OSError) as error:
        raise Refused(_told(folder, str(error))) from error


def _told(folder: Path, error: str) -> str:
    extension = EXTENSION.search(error)
    if "object format" in error:
        return f"{folder} uses SHA-256 object names, which are not supported; convert it to SHA-1"
    if extension and extension[1].lower() == "refstorage":
        return f"{folder} keeps its refs as reftable, which is not supported; migrate its refs to files"
    if extension:
        return f"{folder} uses the repository extension {extension[1]}, which is not supported; use a plain clone"
    return f"the Git repository at {folder} cannot be opened ({error}); see what `git fsck` says"
