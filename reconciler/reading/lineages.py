"""Lineage: which commit gave the file of a stored resource what it is, as `changedBy` of its source.

Belongs here: what a run finds out of what it is about to store, and what is found in the background of what was stored
without it, of a first read above all. Does not: walking the history, which is `git.history`.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

import msgspec

from reconciler.git.faults import GitFault
from reconciler.git.snapshots import CommitInfo, Snapshot
from reconciler.model.clock import rfc3339
from reconciler.model.values import Value
from reconciler.reading.messages import LineageFound, LineageJob
from reconciler.store import rows
from reconciler.store.contract import Changes, LineageRow, OriginRow
from reconciler.store.planning_view import PlanningView, Unexplained

RUN_SECONDS = 1.0  # that a run searches; what it does not find is searched for in the background
FIRST_SECONDS = 0.1  # that a first read searches: enough for a young repository, and little beside reading a large one
BACKGROUND_SECONDS = 300.0  # of one search in the background, rests included
REST_SECONDS = 0.01
MAX_RESOURCES = 20_000  # explained by one search: 30 MB
PART = 250  # rows in one part, and in one transaction: some milliseconds

Source = dict[str, Value]


def lineage_of_run(snapshot: Snapshot, paths: Iterable[str], *, is_first: bool) -> dict[str, Value]:
    """`changedBy` of these files of a commit, as far as it is found in a moment."""
    end = time.monotonic() + (FIRST_SECONDS if is_first else RUN_SECONDS)
    return _changed_by(snapshot, paths, go_on=lambda: time.monotonic() < end)


def explain_lineage(
    job: LineageJob,
    view: PlanningView,
    *,
    number: int,
    emit: Callable[[Changes], None],
    rests: Callable[[], bool],
) -> LineageFound:
    """Search for what is not known of what a repository brought; it is at rest while `rests` says so.

    Raises StoreFault.
    """
    with view.snapshot():
        unexplained = view.without_lineage(job.repository, job.context.project, limit=MAX_RESOURCES)
        come_from = view.origins(one for row in unexplained for one in (row.origin, row.shown))
    end = time.monotonic() + BACKGROUND_SECONDS

    def go_on() -> bool:
        while rests() and time.monotonic() < end:
            time.sleep(REST_SECONDS)
        return time.monotonic() < end

    rows = list(_rows(Path(job.mirror), job.context.project, unexplained, come_from, go_on=go_on))
    for start in range(0, len(rows), PART):
        emit(_part(rows[start : start + PART]))
    # Where something was found the next search has less to look for and comes further; where nothing was, it would not.
    is_left = len(unexplained) == MAX_RESOURCES or (len(rows) < len(unexplained) and time.monotonic() >= end)
    return LineageFound(number, explained=len(rows), more=is_left and bool(rows))


def _part(rows: Sequence[tuple[LineageRow, Sequence[OriginRow]]]) -> Changes:
    named = {origin.id: origin for _, come_from in rows for origin in come_from}
    return Changes(origins=tuple(named.values()), lineages=tuple(row for row, _ in rows))


def _rows(
    mirror: Path,
    project: str,
    resources: Sequence[Unexplained],
    come_from: Mapping[int, OriginRow],
    *,
    go_on: Callable[[], bool],
) -> Iterator[tuple[LineageRow, Sequence[OriginRow]]]:
    """A row for each resource that is explained, with the origins that it names; one walk for each commit that some of
    them were read from.
    """
    known = _Origins(come_from)
    by_commit: dict[str, dict[Unexplained, str]] = defaultdict(dict)
    for one in resources:
        commit, path = known.place(one)
        by_commit[commit][one] = path
    for commit, paths in by_commit.items():
        if not go_on():
            return
        try:
            with Snapshot.open(mirror, commit) as snapshot:
                found = _changed_by(snapshot, set(paths.values()), go_on=go_on)
        except GitFault:
            continue  # the mirror was made anew after a force-push, for instance
        for one, path in paths.items():
            if path in found:
                go_on()  # rests; what was found is told even when the time is up
                yield known.row(project, one, found[path])


def _changed_by(snapshot: Snapshot, paths: Iterable[str], *, go_on: Callable[[], bool]) -> dict[str, Value]:
    found = snapshot.last_changes(list(paths), go_on=go_on)
    shown = {commit.id: _shown(commit) for commit in set(found.values())}
    return {path: shown[commit.id] for path, commit in found.items()}


def _shown(commit: CommitInfo) -> Value:
    return {"commit": commit.id, "author": commit.author, "date": rfc3339(commit.date)}


class _Origins:
    """The origins of what is not explained, and the same with the commits that explain it, each made once."""

    def __init__(self, rows: Mapping[int, OriginRow]) -> None:
        self._rows = rows
        self._sources = {row.id: cast("Source", msgspec.json.decode(row.head + row.tail)) for row in rows.values()}
        self._told: dict[tuple[int, object], OriginRow] = {}

    def place(self, one: Unexplained) -> tuple[str, str]:
        """The commit that the present source is of, and where the file was in it. A file may have moved since, and of
        what was adopted without a new version the status alone knows.
        """
        shown = self._sources[one.shown]
        return str(shown.get("commit")), str(one.path if self._is_same(one) else one.shown_path)

    def row(self, project: str, one: Unexplained, changed_by: Value) -> tuple[LineageRow, Sequence[OriginRow]]:
        """The row that tells of that commit what it may be told of, with its origins."""
        version = self._with(one.origin, changed_by) if self._is_same(one) else self._rows[one.origin]
        status = None if one.status is None else self._with(one.status, changed_by)
        row = LineageRow(
            project,
            *one.key,
            one.version,
            before=one.origin,
            origin=version.id,
            status_before=one.status,
            status=None if status is None else status.id,
        )
        return row, (version,) if status is None else (version, status)

    def _with(self, origin: int, changed_by: Value) -> OriginRow:
        commit = cast("Source", changed_by)["commit"]
        told = self._told.get((origin, commit))
        if told is None:
            before = self._rows[origin]
            told = self._told[origin, commit] = rows.origin_row(
                {**self._sources[origin], "changedBy": changed_by},
                actor=before.actor,
                run=before.run,
                request=before.request,
                created_at=before.created_at,
            )
        return told

    def _is_same(self, one: Unexplained) -> bool:
        """Whether the status tells of the commit that the version is of."""
        version, shown = self._sources[one.origin], self._sources[one.shown]
        return all(version.get(name) == shown.get(name) for name in ("repository", "commit"))
