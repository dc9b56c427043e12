"""From outcomes to rows: what was decided becomes what the store is given, in parts of bounded size. Pure."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from reconciler import ids
from reconciler.deciding import drifting
from reconciler.deciding.candidates import Candidate
from reconciler.deciding.dependants import NOTHING, Standing
from reconciler.documents.values import Pointer, Value
from reconciler.planning.models import BUILT_IN, Change, Outcome
from reconciler.planning.statuses import UpdateStatus
from reconciler.resources import canonical, drafts, preparing, rendering
from reconciler.resources.fitting import Fit
from reconciler.resources.keys import Key
from reconciler.resources.preparing import Prepared
from reconciler.resources.restoring import Secrets
from reconciler.store.contract import AuditRow, Changes, HeadRow, KeyRow, ReferenceRow, StatusRow, VersionRow
from reconciler.store.planning_view import Identity, StoredDocument

WRITING = frozenset({Change.CREATE, Change.UPDATE})
PART = 250  # outcomes in one part: about 400 KB of rows, a millisecond of decoding
NAMED = 10  # a line names this many resources, and counts the rest
PART_BYTES = 4 * 1024 * 1024  # of bodies; a part closes behind the resource that goes over it


@dataclass(frozen=True, slots=True)
class Origin:
    """Who changes what, when: the same for every row of one change. `source` has no `path` and `line` yet.

    `hmac_key` is this server's, under which a hash covers secrets.
    """

    project: str
    actor: str
    repository: str | None
    run: str | None
    request: str | None
    at: str
    milliseconds: int
    seed: bytes
    source: Mapping[str, Value]
    hmac_key: bytes = field(repr=False)
    changed_by: Mapping[str, Value] = field(default_factory=dict)  # the commits that changed files, by their paths


@dataclass(frozen=True, slots=True)
class Stock:
    """What was stored of the resources that change: ids and sources, and the newest version of what is created.

    `wanted` has the digests of what is wanted in their place by the suspended repositories that own them. `before` are
    the present versions of what is updated and holds secrets.
    """

    identities: Mapping[Key, Identity]
    last_versions: Mapping[Key, int]
    wanted: Mapping[Key, bytes | None] = field(default_factory=dict)
    before: Mapping[Key, StoredDocument] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Decided:
    """What becomes of every candidate, and what follows. Ordinals of outcomes index `candidates`.

    `fits` has each candidate that is stored. `unresolved` are those that are invalid for what stands around them.
    """

    candidates: Sequence[Candidate]
    outcomes: tuple[Outcome, ...]
    fits: Mapping[int, Fit] = field(default_factory=dict)
    unresolved: frozenset[int] = frozenset()
    kept: Mapping[int, frozenset[Pointer]] = field(default_factory=dict)  # where `(sensitive)` stood for a secret
    standing: Standing = NOTHING

    def storing_secrets(self) -> Iterator[tuple[Key, Outcome, Secrets]]:
        """What is stored anew and holds secrets, with them."""
        for outcome in self.outcomes:
            if outcome.change in WRITING and outcome.key is not None and outcome.ordinal is not None:
                secrets = self.fits[outcome.ordinal].secrets
                if secrets:
                    yield outcome.key, outcome, secrets


@dataclass(frozen=True, slots=True)
class Written:
    """One resource as it will be stored."""

    head: HeadRow
    version: VersionRow
    references: tuple[ReferenceRow, ...]


def parts(decided: Decided, *, stock: Stock, origin: Origin, first: int = 0) -> Iterator[Changes]:
    """The rows of every outcome that changes the store or is told in a run, in parts; the run's ranks from `first`."""
    gathered: list[Changes] = []
    size = 0
    for row in decided.standing.rows:
        gathered.append(Changes(head_statuses=(row,)))
        size += len(row.status)
        if len(gathered) == PART or size > PART_BYTES:
            yield _joined(gathered)
            gathered, size = [], 0
    for rank, outcome in enumerate(decided.outcomes, first):
        rows = _rows(outcome, decided, rank=rank, stock=stock, origin=origin)
        gathered.append(rows)
        size += _size(rows)
        if len(gathered) == PART or size > PART_BYTES:
            yield _joined(gathered)
            gathered, size = [], 0
    if gathered:
        yield _joined(gathered)


def _size(rows: Changes) -> int:
    """The bytes that weigh: bodies, statuses, reasons. All else of a row is as long as names and paths are."""
    heads = sum(len(head.status) for head in rows.heads)
    bodies = sum(len(version.body) + len(version.secrets or b"") for version in rows.versions)
    return heads + bodies + sum(len(status.reason or "") for status in rows.statuses)


def _joined(gathered: Sequence[Changes]) -> Changes:
    return Changes(
        versions=tuple(row for one in gathered for row in one.versions),
        references=tuple(row for one in gathered for row in one.references),
        heads=tuple(row for one in gathered for row in one.heads),
        head_statuses=tuple(row for one in gathered for row in one.head_statuses),
        removed=tuple(row for one in gathered for row in one.removed),
        audit=tuple(row for one in gathered for row in one.audit),
        statuses=tuple(row for one in gathered for row in one.statuses),
    )


def write(outcome: Outcome, decided: Decided, *, stock: Stock, origin: Origin) -> Written:
    """The new version of a resource that is created or updated."""
    assert outcome.key is not None
    assert outcome.ordinal is not None
    candidate, fit = decided.candidates[outcome.ordinal], decided.fits[outcome.ordinal]
    assert candidate.draft is not None
    identity = _identity(outcome, candidate, stock=stock, origin=origin)
    bound = preparing.Bound(origin.project, identity.id, identity.version)
    ready = preparing.prepare(drafts.owned(candidate.draft), fit.secrets, hmac_key=origin.hmac_key, bound=bound)
    ready = _with_the_same_hash(ready, stock.before.get(outcome.key))
    source = _fresh_source(origin, candidate)
    version = VersionRow(
        project=origin.project,
        kind=outcome.key.kind,
        name=outcome.key.name,
        version=identity.version,
        resource_id=identity.id,
        digest=candidate.draft.digest,
        body=rendering.body(ready, identity=identity),
        secrets=ready.secrets,
        source=canonical.encode(source),
        actor=origin.actor,
        run=origin.run,
        request=origin.request,
        created_at=origin.at,
    )
    head = _head(version, candidate, standing=decided.standing, origin=origin)
    if origin.repository is None:
        head = drifting.kept(head, outcome, stock.wanted)
    references = tuple(ReferenceRow(origin.project, *outcome.key, *target) for target in candidate.draft.references)
    return Written(head=head, version=version, references=references)


def new_id(origin: Origin, ordinal: int) -> str:
    """A new resource's ULID, derived from the change's seed and the document's place in it."""
    randomness = hashlib.blake2b(ordinal.to_bytes(8, "big"), key=origin.seed, digest_size=ids.RANDOM_BYTES).digest()
    return ids.ulid(milliseconds=origin.milliseconds, randomness=randomness)


def _rows(outcome: Outcome, decided: Decided, *, rank: int, stock: Stock, origin: Origin) -> Changes:
    statuses = _statuses(outcome, decided.candidates, rank=rank, origin=origin)
    match outcome.change:
        case Change.CREATE | Change.UPDATE:
            written = write(outcome, decided, stock=stock, origin=origin)
            return Changes(
                versions=(written.version,),
                references=written.references,
                heads=(written.head,),
                audit=(_audit(outcome, version_after=written.version.version, origin=origin),),
                statuses=statuses,
            )
        case Change.REPLACE_HEAD:
            head = _moved_head(outcome, decided, stock=stock, origin=origin)
            return Changes(heads=(head,), statuses=statuses)
        case Change.DELETE:
            assert outcome.key is not None
            removed = KeyRow(origin.project, outcome.key.kind, outcome.key.name)
            audit = _audit(outcome, version_after=None, origin=origin)
            return Changes(removed=(removed,), audit=(audit,), statuses=statuses)
        case Change.NONE:
            return Changes(statuses=statuses)


def _identity(outcome: Outcome, candidate: Candidate, *, stock: Stock, origin: Origin) -> rendering.Identity:
    """An existing resource keeps its id; a new one brings its own or gets one, and goes on from its last version."""
    assert outcome.key is not None
    assert outcome.ordinal is not None
    assert candidate.draft is not None
    stored = stock.identities.get(outcome.key)
    if outcome.stored is not None and stored is not None:
        version, resource_id = outcome.stored.version + 1, stored.resource_id
    else:
        version = stock.last_versions.get(outcome.key, 0) + 1
        resource_id = candidate.draft.proposed_id or new_id(origin, outcome.ordinal)
    return rendering.Identity(id=resource_id, version=version, date_modified=origin.at)


def _head(version: VersionRow, candidate: Candidate, *, standing: Standing, origin: Origin) -> HeadRow:
    assert candidate.draft is not None
    key = Key(version.kind, version.name)
    incomplete, delivery = standing.written.get(key, ()), standing.delivery.get(key)
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
        protected=int(candidate.draft.protected),
        incomplete=int(bool(incomplete)),
        status=rendering.status(version.kind, source=version.source, incomplete=incomplete, delivery=delivery),
    )


def _moved_head(outcome: Outcome, decided: Decided, *, stock: Stock, origin: Origin) -> HeadRow:
    """The same version at another place, or adopted: all else of the source stays that of the version."""
    assert outcome.stored is not None
    assert outcome.ordinal is not None
    candidate = decided.candidates[outcome.ordinal]
    assert candidate.draft is not None
    assert candidate.place is not None
    stored = outcome.stored
    identity = stock.identities[stored.key]
    source: dict[str, Value] = msgspec.json.decode(identity.source)
    if source.get("type") != "git":
        source = _fresh_source(origin, candidate)
    # The commit is that of the version, whoever applied it; where the resource stands is another matter.
    where = {name: origin.source[name] for name in ("repository", "branch")}
    source |= {**where, "path": candidate.place.path, "line": candidate.place.line}
    status = rendering.with_source(identity.status, source)
    standing = decided.standing
    if stored.key in standing.stored:
        lines, delivery = standing.stored[stored.key], standing.delivery.get(stored.key)
        status = rendering.with_standing(stored.key.kind, status, incomplete=lines, delivery=delivery)
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
        protected=int(candidate.draft.protected),
        incomplete=int(bool(rendering.incomplete(status))),
        status=status,
    )


def _with_the_same_hash(ready: Prepared, before: StoredDocument | None) -> Prepared:
    """A version keeps the hash of the one before it when neither the spec nor its secrets differ.

    One without secrets has the same hash anyway, and one that is damaged in the store has none.
    """
    if before is None or ready.secrets is None or ready.secrets != before.secrets:
        return ready
    try:
        stored = msgspec.json.decode(before.body, type=_Stored)
    except msgspec.DecodeError:
        return ready
    is_same = canonical.encode(stored.spec) == canonical.encode(ready.masked["spec"])
    return replace(ready, spec_hash=stored.metadata.hash) if is_same else ready


class _Metadata(msgspec.Struct):
    hash: str


class _Stored(msgspec.Struct):
    metadata: _Metadata
    spec: dict[str, Any]


def _fresh_source(origin: Origin, candidate: Candidate) -> dict[str, Value]:
    """Where what is stored now comes from: in Git with its place, and the commit that changed the file if known."""
    place = candidate.place
    if place is None:
        return dict(origin.source)
    changed_by = origin.changed_by.get(place.path)
    lineage: dict[str, Value] = {} if changed_by is None else {"changedBy": changed_by}
    return {**origin.source, **lineage, "path": place.path, "line": place.line}


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
        reason=outcome.reason or why(outcome),
        path=place.path if place else (stored.path if stored else None),
        line=place.line if place else (stored.line if stored else None),
    )
    return (row,)


def why(outcome: Outcome) -> str | None:
    """What a run says of a status that has no reason: whose a resource is that it could not have, what uses it."""
    if outcome.status is UpdateStatus.IN_USE:
        return in_use(outcome)
    if outcome.status is not UpdateStatus.FORBIDDEN:
        return None
    owner = None if outcome.stored is None else outcome.stored.owner
    if owner is None:
        return "the repository's setting `allow` leaves it out"
    if owner == BUILT_IN:
        return "the name is reserved for what is built in; choose another"
    return f"owned by the repository {owner}; take it out of one of the two"


def in_use(outcome: Outcome) -> str:
    """The resources that refer to it, the first few by name."""
    named = ", ".join(f"{kind} {name}" for kind, name in outcome.users[:NAMED])
    more = f" and {len(outcome.users) - NAMED} more" if len(outcome.users) > NAMED else ""
    return f"{named}{more} {'refers' if len(outcome.users) == 1 else 'refer'} to it; change that first"
