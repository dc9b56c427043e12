"""One revision of the store for planning, on a connection that only reads.

Synchronous: the reader child uses it, and nothing that serves requests does.
"""

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import structs

from reconciler.model.names import Key
from reconciler.model.outcomes import PruneWindow, StoredState
from reconciler.store import checksums, database
from reconciler.store import rows as store_rows
from reconciler.store.contract import FileRow, HeldRow, OriginRow, QuoteRow, RepositoryRow, WantedRow

BATCH = 1_000  # keys in one statement
MANY = 100  # keys, for which it costs little to ask first whether there is anything

_OF_RESOURCES = frozenset({"stored", "compared", "last_versions", "identities", "bodies", "documents", "referrers"})
"""The statements about keys of a project that find nothing where no version of anything was ever stored."""

_LARGE = frozenset({"compared"})
"""Those whose rows are read one at a time: a thousand bodies may be gigabytes."""


class Identity(NamedTuple):
    """What a new version or a new place keeps of the stored one; `head` and `tail` as in `OriginRow`. `created_at` is
    when the stored version was.
    """

    resource_id: str
    head: bytes
    tail: bytes
    status: bytes
    created_at: str


class StoredDocument(NamedTuple):
    """A stored resource with its secrets apart: `body` is masked and has no status. Of one that is damaged, `body` is
    empty and there are no secrets, so that nobody reads either as what was stored.
    """

    body: bytes
    secrets: bytes | None
    owner: str | None
    incomplete: int
    status: bytes

    def __repr__(self) -> str:
        """Without the secrets."""
        return f"StoredDocument({self.body!r})"


class Approval(NamedTuple):
    """What an admin let go, and at which commit."""

    commit: str
    keys: frozenset[Key]


class StoredVersion(NamedTuple):
    """One stored version of a resource, present or not, with its secrets apart: `body` is masked and has no status. One
    that is damaged is as in `StoredDocument`.
    """

    key: Key
    version: int
    body: bytes
    secrets: bytes | None

    def __repr__(self) -> str:
        """Without the secrets."""
        return f"StoredVersion({self.key}, {self.version}, {self.body!r})"


class Unexplained(NamedTuple):
    """A stored resource whose status does not say which commit changed its file.

    `origin` and `path` are those of its present version. `status` is the origin that its status has instead, or None;
    `shown` and `shown_path` are what it tells, whosever they are.
    """

    key: Key
    version: int
    origin: int
    path: str | None
    status: int | None
    shown: int
    shown_path: str | None


class PlanningView:
    """Reads inside `snapshot()` see one revision of the store."""

    def __init__(self, reader: sqlite3.Connection) -> None:
        self._reader = reader
        self._sql = database.load_queries()

    @classmethod
    def open(cls, path: Path) -> "PlanningView":
        """A view on a connection of its own. Raises `StoreFault` when the store cannot be opened."""
        return cls(database.open_reader(path))

    @contextmanager
    def snapshot(self) -> Iterator[int]:
        """Hold one revision for as long as the context lasts; yields its number."""
        with database.faults("read"), database.transaction(self._reader, kind="deferred"):
            yield int(self._reader.execute(self._sql["revision"]).fetchone()[0])

    def stored(self, project: str, keys: Iterable[Key]) -> dict[Key, StoredState]:
        """The stored resources among these keys."""
        return {stored.key: stored for stored in map(_stored, self._keyed("stored", project, keys))}

    def compared(self, project: str, keys: Iterable[Key]) -> dict[Key, StoredState]:
        """The same for whoever compares digests: it says which of them are damaged."""
        known = keys if isinstance(keys, Collection) else list(keys)
        found = self.stored(project, known)
        for kind, name, body, secrets, checksum in self._keyed("compared", project, known):
            if checksums.is_damaged(body, secrets, checksum):
                key = Key(kind, name)
                found[key] = structs.replace(found[key], damaged=True)
        return found

    def last_versions(self, project: str, keys: Iterable[Key]) -> dict[Key, int]:
        """The newest version that each of these keys ever had; keys that never existed are left out."""
        return {Key(kind, name): version for kind, name, version in self._keyed("last_versions", project, keys)}

    def identities(self, project: str, keys: Iterable[Key]) -> dict[Key, Identity]:
        """Id, status and the version's source of the stored resources among these keys."""
        rows = self._keyed("identities", project, keys)
        return {Key(kind, name): Identity(*identity) for kind, name, *identity in rows}

    def bodies(self, project: str, keys: Iterable[Key]) -> dict[Key, bytes]:
        """The stored resources among these keys as a reader gets them, with `status`."""
        rows = self._keyed("bodies", project, keys)
        return {Key(*row[8:10]): store_rows.shown(row, damaged=lambda *_: None) for row in rows}

    def documents(self, project: str, keys: Iterable[Key]) -> dict[Key, StoredDocument]:
        """The stored resources among these keys, whole."""
        rows = self._keyed("documents", project, keys)
        return {Key(*row[:2]): StoredDocument(*_whole(*row[2:5]), *row[5:]) for row in rows}

    def configurations(self, project: str) -> Iterator[tuple[Key, StoredDocument]]:
        """Every stored Configuration of a project, sorted by name, a row at a time."""
        with closing(self._reader.execute(self._sql["configurations"], (project,))) as rows:
            for row in rows:
                yield Key(*row[:2]), StoredDocument(*_whole(*row[2:5]), *row[5:])

    def referrers(self, project: str, targets: Iterable[Key]) -> dict[Key, set[Key]]:
        """The stored resources that refer to each of these keys; keys that nothing refers to are left out."""
        found: dict[Key, set[Key]] = {}
        for target_kind, target_name, kind, name in self._keyed("referrers", project, targets):
            found.setdefault(Key(target_kind, target_name), set()).add(Key(kind, name))
        return found

    def versions_naming(self, project: str, kinds: Sequence[str], types: Iterable[str]) -> Iterator[StoredVersion]:
        """Every stored version of these kinds that names one of these types, also of what was deleted since.

        Types of another kind may have the same name; of more than 32 types, versions come that name none. One look at
        every version of the project, a row at a time.
        """
        needles = [start for name in types for start in (f'"type":"{name}"', f'"type":"{name}:')]
        arguments = (project, _json(sorted(kinds)), _json(sorted(needles)))
        with closing(self._reader.execute(self._sql["versions_naming"], arguments)) as rows:
            for kind, name, version, *held in rows:
                yield StoredVersion(Key(kind, name), version, *_whole(*held))

    def versions_holding(self, project: str, key: Key, values: Iterable[bytes]) -> Iterator[StoredVersion]:
        """Every stored version under this key, a row at a time, in which one of these values, as canonical JSON, stands
        in clear, wherever that is; of more than 64 values, also versions that hold none.
        """
        needles = _json(sorted(value.decode() for value in values))
        with closing(self._reader.execute(self._sql["versions_holding"], (project, *key, needles))) as rows:
            for version, *held in rows:
                yield StoredVersion(key, version, *_whole(*held))

    def versions_of(self, project: str, key: Key) -> Iterator[StoredVersion]:
        """Every stored version under this key, the oldest first, a row at a time."""
        with closing(self._reader.execute(self._sql["versions_of"], (project, *key))) as rows:
            for version, *held in rows:
                yield StoredVersion(key, version, *_whole(*held))

    def version(self, project: str, key: Key, number: int) -> StoredVersion | None:
        """One version under this key, present or not."""
        row = self._reader.execute(self._sql["version"], (project, *key, number)).fetchone()
        return None if row is None else StoredVersion(key, row[0], *_whole(*row[1:]))

    def past_routes(self, project: str) -> dict[str, bytes]:
        """What is remembered of the Configurations of a project that delivered and do not, as JSON, by their names."""
        return dict(self._reader.execute(self._sql["past_routes"], (project,)))

    def versions_back(self, project: str, key: Key, *, most: int) -> Iterator[StoredVersion]:
        """The newest versions under this key, the newest first, a row at a time."""
        with closing(self._reader.execute(self._sql["versions_back"], (project, *key, most))) as rows:
            for version, *held in rows:
                yield StoredVersion(key, version, *_whole(*held))

    def quotes(self, project: str, texts: Sequence[str]) -> Iterator[QuoteRow]:
        """What runs and audit events of a project say that holds one of these texts, a row at a time."""
        with closing(self._reader.execute(self._sql["quotes"], (project, _json(texts)))) as rows:
            yield from map(QuoteRow._make, rows)

    def taken_ids(self, project: str, ids: Sequence[str]) -> set[str]:
        """Which of these ids a stored resource of the project has."""
        return {row[0] for row in self._batched("taken_ids", project, ids)}

    def owned(self, repository: str, project: str) -> list[StoredState]:
        """Everything that a repository owns."""
        return [_stored(row) for row in self._reader.execute(self._sql["owned"], (repository, project))]

    def owned_count(self, repository: str, project: str) -> int:
        """How many resources a repository owns."""
        return int(self._reader.execute(self._sql["owned_count"], (repository, project)).fetchone()[0])

    def owned_unwanted(self, repository: str, project: str) -> list[StoredState]:
        """What a repository owns although its applied head does not hold it."""
        return [_stored(row) for row in self._reader.execute(self._sql["owned_unwanted"], (repository, project))]

    def standing_at(self, repository: str, project: str, paths: Sequence[str]) -> list[tuple[str, Key]]:
        """(path, key) of the repository's stored resources that stand in these files, or below such folders."""
        batch = msgspec.json.encode(paths).decode()
        rows = self._reader.execute(self._sql["standing_at"], (repository, project, batch))
        return [(path, Key(kind, name)) for path, kind, name in rows]

    def places_of(self, repository: str, keys: Iterable[Key]) -> list[tuple[Key, str]]:
        """(key, path) of the documents of the applied head that have one of these keys."""
        return [(Key(kind, name), path) for kind, name, path in self._keyed("places_of", repository, keys)]

    def without_lineage(self, repository: str, project: str, *, limit: int) -> list[Unexplained]:
        """What a repository brought and of which it is not known which commit changed its file, in order of path."""
        rows = self._reader.execute(self._sql["without_lineage"], (repository, project, limit))
        return [Unexplained(Key(kind, name), *rest) for kind, name, *rest in rows]

    def origins(self, ids: Iterable[int]) -> dict[int, OriginRow]:
        """Where versions come from, by their origins."""
        found = (self._reader.execute(self._sql["origin"], (one,)).fetchone() for one in set(ids))
        return {row[0]: OriginRow(*row) for row in found}

    def vacant_files(self, repository: str) -> list[tuple[str, str]]:
        """(path, why) of every file of the applied head that holds nothing although it could, in order of path."""
        return [(path, why) for path, why in self._reader.execute(self._sql["vacant_files"], (repository,))]

    def given(self, repository: str) -> list[tuple[str, Key]]:
        """(path, key) of what vacant or unreadable files held before, and what is not stored from there."""
        rows = self._reader.execute(self._sql["given"], (repository,))
        return [(path, Key(*key)) for path, given in rows for key in msgspec.json.decode(given)]

    def wanted_at(self, repository: str, paths: Sequence[str]) -> list[tuple[str, Key]]:
        """(path, key) of what the applied head holds in these files, or below such folders."""
        return [(path, Key(kind, name)) for path, kind, name in self._batched("wanted_at", repository, paths)]

    def index(self, repository: str) -> tuple[list[FileRow], list[WantedRow]]:
        """The whole index of the applied head, in order of path."""
        files = self._reader.execute(self._sql["files_of"], (repository,))
        wanted = self._reader.execute(self._sql["wanted_of"], (repository,))
        return [FileRow(*row) for row in files], [WantedRow(*row) for row in wanted]

    def wanted_count(self, repository: str) -> int:
        """The number of resource documents in the applied head."""
        return int(self._reader.execute(self._sql["wanted_count"], (repository,)).fetchone()[0])

    def wanted_in(self, repository: str, paths: Sequence[str]) -> list[WantedRow]:
        """The resource documents of these files in the applied head."""
        return [WantedRow(*row) for row in self._batched("wanted_in", repository, paths)]

    def paths_wanting(self, repository: str, keys: Iterable[Key]) -> set[str]:
        """The files of the applied head that hold one of these keys."""
        return {row[0] for row in self._keyed("paths_wanting", repository, keys)}

    def blobs(self, repository: str, paths: Sequence[str]) -> dict[str, str]:
        """The blobs of these files in the applied head."""
        return dict(self._batched("blobs", repository, paths))

    def unconverged(self, repository: str) -> list[str]:
        """The files of the applied head that hold something that is not stored as Git wants it, or not as its type
        wants it, in order of path.
        """
        return [path for (path,) in self._reader.execute(self._sql["unconverged"], (repository,))]

    def pruned_since(self, repository: str, at: int) -> PruneWindow:
        """What a repository pruned after an instant, in milliseconds of Unix time."""
        return PruneWindow(*self._reader.execute(self._sql["pruned_since"], (repository, at)).fetchone())

    def stays(self, repository: str) -> set[HeldRow]:
        """What the applied head does not hold and stays all the same."""
        return {HeldRow(repository, *row) for row in self._reader.execute(self._sql["stays"], (repository,))}

    def approval(self, repository: str) -> Approval | None:
        """What an admin let go and was not deleted yet."""
        row = self._reader.execute(self._sql["approval"], (repository,)).fetchone()
        if row is None:
            return None
        keys = frozenset(Key(*key) for key in self._reader.execute(self._sql["approved"], (repository,)))
        return Approval(row[1], keys)

    def wanted_digests(self, repository: str, keys: Iterable[Key]) -> dict[Key, bytes | None]:
        """The digests of the documents of the applied head that have one of these keys; None for an invalid one."""
        return {Key(kind, name): digest for kind, name, digest in self._keyed("wanted_digests", repository, keys)}

    def suspended(self, at: str) -> frozenset[str]:
        """The repositories whose suspension lasts beyond an instant. A setting that suspends is not known here."""
        return frozenset(name for (name,) in self._reader.execute(self._sql["suspended_at"], (at,)))

    def repository(self, name: str) -> RepositoryRow | None:
        """What is remembered of a repository."""
        row = self._reader.execute(self._sql["repository"], (name,)).fetchone()
        return None if row is None else RepositoryRow(*row)

    def close(self) -> None:
        self._reader.close()

    def _keyed(self, name: str, scope: str, keys: Iterable[Key]) -> Iterator[tuple]:  # type: ignore[type-arg]
        # Of a project without any version nothing else is there either, and a first read asks for everything it brings.
        known = list(keys)
        is_worth_asking = len(known) > MANY and name in _OF_RESOURCES
        if is_worth_asking and self._reader.execute(self._sql["has_versions"], (scope,)).fetchone() is None:
            return iter(())
        return self._batched(name, scope, known)

    def _batched(self, name: str, scope: str, values: Sequence[object]) -> Iterator[tuple]:  # type: ignore[type-arg]
        # One JSON array per batch: the statement is prepared once, and no limit on its variables is met.
        for start in range(0, len(values), BATCH):
            batch = msgspec.json.encode(values[start : start + BATCH]).decode()
            with closing(self._reader.execute(self._sql[name], (scope, batch))) as rows:
                yield from rows if name in _LARGE else rows.fetchall()


def _whole(body: bytes, secrets: bytes | None, checksum: int | None) -> tuple[bytes, bytes | None]:
    """A body and its secrets; nothing of those that are damaged."""
    return (b"", None) if checksums.is_damaged(body, secrets, checksum) else (body, secrets)


def _json(values: Sequence[str]) -> str:
    return msgspec.json.encode(values).decode()


def _stored(row: tuple) -> StoredState:  # type: ignore[type-arg]
    kind, name, digest, version, owner, path, line, protected, incomplete, drifted = row
    return StoredState(
        key=Key(kind, name),
        digest=digest,
        version=version,
        owner=owner,
        path=path,
        line=line,
        protected=bool(protected),
        incomplete=bool(incomplete),
        drifted=bool(drifted),
    )
