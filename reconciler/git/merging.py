"""Merging one commit into another in memory, within limits."""

import itertools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pygit2
from pygit2.enums import DiffOption, MergeFlag, RepositoryOpenFlag, SortMode

from reconciler.git import faults, snapshots, trees
from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.snapshots import MemoryObjects, Snapshot
from reconciler.git.trees import Raw
from reconciler.model.errors import Refused

# The relation of two histories: their merge bases and their distance. Histories that were merged into each other in
# both directions have several merge bases ("criss-cross").

MAX_COUNTED = 10_000  # commits that one side lacks; more are not counted
MAX_WALKED = 100_000  # commits of one side; with more, only the first merge base is found


class HistoryRelation(NamedTuple):
    """`bases` are the merge bases of two commits, the best first, then sorted. `behind` counts the commits of the first
    that the second lacks, `ahead` the other way, each up to MAX_COUNTED.
    """

    bases: tuple[str, ...]
    behind: int
    ahead: int


def history_relation(repository: pygit2.Repository, one: str, other: str) -> HistoryRelation | None:
    """Return the relation of two commits; None if they have no history in common. Raises what pygit2 raises."""
    best = repository.merge_base(one, other)
    if best is None:
        return None
    ours, theirs = (_beyond(repository, commit, str(best)) for commit in (one, other))
    common = ours.keys() & theirs.keys()
    behind, ahead = (min(len(side.keys() - common), MAX_COUNTED) for side in (ours, theirs))
    # Walks that reached the limit do not show all common commits.
    is_whole = max(len(ours), len(theirs)) < MAX_WALKED
    inner = {parent for commit in common for parent in ours[commit]}
    more = sorted(common - inner) if is_whole else []
    return HistoryRelation((str(best), *more), behind, ahead)


def _beyond(repository: pygit2.Repository, commit: str, known: str) -> dict[str, list[str]]:
    """Return the commits in the history of one commit that are not in that of another, with their parents."""
    walker = repository.walk(commit, SortMode.NONE)
    walker.hide(known)
    found = itertools.islice(walker, MAX_WALKED)
    return {str(one.id): [str(parent) for parent in one.parent_ids] for one in found}


# Limits on the trees of a merge, because libgit2 has none and reads the files whole. The trees may come from strangers.

MAX_FILE_BYTES = 32 << 20  # 32 MiB, of a file that both sides change; a document may have 5
MAX_FILE_LINES = 2_000_000  # of such a file: merging takes about 100 bytes for a line, however short it is
MAX_BYTES = 256 << 20  # 256 MiB, of all versions of all files that both sides change: merged files stay in memory
MAX_RENAMED_BYTES = 64 << 20  # 64 MiB, of a file that may have been renamed: it is compared with others
MAX_RENAMED_BYTES_IN_ALL = 256 << 20  # 256 MiB, of all of these: libgit2 takes a second for 64 MiB

Files: TypeAlias = dict[bytes, tuple[str, str]]
"""By path, the ids of a file before and after; '' if there is none."""


def check_weight(snapshot: Snapshot, base: str, sides: tuple[str, str]) -> bool:
    """Raise GitFault or Refused unless two trees with the common `base` can be merged within limits.

    Return True if a search for renamed files is within limits too. All objects are read through the snapshot.
    """
    seen: dict[str, tuple[int, int]] = {}
    for tree in (base, *sides):
        _measure(snapshot, tree, seen)
    ours, theirs = (differences(snapshot, base, side) for side in sides)
    _check_both(snapshot, ours, theirs)
    return all(_may_be_renamed(snapshot, side) for side in (ours, theirs))


def differences(snapshot: Snapshot, old: str, new: str, prefix: bytes = b"") -> Files:
    """Return the files that differ between two trees; a difference of the mode alone does not count."""
    before, after = _folder(snapshot, old), _folder(snapshot, new)
    found: Files = {}
    for name in sorted(before.keys() | after.keys()):
        one, other = before.get(name), after.get(name)
        if one == other:
            continue
        old_file, old_tree = _parts(one)
        new_file, new_tree = _parts(other)
        if old_file != new_file:
            found[prefix + name] = (old_file, new_file)
        if old_tree != new_tree:
            found |= differences(snapshot, old_tree, new_tree, prefix + name + b"/")
    return found


def _folder(snapshot: Snapshot, tree: str) -> dict[bytes, Raw]:
    return {raw[1]: raw for raw in snapshot.raw(tree)} if tree else {}


def _parts(raw: Raw | None) -> tuple[str, str]:
    """Return the ids of an entry as a file and as a folder: at most one is not empty, and a submodule has neither."""
    kind = _kind(raw)
    named = raw[2].hex() if raw else ""
    return ("" if kind in {trees.FOLDER, trees.SUBMODULE} else named), (named if kind == trees.FOLDER else "")


def _kind(raw: Raw | None) -> int:
    return int(raw[0], 8) & trees.KIND if raw else 0


def _measure(snapshot: Snapshot, tree: str, seen: dict[str, tuple[int, int]], above: int = 0) -> tuple[int, int]:
    """Return the number of entries of a tree, and its depth in folders. A repeated folder counts each time, but is read
    once.
    """
    if tree in seen:
        entries, depth = seen[tree]
    else:
        raws = snapshot.raw(tree)
        trees.check_size(len(raws), above)
        names = [name for _, name, _ in raws]
        # A merge would confuse these names: a stored name may contain a slash, and occur twice.
        if len(set(names)) < len(names) or b"/" in b"".join(names):
            raise not_allowed()
        below = [_measure(snapshot, raw[2].hex(), seen, above + 1) for raw in raws if _kind(raw) == trees.FOLDER]
        entries = len(raws) + sum(entries for entries, _ in below)
        depth = 1 + max((depth for _, depth in below), default=0)
        seen[tree] = entries, depth
    trees.check_size(entries, above + depth - 1)
    return entries, depth


def not_allowed() -> GitFault:
    """Return the error for a tree with names that git does not allow. Git does not make such trees."""
    return GitFault(
        RepositoryState.UNSUPPORTED_FORMAT, "a tree holds a name that Git does not allow, or holds one twice; remove it"
    )


def _check_both(snapshot: Snapshot, ours: Files, theirs: Files) -> None:
    left = MAX_BYTES
    for path in sorted(ours.keys() & theirs.keys()):
        if ours[path][1] == theirs[path][1]:
            continue
        for blob in filter(None, (*ours[path], theirs[path][1])):
            size = snapshot.size(blob)
            left -= size
            if size > MAX_FILE_BYTES or left < 0 or _lines(snapshot, blob) > MAX_FILE_LINES:
                raise Refused(
                    f"both sides change {trees.escaped_path(path)}, and it is too large to be merged here; "
                    "merge the base into the head with git"
                )


def _lines(snapshot: Snapshot, blob: str) -> int:
    """Return the number of lines of a file; 0 if it is too small to have too many."""
    size = snapshot.size(blob)
    return 0 if size <= MAX_FILE_LINES else snapshot.read(blob, size).count(b"\n")


def _may_be_renamed(snapshot: Snapshot, files: Files) -> bool:
    came = [new for old, new in files.values() if not old]
    went = [old for old, new in files.values() if not new]
    if not came or not went:
        return True
    sizes = [snapshot.size(blob) for blob in (*came, *went)]
    return max(sizes) <= MAX_RENAMED_BYTES and sum(sizes) <= MAX_RENAMED_BYTES_IN_ALL


# A repository in which objects can be made, such as a merge, without writing to a disk.

MAX_RENAMES = 1000  # added or deleted files that are compared with one another

_NOBODY = pygit2.Signature("Reconciler", "reconciler@localhost", 0, 0)  # the same merge has the same id


class Merger(pygit2.Repository):
    """A repository of objects only, for merges: without a folder it has no configuration, index and attributes."""

    @staticmethod
    def _merge_options(*arguments: Any) -> Any:
        options = pygit2.Repository._merge_options(*arguments)
        options.target_limit = MAX_RENAMES
        return options


class MemoryRepository:
    """A repository for merges, used by one thread. New objects are in memory only, until it is closed.

    `damaged` is the sentence for a missing or damaged object, `deepen` the advice for a shallow history. Raises the
    errors of pygit2 if it cannot be opened, and Refused if libgit2 cannot merge in memory.
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
        """Release files and memory. Snapshots of this repository end with it."""
        self.merger.free()
        self.git.free()

    def __enter__(self) -> "MemoryRepository":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def snapshot(self, commit: str) -> Snapshot:
        """Open a commit by its full id. Raises GitFault if it is missing."""
        with snapshots.damage(self.damaged):
            found = self.git[commit]
            if not isinstance(found, pygit2.Commit):
                raise ValueError("not a commit")
        return Snapshot(self.git, found, damaged=self.damaged, memory=self.memory)

    def commit(self, tree: str, *parents: str) -> str:
        """Make a commit of a tree in memory, and return its id."""
        with snapshots.damage(self.damaged):
            made = self.git.create_commit(None, _NOBODY, _NOBODY, "", pygit2.Oid(hex=tree), list(parents))
        return str(made)


# The merge of one commit into another, only in memory: nothing is written, and no program is run.
#
# The result is that of git's own merge, without the settings of a checkout: attributes (`merge=union`) and
# configuration do not count, so the same two commits have the same merge everywhere.

MAX_NAMED = 100  # files in conflict
MAX_SHOWN = 10  # of them in the message
MAX_LINED = 256 << 10  # bytes of a file whose conflicting lines are shown
MAX_RANGES = 5  # of its lines
MAX_VIRTUAL_BASES = 4  # nested: histories that cross many times could have any number
MAX_BASES = 2  # merge bases of two commits; ordinary histories have one


class Conflicts(Refused):
    """Both sides change the same lines or files. `files` are at most MAX_NAMED of the `total` paths, sorted and safe to
    show, each with the lines of the head that conflict, if they are known (`a.yaml:3-5,9`), or who deletes it.
    """

    def __init__(self, files: tuple[str, ...]) -> None:
        shown = ", ".join(files[:MAX_SHOWN])
        more = f" and {len(files) - MAX_SHOWN} more" if len(files) > MAX_SHOWN else ""
        which = "conflicts; merge the base into the head and resolve it"
        if len(files) > 1:
            which = "conflict; merge the base into the head and resolve them"
        super().__init__(f"the two do not merge: {shown}{more} {which}")
        self.files = files[:MAX_NAMED]
        self.total = len(files)


class Unrelated(Refused):
    """The two commits have no known history in common. `shallow`: the history here may be incomplete."""

    def __init__(self, message: str, *, shallow: bool) -> None:
        super().__init__(message)
        self.shallow = shallow


@dataclass(frozen=True, slots=True)
class Merged:
    """The merge of `head` into `base`. `merged` is the merge commit, which exists only in memory.

    `behind` counts the commits of the base that the head lacks, `ahead` those of the head that the base lacks, each up
    to `bases.MAX_COUNTED`. It is valid as long as its repository is open.
    """

    base: Snapshot
    head: Snapshot
    merged: Snapshot
    merge_base: str
    behind: int
    ahead: int

    def changes(self, folder: str) -> list[trees.TreeChange]:
        """Return the files below a folder that differ between the base and the merge. The folder may be missing in
        either. Raises GitFault.
        """
        return self.merged.changes(tree_of(self.base, folder), tree_of(self.merged, folder), folder)


def tree_of(snapshot: Snapshot, folder: str) -> str:
    """Return the id of a folder's tree; for a missing folder that of the empty tree. Raises GitFault."""
    try:
        return snapshot.tree(folder)
    except GitFault as fault:
        if fault.state is not RepositoryState.PATH_MISSING:
            raise
        return trees.EMPTY


def open_mirrors(mirror: Path, proposals: Path | None) -> MemoryRepository:
    """Open the packs of a mirror, and of the mirror with proposals. Raises GitFault mirror-corrupt."""
    both = [mirror] if proposals is None else [mirror, proposals]
    # Only the opened repository decides where histories are cut off, so open the one that has all refs.
    opened = next((one for one in reversed(both) if (one / "shallow").exists()), mirror)
    with snapshots.damage(snapshots.DAMAGED_MIRROR):
        return MemoryRepository(
            opened,
            damaged=snapshots.DAMAGED_MIRROR,
            deepen="let the repository hold its whole history",
            objects=snapshots.packs(*both),
        )


def merge(repository: MemoryRepository, base: str, head: str) -> Merged:
    """Merge two commits, given by their full ids. Raises Conflicts, Unrelated, Refused if they are too large to be
    merged, and GitFault if objects are missing.
    """
    one, other = repository.snapshot(base), repository.snapshot(head)
    with snapshots.damage(repository.damaged):
        relation = history_relation(repository.git, base, head)
    if relation is None:
        raise _unrelated(repository, base, head)
    merged = repository.snapshot(repository.commit(_tree(repository, relation, one, other), base, head))
    return Merged(one, other, merged, relation.bases[0], relation.behind, relation.ahead)


def _unrelated(repository: MemoryRepository, base: str, head: str) -> Unrelated:
    told = f"{faults.short_commit(base)} and {faults.short_commit(head)} have no history in common"
    if repository.git.is_shallow:
        return Unrelated(f"{told} as far as this shallow clone goes; {repository.deepen}", shallow=True)
    return Unrelated(f"{told}; let the head come from the base", shallow=False)


def _tree(repository: MemoryRepository, relation: HistoryRelation, base: Snapshot, head: Snapshot) -> str:
    """Return the merged tree. If one side contains the other, there is nothing to merge."""
    ours, theirs = base.tree(""), head.tree("")
    if relation.bases[0] == head.commit.id or ours == theirs:
        return ours
    if relation.bases[0] == base.commit.id:
        return theirs
    flags = MergeFlag.FIND_RENAMES
    for found in relation.bases[:MAX_BASES]:
        if not check_weight(base, repository.snapshot(found).tree(""), (ours, theirs)):
            flags = MergeFlag(0)
    with snapshots.damage(repository.damaged):
        try:
            return _Merging(repository, base, flags).tree(relation.bases, base.commit.id, head.commit.id)
        except pygit2.GitError as error:
            if "invalid path" in str(error):
                raise not_allowed() from error
            raise


class _Merging:
    """One merge of two commits, with any histories."""

    def __init__(self, repository: MemoryRepository, snapshot: Snapshot, flags: MergeFlag) -> None:
        self._repository = repository
        self._snapshot = snapshot  # of any commit, to read folders
        self._flags = flags

    def tree(self, found: tuple[str, ...], one: str, other: str) -> str:
        """Return the merged tree of two commits with the merge bases `found`. Raises Conflicts, Refused."""
        return self._written(self._merge(self._base(found), self._tree_of(one), self._tree_of(other)))

    def _base(self, found: tuple[str, ...], depth: int = 0) -> str:
        """Return the tree to start from. Two merge bases are merged first, as in git. Raises Conflicts, Refused.

        If they conflict, git would continue with the conflicts. Libgit2 by itself would continue with a tree without
        these files, and treat them as deleted where git reports a conflict.
        """
        if len(found) == 1:
            return self._tree_of(found[0])
        relation = None
        if len(found) <= MAX_BASES and depth < MAX_VIRTUAL_BASES:
            relation = history_relation(self._repository.git, *found)
        if relation is None:
            raise Refused("the two histories cross too often; merge the base into the head with git")
        one, other = found
        base = self._base(relation.bases, depth + 1)
        sides = self._tree_of(one), self._tree_of(other)
        if not check_weight(self._snapshot, base, sides):
            self._flags = MergeFlag(0)
        return self._written(self._merge(base, *sides))

    def _merge(self, base: str, ours: str, theirs: str) -> pygit2.Index:
        return self._repository.merger.merge_trees(base, ours, theirs, flags=self._flags)

    def _tree_of(self, commit: str) -> str:
        return str(self._repository.git[commit].peel(pygit2.Tree).id)

    def _written(self, index: pygit2.Index) -> str:
        if index.conflicts is not None:
            found = conflicts(index)
            paths = [*found]
            raise Conflicts((*(f"{path}{self._lines(*found[path])}" for path in paths[:MAX_SHOWN]), *paths[MAX_SHOWN:]))
        return str(index.write_tree(self._repository.merger))

    def _lines(self, *versions: pygit2.IndexEntry | None) -> str:
        """Return the lines of the head that conflict, as `:3-5,9`, or the side that deletes the file; empty if a
        version has no lines, or too many.
        """
        match versions:
            case (pygit2.IndexEntry(), None, pygit2.IndexEntry()):
                return " (the base deletes it)"
            case (pygit2.IndexEntry(), pygit2.IndexEntry(), None):
                return " (the head deletes it)"
        blobs = [None if one is None else self._repository.git.get(one.id) for one in versions]
        texts = [one.data for one in blobs if isinstance(one, pygit2.Blob) and one.size <= MAX_LINED]
        found = conflicting_lines(*texts) if len(texts) == len(versions) else []
        told = [str(one.start) if len(one) == 1 else f"{one.start}-{one.stop - 1}" for one in found[:MAX_RANGES]]
        return f":{','.join([*told, *(['...'] if len(found) > MAX_RANGES else [])])}" if told else ""


def conflicts(index: pygit2.Index) -> dict[str, tuple[pygit2.IndexEntry | None, ...]]:
    """Return the conflicting files of an index, sorted and safe to show, each with its entries in the base and on both
    sides.
    """
    # A file that one side renamed may conflict under several names.
    found = {
        trees.escaped_path(os.fsencode(entry.path)): versions
        for versions in index.conflicts or ()
        for entry in versions
        if entry is not None
    }
    return {path: found[path] for path in sorted(found)}


def conflicting_lines(base: bytes, ours: bytes, theirs: bytes) -> list[range]:
    """Return the changes of `theirs` that conflict, as its line numbers, from 1; removed lines are shown as the line
    before. As in git's merge, two changes conflict if they differ and touch common or adjacent lines of the base.
    """
    one, other = (
        pygit2.Patch.create_from(base, side, context_lines=0, flag=DiffOption.FORCE_TEXT).hunks
        for side in (ours, theirs)
    )
    same = {_change(hunk) for hunk in one}
    touched = {point for hunk in one for point in _points(hunk)}
    return [
        range(max(hunk.new_start, 1), max(hunk.new_start, 1) + max(hunk.new_lines, 1))
        for hunk in other
        if _change(hunk) not in same and not touched.isdisjoint(_points(hunk))
    ]


def _points(hunk: pygit2.DiffHunk) -> range:
    """Return the positions before, between and after the lines that a change replaces."""
    start = hunk.old_start - 1 if hunk.old_lines else hunk.old_start
    return range(start, start + hunk.old_lines + 1)


def _change(hunk: pygit2.DiffHunk) -> tuple[range, tuple[bytes, ...]]:
    return _points(hunk), tuple(line.raw_content for line in hunk.lines if line.origin == "+")


def matching_lines(old: bytes, new: bytes) -> dict[int, int]:
    """Return the lines of one text that are in another, by the diff of the two, as line numbers from 1."""
    found: dict[int, int] = {}
    line, moved = 1, 0  # the next line of the old text, and its distance to the new one
    patch = pygit2.Patch.create_from(old, new, context_lines=0, flag=DiffOption.FORCE_TEXT)
    for hunk in patch.hunks:
        start = hunk.old_start if hunk.old_lines else hunk.old_start + 1  # for no lines, git gives the line before
        found |= {one: one + moved for one in range(line, start)}
        line = start + hunk.old_lines
        moved += hunk.new_lines - hunk.old_lines
    last = old.count(b"\n") + (old[-1:] not in (b"", b"\n"))
    return found | {one: one + moved for one in range(line, last + 1)}
