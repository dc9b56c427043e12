"""What merging one commit into another would give, made in memory alone: nothing is written and nothing is run.

Belongs here: the merge, and what stands in its way. Does not: the repository in which it is made (`opened`), whether it
is small enough (`weighing`), how the histories lie to each other (`bases`), names of commits (`checkouts`).

It is what git's own merge gives, but for what only a checkout could say: neither attributes (`merge=union`) nor
configuration count, so that the same two commits merge alike everywhere.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import pygit2
from pygit2.enums import MergeFlag

from reconciler.git import bases, faults, snapshots, trees, weighing
from reconciler.git.bases import HistoryRelation
from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.opened import MemoryRepository
from reconciler.git.snapshots import Snapshot
from reconciler.model.errors import Refused

MAX_NAMED = 100  # files in conflict
MAX_SHOWN = 10  # of them in the message
MAX_VIRTUAL_BASES = 4  # of one another: histories that cross many times would have them without end
MAX_BASES = 8  # where two histories part: ordinary ones have one


class Conflicts(Refused):
    """Both sides change the same. `files` are at most MAX_NAMED paths, sorted and safe to show, of `total`."""

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
    """The two have no history in common, or none that is here: `shallow` says that it may be cut off."""

    def __init__(self, message: str, *, shallow: bool) -> None:
        super().__init__(message)
        self.shallow = shallow


@dataclass(frozen=True, slots=True)
class Merged:
    """What merging `head` into `base` gives. `merged` is a commit of both that exists in memory alone.

    `behind` counts the commits of the base that the head lacks, `ahead` those of the head that the base lacks, each up
    to `bases.MAX_COUNTED`. All of it lives as long as the repository that it was made in.
    """

    base: Snapshot
    head: Snapshot
    merged: Snapshot
    merge_base: str
    behind: int
    ahead: int

    def changes(self, folder: str) -> list[trees.TreeChange]:
        """The files below a folder that differ between the base and the merge. Either may lack it. Raises GitFault."""
        return self.merged.changes(tree_of(self.base, folder), tree_of(self.merged, folder), folder)


def tree_of(snapshot: Snapshot, folder: str) -> str:
    """The id of a folder's tree; that of the empty tree where there is no such folder. Raises GitFault."""
    try:
        return snapshot.tree(folder)
    except GitFault as fault:
        if fault.state is not RepositoryState.PATH_MISSING:
            raise
        return trees.EMPTY


def open_mirrors(mirror: Path, proposals: Path | None) -> MemoryRepository:
    """The packs of a mirror, and of the one that holds proposals. Raises GitFault mirror-corrupt."""
    both = [mirror] if proposals is None else [mirror, proposals]
    # Only the repository that is opened says where histories are cut off; the one who has all refs knows best.
    opened = next((one for one in reversed(both) if (one / "shallow").exists()), mirror)
    with snapshots.damage(snapshots.DAMAGED_MIRROR):
        return MemoryRepository(
            opened,
            damaged=snapshots.DAMAGED_MIRROR,
            deepen="let the repository hold its whole history",
            objects=snapshots.packs(*both),
        )


def merge(repository: MemoryRepository, base: str, head: str) -> Merged:
    """Merge two commits, given by their full ids.

    Raises Conflicts, Unrelated, Refused for what is too large to be merged, and GitFault when objects are missing.
    """
    one, other = repository.snapshot(base), repository.snapshot(head)
    with snapshots.damage(repository.damaged):
        relation = bases.history_relation(repository.git, base, head)
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
    """The merged tree. Where one side has all that the other has, there is nothing to merge."""
    ours, theirs = base.tree(""), head.tree("")
    if relation.bases[0] == head.commit.id or ours == theirs:
        return ours
    if relation.bases[0] == base.commit.id:
        return theirs
    flags = MergeFlag.FIND_RENAMES
    for found in relation.bases[:MAX_BASES]:
        if not weighing.check_weight(base, repository.snapshot(found).tree(""), (ours, theirs)):
            flags = MergeFlag(0)
    with snapshots.damage(repository.damaged):
        try:
            return _Merging(repository, base, flags).tree(relation.bases, base.commit.id, head.commit.id)
        except pygit2.GitError as error:
            if "invalid path" in str(error):
                raise weighing.not_allowed() from error
            raise


class _Merging:
    """One merge of two commits, whatever their histories are."""

    def __init__(self, repository: MemoryRepository, snapshot: Snapshot, flags: MergeFlag) -> None:
        self._repository = repository
        self._snapshot = snapshot  # of any commit, to read folders by
        self._flags = flags

    def tree(self, found: tuple[str, ...], one: str, other: str) -> str:
        """The merged tree of two commits with the merge bases `found`. Raises Conflicts."""
        base = self._base(found)
        if base is None:
            return self._by_each(found, one, other)
        return self._written(self._merge(base, self._tree_of(one), self._tree_of(other)))

    def _base(self, found: tuple[str, ...], depth: int = 0) -> str | None:
        """The one tree to start from: of several merge bases what they merge to, as git has it; None if they conflict.

        Then git would go on with what is in conflict. Libgit2, left to itself, goes on with a tree that lacks such
        files, and takes for deleted what git finds to conflict.
        """
        if len(found) == 1:
            return self._tree_of(found[0])
        if len(found) > 2 or depth == MAX_VIRTUAL_BASES:
            return None
        one, other = found
        relation = bases.history_relation(self._repository.git, one, other)
        base = None if relation is None else self._base(relation.bases, depth + 1)
        if base is None:
            return None
        sides = self._tree_of(one), self._tree_of(other)
        if not weighing.check_weight(self._snapshot, base, sides):
            self._flags = MergeFlag(0)
        index = self._merge(base, *sides)
        return None if index.conflicts is not None else self._written(index)

    def _by_each(self, found: tuple[str, ...], one: str, other: str) -> str:
        """Merge as if each base were the only one. What they do not agree about is a conflict."""
        if len(found) > MAX_BASES:
            raise Refused(f"the two histories cross at more than {MAX_BASES} commits; rebase the head on the base")
        sides = self._tree_of(one), self._tree_of(other)
        made = [self._written(self._merge(self._tree_of(base), *sides)) for base in found]
        for tree in made[1:]:
            if differing := weighing.differences(self._snapshot, made[0], tree):
                raise Conflicts(tuple(sorted(map(trees.escaped_path, differing))))
        return made[0]

    def _merge(self, base: str, ours: str, theirs: str) -> pygit2.Index:
        return self._repository.merger.merge_trees(base, ours, theirs, flags=self._flags)

    def _tree_of(self, commit: str) -> str:
        return str(self._repository.git[commit].peel(pygit2.Tree).id)

    def _written(self, index: pygit2.Index) -> str:
        if index.conflicts is not None:
            raise Conflicts(names(index))
        return str(index.write_tree(self._repository.merger))


def names(index: pygit2.Index) -> tuple[str, ...]:
    """The files that conflict in an index, sorted and safe to show."""
    # A file that one side renamed may conflict under several names.
    paths = {entry.path for conflict in index.conflicts or () for entry in conflict if entry is not None}
    return tuple(sorted(trees.escaped_path(os.fsencode(path)) for path in paths))
