"""The floor: what a short script does with the same files, without statuses, history, limits or safety.

Read each blob of the commit, parse it, digest it, insert it where a database is named. Run alone:
`python -m benchmarks.plain_script REPO [DB]`.
"""

import hashlib
import sqlite3
import sys
import time

import orjson
import pygit2
import yaml


def main(repository: str, database: str | None = None) -> None:
    """Store every document of the branch `main`; prints the seconds it took."""
    begun = time.perf_counter()
    rows = []
    opened = pygit2.Repository(repository)
    pending: list[pygit2.Tree] = [opened.references["refs/heads/main"].peel(pygit2.Commit).tree]
    while pending:
        for entry in pending.pop():
            if isinstance(entry, pygit2.Tree):
                pending.append(entry)
            elif isinstance(entry, pygit2.Blob):
                value = yaml.load(entry.data, yaml.CSafeLoader)
                body = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
                rows.append((value["kind"], value["metadata"]["name"], hashlib.sha256(body).hexdigest(), body))
    if database is not None:
        _insert(rows, database)
    print(time.perf_counter() - begun)


def _insert(rows: list[tuple[str, str, str, bytes]], database: str) -> None:
    connection = sqlite3.connect(database)
    connection.execute("pragma journal_mode = wal")
    connection.execute("create table resource (kind, name, hash, body, primary key (kind, name)) without rowid")
    connection.executemany("insert into resource values (?, ?, ?, ?)", rows)
    connection.commit()


if __name__ == "__main__":
    main(*sys.argv[1:])
