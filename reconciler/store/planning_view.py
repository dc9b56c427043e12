"""What a plan reads of the store: one revision, on a connection that cannot write.

Synchronous: the reader child uses it, and nothing that serves requests does.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from reconciler.planning.models import Stored
from reconciler.resources import rendering
from reconciler.resources.keys import Key
from reconciler.store import connections, queries
from reconciler.store.contract import RepositoryRow, WantedRow

BATCH = 1_000  # keys in one statement


class Identity(NamedTuple):
    """What a new version or a new place keeps of the stored one."""

    resource_id: str
    source: bytes


class PlanningView:
    """Reads inside `snapshot()` see one revision of the store."""

    def __init__(self, path: Path) -> None:
        """Raises `StoreFault` when the store cannot be opened."""
        self._reader = connections.open_reader(path)
        self._sql = queries.load()

    @contextmanager
    def snapshot(self) -> Iterator[int]:
        """Hold one revision for as long as the context lasts; yields its number."""
        with connections.faults("read"), connections.transaction(self._reader, kind="deferred"):
            yield int(self._reader.execute(self._sql["revision"]).fetchone()[0])

    def stored(self, project: str, keys: Iterable[Key]) -> dict[Key, Stored]:
        """The stored resources among these keys."""
        return {stored.key: stored for stored in map(_stored, self._keyed("stored", project, keys))}

    def last_versions(self, project: str, keys: Iterable[Key]) -> dict[Key, int]:
        """The newest version that each of these keys ever had; keys that never existed are left out."""
        return {Key(kind, name): version for kind, name, version in self._keyed("last_versions", project, keys)}

    def identities(self, project: str, keys: Iterable[Key]) -> dict[Key, Identity]:
        """Id and source of the stored resources among these keys."""
        rows = self._keyed("identities", project, keys)
        return {Key(kind, name): Identity(resource_id, source) for kind, name, resource_id, source in rows}

    def bodies(self, project: str, keys: Iterable[Key]) -> dict[Key, bytes]:
        """The stored resources among these keys as a reader gets them, with `status`."""
        rows = self._keyed("bodies", project, keys)
        return {Key(kind, name): rendering.with_status(body, status) for kind, name, body, status in rows}

    def taken_ids(self, project: str, ids: Sequence[str]) -> set[str]:
        """Which of these ids a stored resource of the project has."""
        return {row[0] for row in self._batched("taken_ids", project, ids)}

    def owned(self, repository: str, project: str) -> list[Stored]:
        """Everything that a repository owns."""
        return [_stored(row) for row in self._reader.execute(self._sql["owned"], (repository, project))]

    def owned_count(self, repository: str, project: str) -> int:
        """How many resources a repository owns."""
        return int(self._reader.execute(self._sql["owned_count"], (repository, project)).fetchone()[0])

    def owned_unwanted(self, repository: str, project: str) -> list[Stored]:
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

    def vacant_files(self, repository: str) -> list[tuple[str, str]]:
        """(path, why) of every file of the applied head that holds nothing although it could, in order of path."""
        return [(path, why) for path, why in self._reader.execute(self._sql["vacant_files"], (repository,))]

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
        """The files of the applied head that hold something that is not stored as Git wants it, in order of path."""
        return [path for (path,) in self._reader.execute(self._sql["unconverged"], (repository,))]

    def repository(self, name: str) -> RepositoryRow | None:
        """What is remembered of a repository."""
        row = self._reader.execute(self._sql["repository"], (name,)).fetchone()
        return None if row is None else RepositoryRow(*row)

    def close(self) -> None:
        self._reader.close()

    def _keyed(self, name: str, scope: str, keys: Iterable[Key]) -> Iterator[tuple]:  # type: ignore[type-arg]
        return self._batched(name, scope, [list(key) for key in keys])

    def _batched(self, name: str, scope: str, values: Sequence[object]) -> Iterator[tuple]:  # type: ignore[type-arg]
        # One JSON array per batch: the statement is prepared once, and no limit on its variables is met.
        for start in range(0, len(values), BATCH):
            batch = msgspec.json.encode(values[start : start + BATCH]).decode()
            yield from self._reader.execute(self._sql[name], (scope, batch)).fetchall()


def _stored(row: tuple) -> Stored:  # type: ignore[type-arg]
    kind, name, digest, version, owner, path, line, protected = row
    return Stored(
        key=Key(kind, name),
        digest=digest,
        version=version,
        owner=owner,
        path=path,
        line=line,
        protected=bool(protected),
    )
