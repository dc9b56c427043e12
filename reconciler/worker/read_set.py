"""A view of the store that notes what a plan reads.

A plan follows from what it reads. So when no commit since touched a fact that it read, each of its reads, one after
another, would give what it gave, the next would be the same, and so would the plan. What it may change it has read
before, since it counts versions, keeps ids and restates a status; but for new ids, of which two are never the same, and
the store refuses one that is.

Every read of `PlanningView` has its place here: it is noted under the keys, ids, owners and repositories that it was
asked about; or it looks at everything in the project; or it looks at what only changes together with everything
(`store.conflict_detection`). What those facts are:

- Under a key: its digest, version, owner, place, standing, body, source, and every older version.
- What refers to a key: which resources do, and not what those are, which is read by their keys.
- Who has an id: whether anybody has.
- What a repository owns: which resources, and each of them as under its key.
- What is remembered of a repository: its row, its head's files and what they hold, what it pruned, what is held.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TypeVar

from reconciler.model import outcomes
from reconciler.model.names import Key
from reconciler.model.outcomes import PruneWindow, StoredState
from reconciler.store.contract import FileRow, HeldRow, QuoteRow, RepositoryRow, WantedRow
from reconciler.store.planning_view import (
    Approval,
    Identity,
    PlanningView,
    StoredDocument,
    StoredVersion,
    Unexplained,
)

T = TypeVar("T", bound=str | Key)


class RecordingView(PlanningView):
    """A view for one plan of a project, with what it was asked so far. It reads what the other one reads, on the same
    connection, which stays the other's to close.
    """

    def __init__(self, view: PlanningView, project: str) -> None:
        super().__init__(view._reader)
        self._noted_project = project
        self._keys: set[Key] = set()
        self._targets: set[Key] = set()
        self._ids: set[str] = set()
        self._owners: set[str] = set()
        self._repositories: set[str] = set()
        self._is_all = False  # in the project
        self._is_everywhere = False

    def close(self) -> None:
        """Nothing to do: see above."""

    def footprint(self) -> bytes:
        """All that was looked at."""
        if self._is_everywhere:
            return outcomes.EVERYTHING
        return outcomes.footprint_of(
            self._noted_project,
            self._keys,
            ids=self._ids,
            targets=self._targets,
            owners=self._owners,
            repositories=self._repositories,
            whole=outcomes.OF_BOTH if self._is_all else outcomes.OF_PLAN,
        )

    def stored(self, project: str, keys: Iterable[Key]) -> dict[Key, StoredState]:
        return super().stored(project, self._noting(self._keys, project, keys))

    def compared(self, project: str, keys: Iterable[Key]) -> dict[Key, StoredState]:
        return super().compared(project, self._noting(self._keys, project, keys))

    def last_versions(self, project: str, keys: Iterable[Key]) -> dict[Key, int]:
        return super().last_versions(project, self._noting(self._keys, project, keys))

    def identities(self, project: str, keys: Iterable[Key]) -> dict[Key, Identity]:
        return super().identities(project, self._noting(self._keys, project, keys))

    def bodies(self, project: str, keys: Iterable[Key]) -> dict[Key, bytes]:
        return super().bodies(project, self._noting(self._keys, project, keys))

    def documents(self, project: str, keys: Iterable[Key]) -> dict[Key, StoredDocument]:
        return super().documents(project, self._noting(self._keys, project, keys))

    def versions_holding(self, project: str, key: Key, values: Iterable[bytes]) -> Iterator[StoredVersion]:
        self._noting(self._keys, project, [key])
        return super().versions_holding(project, key, values)

    def versions_of(self, project: str, key: Key) -> Iterator[StoredVersion]:
        self._noting(self._keys, project, [key])
        return super().versions_of(project, key)

    def version(self, project: str, key: Key, number: int) -> StoredVersion | None:
        self._noting(self._keys, project, [key])
        return super().version(project, key, number)

    def past_routes(self, project: str) -> dict[str, bytes]:
        self._noting(self._keys, project, [outcomes.PAST_ROUTES])
        return super().past_routes(project)

    def versions_back(self, project: str, key: Key, *, most: int) -> Iterator[StoredVersion]:
        self._noting(self._keys, project, [key])
        return super().versions_back(project, key, most=most)

    def referrers(self, project: str, targets: Iterable[Key]) -> dict[Key, set[Key]]:
        return super().referrers(project, self._noting(self._targets, project, targets))

    def taken_ids(self, project: str, ids: Sequence[str]) -> set[str]:
        self._noting(self._ids, project, ids)
        return super().taken_ids(project, ids)

    def owned(self, repository: str, project: str) -> list[StoredState]:
        return super().owned(self._noting_owner(repository, project), project)

    def owned_count(self, repository: str, project: str) -> int:
        return super().owned_count(self._noting_owner(repository, project), project)

    def owned_unwanted(self, repository: str, project: str) -> list[StoredState]:
        return super().owned_unwanted(self._noting_owner(self._remembering(repository), project), project)

    def standing_at(self, repository: str, project: str, paths: Sequence[str]) -> list[tuple[str, Key]]:
        return super().standing_at(self._noting_owner(repository, project), project, paths)

    def without_lineage(self, repository: str, project: str, *, limit: int) -> list[Unexplained]:
        return super().without_lineage(self._noting_owner(repository, project), project, limit=limit)

    def unconverged(self, repository: str) -> list[str]:
        return super().unconverged(self._noting_owner(self._remembering(repository)))

    def places_of(self, repository: str, keys: Iterable[Key]) -> list[tuple[Key, str]]:
        return super().places_of(self._remembering(repository), keys)

    def vacant_files(self, repository: str) -> list[tuple[str, str]]:
        return super().vacant_files(self._remembering(repository))

    def given(self, repository: str) -> list[tuple[str, Key]]:
        return super().given(self._remembering(repository))

    def wanted_at(self, repository: str, paths: Sequence[str]) -> list[tuple[str, Key]]:
        return super().wanted_at(self._remembering(repository), paths)

    def index(self, repository: str) -> tuple[list[FileRow], list[WantedRow]]:
        return super().index(self._remembering(repository))

    def wanted_count(self, repository: str) -> int:
        return super().wanted_count(self._remembering(repository))

    def wanted_in(self, repository: str, paths: Sequence[str]) -> list[WantedRow]:
        return super().wanted_in(self._remembering(repository), paths)

    def paths_wanting(self, repository: str, keys: Iterable[Key]) -> set[str]:
        return super().paths_wanting(self._remembering(repository), keys)

    def blobs(self, repository: str, paths: Sequence[str]) -> dict[str, str]:
        return super().blobs(self._remembering(repository), paths)

    def pruned_since(self, repository: str, at: int) -> PruneWindow:
        return super().pruned_since(self._remembering(repository), at)

    def stays(self, repository: str) -> set[HeldRow]:
        return super().stays(self._remembering(repository))

    def approval(self, repository: str) -> Approval | None:
        return super().approval(self._remembering(repository))

    def wanted_digests(self, repository: str, keys: Iterable[Key]) -> dict[Key, bytes | None]:
        return super().wanted_digests(self._remembering(repository), keys)

    def repository(self, name: str) -> RepositoryRow | None:
        return super().repository(self._remembering(name))

    def configurations(self, project: str) -> Iterator[tuple[Key, StoredDocument]]:
        self._is_all = True
        self._noting_project(project)
        return super().configurations(project)

    def versions_naming(self, project: str, kinds: Sequence[str], types: Iterable[str]) -> Iterator[StoredVersion]:
        self._is_all = True
        self._noting_project(project)
        return super().versions_naming(project, kinds, types)

    def quotes(self, project: str, texts: Sequence[str]) -> Iterator[QuoteRow]:
        self._is_all = True
        self._noting_project(project)
        return super().quotes(project, texts)

    def _noting(self, facts: set[T], project: str, asked: Iterable[T]) -> Collection[T]:
        known = asked if isinstance(asked, Collection) else list(asked)
        facts.update(known)
        self._noting_project(project)
        return known

    def _noting_owner(self, repository: str, project: str | None = None) -> str:
        self._owners.add(repository)
        self._noting_project(project or self._noted_project)
        return repository

    def _noting_project(self, project: str) -> None:
        self._is_everywhere = self._is_everywhere or project != self._noted_project

    def _remembering(self, repository: str) -> str:
        self._repositories.add(repository)
        return repository
