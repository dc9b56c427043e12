"""Taking away what does not count any more, and what a change wrote ahead that was dropped.

A few rows in each transaction, so that whoever wants to write in between waits a moment. Nobody sees any of it; after
a crash it goes on with what is left.

Belongs here: which rows go, a step at a time. Does not: when, and on which thread (`sweeper`, `ahead`).
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from reconciler.store import connections, listing, queries

ROWS = 500  # deleted in one transaction: about 10 ms
VERSIONS = 200  # which may be large
LOOKED_THROUGH = 5_000  # rows of which few are deleted, or all


def sweep_everything(connection: sqlite3.Connection) -> Iterator[None]:
    """Each step is one transaction. Raises `StoreFault`."""
    yield from sweep_dropped(connection)
    yield from _ended(connection)
    yield from _lists(connection)


def sweep_dropped(connection: sqlite3.Connection) -> Iterator[None]:
    """Only what changes that were dropped have left."""
    sql = queries.load_queries()
    with connections.faults("read"):
        rows = connection.execute(sql["all_staged"]).fetchall()
    for number, versions, audits, _, is_dropped in rows:
        if is_dropped:
            yield from _kept(connection, number)
            yield from _repeated(connection, sql["drop_versions"], versions, number, VERSIONS)
            yield from _repeated(connection, sql["drop_audits"], audits, number, ROWS)
            yield from _written(connection, number)
            yield from _repeated(connection, sql["drop_statuses"], number, ROWS)
            with _transaction(connection):
                connection.execute(sql["forget_staged"], (number,))
            yield


def _kept(connection: sqlite3.Connection, number: int) -> Iterator[None]:
    """What the change would have ended."""
    sql = queries.load_queries()
    for name in (sql["keep_heads"], sql["keep_references"], sql["keep_files"], sql["keep_wanted"]):
        yield from _repeated(connection, name, number, ROWS)


def _written(connection: sqlite3.Connection, number: int) -> Iterator[None]:
    """What it wrote beside versions."""
    sql = queries.load_queries()
    stretches: Sequence[tuple[str, str, tuple[object, ...]]] = (
        (sql["next_heads"], sql["drop_heads"], ("", "", "")),
        (sql["next_references"], sql["drop_references"], ("", "", "")),
        (sql["next_files"], sql["drop_files"], (0, "")),
        (sql["next_wanted"], sql["drop_wanted"], (0, "")),
    )
    for next_, drop, start in stretches:
        yield from _looked_through(connection, number, next_=next_, drop=drop, start=start)


def _looked_through(
    connection: sqlite3.Connection, number: int, *, next_: str, drop: str, start: tuple[object, ...]
) -> Iterator[None]:
    here: tuple[object, ...] | None = start
    while here is not None:
        with _transaction(connection):
            there = connection.execute(next_, (*here, LOOKED_THROUGH)).fetchone()
            end = tuple(None for _ in start) if there is None else there
            connection.execute(drop, (number, *here, *end))
        here = there
        yield


def _ended(connection: sqlite3.Connection) -> Iterator[None]:
    """What does not count since this revision or an earlier one."""
    sql = queries.load_queries()
    for name in (sql["sweep_heads"], sql["sweep_references"], sql["sweep_files"], sql["sweep_wanted"]):
        yield from _repeated(connection, name, ROWS)


def _lists(connection: sqlite3.Connection) -> Iterator[None]:
    """The rows of lists that are nobody's. One change may have an index and a list of what is held of one number."""
    sql = queries.load_queries()
    index = (sql["drop_listed_files"], sql["drop_listed_wanted"])
    yield from _lists_of(connection, listing.INDEX, sql["next_index"], index)
    yield from _lists_of(connection, listing.HELD, sql["next_held"], (sql["drop_listed_held"],))


def _lists_of(connection: sqlite3.Connection, what: str, next_: str, drops: Iterable[str]) -> Iterator[None]:
    number = _next_list(connection, what, next_, 0)
    while number is not None:
        for statement in drops:
            yield from _repeated(connection, statement, number, ROWS)
        number = _next_list(connection, what, next_, number)


def _next_list(connection: sqlite3.Connection, what: str, next_: str, number: int) -> int | None:
    """The next number that rows have and no list; numbers are not used again."""
    sql = queries.load_queries()
    with connections.faults("read"):
        (found,) = connection.execute(next_, (number,)).fetchone()
        while found is not None and connection.execute(sql["is_listed"], (found, what)).fetchone()[0]:
            (found,) = connection.execute(next_, (found,)).fetchone()
    return None if found is None else int(found)


def _repeated(connection: sqlite3.Connection, sql: str, *arguments: object) -> Iterator[None]:
    while True:
        with _transaction(connection):
            changed = connection.execute(sql, arguments).rowcount
        if not changed:
            return
        yield


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """One that nobody waits for: after a power cut its rows may be back, and are swept again."""
    with (
        connections.faults("swept"),
        connections.unsynced(connection),
        connections.transaction(connection, kind="immediate"),
    ):
        yield
