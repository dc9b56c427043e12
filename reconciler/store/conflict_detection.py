"""What a plan read and what commits changed, to detect a conflict.

It is in the memory of the process that writes, on the thread that does. What is not known counts as everything: what
is older than the last commits, and what another process wrote. So do a suspension and a repository that is released. Of
what is large, was written ahead, or has no room any more, the project alone is known, and it counts as everything
there.
"""

import sqlite3
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TypeAlias

import msgspec

from reconciler.model import outcomes
from reconciler.model.names import Key
from reconciler.store import database
from reconciler.store import rows as store_rows
from reconciler.store.contract import (
    AuditRow,
    ChangeRow,
    Changes,
    HeadRow,
    HeadStatusRow,
    KeyRow,
    LineageRow,
    Record,
    RewrittenRow,
    VersionRow,
)

MOST_COMMITS = 16_000  # a plan of 80 s, beside 200 changes a second
MOST_BYTES = 1024 * 1024  # of their footprints together; of who stored before that, the project alone is known
MOST_KEYS = 500  # of a commit whose facts are looked up; one of more touches everything in its project

NOBODY = (None, None)  # the id of what is not stored, and its owner
UNKNOWN = (0, outcomes.EVERYTHING)

Resource: TypeAlias = KeyRow | VersionRow | HeadRow | HeadStatusRow | RewrittenRow | LineageRow


class RecentCommits:
    """What each of the last commits touched, by the revision that it made, and with the one that it found."""

    def __init__(self) -> None:
        self._commits: OrderedDict[int, tuple[int, bytes]] = OrderedDict()
        self._exact: deque[tuple[int, bytes]] = deque()  # the last of them, and what counts once there is no room
        self._bytes = 0  # that those have now

    def holds(self, footprint: bytes, *, planned_at: int, revision: int) -> bool:
        """Whether a plan for `planned_at`, with this footprint, is what it would be at `revision`."""
        at = revision
        while at > planned_at:
            before, touched = self._commits.get(at, UNKNOWN)
            if outcomes.footprints_meet(touched, footprint):
                return False
            at = before
        return at == planned_at

    def note(self, touched: bytes, *, whole: bytes, before: int, revision: int) -> None:
        """A commit that found one revision and made another is on disk. `whole`: all that it may have touched, in few
        bytes.
        """
        self._commits[revision] = (before, touched)
        self._exact.append((revision, whole))
        self._bytes += len(touched)
        while self._bytes > MOST_BYTES or len(self._exact) > MOST_COMMITS:
            oldest, instead = self._exact.popleft()
            found, exact = self._commits[oldest]
            self._commits[oldest] = (found, instead)
            self._bytes -= len(exact)
        if len(self._commits) > MOST_COMMITS:
            self._commits.popitem(last=False)


class CommitTouches:
    """What one commit touches. Its parts are told before they are written, since what was there before counts, too."""

    def __init__(self, connection: sqlite3.Connection, record: Record, *, is_ahead: bool) -> None:
        """`is_ahead`: parts of it are written already."""
        self._connection = connection
        self._is_all = is_ahead or record.redacts  # in its project
        # Of these, other repositories and projects than those that are named may know. All else in a record is of the
        # repositories below, or is nothing that a plan reads: a run, its audit, where a request came from.
        self._is_everywhere = any((record.release_repository, record.suspension, record.resume))
        self._projects = {row.project for row in (record.run, record.repository, *record.audit) if row is not None}
        self._keys: set[Key] = set()
        self._targets: set[Key] = set()
        self._ids: set[str] = set()
        self._owners: set[str] = set()
        self._repositories = _of_record(record)

    def told(self, coming: Iterable[Changes]) -> Iterator[Changes]:
        """The parts, each looked at before it goes on."""
        for part in coming:
            self._look_at(part)
            yield part

    def _look_at(self, part: Changes) -> None:
        rows: Iterator[Resource] = chain(
            part.removed, part.versions, part.heads, part.head_statuses, part.rewritten, part.lineages
        )
        told: Iterator[AuditRow | ChangeRow] = chain(part.audit, part.changed)
        named = [(row.project, row.kind, row.name) for row in rows]
        self._projects |= {project for project, _, _ in named} | {row.project for row in told}
        self._repositories |= store_rows.indexed_repositories(part)
        self._repositories |= {row.repository for row in part.held} | {row.repository for row in part.pruned}
        if self._is_all:
            return
        if any(row.is_in_force for row in part.past_routes):  # what ends is looked at under its own key, too
            self._keys.add(outcomes.PAST_ROUTES)
        keys = {Key(kind, name) for _, kind, name in named}
        self._keys |= keys
        self._is_all = len(self._keys) > MOST_KEYS
        if keys and not self._is_all and len(self._projects) == 1:
            [project] = self._projects
            self._identities(project, keys, part)
            self._references(project, part)

    def whole(self) -> bytes:
        """All that the parts may touch, when nothing is known but their project."""
        if self._is_everywhere or len(self._projects) != 1:
            return outcomes.EVERYTHING
        [project] = self._projects
        return outcomes.footprint_of_all(project)

    def footprint(self) -> bytes:
        """What all parts touch."""
        if self._is_everywhere or len(self._projects) != 1:
            return outcomes.EVERYTHING
        [project] = self._projects
        return outcomes.footprint_of(
            project,
            () if self._is_all else self._keys,
            ids=self._ids,
            targets=self._targets,
            owners=self._owners,
            repositories=self._repositories,
            whole=outcomes.OF_BOTH if self._is_all else outcomes.OF_COMMIT,
        )

    def _identities(self, project: str, keys: Iterable[Key], part: Changes) -> None:
        """Ids that are taken or free from now on, and whose resources these are. A resource that stays keeps its id."""
        before = {
            Key(kind, name): (held, owner) for kind, name, held, owner in self._keyed("identities_of", project, keys)
        }
        after = {Key(head.kind, head.name): (head.resource_id, head.owner) for head in part.heads}
        for key in (*((row.kind, row.name) for row in part.removed), *after):
            was, will_be = before.get(Key(*key), NOBODY), after.get(Key(*key), NOBODY)
            self._ids |= {held for held in (was[0], will_be[0]) if held is not None and was[0] != will_be[0]}
        self._owners |= {owner for _, owner in (*before.values(), *after.values()) if owner is not None}

    def _references(self, project: str, part: Changes) -> None:
        """What another set of resources refers to from now on."""
        rows: Iterator[Resource] = chain(part.versions, part.removed)
        writing = {Key(row.kind, row.name) for row in rows}
        before = {
            (Key(kind, name), Key(*target)) for kind, name, *target in self._keyed("targets_of", project, writing)
        }
        after = {(Key(row.kind, row.name), Key(row.target_kind, row.target_name)) for row in part.references}
        self._targets |= {target for _, target in before ^ after}

    def _keyed(self, name: str, project: str, keys: Iterable[Key]) -> list[tuple[str, ...]]:
        asked = msgspec.json.encode(list(keys)).decode()
        return self._connection.execute(database.load_queries()[name], (project, asked)).fetchall()


def _of_record(record: Record) -> set[str]:
    """The repositories of which something else is remembered from now on."""
    named = (record.forget_files_of, record.forget_held_of, record.forget_approval_of)
    rows = (record.repository and record.repository.name, record.approval and record.approval.repository)
    return {name for name in (*named, *rows) if name is not None}
