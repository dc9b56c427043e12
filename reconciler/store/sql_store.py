"""The shared part of the stores of all engines: methods run statements by name on a connection of their engine.

Rules about resources do not belong here, nor does SQL: see `queries.sql`. Runs are stored as rows and shown as JSON.
"""

import abc
import asyncio
import hashlib
import math
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec

from reconciler.model import rendering
from reconciler.model.audit_chain import ChainAnchor, ChainHead
from reconciler.model.directory import Amendment, Directory
from reconciler.model.names import Key
from reconciler.store import audit as audits
from reconciler.store import commit as commits
from reconciler.store import damage, directory_rows, records, repository_records
from reconciler.store.contract import LOST_FACT, Announced, C, Damaged, Moved, OutcomeUnknown, StoreFault
from reconciler.store.damage import Damage
from reconciler.store.notices import AmendmentBody, NoticeKind, commit_body
from reconciler.store.statements import Connection, Row

# Limits of one page, which takes at most a millisecond to read and render.
PAGE = 100  # resources of a list, versions of a history, runs or their statuses
PAGE_BYTES = 512 * 1024  # of JSON; one resource may have megabytes
EXAMINING_PAUSE = 0.02  # seconds between two steps of some milliseconds: the search for damage is not urgent
MOST_DEPRECATED = 100  # deprecated resources in a report
LONGEST = 500  # characters of a message in a report; one more shows that it was longer

T = TypeVar("T")


class Listing(NamedTuple):
    """A statement whose rows are shown in pages."""

    statement: str
    arguments: tuple[object, ...]
    show: Callable[[Row], bytes]


TellReplicas: TypeAlias = Callable[[Connection, NoticeKind, Callable[[], msgspec.Struct]], None]
"""Write a notice at the end of a transaction."""


def _no_notice(_writer: Connection, _kind: NoticeKind, _body: Callable[[], msgspec.Struct]) -> None:
    pass


class SqlStore(abc.ABC):
    """See `contract.Store` for what each method promises."""

    def __init__(self, *, revision: int, tell_replicas: TellReplicas | None = None) -> None:
        self._revision = revision
        self._tell_replicas = tell_replicas or _no_notice
        self._damage = Damage()
        self._commits = records.CommitFigures()
        self._listeners: list[tuple[type, Callable[[Any], None]]] = []

    # What an engine does in its own way.

    @abc.abstractmethod
    async def _first(self, name: str, *arguments: object) -> Row | None:
        """Read the first row of one statement. Raises StoreFault."""

    @abc.abstractmethod
    async def _read(self, work: Callable[[Connection], T]) -> T:
        """Do some short reading work at one revision. Raises StoreFault."""

    @abc.abstractmethod
    async def _read_apart(self, work: Callable[[Connection], T]) -> T:
        """Read on another thread, for as long as it takes. A cancelled caller interrupts the read and waits for its
        end. Raises StoreFault.
        """

    @abc.abstractmethod
    async def _write(self, work: Callable[[Connection], T]) -> T:
        """Do some writing work in one transaction. Raises StoreFault."""

    @abc.abstractmethod
    async def _commit(self, write: Callable[[Connection], int], *, project: str | None) -> int:
        """Do the work of a commit, which has its own transaction, on the thread that writes. Raises StoreFault."""

    @abc.abstractmethod
    def _pages(self, *listings: Listing) -> AsyncGenerator[list[bytes], None]:
        """Yield the pages of listings, one listing after the other, at one revision."""

    # What is the same for all.

    def subscribe(self, kind: type[C], listener: Callable[[C], None]) -> None:
        self._listeners.append((kind, listener))

    def announce(self, change: Announced) -> None:
        if isinstance(change, records.Committed):
            self._revision = max(self._revision, change.revision)
        for kind, listener in self._listeners:
            if isinstance(change, kind):
                listener(change)

    async def _value(self, name: str, *arguments: object) -> Any:
        """Read the first column of a statement that always has a row. Raises StoreFault."""
        row = await self._first(name, *arguments)
        if row is None:
            raise StoreFault(LOST_FACT.format(name=name))
        return row[0]

    async def revision(self) -> int:
        return int(await self._value("revision"))

    async def hmac_key(self) -> bytes:
        return bytes(await self._value("hmac_key"))

    async def create_project(self, name: str, *, at: str) -> None:
        await self._write(lambda writer: writer.run("put_project", name, at))

    async def rendering(self, project: str, name: str, *, previous: bool = False) -> bytes | None:
        row = await self._first("previous_rendering" if previous else "rendering", project, name)
        if row is None:
            return None
        body, hashed = row
        if body and hashlib.sha256(body).hexdigest() != hashed:
            raise Damaged(rendering.DAMAGED_RENDERING.format(name=name))
        return bytes(body)

    async def get(self, project: str, key: Key, *, version: int | None = None) -> bytes | None:
        if version is None:
            row = await self._first("get", project, *key)
        else:
            row = await self._first("version_shown", project, *key, version)
        if row is None:
            return None
        if damage.is_damaged_row(row):
            self._damage.note(records.DamagedVersion(project, *row[8:]))
            raise Damaged(rendering.DAMAGED.format(kind=row[8], name=row[9]))
        return rendering.shown(row[:6])

    def list_pages(self, project: str, kind: str, *, after: str, limit: int) -> AsyncGenerator[list[bytes], None]:
        return self._pages(Listing("list_page", (project, kind, after, limit), self._showing(project)))

    def history_pages(self, project: str, key: Key) -> AsyncGenerator[list[bytes], None]:
        return self._pages(Listing("history", (project, *key), self._showing(project)))

    async def references(self, project: str, key: Key, *, limit: int) -> tuple[dict[Key, bool], list[Key]]:
        return await self._read_apart(partial(_references, project=project, key=key, limit=limit))

    @property
    def known_revision(self) -> int:
        return self._revision

    async def commit(
        self,
        parts: Iterable[records.Changes],
        *,
        record: records.Record,
        project: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - it ends a transaction on another thread
    ) -> int:
        begun = monotonic()
        deadline = begun + (math.inf if timeout is None else timeout)
        keys: dict[records.KeyRow, None] = {}
        every = (record, *record.beside)
        changes = [one.change for one in every if one.change is not None]

        def tell_replicas(writer: Connection, revision: int) -> None:
            told = records.committed(revision, keys, every)
            self._tell_replicas(writer, NoticeKind.COMMIT, lambda: commit_body(told, changes))

        coming = commits.noting(parts, keys)
        write = partial(commits.commit, coming=coming, record=record, deadline=deadline, then=tell_replicas)
        try:
            after = await self._commit(write, project=project)
        except Moved:
            self._commits.moved += 1
            raise
        except StoreFault as fault:
            self._commits.failed += 1
            if isinstance(fault, OutcomeUnknown):  # nothing of these resources that was read before may be shown
                self.announce(records.Committed(self._revision, keys))
            raise
        self._revision = max(self._revision, after)
        self._commits.seconds.note(monotonic() - begun)
        for change in changes:
            self.announce(change)
        self.announce(records.committed(after, keys, every))
        return after

    async def examine(self) -> None:
        last, before = 0, -1
        while last != before:
            before = last
            found, last = await self._read_apart(partial(damage.damaged_versions, after=before))
            for one in found:
                self._damage.note(one)
            await asyncio.sleep(EXAMINING_PAUSE)

    async def damaged(self) -> list[records.DamagedVersion]:
        for one in self._damage.found():
            row = await self._first("version_shown", *one)
            if row is None or row[1] is None or not damage.is_damaged_row(row):
                self._damage.forget(one)
        return sorted(self._damage.found())

    def _showing(self, project: str) -> Callable[[Row], bytes]:
        """Return a function that shows a row of a project to a reader, and notes damage."""

        def note(kind: str, name: str, version: int) -> None:
            self._damage.note(records.DamagedVersion(project, kind, name, version))

        return partial(damage.shown_row, damaged=note)

    def run_pages(self, run: str) -> AsyncGenerator[list[bytes], None]:
        return self._pages(Listing("run", (run,), _render_run), Listing("run_statuses", (run,), _render_run_status))

    async def run_changes(self, run: str, *, limit: int) -> list[records.ChangedVersions]:
        rows = await self._read_apart(lambda reader: reader.all("run_changes", run, limit))
        return [records.ChangedVersions(*row) for row in rows]

    def runs_pages(
        self, *, repository: str | None, projects: frozenset[str] | None, limit: int
    ) -> AsyncGenerator[list[bytes], None]:
        within = () if projects is None else (sorted(projects),)
        if repository is None:
            listing = Listing("runs_of_projects" if within else "runs", (*within, limit), _render_run)
        else:
            statement = "runs_of_repository_in_projects" if within else "runs_of_repository"
            listing = Listing(statement, (repository, *within, limit), _render_run)
        return self._pages(listing)

    async def waits_for_store(self, repository: str) -> bool:
        return bool(await self._value("waits_for_store", repository))

    async def remembered(self, name: str, *, held: int) -> repository_records.Remembered:
        return await self._read(partial(_remembered, name=name, held=held))

    async def drift(self, repository: str, *, project: str) -> int:
        return await self._read_apart(lambda reader: int(reader.value("drift", repository, project)))

    async def attention(self, project: str, *, named: int) -> records.Attention:
        return await self._read_apart(partial(_attention, project=project, named=named))

    async def repositories(self) -> list[repository_records.RepositoryRow]:
        rows = await self._read(lambda reader: reader.all("repositories"))
        return [repository_records.RepositoryRow(*row) for row in rows]

    async def directory(self) -> Directory:
        return await self._read(directory_rows.read)

    async def amend(self, amendment: Amendment, *, after: int, audit: records.AuditRow) -> None:
        numbered = replace(amendment, number=after + 1)

        def write(writer: Connection) -> None:
            directory_rows.amend(writer, numbered, audit=audit)
            self._tell_replicas(writer, NoticeKind.AMENDMENT, lambda: AmendmentBody(numbered))

        await self._write(write)
        self.announce(numbered)

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
            work = partial(audits.render_event_page, wanted=behind, limit=left, documents=documents)
            page, after = await self._read_apart(work)
            left = left - len(page) if after is not None else 0
            if page:
                yield page

    async def audit_ends(self) -> tuple[ChainAnchor, ChainHead]:
        anchor, head = await self._read(_audit_ends)
        if anchor is None or head is None:
            raise StoreFault("The audit has lost its anchor, the hash that its first link follows: restore a backup.")
        return anchor, head

    async def forget_events(self, *, before: str) -> bool:
        return await self._write(partial(audits.forget, before=before))

    async def auth_type(self) -> str | None:
        row = await self._first("auth_type")
        return None if row is None else str(row[0])

    async def put_auth_type(self, auth_type: str) -> None:
        await self._write(lambda writer: writer.run("put_auth_type", auth_type))

    async def touch_keys(self, used: Mapping[str, str]) -> None:
        await self._write(lambda writer: writer.each("touch_key", [(at, key) for key, at in sorted(used.items())]))


def pages(connection: Connection, *listings: Listing) -> Iterator[list[bytes]]:
    """Yield the pages of listings inside a read. A page ends after PAGE rows or PAGE_BYTES."""
    for one in listings:
        page: list[bytes] = []
        size = 0
        with closing(connection.stream(one.statement, *one.arguments)) as rows:
            for row in rows:
                page.append(one.show(row))
                size += len(page[-1])
                if len(page) == PAGE or size >= PAGE_BYTES:
                    yield page
                    page, size = [], 0
        if page:
            yield page


def _references(connection: Connection, project: str, key: Key, limit: int) -> tuple[dict[Key, bool], list[Key]]:
    with connection.reading():
        uses, users = (connection.all(one, project, *key, limit) for one in ("uses", "first_users"))
    return {Key(kind, name): bool(exists) for kind, name, exists in uses}, [Key(*user) for user in users]


def _remembered(connection: Connection, name: str, held: int) -> repository_records.Remembered:
    row, suspension = connection.first("repository", name), connection.first("suspension", name)
    last_run = connection.first("last_run", name)
    return repository_records.Remembered(
        row=None if row is None else repository_records.RepositoryRow(*row),
        suspension=None if suspension is None else repository_records.SuspensionRow(*suspension),
        last_run=None if last_run is None else last_run[0],
        held=repository_records.Held(
            connection.value("held_count", name), [Key(*row) for row in connection.all("held_first", name, held)]
        ),
    )


def _audit_ends(connection: Connection) -> tuple[ChainAnchor | None, ChainHead | None]:
    anchor = commits.read_anchor(connection)
    return anchor, None if anchor is None else commits.chain_head(connection)


def _attention(connection: Connection, project: str, *, named: int) -> records.Attention:
    with connection.reading():
        deprecated = [
            records.DeprecatedRow(*key, message, _some(connection, "users", project, *key, named=named))
            for key, message in _deprecated(connection, project)
        ]
        return records.Attention(
            incomplete=_some(connection, "incomplete_configurations", project, named=named),
            deprecated=tuple(deprecated),
            stale=_some(connection, "stale_configurations", project, named=named),
            others=_some(connection, "incomplete_others", project, named=named),
        )


class _Described(msgspec.Struct):
    additionalInfo: object = None  # noqa: N815 - as in documents
    deprecated: object = None


class _Document(msgspec.Struct):
    metadata: _Described


_document = msgspec.json.Decoder(_Document)


def _deprecated(connection: Connection, project: str) -> list[tuple[Key, str]]:
    """Return deprecated resources that others refer to, each with its message."""
    found: list[tuple[Key, str]] = []
    with closing(connection.stream("deprecated_in_use", project)) as rows:
        for kind, name, body in rows:
            try:
                metadata = _document.decode(body).metadata
            except msgspec.DecodeError:  # damaged
                continue
            if metadata.deprecated is not True:
                continue
            info = metadata.additionalInfo
            message = info.get("message") if isinstance(info, dict) else None
            found.append((Key(kind, name), message[: LONGEST + 1] if isinstance(message, str) else ""))
            if len(found) == MOST_DEPRECATED:
                break
    return found


def _some(connection: Connection, name: str, *arguments: object, named: int) -> records.Some:
    found = [" ".join(row) for row in connection.all(name, *arguments)]
    return records.Some(len(found), tuple(found[:named]))


_encoder = msgspec.json.Encoder()


def _render_run(values: Row) -> bytes:
    return _encoder.encode(repository_records.RunRow(*values).shown("finished"))


def _render_run_status(values: Row) -> bytes:
    row = repository_records.StatusRow(*values)
    notes = None if row.notes is None else row.notes.split("\n")
    optional = {"reason": row.reason, "path": row.path, "line": row.line, "notes": notes}
    shown = {"kind": row.kind, "name": row.name, "status": row.status}
    return _encoder.encode(shown | {name: value for name, value in optional.items() if value is not None})
