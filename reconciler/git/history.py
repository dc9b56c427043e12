"""History: which commit last changed a file.

Pure: commits and folders come in as functions, and so does the decision to go on. Reading objects is in `snapshots`.

A walk starts at a commit and looks for files that it holds. Where a commit has a file as one of its parents has it, the
commit did not touch it, and the walk follows that parent, the first such one, for this file alone. Where it has the
file as no parent has it, this is the commit: so a merge touches a file only when it differs from every parent, and what
a merge left out counts for nothing. Commits are met newest first, and only folders that differ are opened, as far down
as files that are looked for lie.
"""

import heapq
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from reconciler.git import trees
from reconciler.git.faults import GitFault

MAX_COMMITS = 100_000  # in one walk
MAX_COMMIT_BYTES = 1 << 20  # 1 MiB of message, signature and parents; a larger commit counts as one that is not there
FEW = 8  # names, up to which it is cheaper to look for each than to go through all entries of a large folder

HEADER = re.compile(
    rb"tree ([0-9a-f]{40})\n((?:parent [0-9a-f]{40}\n)*)author [^\n]*\n(?:committer [^\n]*> (\d{1,12}) )?"
)

Folder: TypeAlias = "dict[bytes, Folder | str]"
"""Files that are looked for: a file's name to its path, a folder's name with a slash behind it to what is below."""

Held: TypeAlias = dict[bytes, tuple[bytes, bytes]]
"""By name as in `Folder` the mode and the id of an entry."""


class Commit(NamedTuple):
    """The parts of a commit that a walk needs. `seconds` is the time of the commit, by its own word."""

    tree: str
    parents: tuple[str, ...]
    seconds: int


class Objects(NamedTuple):
    """The objects that a walk asks for: a commit, or None where it is not there, and a folder as it is stored, which
    is often asked for twice, since the next commit holds the same ones.
    """

    commit: Callable[[str], Commit | None]
    folder: Callable[[str], bytes]


def parse(data: bytes) -> Commit | None:
    """A stored commit, or None when it is none that could be walked."""
    found = HEADER.match(data)
    if found is None:
        return None
    parents = tuple(line[7:].decode() for line in found[2].splitlines())
    return Commit(found[1].decode(), parents, int(found[3] or 0))


def last_changes(
    head: str, paths: Collection[str], *, objects: Objects, go_on: Callable[[], bool], max_commits: int = MAX_COMMITS
) -> dict[str, str]:
    """For each path the commit that gave the file what it is at `head`.

    Left out is what `head` does not hold, what is further away than `max_commits`, what was not found when `go_on` said
    to stop, and what lies behind a commit that is not there or cannot be read.
    """
    walk = _Walk(objects)
    walk.begin(head, paths)
    for _ in range(max_commits):
        if not walk.pending or not go_on():
            break
        walk.step()
    return walk.found


@dataclass(slots=True)
class _Walk:
    """`pending`: at which commits to look next, each with what is looked for there. A file is at one commit only."""

    objects: Objects
    found: dict[str, str] = field(default_factory=dict)
    pending: dict[str, tuple[Commit, Folder]] = field(default_factory=dict)
    _order: list[tuple[int, str]] = field(default_factory=list)

    def begin(self, head: str, paths: Iterable[str]) -> None:
        """Look, at `head`, for those of the paths that it holds."""
        commit = self.objects.commit(head)
        if commit is not None:
            self._look(head, commit, _looked_for(self._take_changed(_looked_for(paths), commit.tree, trees.EMPTY)))

    def step(self) -> None:
        """Compare the newest pending commit with its parents; what it did not touch is looked for in one of them."""
        _, newest = heapq.heappop(self._order)
        commit, wanted = self.pending.pop(newest)
        try:
            self._compare(newest, commit, wanted)
        except (GitFault, ValueError):
            return  # a damaged folder: what is looked for here is not found; the walk goes on elsewhere

    def _compare(self, ours: str, commit: Commit, wanted: Folder) -> None:
        known = [(parent, found) for parent in commit.parents if (found := self.objects.commit(parent)) is not None]
        for parent, theirs in known:
            touched = self._take_changed(wanted, commit.tree, theirs.tree)
            self._look(parent, theirs, wanted)
            wanted = _looked_for(touched)
        if len(known) == len(commit.parents):
            self.found.update(dict.fromkeys(_paths(wanted), ours))

    def _look(self, at: str, commit: Commit, wanted: Folder) -> None:
        if not wanted:
            return
        if at in self.pending:
            _add(self.pending[at][1], _paths(wanted))
            return
        self.pending[at] = (commit, wanted)
        heapq.heappush(self._order, (-commit.seconds, at))

    def _take_changed(self, wanted: Folder, ours: str, theirs: str) -> list[str]:
        """Take out of `wanted` what one folder holds otherwise than the other, or only one of the two holds."""
        if ours == theirs:
            return []
        before, now = self._held(wanted, ours, theirs)
        taken: list[str] = []
        for name in before.keys() | now.keys():
            below, old, new = wanted[name], before.get(name), now.get(name)
            if old == new:
                continue
            if isinstance(below, str):
                taken.append(below)
            else:
                taken += self._take_changed(below, _id(new), _id(old))
            if isinstance(below, str) or not below:
                del wanted[name]
        return taken

    def _held(self, wanted: Folder, ours: str, theirs: str) -> tuple[Held, Held]:
        """Return what stands under names that are looked for in theirs, and in ours, where the two may differ."""
        old, new = self.objects.folder(theirs), self.objects.folder(ours)
        if old and new:
            old, new = trees.differing(old, new)
        return _entries(old, wanted), _entries(new, wanted)


def _entries(folder: bytes, wanted: Folder) -> Held:
    """Return what stands in a folder under names that are looked for."""
    if len(wanted) <= FEW:
        names = {name.removesuffix(b"/") for name in wanted}
        found = [entry for name in names if (entry := trees.find(folder, name)) is not None]
    else:
        found = trees.parse(folder)
    held = {(name + b"/" if _is_folder(mode) else name): (mode, entry) for mode, name, entry in found}
    return {name: held[name] for name in held.keys() & wanted.keys()}


def _is_folder(mode: bytes) -> bool:
    return int(mode, 8) & trees.KIND == trees.FOLDER


def _id(entry: tuple[bytes, bytes] | None) -> str:
    """The folder that an entry is; the empty one for none."""
    return trees.EMPTY if entry is None else entry[1].hex()


def _looked_for(paths: Iterable[str]) -> Folder:
    folder: Folder = {}
    _add(folder, paths)
    return folder


def _add(folder: Folder, paths: Iterable[str]) -> None:
    for path in paths:
        *folders, name = path.encode("utf-8", "surrogateescape").split(b"/")
        below = folder
        for one in folders:
            under = below.setdefault(one + b"/", {})
            assert isinstance(under, dict)  # a file's name never ends in a slash
            below = under
        below[name] = path


def _paths(folder: Folder) -> Iterator[str]:
    for below in folder.values():
        if isinstance(below, str):
            yield below
        else:
            yield from _paths(below)
