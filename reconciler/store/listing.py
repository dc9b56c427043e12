"""Numbers: one for each list that a repository has, and one for each change that is written ahead.

They come from one counter that never goes back, and that stays ahead of the revision, so that none is ever used twice.

Belongs here: which number a list has. Does not: the rows of a list (`parts`, `staging`).
"""

import sqlite3

from reconciler.store import queries

INDEX, HELD = "index", "held"  # what the applied head holds, and what stays though it does not


def list_number(connection: sqlite3.Connection, repository: str, what: str) -> int:
    """The number of a repository's list; an empty one is made when there is none."""
    sql = queries.load_queries()
    row = connection.execute(sql["listing"], (repository, what)).fetchone()
    if row is not None:
        return int(row[0])
    made = reserve_list(connection, distance=1)
    put_list(connection, repository, what, made)
    return made


def put_list(connection: sqlite3.Connection, repository: str, what: str, number: int) -> None:
    """Show this list of a repository in place of the one that there may be, whose rows are swept later."""
    sql = queries.load_queries()
    connection.execute(sql["put_listing"], (repository, what, number))


def forget_list(connection: sqlite3.Connection, repository: str, what: str) -> None:
    """Nobody sees a repository's list any more; its rows are swept later."""
    sql = queries.load_queries()
    connection.execute(sql["forget_listing"], (repository, what))


def reserve_list(connection: sqlite3.Connection, *, distance: int) -> int:
    """Set a number aside that is so far above the revision and all that were set aside before."""
    sql = queries.load_queries()
    (last,) = connection.execute(sql["reserved"]).fetchone()
    connection.execute(sql["put_reserved"], (last + distance,))
    return int(last) + distance
