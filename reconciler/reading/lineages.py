"""Lineage: which commit gave the file of a stored resource what it is, as `changedBy` of its source.

Belongs here: what a run finds out of what it is about to store, and what is found in the background of what was stored
without it, of a first read above all. Does not: walking the history, which is `git.history`.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import cast

import msgspec

from reconciler.clock import rfc3339
from reconciler.documents.values import Value
from reconciler.git.faults import GitFault
from reconciler.git.snapshots import CommitInfo, Snapshot
from reconciler.reading.messages import LineageFound, LineageJob
from reconciler.resources import canonical, rendering
from reconciler.store.contract import Changes, LineageRow
from reconciler.store.planning_view import PlanningView, Unexplained

RUN_SECONDS = 1.0  # that a run searches; what it does not find is searched for in the background
FIRST_SECONDS = 0.1  # that a first read searches: enough for a young repository, and little beside reading a large one
BACKGROUND_SECONDS = 300.0  # of one search in the background, rests included
REST_SECONDS = 0.01
MAX_RESOURCES = 20_000  # explained by one search: 30 MB
PART = 250  # rows in one part, and in one transaction: some milliseconds

Source = dict[str, Value]


def of_run(snapshot: Snapshot, paths: Iterable[str], *, is_first: bool) -> dict[str, Value]:
    """`changedBy` of these files of a commit, as far as it is found in a moment."""
    end = time.monotonic() + (FIRST_SECONDS if is_first else RUN_SECONDS)
    return _changed_by(snapshot, paths, go_on=lambda: time.monotonic() < end)


def explain(
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
    end = time.monotonic() + BACKGROUND_SECONDS

    def go_on() -> bool:
        while rests() and time.monotonic() < end:
            time.sleep(REST_SECONDS)
        return time.monotonic() < end

    rows = list(_rows(Path(job.mirror), job.context.project, unexplained, go_on=go_on))
    for start in range(0, len(rows), PART):
        emit(Changes(lineages=tuple(rows[start : start + PART])))
    return LineageFound(number, explained=len(rows), more=len(unexplained) == MAX_RESOURCES and bool(rows))


def _rows(
    mirror: Path, project: str, resources: Sequence[Unexplained], *, go_on: Callable[[], bool]
) -> Iterator[LineageRow]:
    """A row for each resource that is explained; one walk for each commit that some of them were read from."""
    by_commit: dict[str, dict[Unexplained, str]] = defaultdict(dict)
    for one in resources:
        commit, path = _origin(one)
        by_commit[commit][one] = path
    for commit, paths in by_commit.items():
        try:
            with Snapshot.open(mirror, commit) as snapshot:
                found = _changed_by(snapshot, set(paths.values()), go_on=go_on)
        except GitFault:
            continue  # the mirror was made anew after a force-push, for instance
        yield from (_row(project, one, found[path]) for one, path in paths.items() if path in found and go_on())


def _changed_by(snapshot: Snapshot, paths: Iterable[str], *, go_on: Callable[[], bool]) -> dict[str, Value]:
    found = snapshot.last_changes(list(paths), go_on=go_on)
    return {path: _shown(commit) for path, commit in found.items()}


def _shown(commit: CommitInfo) -> Value:
    return {"commit": commit.id, "author": commit.author, "date": rfc3339(commit.date)}


def _origin(one: Unexplained) -> tuple[str, str]:
    """The commit that the present source is of, and where the file was in it. A file may have moved since, and of what
    was adopted without a new version the status alone knows.
    """
    head, version = _sources(one)
    return str(head.get("commit")), str((version if _is_same(head, version) else head).get("path"))


def _row(project: str, one: Unexplained, changed_by: Value) -> LineageRow:
    head, version = _sources(one)
    told = {**version, "changedBy": changed_by} if _is_same(head, version) else version
    return LineageRow(
        project,
        *one.key,
        one.version,
        source_before=one.source,
        source=canonical.encode(told),
        status_before=one.status,
        status=rendering.with_source(one.status, {**head, "changedBy": changed_by}),
    )


def _sources(one: Unexplained) -> tuple[Source, Source]:
    """As the status has it, and as the version has it."""
    status = cast("dict[str, Source]", msgspec.json.decode(one.status))
    return status["source"], cast("Source", msgspec.json.decode(one.source))


def _is_same(head: Source, version: Source) -> bool:
    return (head.get("repository"), head.get("commit")) == (version.get("repository"), version.get("commit"))
