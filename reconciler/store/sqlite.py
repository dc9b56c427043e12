"""The store on SQLite. Point reads are inline on the event loop, since they take microseconds; one thread writes.

Rules about resources do not belong here, nor does SQL: see `queries.sql`. Runs are stored as rows and shown as JSON.
"""

import asyncio
import hashlib
import json
import math
import os
import sqlite3
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, closing, nullcontext
from dataclasses import astuple, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, TypeVar

import msgspec

from reconciler.model import directory, rendering
from reconciler.model.audit_chain import ChainAnchor, ChainHead
from reconciler.model.directory import Amendment, Directory
from reconciler.model.names import Key
from reconciler.model.principals import Role, Scope
from reconciler.store import audit, database, records
from reconciler.store import commit as commits
from reconciler.store.contract import C, Damaged, Moved, StaleChange, StoreFault
from reconciler.store.database import Connection, Damage, Row

MOST_DEPRECATED = 100  # deprecated resources in a report
LONGEST = 500  # characters of a message in a report; one more shows that it was longer


def _attention(connection: Connection, project: str, *, named: int) -> records.Attention:
    connection.execute("begin deferred")
    deprecated = [
        records.DeprecatedRow(kind, name, message, _some(connection, "users", project, kind, name, named=named))
        for kind, name, message in connection.all("deprecated_in_use", project, MOST_DEPRECATED, LONGEST + 1)
    ]
    return records.Attention(
        incomplete=_some(connection, "incomplete_configurations", project, named=named),
        deprecated=tuple(deprecated),
        stale=_some(connection, "stale_configurations", project, named=named),
        others=_some(connection, "incomplete_others", project, named=named),
    )


def _some(connection: Connection, name: str, *arguments: object, named: int) -> records.Some:
    found = [" ".join(row) for row in connection.run(name, *arguments)]
    return records.Some(len(found), tuple(found[:named]))


_encoder = msgspec.json.Encoder()


def _render_run(values: Row) -> bytes:
    return _encoder.encode(records.RunRow(*values).shown("finished"))


def _render_run_status(values: Row) -> bytes:
    row = records.StatusRow(*values)
    notes = None if row.notes is None else row.notes.split("\n")
    optional = {"reason": row.reason, "path": row.path, "line": row.line, "notes": notes}
    shown = {"kind": row.kind, "name": row.name, "status": row.status}
    return _encoder.encode(shown | {name: value for name, value in optional.items() if value is not None})


# Limits of one page, which takes at most a millisecond to read and render.
PAGE = 100  # resources of a list, versions of a history, runs or their statuses
PAGE_BYTES = 512 * 1024  # of JSON; one resource may have megabytes
EXAMINING_PAUSE = 0.02  # seconds between two steps of some milliseconds: the search for damage is not urgent

LOST = (
    "The store {path} was removed or replaced under the running service, so that nothing can be stored; stop the "
    "service, and put the file back or restore a backup (docs/recovery.md)."
)

T = TypeVar("T")


class _Listing(NamedTuple):
    """A statement whose rows are shown in pages."""

    statement: str
    arguments: tuple[object, ...]
    show: Callable[[Row], bytes]


class SqliteStore:
    """See `contract.Store` for what each method promises."""

    def __init__(self, path: Path) -> None:
        """Open or make the file and bring it to this version. Raises `StoreFault`, `NewerStore`."""
        self.path = path
        self.address = str(path)
        self._writer = database.open_migrated(path)
        try:
            self._reader = database.open_reader(path)
        except BaseException:
            self._writer.close()
            raise
        self._file = _stat(path)
        self._revision = int(self._reader.value("revision"))
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store-writer")
        self._damage = Damage()
        self._commits = records.CommitFigures()
        self._listeners: list[tuple[type, Callable[[Any], None]]] = []

    async def _on_writer(self, work: Callable[[Connection], T]) -> T:
        """Do some work on the thread that writes, after earlier work."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, self._writer)

    async def _write(self, work: Callable[[Connection], object]) -> None:
        """Do some writing work in one transaction. Raises StoreFault."""

        def write(connection: Connection) -> None:
            with database.faults("written"), database.transaction(connection, kind="immediate"):
                work(connection)

        await self._on_writer(write)
        self._check_file()

    def _check_file(self) -> None:
        """Raise StoreFault if the file is no longer the one that was opened: writes to a removed file are lost when the
        process ends, and no other process sees them.
        """
        found = _stat(self.path)
        if self._file is None or found is None or not os.path.samestat(found, self._file):
            raise StoreFault(LOST.format(path=self.path))

    def subscribe(self, kind: type[C], listener: Callable[[C], None]) -> None:
        self._listeners.append((kind, listener))

    def announce(self, change: records.Committed | records.ResourceChange | Amendment) -> None:
        for kind, listener in self._listeners:
            if isinstance(change, kind):
                listener(change)

    async def revision(self) -> int:
        self._check_file()
        with database.faults("read"):
            return int(self._reader.value("revision"))

    async def hmac_key(self) -> bytes:
        with database.faults("read"):
            return bytes(self._reader.value("hmac_key"))

    async def create_project(self, name: str, *, at: str) -> None:
        await self._write(lambda writer: writer.run("put_project", name, at))

    async def rendering(self, project: str, name: str, *, previous: bool = False) -> bytes | None:
        row = self._first("previous_rendering" if previous else "rendering", project, name)
        if row is None:
            return None
        body, hashed = row
        if body and hashlib.sha256(body).hexdigest() != hashed:
            raise Damaged(rendering.DAMAGED_RENDERING.format(name=name))
        return bytes(body)

    async def get(self, project: str, key: Key, *, version: int | None = None) -> bytes | None:
        if version is None:
            row = self._first("get", project, *key)
        else:
            row = self._first("version_shown", project, *key, version)
        if row is None:
            return None
        if database.is_damaged_row(row):
            self._damage.note(records.DamagedVersion(project, *row[8:]))
            raise Damaged(rendering.DAMAGED.format(kind=row[8], name=row[9]))
        return rendering.shown(row[:6])

    def list_pages(self, project: str, kind: str, *, after: str, limit: int) -> AsyncGenerator[list[bytes], None]:
        return self._pages(_Listing("list_page", (project, kind, after, limit), self._showing(project)))

    def history_pages(self, project: str, key: Key) -> AsyncGenerator[list[bytes], None]:
        return self._pages(_Listing("history", (project, *key), self._showing(project)))

    async def references(self, project: str, key: Key, *, limit: int) -> tuple[dict[Key, bool], list[Key]]:
        def read(reader: Connection) -> tuple[dict[Key, bool], list[Key]]:
            reader.execute("begin deferred")
            uses, users = (reader.run(one, project, *key).fetchmany(limit) for one in ("uses", "users"))
            return {Key(kind, name): bool(exists) for kind, name, exists in uses}, [Key(*user) for user in users]

        return await self._read_apart(read)

    def locked(self, project: str, *, seconds: float | None = None) -> AbstractAsyncContextManager[None]:  # noqa: ARG002
        return nullcontext()

    @property
    def known_revision(self) -> int:
        return self._revision

    async def commit(
        self,
        parts: Iterable[records.Changes],
        *,
        record: records.Record,
        project: str | None = None,  # noqa: ARG002 - one process writes
        timeout: float | None = None,  # noqa: ASYNC109 - it ends a transaction on another thread
    ) -> int:
        begun = monotonic()
        deadline = begun + (math.inf if timeout is None else timeout)
        keys: dict[records.KeyRow, None] = {}
        write = partial(commits.commit, coming=commits.noting(parts, keys), record=record, deadline=deadline)
        try:
            after = await self._on_writer(write)
            self._check_file()
        except Moved:
            self._commits.moved += 1
            raise
        except StoreFault:
            self._commits.failed += 1
            raise
        self._revision = after
        self._commits.seconds.note(monotonic() - begun)
        every = (record, *record.beside)
        for one in every:
            if one.change is not None:
                self.announce(one.change)
        self.announce(records.committed(after, keys, every))
        return after

    def figures(self) -> records.StoreFigures:
        file, log = _stat(self.path), _stat(self.path.with_name(f"{self.path.name}-wal"))
        return records.StoreFigures(self._commits, file and file.st_size, log and log.st_size)

    async def examine(self) -> None:
        last, before = 0, -1
        while last != before:
            before = last
            found, last = await self._read_apart(partial(database.damaged_versions, after=before))
            for one in found:
                self._damage.note(one)
            await asyncio.sleep(EXAMINING_PAUSE)

    async def damaged(self) -> list[records.DamagedVersion]:
        return self._damage.tell(self._is_damaged)

    def _is_damaged(self, one: records.DamagedVersion) -> bool:
        row = self._first("version_shown", *one)
        return row is not None and row[1] is not None and database.is_damaged_row(row)

    def _showing(self, project: str) -> Callable[[Row], bytes]:
        """Return a function that shows a row of a project to a reader, and notes damage."""

        def note(kind: str, name: str, version: int) -> None:
            self._damage.note(records.DamagedVersion(project, kind, name, version))

        return partial(database.shown_row, damaged=note)

    async def erase_traces(self) -> records.Traces:
        return await self._on_writer(partial(commits.erase_traces, folder=self.path.parent))

    def run_pages(self, run: str) -> AsyncGenerator[list[bytes], None]:
        return self._pages(_Listing("run", (run,), _render_run), _Listing("run_statuses", (run,), _render_run_status))

    async def run_changes(self, run: str, *, limit: int) -> list[records.ChangedVersions]:
        rows = await self._read_apart(lambda reader: reader.all("run_changes", run, limit))
        return [records.ChangedVersions(*row) for row in rows]

    def runs_pages(
        self, *, repository: str | None, projects: frozenset[str] | None, limit: int
    ) -> AsyncGenerator[list[bytes], None]:
        within = () if projects is None else (json.dumps(sorted(projects)),)
        if repository is None:
            listing = _Listing("runs_of_projects" if within else "runs", (*within, limit), _render_run)
        else:
            statement = "runs_of_repository_in_projects" if within else "runs_of_repository"
            listing = _Listing(statement, (repository, *within, limit), _render_run)
        return self._pages(listing)

    async def waits_for_store(self, repository: str) -> bool:
        return bool(self._all("waits_for_store", repository)[0][0])

    async def remembered(self, name: str, *, held: int) -> records.Remembered:
        # There is no `await` here, so nothing else reads on this connection meanwhile.
        with database.faults("read"), database.transaction(self._reader, kind="deferred"):
            row, suspension = self._first("repository", name), self._first("suspension", name)
            last_run = self._first("last_run", name)
            return records.Remembered(
                row=None if row is None else records.RepositoryRow(*row),
                suspension=None if suspension is None else records.SuspensionRow(*suspension),
                last_run=None if last_run is None else last_run[0],
                held=records.Held(
                    self._reader.value("held_count", name), [Key(*row) for row in self._all("held_first", name, held)]
                ),
            )

    async def drift(self, repository: str, *, project: str) -> int:
        return await self._read_apart(lambda reader: int(reader.value("drift", repository, project)))

    async def attention(self, project: str, *, named: int) -> records.Attention:
        return await self._read_apart(partial(_attention, project=project, named=named))

    async def repositories(self) -> list[records.RepositoryRow]:
        return [records.RepositoryRow(*row) for row in self._all("repositories")]

    async def directory(self) -> Directory:
        with database.faults("read"), database.transaction(self._reader, kind="deferred"):
            return _directory(self._reader)

    async def amend(self, amendment: Amendment, *, after: int, audit: records.AuditRow) -> None:
        await self._write(lambda writer: _amend(writer, amendment, after=after, audit=audit))
        self.announce(replace(amendment, number=after + 1))

    async def tell(self, events: Sequence[records.AuditRow]) -> None:
        await self._write(lambda writer: commits.tell(writer, events))

    async def event_pages(
        self, wanted: records.AuditWanted, *, limit: int, documents: bool
    ) -> AsyncGenerator[list[bytes], None]:
        left, after = limit, wanted.after
        # No read is open while a page is sent. Nevertheless the pages are one list: events never move, new ones come
        # before the first page, and removed ones are at the end.
        while left > 0:
            behind = wanted._replace(after=after)
            work = partial(audit.render_event_page, wanted=behind, limit=left, documents=documents)
            page, after = await self._read_apart(work)
            left = left - len(page) if after is not None else 0
            if page:
                yield page

    async def audit_ends(self) -> tuple[ChainAnchor, ChainHead]:
        with database.faults("read"), database.transaction(self._reader, kind="deferred"):
            anchor = commits.read_anchor(self._reader)
            if anchor is not None:
                return anchor, commits.chain_head(self._reader)
        raise StoreFault("The audit has lost its anchor, the hash that its first link follows: restore a backup.")

    async def forget_events(self, *, before: str) -> bool:
        return await self._on_writer(partial(audit.forget, before=before))

    async def auth_type(self) -> str | None:
        row = self._first("auth_type")
        return None if row is None else str(row[0])

    async def put_auth_type(self, auth_type: str) -> None:
        await self._write(lambda writer: writer.run("put_auth_type", auth_type))

    async def touch_keys(self, used: Mapping[str, str]) -> None:
        await self._write(lambda writer: writer.each("touch_key", [(at, key) for key, at in sorted(used.items())]))

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self._thread.shutdown)
        self._reader.close()
        self._writer.close()

    async def _pages(self, *listings: _Listing) -> AsyncGenerator[list[bytes], None]:
        """Yield the pages of listings, one listing after the other. A page ends after PAGE rows or PAGE_BYTES.

        One read transaction on a connection of its own makes all pages one revision. While it is open, SQLite cannot
        move newer pages of its log into the file, so the log grows.
        """
        with closing(database.open_reader(self.path)) as reader, database.faults("read"):
            reader.execute("begin deferred")
            for one in listings:
                page: list[bytes] = []
                size = 0
                # An open cursor would keep the transaction even after its connection is closed.
                with closing(reader.run(one.statement, *one.arguments)) as rows:
                    for row in rows:
                        page.append(one.show(row))
                        size += len(page[-1])
                        if len(page) == PAGE or size >= PAGE_BYTES:
                            yield page
                            page, size = [], 0
                if page:
                    yield page

    async def _read_apart(self, work: Callable[[Connection], T]) -> T:
        """Read on another thread and connection. A cancelled caller interrupts the read and waits for its end."""
        with closing(database.open_reader(self.path)) as reader, database.faults("read"):
            task = asyncio.ensure_future(asyncio.to_thread(work, reader))
            try:
                return await asyncio.shield(task)
            except asyncio.CancelledError:
                reader.interrupt()
                await asyncio.wait({task})
                task.exception()  # it says that it was interrupted, and nobody asks
                raise

    def _all(self, name: str, *arguments: object) -> list[Row]:
        # Not the context manager of `database`: on every point read it would cost a quarter of the read.
        try:
            return self._reader.all(name, *arguments)
        except sqlite3.Error as fault:
            raise database.fault("read", fault) from fault

    def _first(self, name: str, *arguments: object) -> Row | None:
        rows = self._all(name, *arguments)
        return rows[0] if rows else None


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


# People, memberships, projects and keys as rows. The statements name columns in the order of fields; an identity is two
# of them.


def _directory(connection: Connection) -> Directory:
    members: dict[str, dict[str, Role]] = defaultdict(dict)
    for project, user, role in connection.run("all_members"):
        members[project][user] = Role(role)
    projects = (directory.Project(*row) for row in connection.run("all_projects"))
    users = map(_user, connection.run("all_users"))
    keys = map(_key, connection.run("all_keys"))
    invitations = (directory.Invitation(*row) for row in connection.run("all_invitations"))
    return Directory(
        projects={project.name: project for project in projects},
        users={user.name: user for user in users},
        members=dict(members),
        keys={key.prefix: key for key in keys},
        invitations={one.id: replace(one, role=Role(one.role)) for one in invitations},
        number=int(connection.value("directory_number")),
    )


def _amend(connection: Connection, amendment: Amendment, *, after: int, audit: records.AuditRow) -> None:
    if int(connection.value("directory_number")) != after:
        raise StaleChange("The directory was changed meanwhile; read it again.")
    connection.run("count_amendment")
    connection.each("put_project", ((one.name, one.created_at) for one in amendment.projects))
    connection.each("remove_user", ((one.id,) for one in amendment.removed_users))
    connection.each("put_user", map(_user_row, amendment.users))
    connection.each("remove_member", ((one.project, one.user) for one in amendment.members if one.role is None))
    lasting = [(one.project, one.user, one.role.value) for one in amendment.members if one.role is not None]
    connection.each("put_member", lasting)
    connection.each("remove_key", ((one.id,) for one in amendment.revoked_keys))
    connection.each("insert_key", map(_key_row, amendment.keys))
    connection.each("remove_invitation", ((one.id,) for one in amendment.ended_invitations))
    connection.each("insert_invitation", map(astuple, amendment.invitations))
    if amendment.auth_type:
        connection.run("put_auth_type", amendment.auth_type)
    commits.tell(connection, (audit,))


def _user(row: Row) -> directory.User:
    *plain, is_admin, password, issuer, subject, email, losses = row
    identity = None if issuer is None else directory.ProviderIdentity(issuer, subject)
    values = [*plain, bool(is_admin), password, identity, email, losses]
    return directory.User(*values)


def _user_row(user: directory.User) -> list[Any]:
    *others, identity, email, losses = astuple(user)
    return [*others, *(identity or (None, None)), email, losses]


def _key(row: Row) -> directory.Key:
    found = directory.Key(*row)
    return replace(found, role=Role(found.role), scopes=frozenset(map(Scope, row[6].split())))


def _key_row(key: directory.Key) -> list[Any]:
    values = list(astuple(key))
    values[6] = " ".join(sorted(key.scopes))
    return values
