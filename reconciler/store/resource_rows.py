"""Versions and heads as rows: which number a version has in its table, and whether a head's id may be somebody else's.

Belongs here: what a commit and a change that is written ahead do alike. Does not: which rows they take the place of
(`parts`, `staging`).
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence

from reconciler.store import queries
from reconciler.store.contract import Changes, HeadRow, VersionRow


def write_versions(
    connection: sqlite3.Connection, rows: Sequence[VersionRow], *, since: int
) -> Mapping[tuple[object, ...], int]:
    """Write versions; their numbers in the table, by project, kind, name and version."""
    sql = queries.load()
    (last,) = connection.execute(sql["last_version"]).fetchone()
    numbered = list(enumerate(rows, last + 1))
    connection.executemany(sql["insert_version"], ((number, *row, since) for number, row in numbered))
    return {row[:4]: number for number, row in numbered}


def heads(
    connection: sqlite3.Connection, part: Changes, *, versions: Mapping[tuple[object, ...], int], revision: int
) -> Iterator[tuple[object, ...]]:
    """The heads of a part as the statements that write them want them, with the numbers of those `versions`.

    Whether another resource has the id of one is looked up for each, unless nobody has an id in the whole range: new
    ids go by time, and a look-up costs as much as all else of a row.
    """
    may_be_taken = _may_be_taken(connection, part.heads)
    return ((*row, revision, versions.get(row[:4]), may_be_taken) for row in part.heads)


def _may_be_taken(connection: sqlite3.Connection, rows: Sequence[HeadRow]) -> bool:
    ids = {row.resource_id for row in rows}
    projects = {row.project for row in rows}
    if len(ids) < len(rows) or len(projects) != 1:
        return True
    sql = queries.load()
    return bool(connection.execute(sql["ids_between"], (*projects, min(ids), max(ids))).fetchone()[0])
