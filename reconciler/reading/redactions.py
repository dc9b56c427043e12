"""Planning a redaction: which stored versions hold a text, what is left of each, and what else quotes it.

Belongs here: one resource's history, looked through version by version, and the rows that rewrite it. Does not: what is
left of a version (`resources.redacting`).

What a resource holds now is never rewritten: it would come back with the next commit. Where it holds the text as a
secret, that is where a secret belongs. A dry run looks at what readers see, and at nothing else.
"""

from collections.abc import Callable, Collection, Iterator, Sequence

import msgspec
from msgspec import structs

from reconciler.model import rendering, stale_routes
from reconciler.model.names import Key
from reconciler.model.outcomes import StoredState
from reconciler.model.stale_routes import Past
from reconciler.reading.messages import RedactJob, RedactPlanned
from reconciler.store.contract import AuditRow, Changes, HeadStatusRow, PastRouteRow, RewrittenRow
from reconciler.store.planning_view import PlanningView, StoredVersion

Emit = Callable[[Changes], None]

PART_BYTES = 4 * 1024 * 1024  # of rows, which a part closes behind
ROW_BYTES = 200  # of a row, beside what it holds


class _Obstacle(Exception):
    """Nothing may be rewritten; the message says why."""


class _Parts:
    """Rows, sent on whenever there are many. In a dry run they are dropped."""

    def __init__(self, emit: Emit, *, dry_run: bool) -> None:
        self._emit = emit
        self._dry_run = dry_run
        self._gathered: list[Changes] = []
        self._bytes = 0

    def add(self, part: Changes, *, size: int = 0) -> None:
        """Take one row."""
        self._gathered.append(part)
        self._bytes += size + ROW_BYTES
        if self._bytes > PART_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send what is gathered."""
        if self._gathered and not self._dry_run:
            self._emit(
                Changes(
                    head_statuses=tuple(row for part in self._gathered for row in part.head_statuses),
                    past_routes=tuple(row for part in self._gathered for row in part.past_routes),
                    rewritten=tuple(row for part in self._gathered for row in part.rewritten),
                    quotes=tuple(row for part in self._gathered for row in part.quotes),
                    audit=tuple(row for part in self._gathered for row in part.audit),
                )
            )
        self._gathered, self._bytes = [], 0


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
    parts.add(Changes(audit=(_audit(job, versions, places),)))
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
        row = RewrittenRow(project, *key, version.version, left.body, left.secrets)
        parts.add(Changes(rewritten=(row,)), size=len(left.body) + len(left.secrets or b""))
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
            row = PastRouteRow(project, name, int(bool(past.uses)), msgspec.json.encode(past))
            parts.add(Changes(past_routes=(row,)))
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
        row = HeadStatusRow(project, *key, stored.incomplete, status)
        parts.add(Changes(head_statuses=(row,)), size=len(status))


def _left(job: RedactJob, version: StoredVersion, present: StoredState | None) -> rendering.RedactedVersion | None:
    """What is to be left of a version; None when it stays as it is. Raises _Obstacle."""
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
    """What the status of the resource lists as missing may quote a version before, or its type."""
    project = job.context.project
    identity = view.identities(project, [key]).get(key)
    if identity is None:
        return 0
    lines = rendering.incomplete(identity.status)
    left = [rendering.redaction_sentence(line, job.text) for line in lines]
    places = sum(one != other for one, other in zip(lines, left, strict=True))
    if places:
        status = rendering.with_incomplete(key.kind, identity.status, left)
        parts.add(Changes(head_statuses=(HeadStatusRow(project, *key, 1, status),)), size=len(status))
    return places


def _quotes(job: RedactJob, view: PlanningView, parts: _Parts) -> int:
    places = 0
    for quote in view.quotes(job.context.project, rendering.spellings(job.text)):
        row = quote._replace(text=rendering.redaction_sentence(quote.text, job.text))
        parts.add(Changes(quotes=(row,)), size=len(row.text))
        places += 1
    return places


def _audit(job: RedactJob, versions: Sequence[int], places: int) -> AuditRow:
    told = f"versions {', '.join(_ranges(versions))}" if versions else "no version"
    return AuditRow(
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
