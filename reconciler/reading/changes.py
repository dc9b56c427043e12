"""From outcomes to rows: what a plan decided becomes what the store is given, in parts of bounded size. Pure."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from reconciler import ids
from reconciler.planning.models import Change, Outcome
from reconciler.planning.statuses import UpdateStatus
from reconciler.reading.candidates import Candidate
from reconciler.resources import rendering
from reconciler.resources.keys import Key
from reconciler.store.contract import AuditRow, Changes, HeadRow, KeyRow, StatusRow, VersionRow
from reconciler.store.planning_view import Identity

PART = 250  # outcomes in one part: about 400 KB of rows, a millisecond of decoding
PART_BYTES = 4 * 1024 * 1024  # of bodies; a part closes behind the resource that goes over it


@dataclass(frozen=True, slots=True)
class Origin:
    """Who changes what, when: the same for every row of one change. `source` has no `path` and `line` yet."""

    project: str
    actor: str
    repository: str | None
    run: str | None
    request: str | None
    at: str
    milliseconds: int
    seed: bytes
    source: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Stock:
    """What was stored of the resources that change: ids and sources, and the newest version of what is created."""

    identities: Mapping[Key, Identity]
    last_versions: Mapping[Key, int]


@dataclass(frozen=True, slots=True)
class Written:
    """One resource as it will be stored."""

    head: HeadRow
    version: VersionRow


def parts(
    outcomes: Sequence[Outcome], candidates: Sequence[Candidate], *, stock: Stock, origin: Origin
) -> Iterator[Changes]:
    """The rows of every outcome that changes the store or is told in a run, in parts. Ordinals index `candidates`."""
    gathered: list[Changes] = []
    size = 0
    for rank, outcome in enumerate(outcomes):
        rows = _rows(outcome, candidates, rank=rank, stock=stock, origin=origin)
        gathered.append(rows)
        size += _size(rows)
        if len(gathered) == PART or size > PART_BYTES:
            yield _joined(gathered)
            gathered, size = [], 0
    if gathered:
        yield _joined(gathered)


def _size(rows: Changes) -> int:
    """The bytes that weigh: bodies and reasons. All else of a row is bounded by the length of names and paths."""
    bodies = sum(len(version.body) + len(version.secrets or b"") for version in rows.versions)
    return bodies + sum(len(status.reason or "") for status in rows.statuses)


def _joined(gathered: Sequence[Changes]) -> Changes:
    return Changes(
        versions=tuple(row for one in gathered for row in one.versions),
        heads=tuple(row for one in gathered for row in one.heads),
        removed=tuple(row for one in gathered for row in one.removed),
        audit=tuple(row for one in gathered for row in one.audit),
        statuses=tuple(row for one in gathered for row in one.statuses),
    )


def write(outcome: Outcome, candidate: Candidate, *, stock: Stock, origin: Origin) -> Written:
    """The new version of a resource that is created or updated."""
    assert outcome.key is not None
    assert candidate.ready is not None
    ready = candidate.ready
    identity = _identity(outcome, candidate, stock=stock, origin=origin)
    body = rendering.body(ready, identity=identity)
    source = _source(origin, candidate)
    version = VersionRow(
        project=origin.project,
        kind=outcome.key.kind,
        name=outcome.key.name,
        version=identity.version,
        resource_id=identity.id,
        digest=ready.digest,
        body=body,
        secrets=ready.secrets,
        source=source,
        actor=origin.actor,
        run=origin.run,
        request=origin.request,
        created_at=origin.at,
    )
    return Written(head=_head(version, candidate, origin=origin), version=version)


def status(source: bytes) -> bytes:
    """The `status` of a stored resource: it is the latest version, and came from `source`."""
    return b'{"latest":true,"source":%b}' % source


def new_id(origin: Origin, ordinal: int) -> str:
    """A new resource's ULID, derived from the change's seed and the document's place in it."""
    randomness = hashlib.blake2b(ordinal.to_bytes(8, "big"), key=origin.seed, digest_size=ids.RANDOM_BYTES).digest()
    return ids.ulid(milliseconds=origin.milliseconds, randomness=randomness)


def _rows(outcome: Outcome, candidates: Sequence[Candidate], *, rank: int, stock: Stock, origin: Origin) -> Changes:
    statuses = _statuses(outcome, candidates, rank=rank, origin=origin)
    match outcome.change:
        case Change.CREATE | Change.UPDATE:
            written = write(outcome, _candidate(outcome, candidates), stock=stock, origin=origin)
            audit = _audit(outcome, version_after=written.version.version, origin=origin)
            return Changes(versions=(written.version,), heads=(written.head,), audit=(audit,), statuses=statuses)
        case Change.REPLACE_HEAD:
            head = _moved_head(outcome, _candidate(outcome, candidates), stock=stock, origin=origin)
            return Changes(heads=(head,), statuses=statuses)
        case Change.DELETE:
            assert outcome.key is not None
            removed = KeyRow(origin.project, outcome.key.kind, outcome.key.name)
            audit = _audit(outcome, version_after=None, origin=origin)
            return Changes(removed=(removed,), audit=(audit,), statuses=statuses)
        case Change.NONE:
            return Changes(statuses=statuses)


def _candidate(outcome: Outcome, candidates: Sequence[Candidate]) -> Candidate:
    assert outcome.ordinal is not None
    return candidates[outcome.ordinal]


def _identity(outcome: Outcome, candidate: Candidate, *, stock: Stock, origin: Origin) -> rendering.Identity:
    """An existing resource keeps its id; a new one brings its own or gets one, and goes on from its last version."""
    assert outcome.key is not None
    assert outcome.ordinal is not None
    assert candidate.ready is not None
    stored = stock.identities.get(outcome.key)
    if outcome.stored is not None and stored is not None:
        version, resource_id = outcome.stored.version + 1, stored.resource_id
    else:
        version = stock.last_versions.get(outcome.key, 0) + 1
        resource_id = candidate.ready.proposed_id or new_id(origin, outcome.ordinal)
    return rendering.Identity(id=resource_id, version=version, date_modified=origin.at)


def _head(version: VersionRow, candidate: Candidate, *, origin: Origin) -> HeadRow:
    assert candidate.ready is not None
    return HeadRow(
        project=version.project,
        kind=version.kind,
        name=version.name,
        version=version.version,
        resource_id=version.resource_id,
        digest=version.digest,
        owner=origin.repository,
        path=None if candidate.place is None else candidate.place.path,
        line=None if candidate.place is None else candidate.place.line,
        protected=int(candidate.ready.protected),
        status=status(version.source),
    )


def _moved_head(outcome: Outcome, candidate: Candidate, *, stock: Stock, origin: Origin) -> HeadRow:
    """The same version at another place, or adopted: commit, author and date stay those of the version."""
    assert outcome.stored is not None
    assert candidate.ready is not None
    assert candidate.place is not None
    stored = outcome.stored
    identity = stock.identities[stored.key]
    source: dict[str, object] = msgspec.json.decode(identity.source)
    if source.get("repository") != origin.repository:
        source = dict(origin.source)
    source |= {"path": candidate.place.path, "line": candidate.place.line}
    return HeadRow(
        project=origin.project,
        kind=stored.key.kind,
        name=stored.key.name,
        version=stored.version,
        resource_id=identity.resource_id,
        digest=stored.digest,
        owner=origin.repository,
        path=candidate.place.path,
        line=candidate.place.line,
        protected=int(candidate.ready.protected),
        status=status(msgspec.json.encode(source)),
    )


def _source(origin: Origin, candidate: Candidate) -> bytes:
    place = candidate.place
    where = {} if place is None else {"path": place.path, "line": place.line}
    return msgspec.json.encode({**origin.source, **where})


def _audit(outcome: Outcome, *, version_after: int | None, origin: Origin) -> AuditRow:
    assert outcome.key is not None
    return AuditRow(
        at=origin.at,
        project=origin.project,
        actor=origin.actor,
        action=_action(outcome),
        kind=outcome.key.kind,
        name=outcome.key.name,
        version_before=None if outcome.stored is None else outcome.stored.version,
        version_after=version_after,
        run=origin.run,
        request=origin.request,
    )


def _action(outcome: Outcome) -> str:
    """What was done: a resource that is stored although deprecated was created."""
    return (UpdateStatus.CREATED if outcome.change is Change.CREATE else outcome.status).value


def _statuses(outcome: Outcome, candidates: Sequence[Candidate], *, rank: int, origin: Origin) -> tuple[StatusRow, ...]:
    """What a run tells of this outcome: everything but `unchanged`, with the place in the commit or the last one."""
    if origin.run is None or outcome.status is UpdateStatus.UNCHANGED:
        return ()
    place = None if outcome.ordinal is None else candidates[outcome.ordinal].place
    stored = outcome.stored
    row = StatusRow(
        run=origin.run,
        ordinal=rank,
        kind=None if outcome.key is None else outcome.key.kind,
        name=None if outcome.key is None else outcome.key.name,
        status=outcome.status.value,
        reason=outcome.reason or _why_forbidden(outcome),
        path=place.path if place else (stored.path if stored else None),
        line=place.line if place else (stored.line if stored else None),
    )
    return (row,)


def _why_forbidden(outcome: Outcome) -> str | None:
    """A run says whose a resource is that it could not have."""
    if outcome.status is not UpdateStatus.FORBIDDEN:
        return None
    owner = None if outcome.stored is None else outcome.stored.owner
    if owner is None:
        return "the repository's setting `allow` leaves it out"
    return f"owned by the repository {owner}; take it out of one of the two"
