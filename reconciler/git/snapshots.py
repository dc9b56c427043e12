"""The files of one commit, read from the objects of a mirror or of a checkout."""

import contextlib
import functools
import hashlib
import os
import re
import threading
from collections.abc import Callable, Collection, Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import pygit2
from pygit2.enums import ConfigLevel, ObjectType, RepositoryOpenFlag

from reconciler.git import faults, history, trees
from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.trees import Raw, TreeChange, TreeEntry, TreeFile, TreePlace
from reconciler.model.errors import Refused

MAX_CACHED_BYTES = 16 << 20  # 16 MiB, of all folders that are kept


class MemoryObjects(pygit2.OdbBackend):
    """The objects of a repository. New objects are only in memory, so a merge never reaches a disk.

    Otherwise libgit2 would set the time of a stored object's file, in a repository that is not ours, when it writes the
    same object again. So the repository has only this backend, which reads the stores on disk. `sizes` has the size of
    each large file that a caller replaced by a placeholder, in bytes, by the id of the placeholder.
    """

    def __init__(self, repository: pygit2.Repository) -> None:
        super().__init__()
        self.sizes: dict[str, int] = {}
        self._stored = repository.odb
        self._made: dict[str, tuple[int, bytes]] = {}
        # An object that another one names may be missing: a partial clone lacks files that nobody requested.
        pygit2.settings.enable_strict_object_creation(False)
        objects = pygit2.Odb()
        objects.add_backend(self, 1)
        repository.set_odb(objects)

    # Libgit2 calls these methods by name. Each raises KeyError if there is no such object.

    def read_cb(self, object_id: pygit2.Oid | str) -> tuple[int, bytes]:
        """Return the kind and the content of an object."""
        return self._made.get(str(object_id)) or self._stored.read(object_id)

    def read_header_cb(self, object_id: pygit2.Oid) -> tuple[int, int]:
        """Return the kind and the size of an object."""
        made = self._made.get(str(object_id))
        return self._stored.read_header(object_id) if made is None else (made[0], len(made[1]))

    def read_prefix_cb(self, digits: str) -> tuple[int, bytes, pygit2.Oid]:
        """Return the kind, the content and the id of the object whose id begins so."""
        kind, content = self.read_cb(digits)
        if len(digits) < pygit2.GIT_OID_HEXSZ:
            name = f"{ObjectType(kind).name.lower()} {len(content)}\0".encode()
            digits = hashlib.sha1(name + content, usedforsecurity=False).hexdigest()
        return kind, content, pygit2.Oid(hex=digits)

    def exists_cb(self, object_id: pygit2.Oid) -> bool:
        """Return True if there is an object."""
        return str(object_id) in self._made or object_id in self._stored

    def write_cb(self, object_id: pygit2.Oid, content: bytes, kind: int) -> None:
        """Keep an object."""
        self._made[str(object_id)] = kind, content

    def refresh_cb(self) -> None:
        """Do nothing: the stores on disk refresh themselves."""


# A snapshot: the files of one commit, read from the objects of a mirror or of a checkout.
#
# It is synchronous and runs in the worker. Nothing is checked out, and no name in a tree becomes a path on disk.
# `trees` parses trees, `file_selection` chooses files, and `merging` and `checkouts` make repositories. No module
# outside this folder imports pygit2.

MAX_TREE_BYTES = 64 << 20  # 64 MiB, of one folder: a million names
DAMAGED_MIRROR = f"an object is missing or damaged in the mirror; {faults.REBUILT}"

_OF_OTHERS = (ConfigLevel.PROGRAMDATA, ConfigLevel.SYSTEM, ConfigLevel.XDG, ConfigLevel.GLOBAL)


class CommitInfo(NamedTuple):
    """The author and the time of a commit. `author` is `Name <address>`."""

    id: str
    author: str
    date: datetime


class Snapshot:
    """One commit of a mirror. Use it on the thread that opened it, and close it or use a `with` statement.

    `damaged` is the sentence for errors of the object store. `memory` has the objects that are not stored, if any.
    """

    def __init__(
        self,
        repository: pygit2.Repository,
        commit: pygit2.Commit,
        *,
        damaged: str = DAMAGED_MIRROR,
        memory: MemoryObjects | None = None,
    ) -> None:
        self._repository = repository
        self._objects = repository.odb
        self._commit = commit
        self._told = damaged
        self._folders: dict[str, bytes] = {}  # by id: a plan reads the same few folders again and again
        self._folder_bytes = 0
        # By blob: the limits on a commit and a file are checked apart, before it is read.
        self._sizes = dict(memory.sizes) if memory else {}

    @classmethod
    def open(cls, mirror: Path, commit: str) -> "Snapshot":
        """Open a commit by its full id. Raises GitFault mirror-corrupt if a part of it is missing."""
        ignore_configuration_of_others()
        with damage(DAMAGED_MIRROR):
            repository = pygit2.Repository(str(mirror), RepositoryOpenFlag.NO_SEARCH | RepositoryOpenFlag.BARE)
            repository.set_odb(packs(mirror))
            found = repository.get(pygit2.Oid(hex=commit))
        if found is None:
            raise GitFault(
                RepositoryState.MIRROR_CORRUPT,
                f"the mirror lacks the commit {faults.short_commit(commit)}; {faults.REBUILT}",
            )
        if not isinstance(found, pygit2.Commit):
            raise GitFault(
                RepositoryState.UNSUPPORTED_FORMAT,
                f"{faults.short_commit(commit)} is not a commit; let the branch name one",
            )
        return cls(repository, found)

    def close(self) -> None:
        """Release the files and memory of the object store."""
        self._repository.free()

    def __enter__(self) -> "Snapshot":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def commit(self) -> CommitInfo:
        """Return the author and the time of this commit."""
        return _info(self._commit)

    def tree(self, path: str) -> str:
        """Return the id of a folder's tree; '' is the whole repository. Raises GitFault path-missing."""
        tree = str(self._commit.tree_id)
        for part in trees.parts(path):
            found = self._entry(tree, part)
            if part == ".." or found is None or not found.is_folder:
                at = faults.short_commit(str(self._commit.id))
                raise GitFault(
                    RepositoryState.PATH_MISSING,
                    f"there is no folder {path} in the commit {at}; add it, or correct `path`",
                )
            tree = found.id
        return tree

    def _entry(self, tree: str, name: str) -> TreeEntry | None:
        stored, wanted = self._stored_folder(tree), name.encode("utf-8", "surrogateescape")
        with damage(self._told):
            found = trees.find(stored, wanted)
        return None if found is None else next(trees.named([found]))

    def blob(self, path: str) -> str | None:
        """Return the id of a regular file; None if there is none under this path."""
        folder, _, name = path.rpartition("/")
        try:
            entry = self._entry(self.tree(folder), name)
        except GitFault as fault:
            if fault.state is RepositoryState.PATH_MISSING:
                return None
            raise
        if entry is None or entry.is_folder:
            return None
        file = trees.place(folder).file(entry)
        return file.blob if file.readable else None

    def files(self, path: str) -> Iterator[TreeFile]:
        """Return every file below a folder, sorted by path, without folders that begin with a dot."""
        return self._walk(self.tree(path), trees.place(path))

    def changes(self, old_tree: str, new_tree: str, path: str) -> list[TreeChange]:
        """Return the files that differ between two trees of the folder `path`, sorted by path."""
        found = self._compare(old_tree, new_tree, trees.place(path))
        return sorted(found, key=lambda change: change.path)

    def has(self, object_id: str) -> bool:
        """Return True if the mirror holds an object: an old commit may be gone after the mirror was built again."""
        with damage(self._told):
            return object_id in self._objects

    def size(self, blob: str) -> int:
        """Return the size of a file in bytes, without reading it."""
        if blob in self._sizes:
            return self._sizes[blob]
        with damage(self._told):
            kind, size = self._objects.read_header(blob)
        if kind != ObjectType.BLOB:
            raise GitFault(
                RepositoryState.MIRROR_CORRUPT,
                f"the object {faults.short_commit(blob)} in the mirror is not a file; {faults.REBUILT}",
            )
        self._sizes[blob] = size
        return size

    def read(self, blob: str, limit: int) -> bytes:
        """Return a file's content. Raises Refused before reading it if it has more than `limit` bytes."""
        size = self.size(blob)
        if size > limit:
            raise Refused(f"the file has {size} bytes, and at most {limit} are read; split it")
        with damage(self._told):
            return self._read(blob)

    def is_ancestor(self, old: str, new: str) -> bool:
        """Return True if the history of `new` contains `old`. A commit that the mirror lacks is no ancestor."""
        if not self.has(old):
            return False
        with damage(self._told):
            return old == new or self._repository.descendant_of(new, old)

    def is_unrelated(self, old: str, new: str) -> bool:
        """Return True if two commits certainly have no history in common. This is unknown for a commit that the mirror
        lacks, and often in a shallow repository.
        """
        if not self.has(old) or not self.has(new) or self._repository.is_shallow:
            return False
        with damage(self._told):
            return self._repository.merge_base(old, new) is None

    def last_changes(self, paths: Collection[str], *, go_on: Callable[[], bool]) -> dict[str, CommitInfo]:
        """Return for each path the commit that last changed the file, if it is found: see `history`."""
        folders = {f"{path[: end.start()]}/" for path in paths for end in re.finditer("/", path)}

        def changes(old: str, new: str) -> Iterator[TreeChange]:
            return self._compare(old, new, TreePlace("", only=folders))

        objects = history.Objects(self._stored_commit, changes)
        found = history.last_changes(str(self._commit.id), paths, objects=objects, go_on=go_on)
        commits = dict[str, CommitInfo]()
        for name in sorted(set(found.values())):
            with damage(self._told):
                commit = self._repository[name]
            assert isinstance(commit, pygit2.Commit)  # the walk has read it as a commit
            commits[name] = _info(commit)
        return {path: commits[found[path]] for path in sorted(found)}

    def _walk(self, tree: str, place: TreePlace) -> Iterator[TreeFile]:
        # Git sorts a folder as if its name ended in a slash, so a walk in stored order is sorted by path.
        entries = self.raw(tree)
        place.count(len(entries))
        for entry in trees.named(entries):
            if not entry.is_folder:
                yield place.file(entry)
            elif place.enters(entry):
                yield from self._walk(entry.id, place.below(entry))

    def _compare(self, old_tree: str, new_tree: str, place: TreePlace) -> Iterator[TreeChange]:
        """Yield differences by object ids: folders with equal ids are skipped, and no file is read."""
        old, new = self._stored_folder(old_tree), self._stored_folder(new_tree)
        with damage(self._told):
            old_entries, new_entries = trees.differing(old, new)
        place.count(len(old_entries) + len(new_entries) + trees.compared(old, new))
        same = set(old_entries).intersection(new_entries)
        gone = {entry.name: entry for entry in trees.named(raw for raw in old_entries if raw not in same)}
        come = {entry.name: entry for entry in trees.named(raw for raw in new_entries if raw not in same)}
        for name in sorted(gone | come):
            yield from self._pair(gone.get(name), come.get(name), place)

    def _pair(self, old: TreeEntry | None, new: TreeEntry | None, place: TreePlace) -> Iterator[TreeChange]:
        """Yield the differences under one name, which may be a file before and a folder after."""
        before = None if old is None or old.is_folder else place.file(old)
        after = None if new is None or new.is_folder else place.file(new)
        if file := after or before:
            yield TreeChange(file.path, before.blob if before else None, after)
        old_tree, new_tree = (
            entry.id if entry is not None and place.enters(entry) else trees.EMPTY for entry in (old, new)
        )
        folder = new if new is not None and new.is_folder else old
        if folder is not None and old_tree != new_tree:
            yield from self._compare(old_tree, new_tree, place.below(folder))

    def _stored_commit(self, commit: str) -> history.Commit | None:
        """Return a commit as it is stored. libgit2 hides parents that a shallow clone lacks; a walk must see them."""
        with contextlib.suppress(pygit2.GitError, KeyError, ValueError):
            kind, size = self._objects.read_header(commit)
            if kind == ObjectType.COMMIT and size <= history.MAX_COMMIT_BYTES:
                return history.parse(self._read(commit))
        return None

    def _read(self, object_id: str) -> bytes:
        return self._objects.read(object_id)[1]

    def raw(self, tree: str) -> list[Raw]:
        """Return the bytes of a folder's tree as they are stored."""
        with damage(self._told):
            return trees.parse(self._stored_folder(tree))

    def _stored_folder(self, tree: str) -> bytes:
        if tree == trees.EMPTY:
            return b""
        known = self._folders.get(tree)
        if known is None:
            with damage(self._told):
                kind, size = self._objects.read_header(tree)
                known = self._read(tree) if kind == ObjectType.TREE and size <= MAX_TREE_BYTES else None
            if known is None:
                told = f"is no folder or has more than {MAX_TREE_BYTES} bytes of names; split it"
                raise GitFault(RepositoryState.UNSUPPORTED_FORMAT, f"the tree {faults.short_commit(tree)} {told}")
            if self._folder_bytes + len(known) > MAX_CACHED_BYTES:
                self._folders.clear()
                self._folder_bytes = 0
            self._folders[tree] = known
            self._folder_bytes += len(known)
        return known


def packs(*mirrors: Path) -> pygit2.Odb:
    """Open the packs of mirrors, which have everything that a fetch writes.

    Objects in single files are left out: libgit2 1.9 hangs on a truncated one.
    """
    objects = pygit2.Odb()
    for mirror in mirrors:
        with _carrying:
            pygit2.OdbBackendPack.__init__(_carrier, _objects_of(mirror))
            objects.add_backend(_carrier, 1)
    return objects


@functools.lru_cache(maxsize=1_024)
def _objects_of(mirror: Path) -> str:
    """Return the path of a mirror's objects; the same object for the same path: see `_carrier`."""
    return str(mirror / "objects")


# Each run opens a mirror, but pygit2 1.21 never frees the object that adds a backend to an object store, nor the path
# that it gets. So one object adds all backends. The backend itself is freed with its store.
_carrier, _carrying = pygit2.OdbBackendPack.__new__(pygit2.OdbBackendPack), threading.Lock()


def _info(commit: pygit2.Commit) -> CommitInfo:
    with damage(DAMAGED_MIRROR):
        author = commit.author
    told = history.signature(author.raw_name, author.raw_email)
    return CommitInfo(str(commit.id), told, history.stated_date(author.time))


@contextlib.contextmanager
def damage(told: str) -> Iterator[None]:
    """Turn every error of the object store into a fault of the repository, so that no file counts as absent."""
    try:
        yield
    except (pygit2.GitError, KeyError, ValueError, OSError) as error:
        raise GitFault(RepositoryState.MIRROR_CORRUPT, told) from error


@functools.cache
def ignore_configuration_of_others() -> dict[ConfigLevel, str]:
    """Keep libgit2 from reading the configuration of the user and the machine; the git program does not read it either.

    Return the paths where libgit2 would search for it.
    """
    places = {level: pygit2.settings.search_path[level] for level in _OF_OTHERS}
    for level in _OF_OTHERS:
        pygit2.settings.search_path[level] = ""
    return places


@contextlib.contextmanager
def configuration_of_the_person() -> Iterator[None]:
    """Use the person's configuration inside this context. It is a setting of the whole process: for commands only.

    As in git, an inaccessible home directory is ignored: containers often have that of another user.
    """
    places = ignore_configuration_of_others()
    try:
        for level, place in places.items():
            pygit2.settings.search_path[level] = place if os.access(place, os.R_OK | os.X_OK) else ""
        yield
    finally:
        for level in places:
            pygit2.settings.search_path[level] = ""
