"""The reads of a plan, on a connection that cannot write."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager

import msgspec

from reconciler.model.names import Key
from reconciler.model.outcomes import PruneWindow, StoredState
from reconciler.store import damage, records, repository_records
from reconciler.store.contract import BATCH
from reconciler.store.statements import Connection, Row


class StoredPlanningView:
    """See `contract.PlanningView` for what each method promises."""

    def __init__(self, reader: Connection) -> None:
        """Read on this connection, which ends with the view."""
        self._reader = reader

    @contextmanager
    def snapshot(self) -> Iterator[int]:
        with self._reader.faults("read"), self._reader.reading():
            yield int(self._reader.value("revision"))

    def stored(self, project: str, keys: Iterable[Key]) -> dict[Key, StoredState]:
        rows = self._batched("stored", project, keys)
        found = (_stored(row[:10], damaged=damage.is_damaged(*row[10:])) for row in rows)
        return {stored.key: stored for stored in found}

    def last_versions(self, project: str, keys: Iterable[Key]) -> dict[Key, int]:
        return {Key(kind, name): version for kind, name, version in self._batched("last_versions", project, keys)}

    def bodies(self, project: str, keys: Iterable[Key]) -> dict[Key, bytes]:
        rows = self._batched("bodies", project, keys)
        return {Key(*row[8:10]): damage.shown_row(row, damaged=lambda *_: None) for row in rows}

    def documents(self, project: str, keys: Iterable[Key]) -> dict[Key, records.StoredDocument]:
        rows = self._batched("documents", project, keys)
        return {Key(*row[:2]): records.StoredDocument(*_whole(*row[2:5]), *row[5:]) for row in rows}

    def configurations(self, project: str) -> Iterator[tuple[Key, records.StoredDocument]]:
        with closing(self._reader.stream("configurations", project)) as rows:
            for row in rows:
                yield Key(*row[:2]), records.StoredDocument(*_whole(*row[2:5]), *row[5:])

    def referrers(self, project: str, targets: Iterable[Key]) -> dict[Key, set[Key]]:
        found: dict[Key, set[Key]] = {}
        for target_kind, target_name, kind, name in self._batched("referrers", project, targets):
            found.setdefault(Key(target_kind, target_name), set()).add(Key(kind, name))
        return found

    def versions_naming(self, project: str, kinds: Sequence[str], types: Iterable[str]) -> Iterator[records.VersionRow]:
        needles = [start for name in types for start in (f'"type":"{name}"', f'"type":"{name}:')]
        arguments = (project, sorted(kinds), sorted(needles))
        with closing(self._reader.stream("versions_naming", *arguments)) as rows:
            for kind, name, version, *held in rows:
                yield records.VersionRow(project, kind, name, version, *_whole(*held))

    def versions(self, project: str, key: Key, *, number: int | None = None) -> Iterator[records.VersionRow]:
        with closing(self._reader.stream("versions", project, *key, number)) as rows:
            for version, *held in rows:
                yield records.VersionRow(project, *key, version, *_whole(*held))

    def unrendered(self, project: str, program: str) -> list[records.Unrendered]:
        return [records.Unrendered(*row) for row in self._reader.all("unrendered", project, program)]

    def past_routes(self, project: str) -> dict[str, bytes]:
        return dict(self._reader.all("past_routes", project))

    def quotes(self, project: str, texts: Sequence[str]) -> Iterator[records.QuoteRow]:
        with closing(self._reader.stream("quotes", project, list(texts))) as rows:
            yield from map(records.QuoteRow._make, rows)

    def taken_ids(self, project: str, ids: Sequence[str]) -> dict[str, Key]:
        return {taken: Key(kind, name) for taken, kind, name in self._batched("taken_ids", project, ids)}

    def owned(self, repository: str, project: str, *, unwanted: bool = False) -> list[StoredState]:
        statement = "owned_unwanted" if unwanted else "owned"
        return [_stored(row) for row in self._reader.all(statement, repository, project)]

    def owned_count(self, repository: str, project: str) -> int:
        return int(self._reader.value("owned_count", repository, project))

    def standing_at(self, repository: str, project: str, paths: Sequence[str]) -> list[tuple[str, Key]]:
        rows = self._reader.all("standing_at", repository, project, list(paths))
        return [(path, Key(kind, name)) for path, kind, name in rows]

    def without_lineage(self, repository: str, project: str, *, limit: int) -> list[records.Unexplained]:
        rows = self._reader.all("without_lineage", repository, project, limit)
        return [records.Unexplained(Key(kind, name), *rest) for kind, name, *rest in rows]

    def origins(self, ids: Iterable[int]) -> dict[int, records.OriginRow]:
        found = (records.OriginRow(*self._reader.all("origin", one)[0]) for one in set(ids))
        return {row.id: row for row in found}

    def vacant_files(self, repository: str) -> list[tuple[str, str]]:
        return [(path, why) for path, why in self._reader.all("vacant_files", repository)]

    def given(self, repository: str) -> list[tuple[str, Key]]:
        rows = self._reader.all("given", repository)
        return [(path, Key(*key)) for path, given in rows for key in msgspec.json.decode(given)]

    def wanted_at(self, repository: str, paths: Sequence[str]) -> list[tuple[str, Key]]:
        return [(path, Key(kind, name)) for path, kind, name in self._batched("wanted_at", repository, paths)]

    def index(self, repository: str) -> tuple[list[repository_records.FileRow], list[repository_records.WantedRow]]:
        files = [repository_records.FileRow(*row) for row in self._reader.all("files_of", repository)]
        return files, [repository_records.WantedRow(*row) for row in self._reader.all("all_wanted", repository)]

    def wanted_count(self, repository: str) -> int:
        return int(self._reader.value("wanted_count", repository))

    def wanted_in(self, repository: str, paths: Sequence[str]) -> list[repository_records.WantedRow]:
        return [repository_records.WantedRow(*row) for row in self._batched("wanted_in", repository, paths)]

    def wanted_of(self, repository: str, keys: Iterable[Key]) -> list[repository_records.WantedRow]:
        return [repository_records.WantedRow(*row) for row in self._batched("wanted_of", repository, keys)]

    def unmet(self, project: str, keys: Iterable[Key], *, without: Collection[str]) -> set[Key]:
        rows = self._batched("unmet", project, keys)
        return {Key(kind, name) for repository, kind, name in rows if repository not in without}

    def blobs(self, repository: str, paths: Sequence[str]) -> dict[str, str]:
        return dict(self._batched("blobs", repository, paths))

    def unconverged(self, repository: str) -> list[str]:
        return [path for (path,) in self._reader.all("unconverged", repository)]

    def pruned_since(self, repository: str, at: int) -> PruneWindow:
        return PruneWindow(*self._reader.all("pruned_since", repository, at)[0])

    def stays(self, repository: str) -> set[repository_records.HeldRow]:
        return {repository_records.HeldRow(repository, *row) for row in self._reader.all("stays", repository)}

    def approval(self, repository: str) -> tuple[str, frozenset[Key]] | None:
        row = self._reader.first("approval", repository)
        keys = self._reader.all("approved", repository)
        return None if row is None else (row[1], frozenset(Key(*key) for key in keys))

    def suspended(self, at: str) -> frozenset[str]:
        return frozenset(name for (name,) in self._reader.all("suspended_at", at))

    def repository(self, name: str) -> repository_records.RepositoryRow | None:
        row = self._reader.first("repository", name)
        return None if row is None else repository_records.RepositoryRow(*row)

    def close(self) -> None:
        self._reader.close()

    def _batched(self, name: str, scope: str, values: Iterable[object]) -> Iterator[Row]:
        # One array for each batch, so the statement is prepared once and has few variables. Rows are read one at a
        # time, because a thousand bodies may be gigabytes.
        known = list(values)
        for start in range(0, len(known), BATCH):
            with closing(self._reader.stream(name, scope, known[start : start + BATCH])) as rows:
                yield from rows


def _whole(body: bytes, secrets: bytes | None, checksum: int) -> tuple[bytes, bytes | None]:
    """Return a body and its secrets, both empty if they are damaged."""
    return (b"", None) if damage.is_damaged(body, secrets, checksum) else (body, secrets)


def _stored(row: Row, *, damaged: bool = False) -> StoredState:
    kind, name, digest, version, owner, path, line, protected, incomplete, drifted = row
    flags = bool(protected), bool(incomplete), bool(drifted)
    return StoredState(Key(kind, name), digest, version, owner, path, line, *flags, damaged=damaged)
