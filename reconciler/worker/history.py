"""Jobs on what is stored already: redaction, and lineage (which commit last changed a file)."""

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

import msgspec
from msgspec import structs

from reconciler.git.faults import GitFault
from reconciler.git.snapshots import CommitInfo, Snapshot
from reconciler.model import rendering, stale_routes
from reconciler.model.clock import rfc3339
from reconciler.model.names import Key
from reconciler.model.outcomes import StoredState
from reconciler.model.stale_routes import Past
from reconciler.model.values import Value
from reconciler.planner.changes import ChangePart
from reconciler.store import records
from reconciler.store.contract import PlanningView
from reconciler.worker.messages import LineageFound, LineageJob, RedactJob, RedactPlanned

# Planning a redaction: which stored versions hold a text, what is left of each, and what else quotes it.
#
# What a resource holds now is never rewritten: it would come back with the next commit. Where it holds the text as a
# secret, that is where a secret belongs. A dry run looks at what readers see, and at nothing else.

Emit = Callable[[records.Changes], None]


class _Obstacle(Exception):
    """Nothing may be rewritten; the message says why."""


class _Parts:
    """Rows, sent on whenever there are many. In a dry run they are dropped."""

    def __init__(self, emit: Emit, *, dry_run: bool) -> None:
        self._emit = emit
        self._dry_run = dry_run
        self.rows = ChangePart()

    def added(self, size: int = 0) -> None:
        """Count one more of `rows`, which holds so many bytes."""
        if self.rows.add(size):
            self.flush()

    def flush(self) -> None:
        """Send what is gathered."""
        part = self.rows.take()
        if not self._dry_run:
            self._emit(part)


def plan_redaction(job: RedactJob, view: PlanningView, *, number: int, emit: Emit) -> RedactPlanned:
    """Find what holds the text and send the rows that rewrite it, with an audit event. Raises StoreFault."""
    parts = _Parts(emit, dry_run=job.dry_run)
    with view.snapshot() as revision:
        key = Key(job.kind, job.name)
        if not view.last_versions(job.context.project, [key]):
            return RedactPlanned(number, revision, exists=False)
        try:
            versions, places, rewritten = _versions(job, key, view, parts)
        except _Obstacle as obstacle:
            return RedactPlanned(number, revision, exists=True, obstacle=str(obstacle))
        places += _status(job, key, view, parts) + _quotes(job, view, parts)
        ends_routes = _end_routes(job, key, view, parts, rewritten=rewritten)
    parts.rows.audit.append(_audit(job, versions, places))
    parts.flush()
    return RedactPlanned(
        number, revision, exists=True, versions=tuple(versions), places=places, ends_routes=ends_routes
    )


def _versions(job: RedactJob, key: Key, view: PlanningView, parts: _Parts) -> tuple[list[int], int, set[int]]:
    """The versions that a reader sees the text in, and in how many strings; and all that are rewritten, also those that
    hold it as a secret. Raises _Obstacle.
    """
    project = job.context.project
    present = view.stored(project, [key]).get(key)
    seen: list[int] = []
    rewritten: set[int] = set()
    places = 0
    for version in view.versions_of(project, key):
        left = _left(job, version, present)
        if left is None:
            continue
        row = records.RewrittenRow(project, *key, version.version, left.body, left.secrets)
        parts.rows.rewritten.append(row)
        parts.added(len(left.body) + len(left.secrets or b""))
        rewritten.add(version.version)
        places += left.places
        if left.places:
            seen.append(version.version)
    return seen, places, rewritten


def _end_routes(job: RedactJob, key: Key, view: PlanningView, parts: _Parts, *, rewritten: Collection[int]) -> bool:
    """End the last good routes that a rewritten version is in force in; whether there were any."""
    project = job.context.project
    ended = False
    for name, encoded in view.past_routes(project).items():
        before = past = msgspec.json.decode(encoded, type=Past)
        for use, number in before.uses:
            if key.kind == "Configuration":
                ends = key.name == name and before.version in rewritten
            else:
                ends = key == Key("Destination", use) and number in rewritten
            past = stale_routes.without(past, use) if ends else past
        if past != before:
            ended = True
            past = structs.replace(past, at=job.context.at)
            row = records.PastRouteRow(project, name, int(bool(past.uses)), msgspec.json.encode(past))
            parts.rows.past_routes.append(row)
            parts.added()
            _restate(job, Key("Configuration", name), past, view, parts)
    return ended


def _restate(job: RedactJob, key: Key, past: Past, view: PlanningView, parts: _Parts) -> None:
    """Write what a Configuration says of delivery without the webhooks that were redacted."""
    project = job.context.project
    stored = view.documents(project, [key]).get(key)
    said = None if stored is None else rendering.delivery(stored.status)
    if stored is not None and said is not None:
        reason = said.reason.removesuffix(f" {stale_routes.HELD}") if said.stale is None else said.stale.reason
        status = rendering.with_delivery(stored.status, stale_routes.told(reason, past))
        lines = [rendering.redaction_sentence(line, job.text) for line in rendering.incomplete(status)]
        status = rendering.with_incomplete(key.kind, status, lines)
        row = records.HeadStatusRow(project, *key, stored.incomplete, status)
        parts.rows.head_statuses.append(row)
        parts.added(len(status))


def _left(
    job: RedactJob, version: records.StoredVersion, present: StoredState | None
) -> rendering.RedactedVersion | None:
    """Return what is to be left of a version; None when it stays as it is. Raises _Obstacle."""
    is_present = present is not None and present.version == version.version
    secrets = None if job.dry_run or is_present else version.secrets
    which = f"{version.key.kind} {version.key.name}"
    context = job.context
    try:
        if rendering.is_known_by(version.body, job.text):
            raise _Obstacle(f"The text is a part of the name or the id of {which}, which stay; give a longer text.")
        left = rendering.redacted_version(
            version.body, secrets, job.text, project=context.project, hmac_key=context.hmac_key
        )
    except (LookupError, ValueError):
        told = f"Version {version.version} of {which} is damaged in the store and cannot be read; restore a backup."
        raise _Obstacle(told) from None
    if is_present and left is not None:
        told = f"The present version of {which} still holds the text; change it first, in Git or by apply."
        raise _Obstacle(told)
    return left


def _status(job: RedactJob, key: Key, view: PlanningView, parts: _Parts) -> int:
    """Redact the status: what it lists as missing may quote an earlier version, or its type."""
    project = job.context.project
    identity = view.identities(project, [key]).get(key)
    if identity is None:
        return 0
    lines = rendering.incomplete(identity.status)
    left = [rendering.redaction_sentence(line, job.text) for line in lines]
    places = sum(one != other for one, other in zip(lines, left, strict=True))
    if places:
        status = rendering.with_incomplete(key.kind, identity.status, left)
        parts.rows.head_statuses.append(records.HeadStatusRow(project, *key, 1, status))
        parts.added(len(status))
    return places


def _quotes(job: RedactJob, view: PlanningView, parts: _Parts) -> int:
    places = 0
    for quote in view.quotes(job.context.project, rendering.spellings(job.text)):
        row = quote._replace(text=rendering.redaction_sentence(quote.text, job.text))
        parts.rows.quotes.append(row)
        parts.added(len(row.text))
        places += 1
    return places


def _audit(job: RedactJob, versions: Sequence[int], places: int) -> records.AuditRow:
    told = f"versions {', '.join(_ranges(versions))}" if versions else "no version"
    return records.AuditRow(
        at=job.context.at,
        project=job.context.project,
        actor=job.actor,
        action="redacted",
        kind=job.kind,
        name=job.name,
        version_before=None,
        version_after=None,
        run=None,
        request=job.request,
        detail=f"{told}; places: {places}",
    )


def _ranges(versions: Sequence[int]) -> Iterator[str]:
    """`1-3`, `7`: versions in order, those in a row as one."""
    start = 0
    for end, version in enumerate(versions):
        if end + 1 == len(versions) or versions[end + 1] != version + 1:
            yield f"{version}" if start == end else f"{versions[start]}-{version}"
            start = end + 1


# Lineage: which commit gave the file of a stored resource what it is, as `changedBy` of its source.

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
    emit: Callable[[records.Changes], None],
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


def _part(rows: Sequence[tuple[records.LineageRow, Sequence[records.OriginRow]]]) -> records.Changes:
    named = {origin.id: origin for _, come_from in rows for origin in come_from}
    return records.Changes(origins=tuple(named.values()), lineages=tuple(row for row, _ in rows))


def _rows(
    mirror: Path,
    project: str,
    resources: Sequence[records.Unexplained],
    come_from: Mapping[int, records.OriginRow],
    *,
    go_on: Callable[[], bool],
) -> Iterator[tuple[records.LineageRow, Sequence[records.OriginRow]]]:
    """A row for each resource that is explained, with the origins that it names; one walk for each commit that some of
    them were read from.
    """
    known = _Origins(come_from)
    by_commit: dict[str, dict[records.Unexplained, str]] = defaultdict(dict)
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

    def __init__(self, rows: Mapping[int, records.OriginRow]) -> None:
        self._rows = rows
        self._sources = {row.id: cast("Source", msgspec.json.decode(row.head + row.tail)) for row in rows.values()}
        self._told: dict[tuple[int, object], records.OriginRow] = {}

    def place(self, one: records.Unexplained) -> tuple[str, str]:
        """The commit that the present source is of, and where the file was in it. A file may have moved since, and of
        what was adopted without a new version the status alone knows.
        """
        shown = self._sources[one.shown]
        return str(shown.get("commit")), str(one.path if self._is_same(one) else one.shown_path)

    def row(
        self, project: str, one: records.Unexplained, changed_by: Value
    ) -> tuple[records.LineageRow, Sequence[records.OriginRow]]:
        """The row that tells of that commit what it may be told of, with its origins."""
        version = self._with(one.origin, changed_by) if self._is_same(one) else self._rows[one.origin]
        status = None if one.status is None else self._with(one.status, changed_by)
        row = records.LineageRow(
            project,
            *one.key,
            one.version,
            before=one.origin,
            origin=version.id,
            status_before=one.status,
            status=None if status is None else status.id,
        )
        return row, (version,) if status is None else (version, status)

    def _with(self, origin: int, changed_by: Value) -> records.OriginRow:
        commit = cast("Source", changed_by)["commit"]
        told = self._told.get((origin, commit))
        if told is None:
            before = self._rows[origin]
            told = self._told[origin, commit] = records.origin_row(
                {**self._sources[origin], "changedBy": changed_by},
                actor=before.actor,
                run=before.run,
                request=before.request,
                created_at=before.created_at,
            )
        return told

    def _is_same(self, one: records.Unexplained) -> bool:
        """The status tells of the commit that the version is of."""
        version, shown = self._sources[one.origin], self._sources[one.shown]
        return all(version.get(name) == shown.get(name) for name in ("repository", "commit"))
