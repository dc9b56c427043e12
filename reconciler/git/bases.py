"""How the histories of two commits lie to each other: where they part, and how far apart they are.

Histories that were merged into each other both ways have several such places ("criss-cross").
"""

import itertools
from typing import NamedTuple

import pygit2
from pygit2.enums import SortMode

MAX_COUNTED = 10_000  # commits that one side lacks; more are not told
MAX_WALKED = 100_000  # commits of one side; of more, only the first place where the two part is known


class HistoryRelation(NamedTuple):
    """`bases` are the merge bases of two commits, the best first, then sorted. `behind` counts the commits of the first
    that the second lacks, `ahead` the other way, each up to MAX_COUNTED.
    """

    bases: tuple[str, ...]
    behind: int
    ahead: int


def history_relation(repository: pygit2.Repository, one: str, other: str) -> HistoryRelation | None:
    """How two commits are related; None when they have no history in common. Raises what pygit2 raises."""
    best = repository.merge_base(one, other)
    if best is None:
        return None
    ours, theirs = (_beyond(repository, commit, str(best)) for commit in (one, other))
    common = ours.keys() & theirs.keys()
    behind, ahead = (min(len(side.keys() - common), MAX_COUNTED) for side in (ours, theirs))
    # Walks that were cut off tell too little of what both have.
    is_whole = max(len(ours), len(theirs)) < MAX_WALKED
    inner = {parent for commit in common for parent in ours[commit]}
    more = sorted(common - inner) if is_whole else []
    return HistoryRelation((str(best), *more), behind, ahead)


def _beyond(repository: pygit2.Repository, commit: str, known: str) -> dict[str, list[str]]:
    """The commits in the history of one that are not in that of another, with their parents."""
    walker = repository.walk(commit, SortMode.NONE)
    walker.hide(known)
    found = itertools.islice(walker, MAX_WALKED)
    return {str(one.id): [str(parent) for parent in one.parent_ids] for one in found}
