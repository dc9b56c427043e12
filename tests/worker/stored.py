"""All that a store holds, as values that are the same for two stores to which the same happened.

Ids are made of randomness, which two runs do not share; all else must be equal, but for runs that failed. Both stores
have the same key when one is a copy of what the other was at first.
"""

import itertools
import re
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

from reconciler.model.names import KINDS, Key
from reconciler.store.sqlite import SqliteStore

ULID = re.compile(r"\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b")
TRIGGER = re.compile(r'"trigger":"[a-z]+",?')
MOST = 1_000_000
TABLES = {
    "audit": "at, project, actor, action, kind, name, version_before, version_after, detail",
    "source_file": "repository, path, blob, vacant, given",
    "wanted": "repository, path, position, kind, name, digest, unconverged",
    "reference": "project, kind, name, target_kind, target_name",
    "held": "repository, why, kind, name",
    "prune_ledger": "repository, at, owned, deleted",
    "repository": "*",
    "fact": "key, value",
}
UNCERTAIN = frozenset({"revision", "reserved"})  # facts that count what was tried as well

Stored: TypeAlias = dict[str, list[str]]


async def stored(store: SqliteStore) -> Stored:
    """Everything: what readers get, with all versions and runs, and what plans read beside it."""
    found: Stored = {name: _rows(store.path, name, columns) for name, columns in TABLES.items()}
    found["fact"] = [row for row in found["fact"] if not any(repr(name) in row for name in UNCERTAIN)]
    for project in (await store.directory()).projects:
        for kind in KINDS:
            listed = await _all(store.list_pages(project, kind.name, after="", limit=MOST))
            found[f"{project} {kind.name}"] = [_known(one) for one in listed]
            names = _names(store.path, project, kind.name)
            found[f"{project} {kind.name} history"] = [
                _known(version)
                for name in names
                for version in await _all(store.history_pages(project, Key(kind.name, name)))
            ]
    runs = await _all(store.runs_pages(repository=None, projects=None, limit=MOST))
    found["run"] = sorted(_run(run) for run in runs if b'"outcome":"failed"' not in run)
    found["run_status"] = _rows(store.path, "run_status", "ordinal, kind, name, status, reason, path, line")
    return found


def differences(found: Stored, expected: Stored) -> list[str]:
    """Return what one holds and the other does not, the first of each table."""
    told = []
    for name in sorted(found.keys() | expected.keys()):
        ours, theirs = found.get(name, []), expected.get(name, [])
        if ours != theirs:
            pairs = itertools.zip_longest(ours, theirs)
            first = next(pair for pair in pairs if pair[0] != pair[1])
            told.append(f"{name}: {len(ours)} and {len(theirs)}; {first[0]} instead of {first[1]}")
    return told


def _rows(path: Path, table: str, columns: str) -> list[str]:
    with closing(sqlite3.connect(path)) as reader:
        rows = reader.execute(f"select {columns} from {table}").fetchall()  # noqa: S608 - names of tables above
    return sorted(ULID.sub("an id", repr(row)) for row in rows)


def _names(path: Path, project: str, kind: str) -> list[str]:
    """Of all resources that there were."""
    with closing(sqlite3.connect(path)) as reader:
        wanted = "select distinct name from version where project = ? and kind = ? order by name"
        return [name for (name,) in reader.execute(wanted, (project, kind))]


async def _all(pages: AsyncGenerator[list[bytes], None]) -> list[bytes]:
    return [one async for page in pages for one in page]


def _run(run: bytes) -> str:
    """Less what began it: a look at an interval may be first, or an event."""
    return TRIGGER.sub("", _known(run))


def _known(value: bytes) -> str:
    return ULID.sub("an id", value.decode())
