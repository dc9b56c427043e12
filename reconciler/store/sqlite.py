"""The store on SQLite."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, TypeAlias, TypeVar

import msgspec

from reconciler.model import rendering
from reconciler.model.directory import Amendment, Directory
from reconciler.model.names import Key
from reconciler.store import audit, checksums, database, directory_rows, records
from reconciler.store import commit as commits
from reconciler.store.audit_chain import ChainAnchor, ChainHead
from reconciler.store.checksums import Damage
from reconciler.store.contract import C, Damaged, Moved, StoreFault

# What somebody should look at in a project, as it is stored: what is incomplete, Configurations whose present version
# cannot deliver, and what is deprecated and in use.

MOST_DEPRECATED = 100  # that are told of
LONGEST = 500  # characters of a message that are told; one more says that there was more


def read_attention(connection: sqlite3.Connection, project: str, *, named: int) -> records.Attention:
    """See `contract.Store.attention`. Raises sqlite3.Error."""
    sql = database.load_queries()
    connection.execute("begin deferred")
    incomplete = [str(name) for (name,) in connection.execute(sql["incomplete_configurations"], (project,))]
    stale = [str(name) for (name,) in connection.execute(sql["stale_configurations"], (project,))]
    others = [f"{kind} {name}" for kind, name in connection.execute(sql["incomplete_others"], (project,))]
    deprecated = []
    for kind, name, body in connection.execute(sql["deprecated_in_use"], (project, MOST_DEPRECATED)).fetchall():
        users = [f"{user_kind} {user}" for user_kind, user in connection.execute(sql["users"], (project, kind, name))]
        info = json.loads(body)["metadata"].get("additionalInfo")
        deprecated.append(
            records.DeprecatedRow(kind, name, _message(info), records.Some(len(users), tuple(users[:named])))
        )
    return records.Attention(
        incomplete=records.Some(len(incomplete), tuple(incomplete[:named])),
        deprecated=tuple(deprecated),
        stale=records.Some(len(stale), tuple(stale[:named])),
        others=records.Some(len(others), tuple(others[:named])),
    )


def _message(info: object) -> str:
    message = info.get("message") if isinstance(info, dict) else None
    return message[: LONGEST + 1] if isinstance(message, str) else ""


# A recorded run as JSON, as the API shows it: the run, and each of its statuses, apart.

_encoder = msgspec.json.Encoder()


class _Status(msgspec.Struct, omit_defaults=True):
    """A struct, since there are many: a mapping of each took three times as long to make and to write."""

    kind: str | None
    name: str | None
    status: str
    reason: str | None = None
    path: str | None = None
    line: int | None = None
    notes: tuple[str, ...] = ()


def render_run(row: records.RunRow) -> bytes:
    """The run, without its statuses."""
    shown: dict[str, object] = {
        "id": row.id,
        "repository": row.repository,
        "project": row.project,
        "trigger": row.trigger,
        "actor": row.actor,
        "phase": "finished",
        "commit": row.commit,
        "outcome": row.outcome,
        "message": row.message,
        "counts": msgspec.Raw(row.counts),
        "rewound": bool(row.rewound),
        "startedAt": row.started_at,
        "finishedAt": row.finished_at,
        "durationMs": row.duration_ms,
    }
    return _encoder.encode(shown)


def render_run_status(row: records.StatusRow) -> bytes:
    """One status; `reason`, `path`, `line` and `notes` are left out when there are none."""
    notes = () if row.notes is None else tuple(row.notes.split("\n"))
    return _encoder.encode(_Status(row.kind, row.name, row.status, row.reason, row.path, row.line, notes))


# The store on SQLite. Point reads are inline on the event loop, since they take microseconds; one thread writes.
#
# Rules about resources do not belong here, nor does SQL: see `queries.sql`.

# What is read from the file and rendered at a stretch, about a millisecond each.
PAGE = 200  # resources of a list, or versions of a history
PAGE_BYTES = 512 * 1024  # of their bodies, which may be megabytes each
RUNS_PAGE = 100
STATUSES_PAGE = 200
EXAMINING_PAUSE = 0.02  # seconds between two steps of some milliseconds: nobody waits for the end

LOST = (
    "The store {path} was removed or replaced under the running service, so that nothing can be stored; stop the "
    "service, and put the file back or restore a backup (docs/recovery.md)."
)

T = TypeVar("T")

Rows: TypeAlias = list[tuple]  # type: ignore[type-arg]
"""SQLite's rows are tuples of what the columns hold; those who ask know the columns."""


class SqliteStore:
    """See `contract.Store` for what each method promises."""

    def __init__(self, path: Path) -> None:
        """Open or make the file and bring it to this version. Raises `StoreFault`, `NewerStore`."""
        self.path = path
        self.address = str(path)
        self._sql = database.load_queries()
        self._writer = database.open_writer(path)
        try:
            with database.faults("migrated"):
                database.migrate(self._writer, steps=database.migrations())
            self._reader = database.open_reader(path)
        except BaseException:
            self._writer.close()
            raise
        self._file = _file(path)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store-writer")
        self._damage = Damage()
        self._commits = records.CommitFigures()
        self._listeners: list[tuple[type, Callable[[Any], None]]] = []

    async def _on_writer(self, work: Callable[[], T]) -> T:
        """Do some work on the thread that writes, after what came before."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _written(self, work: Callable[[], None]) -> None:
        """Write something, and have it acknowledged. Raises StoreFault."""
        await self._on_writer(work)
        self._check_file()

    def _check_file(self) -> None:
        """Raise StoreFault where the file is not the one that was opened: what is written to a file that was removed
        is lost with the end of the process, and nobody else sees it before.
        """
        if self._file is None or _file(self.path) != self._file:
            raise StoreFault(LOST.format(path=self.path))

    def subscribe(self, kind: type[C], listener: Callable[[C], None]) -> None:
        self._listeners.append((kind, listener))

    def _announce(self, change: records.ResourceChange | records.DirectoryChange) -> None:
        for kind, listener in self._listeners:
            if isinstance(change, kind):
                listener(change)

    async def revision(self) -> int:
        self._check_file()
        return int(self._one("revision")[0])

    async def hmac_key(self) -> bytes:
        return bytes(self._one("hmac_key")[0])

    async def projects(self) -> list[str]:
        return [row[0] for row in self._all("projects")]

    async def create_project(self, name: str, *, at: str) -> None:
        def create() -> None:
            with database.faults("written"), self._writer:
                self._writer.execute(self._sql["put_project"], (name, at))

        await self._written(create)

    async def get(self, project: str, key: Key) -> bytes | None:
        row = self._first("get", project, key.kind, key.name)
        if row is None:
            return None
        if checksums.is_damaged_row(row):
            self._damage.note(records.DamagedVersion(project, *row[8:]))
            raise Damaged(rendering.DAMAGED.format(kind=key.kind, name=key.name))
        return rendering.shown(row[:6])

    async def list_pages(self, project: str, kind: str, *, after: str, limit: int) -> AsyncGenerator[list[bytes], None]:
        wanted, damaged = (project, kind, after, limit), self._noting(project)
        with self._snapshot() as reader, _paged(reader, self._sql["list_page"], wanted) as pages:
            for rows in pages:
                yield [checksums.shown_row(row, damaged=damaged) for row in rows]

    async def history_pages(self, project: str, key: Key) -> AsyncGenerator[list[bytes], None]:
        wanted, damaged = (project, key.kind, key.name), self._noting(project)
        with self._snapshot() as reader, _paged(reader, self._sql["history"], wanted) as pages:
            for rows in pages:
                yield [checksums.shown_row(row, damaged=damaged) for row in rows]

    async def commit(
        self,
        parts: Iterable[records.Changes],
        *,
        record: records.Record,
        timeout: float | None = None,  # noqa: ASYNC109 - it ends a transaction on another thread
    ) -> int:
        begun = monotonic()
        deadline = None if timeout is None else begun + timeout

        def write() -> int:
            return commits.commit(self._writer, parts, record=record, deadline=deadline)

        try:
            after = await self._on_writer(write)
            self._check_file()
        except Moved:
            self._commits.moved += 1
            raise
        except StoreFault:
            self._commits.failed += 1
            raise
        self._commits.seconds.note(monotonic() - begun)
        if record.change is not None:
            self._announce(record.change)
        return after

    def figures(self) -> records.StoreFigures:
        return records.StoreFigures(
            self._commits, _size(self.path), _size(self.path.with_name(f"{self.path.name}-wal"))
        )

    async def examine(self) -> None:
        while await self._on_writer(lambda: checksums.judge_some(self._writer)):  # noqa: ASYNC110 - a pause, not a wait
            await asyncio.sleep(EXAMINING_PAUSE)
        with closing(database.open_reader(self.path)) as reader:
            steps = checksums.damaged(reader)
            while (found := await _interruptible(reader, lambda: next(steps, None))) is not None:
                for one in found:
                    self._damage.note(one)
                await asyncio.sleep(EXAMINING_PAUSE)

    async def damaged(self) -> list[records.DamagedVersion]:
        return self._damage.tell(self._is_damaged)

    def suspect(self, found: Iterable[records.DamagedVersion]) -> None:
        for one in found:
            self._damage.note(one)

    def _is_damaged(self, one: records.DamagedVersion) -> bool:
        row = self._first("version_shown", *one)
        return row is not None and checksums.is_damaged_row(row)

    def _noting(self, project: str) -> Callable[[str, str, int], None]:
        return lambda kind, name, version: self._damage.note(records.DamagedVersion(project, kind, name, version))

    async def erase_traces(self) -> records.Traces:
        return await self._on_writer(lambda: commits.erase_traces(self._writer, folder=self.path.parent))

    async def run_pages(self, run: str) -> AsyncGenerator[list[bytes], None]:
        with self._snapshot() as reader:
            with _paged(reader, self._sql["run"], (run,), size=1) as found:
                shown = [render_run(records.RunRow(*row)) for rows in found for row in rows]
            if not shown:
                return
            yield shown
            with _paged(reader, self._sql["run_statuses"], (run,), size=STATUSES_PAGE) as pages:
                for rows in pages:
                    yield [render_run_status(records.StatusRow(*row)) for row in rows]

    async def runs_pages(
        self, *, repository: str | None, projects: frozenset[str] | None, limit: int
    ) -> AsyncGenerator[list[bytes], None]:
        sql, wanted = _runs(self._sql, repository=repository, projects=projects)
        with self._snapshot() as reader, _paged(reader, sql, (*wanted, limit), size=RUNS_PAGE) as pages:
            for rows in pages:
                yield [render_run(records.RunRow(*row)) for row in rows]

    async def runs(self, *, repository: str | None, limit: int) -> list[bytes]:
        pages = self.runs_pages(repository=repository, projects=None, limit=limit)
        return [run async for page in pages for run in page]

    async def last_run(self, repository: str) -> str | None:
        row = self._first("last_run", repository)
        return None if row is None else str(row[0])

    async def waits_for_store(self, repository: str) -> bool:
        row = self._first("waits_for_store", repository)
        return row is not None and bool(row[0])

    async def held(self, repository: str, *, limit: int) -> records.Held:
        first = [Key(*row) for row in self._all("held_first", repository, limit)]
        return records.Held(int(self._one("held_count", repository)[0]), first)

    async def repository(self, name: str) -> records.RepositoryRow | None:
        row = self._first("repository", name)
        return None if row is None else records.RepositoryRow(*row)

    async def remembered(self, name: str, *, held: int) -> records.Remembered:
        # None of these suspends, so nobody else reads on this connection meanwhile.
        with database.faults("read"), database.transaction(self._reader, kind="deferred"):
            return records.Remembered(
                row=await self.repository(name),
                suspension=await self.suspension(name),
                last_run=await self.last_run(name),
                held=await self.held(name, limit=held),
            )

    async def suspension(self, repository: str) -> records.SuspensionRow | None:
        row = self._first("suspension", repository)
        return None if row is None else records.SuspensionRow(*row)

    async def drift(self, repository: str, *, project: str) -> int:
        def count() -> int:
            with closing(database.open_reader(self.path)) as reader, database.faults("read"):
                return int(reader.execute(self._sql["drift"], (repository, project)).fetchone()[0])

        return await asyncio.to_thread(count)

    async def attention(self, project: str, *, named: int) -> records.Attention:
        def found() -> records.Attention:
            with closing(database.open_reader(self.path)) as reader, database.faults("read"):
                return read_attention(reader, project, named=named)

        return await asyncio.to_thread(found)

    async def repositories(self) -> list[str]:
        return [row[0] for row in self._all("repositories")]

    async def directory(self) -> Directory:
        return directory_rows.directory(self._reader)

    async def amend(self, amendment: Amendment, *, audit: records.AuditRow) -> None:
        await self._written(lambda: directory_rows.amend(self._writer, amendment, audit=audit))
        self._announce(records.DirectoryChange(amendment))

    async def tell(self, events: Sequence[records.AuditRow]) -> None:
        await self._written(lambda: directory_rows.tell(self._writer, events))

    async def event_pages(
        self, wanted: records.AuditWanted, *, limit: int, documents: bool
    ) -> AsyncGenerator[list[bytes], None]:
        left, after = limit, wanted.after
        # No read is open while a page is on its way. Pages of several moments are one list all the same: events never
        # move, new ones come before the first page, and what goes meanwhile goes from the end.
        with closing(database.open_reader(self.path)) as reader:
            while left > 0:
                behind = wanted._replace(after=after)
                work = partial(audit.render_event_page, reader, behind, limit=left, documents=documents)
                page, after = await _interruptible(reader, work)
                left = left - len(page) if after is not None else 0
                if page:
                    yield page

    async def audit_head(self) -> ChainHead:
        with database.faults("read"):
            return commits.chain_head(self._reader)

    async def audit_anchor(self) -> ChainAnchor:
        with database.faults("read"):
            anchor = audit.read_anchor(self._reader)
        if anchor is None:
            raise StoreFault("The audit has lost its anchor, the hash that its first link follows: restore a backup.")
        return anchor

    async def forget_events(self, *, before: str) -> bool:
        return await self._on_writer(lambda: audit.forget(self._writer, before=before))

    async def auth_type(self) -> str | None:
        row = self._first("auth_type")
        return None if row is None else str(row[0])

    async def put_auth_type(self, auth_type: str) -> None:
        await self._written(lambda: directory_rows.put_auth_type(self._writer, auth_type))

    async def touch_keys(self, used: Mapping[str, str]) -> None:
        await self._written(lambda: directory_rows.touch(self._writer, used))

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self._thread.shutdown)
        self._reader.close()
        self._writer.close()

    @contextmanager
    def _snapshot(self) -> Iterator[sqlite3.Connection]:
        """A connection of its own that holds one read transaction, so that every page is of one revision.

        While it is open, no page of the log that was written since can be taken into the file, and the log grows.
        """
        with closing(database.open_reader(self.path)) as reader:
            with database.faults("read"):
                reader.execute("begin deferred")
            yield reader

    def _all(self, name: str, *arguments: object) -> Rows:
        # Not the context manager of `connections`: on every point read it would cost a quarter of the read.
        try:
            return self._reader.execute(self._sql[name], arguments).fetchall()
        except sqlite3.Error as fault:
            raise database.fault("read", fault) from fault

    def _first(self, name: str, *arguments: object) -> tuple | None:  # type: ignore[type-arg]
        rows = self._all(name, *arguments)
        return rows[0] if rows else None

    def _one(self, name: str, *arguments: object) -> tuple:  # type: ignore[type-arg]
        row = self._first(name, *arguments)
        if row is None:
            raise StoreFault(f"The store has lost its fact `{name}`: restore a backup.")
        return row


async def _interruptible(reader: sqlite3.Connection, work: Callable[[], T]) -> T:
    """Look for something on another thread; whoever is cancelled meanwhile has it stop and waits for that."""
    task = asyncio.ensure_future(asyncio.to_thread(_faulting, work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        reader.interrupt()
        await asyncio.wait({task})
        task.exception()  # it says that it was interrupted, and nobody asks
        raise


def _faulting(work: Callable[[], T]) -> T:
    with database.faults("read"):
        return work()


def _file(path: Path) -> tuple[int, int] | None:
    """Which file a path leads to, by its device and inode; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _size(file: Path) -> int | None:
    try:
        return file.stat().st_size
    except OSError:
        return None


def _runs(
    sql: Mapping[str, str], *, repository: str | None, projects: frozenset[str] | None
) -> tuple[str, tuple[str, ...]]:
    """The statement that finds runs, and its arguments but the limit."""
    if projects is None:
        return (sql["runs"], ()) if repository is None else (sql["runs_of_repository"], (repository,))
    within = json.dumps(sorted(projects))
    if repository is None:
        return sql["runs_of_projects"], (within,)
    return sql["runs_of_repository_in_projects"], (repository, within)


def _paged(
    reader: sqlite3.Connection, sql: str, arguments: tuple[object, ...], *, size: int = PAGE
) -> closing[Generator[Rows, None, None]]:
    """Read the rows of a statement in pages, each when it is asked for.

    A page ends after `size` rows, or when their first columns, which may be bodies, are large together.
    """

    def pages() -> Generator[Rows, None, None]:
        # A cursor that is left open would keep the transaction, even when its connection is closed.
        with database.faults("read"), closing(reader.execute(sql, arguments)) as cursor:
            page: Rows = []
            length = 0
            for row in cursor:
                page.append(row)
                length += len(row[0])
                if length >= PAGE_BYTES or len(page) == size:
                    yield page
                    page, length = [], 0
            if page:
                yield page

    return closing(pages())
