"""History: the commit that last changed a file.

Pure: functions for commits, their differences and the decision to continue are arguments. `snapshots` reads objects.

A walk starts at a commit and searches for some of its files, newest commits first. If a commit has a file exactly as
one of its parents, it did not change it, and the walk follows the first such parent for this file. If no parent has the
file like this, this commit changed it. So a merge changes a file only if the file differs from every parent.
"""

import heapq
import re
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from reconciler.git import trees
from reconciler.git.faults import GitFault
from reconciler.git.trees import TreeChange

MAX_COMMITS = 100_000  # in one walk
MAX_COMMIT_BYTES = 1 << 20  # 1 MiB of message, signature and parents; a larger commit counts as absent

HEADER = re.compile(
    rb"tree ([0-9a-f]{40})\n((?:parent [0-9a-f]{40}\n)*)author [^\n]*\n(?:committer [^\n]*> (\d{1,12}) )?"
)


class Commit(NamedTuple):
    """The parts of a commit that a walk needs. `seconds` is the commit time that its author states."""

    tree: str
    parents: tuple[str, ...]
    seconds: int


class Objects(NamedTuple):
    """Functions that return objects for a walk: a commit, None if it is absent, and the files that differ between two
    trees. They raise GitFault for a folder that cannot be read.
    """

    commit: Callable[[str], Commit | None]
    changes: Callable[[str, str], Iterable[TreeChange]]


def parse(data: bytes) -> Commit | None:
    """Parse a stored commit; None if it is malformed."""
    found = HEADER.match(data)
    if found is None:
        return None
    parents = tuple(line[7:].decode() for line in found[2].splitlines())
    return Commit(found[1].decode(), parents, int(found[3] or 0))


MAX_SIGNATURE_CHARACTERS = 256  # of a name, and of an address

# Characters that must not be in a line about a person: control characters, line breaks, changes of direction, brackets.
UNPRINTED = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069<>]")


def signature(name: bytes, address: bytes) -> str:
    """Return an author as `Name <address>`."""
    return f"{_plain(name)} <{_plain(address)}>"


def _plain(raw: bytes) -> str:
    """Return a stranger's text as one line of bounded length."""
    text = raw[: 4 * MAX_SIGNATURE_CHARACTERS].decode("utf-8", "replace")
    return UNPRINTED.sub("", text)[:MAX_SIGNATURE_CHARACTERS].strip()


def stated_date(seconds: int) -> datetime:
    """Return the date that a commit states; 1970 for one that is no date."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):  # a commit may claim any year
        return datetime.fromtimestamp(0, UTC)


def last_changes(
    head: str, paths: Collection[str], *, objects: Objects, go_on: Callable[[], bool], max_commits: int = MAX_COMMITS
) -> dict[str, str]:
    """Return for each path the commit that gave the file its content at `head`. A path is left out if `head` does not
    have it, its commit is further away than `max_commits`, the search ended because `go_on` returned False, or a commit
    on the way is missing or unreadable.
    """
    found: dict[str, str] = {}
    pending: dict[str, set[str]] = {head: set(paths)}  # the files to find, by the next commit; each at one only
    newest = [(0, head)]
    for _ in range(max_commits):
        if not pending or not go_on():
            break
        _, name = heapq.heappop(newest)
        commit, wanted = objects.commit(name), pending.pop(name)
        if commit is None:
            continue
        parents = {parent: objects.commit(parent) for parent in commit.parents}
        held: dict[str, bool] = {}  # for files that differ in the last parent: True if this commit has them
        try:
            for parent, before in parents.items():
                if before is None:
                    continue
                held = {change.path: change.new is not None for change in objects.changes(before.tree, commit.tree)}
                touched = {path for path in held if path in wanted}
                wanted -= touched
                if wanted and parent not in pending:
                    pending[parent] = set()
                    heapq.heappush(newest, (-before.seconds, parent))
                if wanted:
                    pending[parent] |= wanted
                wanted = touched
            if not parents:
                held = {change.path: True for change in objects.changes(trees.EMPTY, commit.tree)}
        except GitFault:
            continue  # these files are not found; the walk continues with other commits
        if None not in parents.values():
            found |= {path: name for path in wanted if held.get(path)}
    return found
