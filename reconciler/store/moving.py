"""What the last commits touched, so that a plan that looked at nothing of it need not be made again.

It is in the memory of the process that writes, on the thread that does. What is not known counts as everything: what
is older than the last commits, what another process wrote, what is large, and whatever is no change of a request.

Belongs here: what a commit touches, looked up before it is written, and whether a plan outlives the commits since.
Does not: what a plan looked at (`reading.noting`), how facts are held against each other (`planning.footprints`).
"""

import sqlite3
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TypeAlias

import msgspec

from reconciler.planning import footprints
from reconciler.resources.keys import Key
from reconciler.store import queries
from reconciler.store.contract import Changes, HeadRow, HeadStatusRow, KeyRow, Record, VersionRow

MOST_COMMITS = 4_000  # a plan of 20 s, beside 200 changes a second
MOST_BYTES = 1024 * 1024  # of their footprints together
MOST_KEYS = 500  # of a commit whose facts are looked up; one of more touches everything

NO_RECORD = Record()
NOBODY = (None, None)  # the id of what is not stored, and its owner
UNKNOWN = (0, footprints.EVERYTHING)

Resource: TypeAlias = KeyRow | VersionRow | HeadRow | HeadStatusRow


class Recent:
    """What each of the last commits touched, by the revision that it made, and with the one that it found."""

    def __init__(self) -> None:
        self._commits: OrderedDict[int, tuple[int, bytes]] = OrderedDict()
        self._bytes = 0

    def holds(self, footprint: bytes, *, planned_at: int, revision: int) -> bool:
        """Whether a plan for `planned_at`, with this footprint, is what it would be at `revision`."""
        at = revision
        while at > planned_at:
            before, touched = self._commits.get(at, UNKNOWN)
            if footprints.meets(touched, footprint):
                return False
            at = before
        return at == planned_at

    def note(self, touched: bytes, *, before: int, revision: int) -> None:
        """A commit that found one revision and made another is on disk."""
        self._commits[revision] = (before, touched)
        self._bytes += len(touched)
        while len(self._commits) > MOST_COMMITS or self._bytes > MOST_BYTES:
            _, (_, oldest) = self._commits.popitem(last=False)
            self._bytes -= len(oldest)


class Touching:
    """What one commit touches. Its parts are told before they are written, since what was there before counts, too."""

    def __init__(self, connection: sqlite3.Connection, record: Record, *, is_ahead: bool) -> None:
        """`is_ahead`: parts of it are written already."""
        self._connection = connection
        self._is_all = is_ahead or record != NO_RECORD
        self._projects: set[str] = set()
        self._keys: set[Key] = set()
        self._targets: set[Key] = set()
        self._ids: set[str] = set()
        self._owners: set[str] = set()

    def told(self, parts: Iterable[Changes]) -> Iterator[Changes]:
        """The parts, each looked at before it goes on."""
        for part in parts:
            if not self._is_all:
                self._look_at(part)
            yield part

    def _look_at(self, part: Changes) -> None:
        rows: Iterator[Resource] = chain(part.removed, part.versions, part.heads, part.head_statuses)
        named = {(row.project, Key(row.kind, row.name)) for row in rows}
        keys = {key for _, key in named}
        self._projects |= {project for project, _ in named}
        self._keys |= keys
        self._is_all = len(self._keys) > MOST_KEYS or len(self._projects) > 1 or _is_no_request(part)
        if keys and not self._is_all:
            [project] = self._projects
            self._identities(project, keys, part)
            self._references(project, part)

    def footprint(self) -> bytes:
        """What all parts touch."""
        if self._is_all or not self._projects:
            return footprints.EVERYTHING
        [project] = self._projects
        return footprints.of(project, self._keys, ids=self._ids, targets=self._targets, owners=self._owners)

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
        return self._connection.execute(queries.load()[name], (project, asked)).fetchall()


def _is_no_request(part: Changes) -> bool:
    """Whether a part holds what no request of the API stores."""
    repository = (part.forgotten_files, part.files, part.wanted, part.pruned, part.held, part.statuses)
    return part.whole_index or any((*repository, part.rewritten, part.quotes, part.lineages))
