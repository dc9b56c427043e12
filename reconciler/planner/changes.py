"""From outcomes to rows, in parts of bounded size."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import msgspec

from reconciler.model import ids, rendering, resource, values
from reconciler.model.masking import Secrets
from reconciler.model.names import Key
from reconciler.model.outcomes import BUILT_IN, Change, Outcome, UpdateStatus
from reconciler.model.rendering import Prepared
from reconciler.model.resource import Draft
from reconciler.model.type_checks import Fit
from reconciler.model.values import Pointer, Value
from reconciler.planner import candidates
from reconciler.planner.candidates import Candidate
from reconciler.planner.dependants import NOTHING, DependantState
from reconciler.store import rows
from reconciler.store.contract import (
    ChangeRow,
    Changes,
    HeadRow,
    HeadStatusRow,
    KeyRow,
    OriginRow,
    PastRouteRow,
    ReferenceRow,
    RewrittenRow,
    SourcePlace,
    StatusRow,
    VersionRow,
)
from reconciler.store.planning_view import Identity, StoredDocument

# The rows of one part of a change, as they come, in the columns in which the store takes them.

PART = 250  # outcomes in one part: about 400 KB of rows, a millisecond of decoding
PART_BYTES = 4 * 1024 * 1024  # of bodies; a part closes behind the resource that goes over it


class ChangePart:
    """One part after the other, of `number` outcomes so far. Whoever adds the rows of an outcome counts it (`add`), and
    takes the part that is full.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self.number = self._bytes = 0
        self.origins: dict[int, OriginRow] = {}
        self.versions: list[VersionRow] = []
        self.references: list[ReferenceRow] = []
        self.heads: list[HeadRow] = []
        self.head_statuses: list[HeadStatusRow] = []
        self.past_routes: list[PastRouteRow] = []
        self.rewritten: list[RewrittenRow] = []
        self.removed: list[KeyRow] = []
        self.changed: list[ChangeRow] = []
        self.statuses: list[StatusRow] = []

    def add(self, weight: int) -> bool:
        """One more outcome has its rows here, with so many bytes of bodies, statuses and reasons; whether that fills
        the part. All else of a row is as long as names and paths are.
        """
        self.number += 1
        self._bytes += weight
        return self.number == PART or self._bytes > PART_BYTES

    def take(self) -> Changes:
        """What was gathered; the next part begins."""
        taken = Changes(
            origins=tuple(self.origins.values()),
            versions=tuple(self.versions),
            references=tuple(self.references),
            heads=tuple(self.heads),
            head_statuses=tuple(self.head_statuses),
            past_routes=tuple(self.past_routes),
            rewritten=tuple(self.rewritten),
            removed=tuple(self.removed),
            changed=tuple(self.changed),
            statuses=tuple(self.statuses),
        )
        self._begin()
        return taken


# From outcomes to rows: what was decided becomes what the store is given, in parts of bounded size. Pure.

WRITING = frozenset({Change.CREATE, Change.UPDATE})
RESTORED = "restored"  # what an audit event says of a version that is made anew
NAMED = 10  # a line names this many resources, and counts the rest
_WORDS = {status: status.value for status in UpdateStatus}  # asking each for its value is a call of Python's


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

    def row_of(self, source: Mapping[str, Value]) -> OriginRow:
        """Where what comes from this source comes from, which has no `path` and `line` either."""
        return rows.origin_row(source, actor=self.actor, run=self.run, request=self.request, created_at=self.at)


class Origins:
    """The rows of an origin: one for each commit that changed files, and one for all else, each made once."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self._rows: dict[object, OriginRow] = {}

    def row(self, path: str | None) -> OriginRow:
        """Where what is stored now comes from: with the commit that changed its file, if there is one that is known."""
        changed_by = None if path is None else self.origin.changed_by.get(path)
        commit = changed_by["commit"] if isinstance(changed_by, dict) else None
        row = self._rows.get(commit)
        if row is None:
            lineage: dict[str, Value] = {} if changed_by is None else {"changedBy": changed_by}
            row = self._rows[commit] = self.origin.row_of({**self.origin.source, **lineage})
        return row


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
    standing: DependantState = NOTHING

    def storing_secrets(self) -> Iterator[tuple[Key, Outcome, Secrets]]:
        """What is stored anew and holds secrets, with them."""
        holding = {ordinal: fit.secrets for ordinal, fit in self.fits.items() if fit.secrets}
        for outcome in self.outcomes if holding else ():
            if outcome.ordinal in holding and outcome.change in WRITING and outcome.key is not None:
                yield outcome.key, outcome, holding[outcome.ordinal]


def change_parts(decided: Decided, *, stock: Stock, origin: Origin, first: int = 0) -> Iterator[Changes]:
    """The rows of every outcome that changes the store or is told in a run, in parts; the run's ranks from `first`."""
    rows, known = ChangePart(), Origins(origin)
    for row in decided.standing.rows:
        rows.head_statuses.append(row)
        if rows.add(len(row.status)):
            yield rows.take()
    for past in decided.standing.past_routes:
        rows.past_routes.append(past)
        if rows.add(len(past.past or b"")):
            yield rows.take()
    for rank, outcome in enumerate(decided.outcomes, first):
        told = _tell(outcome, decided, rows, rank=rank, origin=origin)
        if rows.add(told + _change(outcome, decided, rows, stock=stock, known=known)):
            yield rows.take()
    if rows.number:
        yield rows.take()


def _change(outcome: Outcome, decided: Decided, rows: ChangePart, *, stock: Stock, known: Origins) -> int:
    """Add the rows of what changes; the bytes of them that weigh."""
    if outcome.change in WRITING:
        return _write(outcome, decided, rows, stock=stock, known=known)
    if outcome.change is Change.REPLACE_HEAD:
        head, come_from = _moved_head(outcome, decided, stock=stock, known=known)
        rows.heads.append(head)
        rows.origins.update((row.id, row) for row in come_from)
        return len(head.status)
    if outcome.change is Change.RENEW:
        row = _renewed(outcome, decided, stock=stock, project=known.origin.project)
        rows.head_statuses.append(row)
        return len(row.status)
    if outcome.change is Change.RESTORE:
        return _restore(outcome, decided, rows, stock=stock, known=known)
    if outcome.change is Change.DELETE:
        assert outcome.key is not None
        project, who = known.origin.project, known.row(None)
        rows.removed.append(KeyRow(project, *outcome.key))
        if outcome.key.kind == "Configuration":
            rows.past_routes.append(PastRouteRow(project, outcome.key.name, 0, None))
        rows.origins[who.id] = who
        rows.changed.append(_changed(outcome, version_after=None, project=project, origin=who.id))
    return 0


def _write(outcome: Outcome, decided: Decided, rows: ChangePart, *, stock: Stock, known: Origins) -> int:
    """Add the new version of a resource that is created or updated; the bytes of it that weigh.

    A first read makes these by the thousand: rows whose members are named take three times as long to make.
    """
    assert outcome.key is not None
    assert outcome.ordinal is not None
    key, candidate, fit = outcome.key, decided.candidates[outcome.ordinal], decided.fits[outcome.ordinal]
    draft, place, origin = candidate.draft, candidate.place, known.origin
    assert draft is not None
    identity = _identity(outcome, draft, stock=stock, origin=origin)
    bound = rendering.Bound(origin.project, identity.id, identity.version)
    owned = resource.owned_by_user(draft) if fit.secrets else resource.draft_members(draft)
    ready = rendering.prepare(owned, fit.secrets, hmac_key=origin.hmac_key, bound=bound)
    ready = _with_the_same_hash(ready, stock.before.get(key))
    body = rendering.body(ready, identity=identity)
    path, line = (None, None) if place is None else (place.path, place.line)
    came_from = known.row(path)
    rows.origins[came_from.id] = came_from
    rows.versions.append(
        VersionRow(origin.project, *key, identity.version, body, ready.secrets, came_from.id, path, line)
    )
    for target in draft.references:
        rows.references.append(ReferenceRow(origin.project, *key, *target))
    head = _head(key, draft, identity, path=path, line=line, standing=decided.standing, origin=origin)
    if origin.repository is None:
        head = candidates.kept_drift(head, outcome, stock.wanted)
    rows.heads.append(head)
    changed = _changed(outcome, version_after=identity.version, project=origin.project, origin=came_from.id)
    rows.changed.append(changed)
    return len(body) + len(ready.secrets or b"") + len(head.status)


def _restore(outcome: Outcome, decided: Decided, rows: ChangePart, *, stock: Stock, known: Origins) -> int:
    """Add the damaged version made anew, under the number and the instant that it has; the bytes of it that weigh.

    A repository's head is written with it: the document may have moved since.
    """
    assert outcome.ordinal is not None
    assert outcome.stored is not None
    key, project = outcome.stored.key, known.origin.project
    candidate, fit, before = decided.candidates[outcome.ordinal], decided.fits[outcome.ordinal], stock.identities[key]
    assert candidate.draft is not None
    identity = rendering.ResourceIdentity(before.resource_id, outcome.stored.version, before.created_at)
    bound = rendering.Bound(project, identity.id, identity.version)
    owned = resource.owned_by_user(candidate.draft)
    ready = rendering.prepare(owned, fit.secrets, hmac_key=known.origin.hmac_key, bound=bound)
    body = rendering.body(ready, identity=identity)
    rows.rewritten.append(RewrittenRow(project, *key, identity.version, body, ready.secrets))
    who = known.row(None)
    rows.origins[who.id] = who
    rows.changed.append(_changed(outcome, version_after=identity.version, project=project, origin=who.id))
    weight = len(body) + len(ready.secrets or b"")
    if candidate.place is not None:
        head, come_from = _moved_head(outcome, decided, stock=stock, known=known)
        rows.heads.append(head)
        rows.origins.update((row.id, row) for row in come_from)
        weight += len(head.status)
    return weight


def new_id(origin: Origin, ordinal: int) -> str:
    """A new resource's ULID: the next in the order of the change's documents, from where its seed says.

    So they come in order, and the store's index of them grows at its end.
    """
    following = (_first(origin.seed) + ordinal) % (1 << 8 * ids.RANDOM_BYTES)
    return ids.ulid(milliseconds=origin.milliseconds, randomness=following.to_bytes(ids.RANDOM_BYTES, "big"))


@lru_cache(maxsize=2)
def _first(seed: bytes) -> int:
    """What the ids of a change count from."""
    return int.from_bytes(hashlib.blake2b(key=seed, digest_size=ids.RANDOM_BYTES).digest(), "big")


def _identity(outcome: Outcome, draft: Draft, *, stock: Stock, origin: Origin) -> rendering.ResourceIdentity:
    """An existing resource keeps its id; a new one brings its own or gets one, and goes on from its last version."""
    assert outcome.key is not None
    assert outcome.ordinal is not None
    stored = stock.identities.get(outcome.key)
    if outcome.stored is not None and stored is not None:
        version, resource_id = outcome.stored.version + 1, stored.resource_id
    else:
        version = stock.last_versions.get(outcome.key, 0) + 1
        resource_id = draft.proposed_id or new_id(origin, outcome.ordinal)
    return rendering.ResourceIdentity(resource_id, version, origin.at)


def _head(
    key: Key,
    draft: Draft,
    identity: rendering.ResourceIdentity,
    *,
    path: str | None,
    line: int | None,
    standing: DependantState,
    origin: Origin,
) -> HeadRow:
    incomplete, delivery = standing.written.get(key, ()), standing.delivery.get(key)
    status = rendering.status(key.kind, incomplete=incomplete, delivery=delivery)
    version, resource_id, owner = identity.version, identity.id, origin.repository
    flags = (int(draft.protected), int(bool(incomplete)))
    return HeadRow(origin.project, *key, version, resource_id, draft.digest, owner, path, line, *flags, status)


def _moved_head(
    outcome: Outcome, decided: Decided, *, stock: Stock, known: Origins
) -> tuple[HeadRow, tuple[OriginRow, ...]]:
    """The same version at another place, or adopted: all else of the source stays that of the version."""
    assert outcome.stored is not None
    assert outcome.ordinal is not None
    candidate = decided.candidates[outcome.ordinal]
    assert candidate.draft is not None
    assert candidate.place is not None
    stored = outcome.stored
    identity = stock.identities[stored.key]
    come_from = _another_origin(identity, candidate.place.path, known=known)
    status = _restated(stored.key, rendering.without_drift(identity.status), decided.standing)
    head = HeadRow(
        project=known.origin.project,
        kind=stored.key.kind,
        name=stored.key.name,
        version=stored.version,
        resource_id=identity.resource_id,
        digest=stored.digest,
        owner=known.origin.repository,
        path=candidate.place.path,
        line=candidate.place.line,
        protected=int(candidate.draft.protected),
        incomplete=int(bool(rendering.incomplete(status))),
        status=status,
        origin=None if come_from is None else come_from.id,
        place=SourcePlace.OWN,
    )
    return head, () if come_from is None else (come_from,)


def _renewed(outcome: Outcome, decided: Decided, *, stock: Stock, project: str) -> HeadStatusRow:
    """The same version with the digest that it has by the rules of today."""
    assert outcome.stored is not None
    key = outcome.stored.key
    status = _restated(key, stock.identities[key].status, decided.standing)
    return HeadStatusRow(project, *key, int(bool(rendering.incomplete(status))), status, outcome.stored.digest)


def _restated(key: Key, status: bytes, standing: DependantState) -> bytes:
    """The status of a version that stays, as it is after the change."""
    if key not in standing.stored:
        return status
    lines, delivery = standing.stored[key], standing.delivery.get(key)
    return rendering.with_standing(key.kind, status, incomplete=lines, delivery=delivery)


def _another_origin(identity: Identity, path: str, *, known: Origins) -> OriginRow | None:
    """Where a version comes from that is taken over as it is; None where that is what it says itself."""
    source: dict[str, Value] = msgspec.json.decode(identity.head + identity.tail)
    if source.get("type") != "git":
        return known.row(path)
    # The commit is that of the version, whoever applied it; where the resource stands is another matter.
    where = {name: known.origin.source[name] for name in ("repository", "branch")}
    return None if where.items() <= source.items() else known.origin.row_of(source | where)


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
    is_same = values.canonical_json(stored.spec) == values.canonical_json(ready.masked["spec"])
    return replace(ready, spec_hash=stored.metadata.hash) if is_same else ready


class _Metadata(msgspec.Struct):
    hash: str


class _Stored(msgspec.Struct):
    metadata: _Metadata
    spec: dict[str, Any]


def _changed(outcome: Outcome, *, version_after: int | None, project: str, origin: int) -> ChangeRow:
    assert outcome.key is not None
    # What was done: a resource that is stored although deprecated was created.
    action = _WORDS[UpdateStatus.CREATED if outcome.change is Change.CREATE else outcome.status]
    if outcome.change is Change.RESTORE:
        action = RESTORED
    before = None if outcome.stored is None else outcome.stored.version
    return ChangeRow(project, action, *outcome.key, before, version_after, origin)


def _tell(outcome: Outcome, decided: Decided, rows: ChangePart, *, rank: int, origin: Origin) -> int:
    """Add what a run tells of this outcome, which is everything but `unchanged`, with the place in the commit or the
    last one; the bytes of it that weigh.
    """
    if origin.run is None or outcome.status is UpdateStatus.UNCHANGED:
        return 0
    given = None if outcome.ordinal is None else decided.candidates[outcome.ordinal].place
    place = given or outcome.stored
    path, line = (None, None) if place is None else (place.path, place.line)
    reason = outcome.reason or outcome_reason(outcome)
    kind, name = outcome.key or (None, None)
    notes = "\n".join(outcome.notes) or None
    rows.statuses.append(StatusRow(origin.run, rank, kind, name, _WORDS[outcome.status], reason, path, line, notes))
    return len(reason or "") + len(notes or "")


def outcome_reason(outcome: Outcome) -> str | None:
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
    return f"{named(outcome.users)} {'refers' if len(outcome.users) == 1 else 'refer'} to it; change that first"


def makes_incomplete(others: Sequence[Key]) -> str:
    """A note on a resource after which others, which the change does not store, miss something."""
    return f"makes {named(others)} incomplete; `status.incomplete` of each says what to complete"


def named(keys: Sequence[Key]) -> str:
    """`Fleet a, Fleet b and 2 more`."""
    more = f" and {len(keys) - NAMED} more" if len(keys) > NAMED else ""
    return ", ".join(f"{kind} {name}" for kind, name in keys[:NAMED]) + more


# A dry run must not tell whoever may send a secret but not read one whether it is the stored one.
#
# So a secret that comes in clear always counts as changed, which `decisions` sees to, and no hash that covers it is
# shown. A secret that `(sensitive)` stands for is no guess.


def without_hashes(shown: Mapping[Key, bytes], decided: Decided) -> dict[Key, bytes]:
    """The resources that would be stored, less the hashes that follow from a guess."""
    guessed = _guessed(decided)
    return {key: _without_hash(resource) if key in guessed else resource for key, resource in shown.items()}


def without_equals(wanted: Mapping[Key, bytes | None], decided: Decided) -> dict[Key, bytes | None]:
    """What owners want by digest, but of what holds a guess: that has drifted, even when it is what its owner wants."""
    guessed = _guessed(decided)
    return {key: None if key in guessed else digest for key, digest in wanted.items()}


def _guessed(decided: Decided) -> set[Key | None]:
    return {outcome.key for outcome in decided.outcomes if _is_guess(outcome, decided)}


def _is_guess(outcome: Outcome, decided: Decided) -> bool:
    if outcome.ordinal is None or outcome.ordinal not in decided.fits:
        return False
    kept = decided.kept.get(outcome.ordinal, frozenset())
    return any(pointer not in kept for pointer, _ in decided.fits[outcome.ordinal].secrets)


def _without_hash(resource: bytes) -> bytes:
    decoded: dict[str, Any] = msgspec.json.decode(resource)
    decoded["metadata"].pop("hash", None)
    return values.canonical_json(decoded)
