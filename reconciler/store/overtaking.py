"""What a commit does to changes that are written ahead: one that touches what such a change writes makes it void.

The commit always wins. What it writes never meets the rows of the other but in two places, the number of a version and
the id of a run, where those rows go at once; all else of a void change is swept.

Belongs here: whether rows of a commit meet those of another change. Does not: whether a commit touches everything
(`moving`), nor taking away the rest (`sweeping`).
"""

import sqlite3
from collections.abc import Iterator
from itertools import chain
from typing import TypeAlias

from reconciler.store import queries
from reconciler.store.contract import Changes, HeadRow, HeadStatusRow, KeyRow, LineageRow, Record, VersionRow

NO_CHANGE = 0  # no change has this number

Named: TypeAlias = VersionRow | HeadRow | HeadStatusRow | KeyRow | LineageRow


def mark_others(connection: sqlite3.Connection, own: int | None) -> None:
    """No change but the one of this number, None for no such one, can be shown any more."""
    sql = queries.load_queries()
    connection.execute(sql["mark_others_dropped"], (NO_CHANGE if own is None else own,))


class Overtaking:
    """One commit beside the changes that are under way, which are most often none."""

    def __init__(self, connection: sqlite3.Connection, *, own: int | None, revision: int) -> None:
        """`own` is the number of the commit's own change; `revision` the one before the commit."""
        self._connection = connection
        self._sql = queries.load_queries()
        self._own = own
        self._revision = revision
        rows = connection.execute(self._sql["all_staged"]).fetchall()
        self._others = [row for row in rows if row[0] != own]
        self._runs = {row[3] for row in self._others}

    def record(self, record: Record) -> None:
        """What the record does, before it is written."""
        if record.run is not None:
            self._forget_statuses({record.run.id})

    def part(self, part: Changes) -> None:
        """What a part does, before it is written."""
        if not self._others:
            return
        if self._meets_resources(part):
            mark_others(self._connection, self._own)
        self._forget_statuses({row.run for row in part.statuses})

    def _meets_resources(self, part: Changes) -> bool:
        rows: Iterator[Named] = chain(part.versions, part.heads, part.head_statuses, part.removed, part.lineages)
        keys = {(row.project, row.kind, row.name) for row in rows}
        met = [key for key in keys if self._is(self._sql["meets_staged"], *key)]
        ids = [True for row in part.heads if self._is(self._sql["meets_staged_id"], row.project, row.resource_id)]
        for row in part.versions:
            if (row.project, row.kind, row.name) in met:
                gone = (row.project, row.kind, row.name, self._revision)
                self._connection.execute(self._sql["forget_staged_versions"], gone)
        return bool(met or ids)

    def _is(self, question: str, *arguments: object) -> bool:
        return bool(self._connection.execute(question, (*arguments, self._revision)).fetchone()[0])

    def _forget_statuses(self, runs: set[str]) -> None:
        """The run is planned anew: what a change that was dropped said of it goes."""
        for run in runs & self._runs:
            self._connection.execute(self._sql["forget_run_statuses"], (run,))
            self._connection.execute(self._sql["forget_staged_run"], (run,))
            self._runs.discard(run)
