"""Large changes, written ahead in rows that nobody sees yet."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from time import monotonic
from typing import TypeAlias

from reconciler.store import database, rows
from reconciler.store.contract import Changes, HeadRow, HeadStatusRow, KeyRow, LineageRow, Moved, Record, VersionRow
from reconciler.store.rows import EventGroup

# A change that is written ahead: its rows count from a revision that is far above the present one, and that the store
# takes on when the change is shown.
#
# What it replaces or removes is told until when it counts. So the state that this change makes is there beside the
# present one, and showing it is one number. A row of `staged` in the store says that it is under way; whoever overtakes
# it (see `Overtaking`), or opens the store again, marks it dropped there, and `writing_ahead` takes it away.

# More than the commits that there can be while it is written and, if need be, swept away: as long as its number is
# above the revision, nobody sees it.
DISTANCE = 2**20
STEP_SECONDS = 0.02  # then the transaction ends with the part that it is at


@dataclass(slots=True)
class Staged:
    """What the process knows of its change; all else is in the store."""

    number: int | None = None  # the revision at which it is to count; None: nothing is written yet
    is_void: bool = False  # it cannot be shown any more
    refused: sqlite3.IntegrityError | None = None  # why, when a row of it broke a promise of the store
    is_seen: bool = False  # it changes what a plan or a reader sees
    group: EventGroup = field(default_factory=EventGroup)  # of its events, hashed as they are written
    run: str | None = None  # whose statuses it holds
    index_of: str | None = None  # the repository whose index it writes
    is_whole: bool = False  # all of it, as a list of its own
    held_of: str | None = None  # the repository of which it says what is held, as a list of its own
    kept: list[Changes] = field(default_factory=list)  # what cannot be written unseen


def stage_step(connection: sqlite3.Connection, staged: Staged, coming: Iterator[Changes]) -> bool:
    """Write some of the parts in one transaction that nobody waits for; whether there may be more.

    Nothing more is taken of a change that is void. Raises `StoreFault`, and whatever taking a part does.
    """
    try:
        with database.faults("written"), database.unsynced(connection):
            return _step(connection, staged, coming)
    except BaseException:
        staged.is_void = True
        raise


def _step(connection: sqlite3.Connection, staged: Staged, coming: Iterator[Changes]) -> bool:
    try:
        with database.transaction(connection, kind="immediate"):
            if staged.number is None:
                staged.number = _begin(connection)
            elif not is_alive(connection, staged):
                staged.is_void = True
            return not staged.is_void and _write_some(connection, staged, coming)
    except sqlite3.IntegrityError as refused:
        # Another commit stored the same version or took the same id, most likely: the plan is of the past.
        staged.is_void, staged.refused = True, refused
        return False


def _begin(connection: sqlite3.Connection) -> int:
    number = rows.reserve_list(connection, distance=DISTANCE)
    sql = database.load_queries()
    connection.execute(sql["insert_staged"], (number,))
    return number


def is_alive(connection: sqlite3.Connection, staged: Staged) -> bool:
    """Whether nobody overtook the change, or took it for one that a process left."""
    sql = database.load_queries()
    row = connection.execute(sql["staged"], (staged.number,)).fetchone()
    return row is not None and not row[0]


def _write_some(connection: sqlite3.Connection, staged: Staged, coming: Iterator[Changes]) -> bool:
    end = monotonic() + STEP_SECONDS
    for part in coming:
        _write(connection, staged, part)
        if monotonic() >= end:
            return True
    return False


def _write(connection: sqlite3.Connection, staged: Staged, part: Changes) -> None:
    sql = database.load_queries()
    number = staged.number
    assert number is not None
    part = _keep(connection, staged, part)
    staged.is_seen = staged.is_seen or rows.is_seen(part)
    _write_resources(connection, part, number=number)
    rows.write_events(
        connection, staged.group, since=number, origins=part.origins, changed=part.changed, audit=part.audit
    )
    if staged.is_whole:
        _write_whole_index(connection, part, number=number)
    elif part.forgotten_files or part.files or part.wanted:
        assert staged.index_of is not None
        _write_index(connection, part, repository=staged.index_of, number=number)
    connection.executemany(sql["put_held"], ((number, *row[1:]) for row in part.held))
    connection.executemany(sql["insert_run_status"], part.statuses)


def _keep(connection: sqlite3.Connection, staged: Staged, part: Changes) -> Changes:
    """What of a part can be written unseen; the rest is kept: it changes rows where they are, or belongs to a second
    repository or run.
    """
    kept = Changes(
        past_routes=part.past_routes,
        rewritten=part.rewritten,
        quotes=part.quotes,
        lineages=part.lineages,
        pruned=part.pruned,
    )
    ahead = replace(part, past_routes=(), rewritten=(), quotes=(), lineages=(), pruned=())
    if not _is_index_of_one(staged, part):
        kept = replace(kept, forgotten_files=part.forgotten_files, files=part.files, wanted=part.wanted)
        ahead = replace(ahead, forgotten_files=(), files=(), wanted=())
    if not _is_held_of_one(staged, part):
        kept, ahead = replace(kept, held=part.held), replace(ahead, held=())
    if not _is_of_one_run(connection, staged, part):
        kept, ahead = replace(kept, statuses=part.statuses), replace(ahead, statuses=())
    if kept != Changes():
        staged.kept.append(kept)
    return ahead


def _is_index_of_one(staged: Staged, part: Changes) -> bool:
    repositories = rows.indexed_repositories(part)
    if not repositories:
        return True
    if staged.index_of is None:
        staged.index_of, staged.is_whole = min(repositories), part.whole_index
    if part.whole_index and not staged.is_whole:
        raise ValueError("a whole index comes behind a part of one")
    return repositories == {staged.index_of}


def _is_held_of_one(staged: Staged, part: Changes) -> bool:
    repositories = {row.repository for row in part.held}
    if repositories and staged.held_of is None:
        staged.held_of = min(repositories)
    return repositories <= {staged.held_of}


def _is_of_one_run(connection: sqlite3.Connection, staged: Staged, part: Changes) -> bool:
    runs = {row.run for row in part.statuses}
    if runs and staged.run is None:
        staged.run = min(runs)
        sql = database.load_queries()
        connection.execute(sql["put_staged_run"], (staged.run, staged.number))
    return runs <= {staged.run}


def _write_resources(connection: sqlite3.Connection, part: Changes, *, number: int) -> None:
    sql = database.load_queries()
    gone = [(*row, number) for row in part.removed]
    connection.executemany(sql["end_head"], gone)
    connection.executemany(sql["forget_staged_head"], gone)
    # The first version of a resource takes nobody's place, and a first read brings no other.
    new = {(row.project, row.kind, row.name) for row in part.versions if row.version == 1}
    replaced = [*gone, *((row.project, row.kind, row.name, number) for row in part.versions if row.version > 1)]
    connection.executemany(sql["end_references"], replaced)
    connection.executemany(sql["forget_staged_references"], replaced)
    connection.executemany(sql["insert_origin"], part.origins)
    ids = rows.write_versions(connection, part.versions, since=number)
    connection.executemany(sql["insert_reference"], ((*row, number) for row in part.references))
    named = ((row.project, row.kind, row.name) for row in part.heads)
    connection.executemany(sql["end_head"], ((*head, number) for head in named if head not in new))
    heads = rows.head_rows(connection, part, versions=ids, revision=number)
    connection.executemany(sql["stage_head"], heads)
    restated = [(*row[:3], number) for row in part.head_statuses]
    connection.executemany(sql["copy_head"], restated)
    connection.executemany(sql["end_head"], restated)
    statuses = ((*row[3:], *row[:3], number) for row in part.head_statuses)
    connection.executemany(sql["put_head_status"], statuses)


def _write_whole_index(connection: sqlite3.Connection, part: Changes, *, number: int) -> None:
    """The list is of nobody until it is shown, so that its rows may count always."""
    sql = database.load_queries()
    forgotten = [(number, path, rows.PART_ALWAYS) for _, path in part.forgotten_files]
    connection.executemany(sql["forget_staged_wanted"], forgotten)
    connection.executemany(sql["forget_staged_file"], forgotten)
    connection.executemany(sql["stage_file"], ((number, *row[1:], rows.PART_ALWAYS) for row in part.files))
    connection.executemany(sql["stage_wanted"], ((number, *row[1:], rows.PART_ALWAYS) for row in part.wanted))


def _write_index(connection: sqlite3.Connection, part: Changes, *, repository: str, number: int) -> None:
    sql = database.load_queries()
    index = rows.list_number(connection, repository, rows.INDEX)
    forgotten = [(index, path, number) for _, path in part.forgotten_files]
    connection.executemany(sql["end_wanted"], forgotten)
    connection.executemany(sql["forget_staged_wanted"], forgotten)
    connection.executemany(sql["end_file"], forgotten)
    connection.executemany(sql["forget_staged_file"], forgotten)
    connection.executemany(sql["end_file"], ((index, row.path, number) for row in part.files))
    connection.executemany(sql["stage_file"], ((index, *row[1:], number) for row in part.files))
    connection.executemany(sql["end_wanted_one"], ((index, row.path, row.position, number) for row in part.wanted))
    connection.executemany(sql["stage_wanted"], ((index, *row[1:], number) for row in part.wanted))


def show_staged(connection: sqlite3.Connection, staged: Staged, *, revision: int) -> int:
    """Have it count, in a transaction; the revision from then on. Raises `Moved` when it is void."""
    sql = database.load_queries()
    number = staged.number
    if number is None:
        return revision
    if staged.is_void or not is_alive(connection, staged):
        raise Moved("Another change overtook this one.")
    if staged.is_seen:
        connection.execute(sql["put_revision"], (number,))
    elif number in staged.group.spans:
        connection.execute(sql["show_audit"], (number,))
        staged.group.spans[-number] = staged.group.spans.pop(number)
    connection.execute(sql["forget_staged"], (number,))
    return number if staged.is_seen else revision


def show_staged_lists(connection: sqlite3.Connection, staged: Staged, record: Record) -> None:
    """Show the lists of a change that counts, after its record forgot those before."""
    if staged.is_whole != (staged.index_of is not None and staged.index_of == record.forget_files_of):
        raise ValueError("a whole index is shown in place of the one before, and nothing else is")
    if staged.number is None:
        return
    if staged.is_whole and staged.index_of is not None:
        rows.put_list(connection, staged.index_of, rows.INDEX, staged.number)
    if staged.held_of is not None and staged.held_of == record.forget_held_of:
        rows.put_list(connection, staged.held_of, rows.HELD, staged.number)
    elif staged.held_of is not None:
        before = rows.list_number(connection, staged.held_of, rows.HELD)
        sql = database.load_queries()
        connection.execute(sql["merge_held"], (before, staged.number))


# What a commit does to changes that are written ahead: one that touches what such a change writes makes it void.
#
# The commit always wins. What it writes never meets the rows of the other but in two places, the number of a version
# and the id of a run, where those rows go at once; all else of a void change is swept.

NO_CHANGE = 0  # no change has this number

Named: TypeAlias = VersionRow | HeadRow | HeadStatusRow | KeyRow | LineageRow


def mark_others(connection: sqlite3.Connection, own: int | None) -> None:
    """No change but the one of this number, None for no such one, can be shown any more."""
    sql = database.load_queries()
    connection.execute(sql["mark_others_dropped"], (NO_CHANGE if own is None else own,))


class Overtaking:
    """One commit beside the changes that are under way, which are most often none."""

    def __init__(self, connection: sqlite3.Connection, *, own: int | None, revision: int) -> None:
        """`own` is the number of the commit's own change; `revision` the one before the commit."""
        self._connection = connection
        self._sql = database.load_queries()
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
