"""Versions and heads as rows: which number a version has in its table, whether a head's id may be somebody else's, and
what a reader sees of them.

Belongs here: what a commit and a change that is written ahead do alike, and a row as a reader sees it. Does not: which
rows they take the place of (`parts`, `staging`).
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from zlib import crc32

from reconciler.model import rendering
from reconciler.model.rendering import LATEST, is_source
from reconciler.store import checksums, queries
from reconciler.store.contract import Changes, HeadRow, VersionRow


def write_versions(
    connection: sqlite3.Connection, rows: Sequence[VersionRow], *, since: int
) -> Mapping[tuple[object, ...], int]:
    """Write versions; their numbers in the table, by project, kind, name and version."""
    sql = queries.load_queries()
    (last,) = connection.execute(sql["last_version"]).fetchone()
    numbered = list(enumerate(rows, last + 1))
    rows_of = ((number, *row, since, checksums.checksum_of(row.body, row.secrets)) for number, row in numbered)
    connection.executemany(sql["insert_version"], rows_of)
    return {row[:4]: number for number, row in numbered}


def head_rows(
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
    sql = queries.load_queries()
    return bool(connection.execute(sql["ids_between"], (*projects, min(ids), max(ids))).fetchone()[0])


def shown(row: tuple[Any, ...], *, damaged: Callable[[str, str, int], object]) -> bytes:
    """A resource as a reader gets it, or what stands for one that is damaged, which `damaged` is told of: kind, name
    and version. One that cannot be read never spoils the others of a list.
    """
    if is_damaged(row):
        kind, name, version = row[8:]
        damaged(kind, name, version)
        return rendering.damaged(kind, name, version=version, latest=row[1] is not None)
    return rendering.shown(row[:6])


def is_damaged(row: tuple[Any, ...]) -> bool:
    """Whether a row that a reader would see is not what was stored.

    Every resource of every list comes by here, so most of them are told by few calls.
    """
    body, status, head, tail, _, _, secrets, checksum, _, _, _ = row
    if checksum is not None and checksum != (crc32(body) if secrets is None else checksums.checksum_of(body, secrets)):
        return True
    return not (is_source(head, tail) and (status is None or status == LATEST or rendering.is_json(status)))
