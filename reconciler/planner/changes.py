"""Changes: from outcomes to rows. A decision becomes rows for the store, in parts of bounded size."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from reconciler.model import components, ids, rendering, values
from reconciler.model.desired import Desired
from reconciler.model.names import Key
from reconciler.model.outcomes import Change, Outcome, StoredState, UpdateStatus
from reconciler.model.rendering import Prepared, ResourceIdentity
from reconciler.model.values import Value
from reconciler.model.violations import Place
from reconciler.planner.decisions import WRITING, Decided
from reconciler.planner.heads import OwnershipClaim
from reconciler.planner.stored import TOGETHER
from reconciler.store import records, repository_records
from reconciler.store.contract import PlanningView

PART = 250  # outcomes in one part: about 400 KB of rows, a millisecond of decoding
PART_BYTES = 4 * 1024 * 1024  # of bodies; a part ends with the resource that exceeds it


class ChangeParts:
    """A change in parts, one after the other. `rows` is the part that is being filled."""

    def __init__(self) -> None:
        self.rows = records.Changes()

    def parts(self, weights: Iterable[int]) -> Iterator[records.Changes]:
        """Yield the rows in parts. `weights` adds the rows of one outcome after the other, and yields the bytes of
        their bodies, statuses and reasons: the other columns are short.
        """
        number = size = 0
        for weight in weights:
            number, size = number + 1, size + weight
            if number == PART or size > PART_BYTES:
                yield self._taken()
                number = size = 0
        if number:
            yield self._taken()

    def _taken(self) -> records.Changes:
        taken, self.rows = self.rows, records.Changes()
        taken.origins = list(dict.fromkeys(taken.origins))  # most rows share one
        return taken


KEEPING = frozenset({Change.UPDATE, Change.REPLACE_HEAD, Change.RENEW})
"""The changes that keep a resource's id."""


ORIGIN_ID_BYTES = 8


def origin_row(
    source: Mapping[str, Value], *, actor: str, run: str | None, request: str | None, created_at: str
) -> records.OriginRow:
    """Make the row of an origin. Its id is a digest of these fields. `source` has no `path` and `line`.

    The id of a run or request is unpredictable, so nobody can prepare two rows with the same digest. If it happens
    nevertheless, the store refuses the second row, and the next run or request has another.
    """
    said = (*rendering.frame(source), actor, run, request, created_at)
    digest = hashlib.blake2b(msgspec.msgpack.encode(said), digest_size=ORIGIN_ID_BYTES).digest()
    return records.OriginRow(int.from_bytes(digest, "big") >> 1, *said)  # SQLite's integers have a sign


@dataclass(frozen=True, slots=True)
class Origin:
    """The actor, time and source of one change: the same for all of its rows. `source` has no `path` and `line` yet.

    `hmac_key` is the server's key for hashes that cover secrets.
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


class ChangeRows:
    """The rows of one actor's decision, made inside one snapshot of the store.

    `claims` are the resources that other repositories get without a document of this decision.
    """

    def __init__(
        self, decided: Decided, view: PlanningView, *, origin: Origin, claims: Sequence[OwnershipClaim] = ()
    ) -> None:
        self.decided = decided
        self.origin = origin
        self._claims = claims
        self._origins: dict[object, records.OriginRow] = {}  # by commit
        self._parts = ChangeParts()
        self._view = view
        self._before: dict[Key, records.StoredDocument] = {}  # stored documents of the outcomes in progress
        created = [one.key for one in decided.outcomes if one.change is Change.CREATE and one.key is not None]
        self.last_versions = view.last_versions(origin.project, created)
        self._wanted = {} if origin.repository else _wanted_by_owners(decided, view)

    @property
    def may_mask(self) -> bool:
        """False if no value becomes a secret (`remasking`): no document has one, and no type changes."""
        kinds = {one.key.kind for one in self.decided.outcomes if one.change is not Change.NONE and one.key is not None}
        return not components.TYPES.isdisjoint(kinds) or any(fit.secrets for fit in self.decided.fits.values())

    def parts(self) -> Iterator[records.Changes]:
        """Make the rows of every outcome that changes the store or is reported in a run, in parts."""
        return self._parts.parts(self._weights())

    def _weights(self) -> Iterator[int]:
        standing = self.decided.standing
        for row in standing.rows:
            self._parts.rows.head_statuses.append(row)
            yield len(row.status)
        for past in standing.past_routes:
            self._parts.rows.past_routes.append(past)
            yield len(past.past or b"")
        outcomes = self.decided.outcomes
        for start in range(0, len(outcomes), TOGETHER):
            some = outcomes[start : start + TOGETHER]
            keeping = [one.key for one in some if one.change in KEEPING and one.key is not None]
            self._before = self._view.documents(self.origin.project, keeping)
            for rank, outcome in enumerate(some, start):
                yield self._add_status(outcome, rank) + self._change(outcome)
        for claim in self._claims:  # the line is found by the next run of the new owner
            self._before = self._view.documents(self.origin.project, [claim.stored.key])
            yield self._move_head(claim.stored, claim.repository, claim.branch, Place(claim.path, 1, 1))

    def _add_status(self, outcome: Outcome, rank: int) -> int:
        """Add the run's status of this outcome, unless it is `unchanged`, with its place in the commit or the last one.
        Return its size in bytes.
        """
        if self.origin.run is None or outcome.status is UpdateStatus.UNCHANGED:
            return 0
        given = None if outcome.ordinal is None else self.decided.documents[outcome.ordinal].place
        place = given or outcome.stored
        path, line = (None, None) if place is None else (place.path, place.line)
        reason = outcome.why()
        kind, name = outcome.key or (None, None)
        notes = "\n".join(outcome.notes) or None
        row = repository_records.StatusRow(
            self.origin.run, rank, kind, name, outcome.status.value, reason, path, line, notes
        )
        self._parts.rows.statuses.append(row)
        return len(reason or "") + len(notes or "")

    def _change(self, outcome: Outcome) -> int:
        """Add the rows of this outcome's change. Return their size in bytes."""
        if outcome.change in WRITING:
            return self._write(outcome)
        if outcome.change is Change.REPLACE_HEAD:
            place, source = self.decided.document(outcome).place, self.origin.source
            assert outcome.stored is not None
            assert place is not None
            return self._move_head(outcome.stored, str(source["repository"]), source["branch"], place)
        if outcome.change is Change.RENEW:
            return self._renew(outcome)
        if outcome.change is Change.DELETE:
            assert outcome.key is not None
            self._parts.rows.removed.append(records.KeyRow(self.origin.project, *outcome.key))
            if outcome.key.kind == "Configuration":
                self._parts.rows.past_routes.append(
                    records.PastRouteRow(self.origin.project, outcome.key.name, 0, None)
                )
            self._audit(outcome, version_after=None)
        return 0

    def _write(self, outcome: Outcome) -> int:
        """Add the new version of a resource that is created or updated. Return its size in bytes.

        A first read makes thousands of these rows, and keyword arguments would take three times as long.
        """
        assert outcome.key is not None
        key, document, origin = outcome.key, self.decided.document(outcome), self.origin
        identity = self._identity(outcome, document)
        ready = _with_the_same_hash(self._prepared(document, key, identity), self._before.get(key))
        body = rendering.body(ready, identity=identity)
        path, line = (None, None) if document.place is None else (document.place.path, document.place.line)
        come_from = self._come_from(path)
        self._parts.rows.versions.append(
            records.VersionRow(origin.project, *key, identity.version, body, ready.secrets, come_from.id, path, line)
        )
        for target in document.references:
            self._parts.rows.references.append(records.ReferenceRow(origin.project, *key, *target))
        standing = self.decided.standing
        incomplete = standing.written.get(key, ())
        delivery = standing.delivery.get(key)
        status = rendering.with_standing(key.kind, rendering.LATEST, incomplete=incomplete, delivery=delivery)
        flags = int(document.protected), int(bool(incomplete))
        version, digest, owner = identity.version, document.digest, origin.repository
        head = records.HeadRow(origin.project, *key, version, identity.id, digest, owner, path, line, *flags, status)
        self._parts.rows.heads.append(head if origin.repository else self._drifted(head, outcome))
        self._audit(outcome, version_after=identity.version)
        return len(body) + len(ready.secrets or b"") + len(status)

    def _prepared(self, document: Desired, key: Key, identity: ResourceIdentity) -> Prepared:
        secrets = self.decided.fits[key].secrets
        bound = rendering.Bound(self.origin.project, identity.id, identity.version)
        return rendering.prepare(document.document(), secrets, hmac_key=self.origin.hmac_key, bound=bound)

    def _identity(self, outcome: Outcome, document: Desired) -> ResourceIdentity:
        """Keep the id of an existing resource. A new one brings its own or gets one, and continues its versions."""
        assert outcome.key is not None
        assert outcome.ordinal is not None
        before = self._before.get(outcome.key)
        if outcome.stored is not None and before is not None:
            return ResourceIdentity(before.resource_id, outcome.stored.version + 1, self.origin.at)
        version, origin = self.last_versions.get(outcome.key, 0) + 1, self.origin
        new_id = document.proposed_id or ids.following(origin.seed, outcome.ordinal, milliseconds=origin.milliseconds)
        return ResourceIdentity(new_id, version, origin.at)

    def _drifted(self, head: records.HeadRow, outcome: Outcome) -> records.HeadRow:
        """Return the head of a resource that an admin stores although a suspended repository owns it. The repository
        stays the owner, at the same place, and the status shows the drift.

        When the repository is resumed, it stores its own version again, or adopts the admin's if both are equal.
        """
        before = outcome.stored
        if before is None or before.owner is None:
            return head
        status = head.status
        if self._wanted.get(before.key) != head.digest:
            drift: dict[str, Value] = {"repository": before.owner, "path": before.path, "line": before.line}
            status = rendering.with_drift(status, drift)
        return head._replace(owner=before.owner, path=before.path, line=before.line, status=status, drifted=1)

    def _move_head(self, before: StoredState, owner: str, branch: Value, place: Place) -> int:
        """Add a head with the same version but another place or owner; the other fields of its source stay. Return its
        size in bytes.
        """
        present = self._before[before.key]
        come_from = self._another_origin(present, owner, branch, place.path)
        if come_from is not None:
            self._parts.rows.origins.append(come_from)
        status = self._restated(before.key, rendering.with_drift(present.status, None))
        flags = int(before.protected), int(bool(rendering.incomplete(status)))
        head = (self.origin.project, *before.key, before.version, present.resource_id, before.digest)
        row = records.HeadRow(*head, owner, place.path, place.line, *flags, status)
        shown = None if come_from is None else come_from.id
        self._parts.rows.heads.append(row._replace(origin=shown, place=records.SourcePlace.OWN))
        return len(status)

    def _renew(self, outcome: Outcome) -> int:
        """Add the digest that the same version has by the rules of today; the bytes of the row that weigh."""
        assert outcome.stored is not None
        key = outcome.stored.key
        status = self._restated(key, self._before[key].status)
        flag = int(bool(rendering.incomplete(status)))
        self._parts.rows.head_statuses.append(
            records.HeadStatusRow(self.origin.project, *key, flag, status, outcome.stored.digest)
        )
        return len(status)

    def _restated(self, key: Key, status: bytes) -> bytes:
        """Return the status after the change of a resource that keeps its version."""
        standing = self.decided.standing
        if key not in standing.stored:
            return status
        lines, delivery = standing.stored[key], standing.delivery.get(key)
        return rendering.with_standing(key.kind, status, incomplete=lines, delivery=delivery)

    def _come_from(self, path: str | None) -> records.OriginRow:
        """Return the origin of a new version, with the commit that changed its file if that is known. There is one row
        for each such commit, and one for all other versions.
        """
        changed_by = None if path is None else self.origin.changed_by.get(path)
        commit = changed_by["commit"] if isinstance(changed_by, dict) else None
        row = self._origins.get(commit)
        if row is None:
            lineage: dict[str, Value] = {} if changed_by is None else {"changedBy": changed_by}
            row = self._origins[commit] = self._origin_row({**self.origin.source, **lineage})
        self._parts.rows.origins.append(row)
        return row

    def _another_origin(
        self, present: records.StoredDocument, owner: str, branch: Value, path: str
    ) -> records.OriginRow | None:
        """Return the new origin of an adopted version; None if its own origin is right."""
        source: dict[str, Value] = msgspec.json.decode(present.head + present.tail)
        if source.get("type") != "git":  # an admin stored it
            return self._come_from(path) if owner == self.origin.repository else None
        # The commit stays that of the version, whichever repository applied it.
        where: dict[str, Value] = {"repository": owner, "branch": branch}
        return None if where.items() <= source.items() else self._origin_row(source | where)

    def _origin_row(self, source: Mapping[str, Value]) -> records.OriginRow:
        origin = self.origin
        return origin_row(source, actor=origin.actor, run=origin.run, request=origin.request, created_at=origin.at)

    def _audit(self, outcome: Outcome, *, version_after: int | None) -> None:
        assert outcome.key is not None
        # The status may be `deprecated` although the resource was created.
        action = (UpdateStatus.CREATED if outcome.change is Change.CREATE else outcome.status).value
        before = None if outcome.stored is None else outcome.stored.version
        at, project, actor = self.origin.at, self.origin.project, self.origin.actor
        run, request = self.origin.run, self.origin.request
        row = records.AuditRow(at, project, actor, action, *outcome.key, before, version_after, run, request)
        self._parts.rows.audit.append(row)


def _wanted_by_owners(decided: Decided, view: PlanningView) -> dict[Key, bytes | None]:
    """Return the digests that owners' heads want for resources that a request updates; None for an invalid document.

    A hidden guess has no digest, so it counts as drift even if it is what the owner wants.
    """
    keys: dict[str, list[Key]] = {}
    for outcome in decided.outcomes:
        if outcome.change is Change.UPDATE and outcome.stored is not None and outcome.stored.owner is not None:
            keys.setdefault(outcome.stored.owner, []).append(outcome.stored.key)
    rows = (row for owner in sorted(keys) for row in view.wanted_of(owner, keys[owner]))
    return {row.key: row.digest for row in rows if row.key is not None}


def _with_the_same_hash(ready: Prepared, before: records.StoredDocument | None) -> Prepared:
    """Keep the hash of the previous version if neither the spec nor its secrets differ.

    A version without secrets has the same hash anyway, and a damaged version has none.
    """
    if before is None or ready.secrets is None or ready.secrets != before.secrets:
        return ready
    stored: dict[str, Any] = msgspec.json.decode(before.body)
    is_same = values.canonical_json(stored["spec"]) == values.canonical_json(ready.masked["spec"])
    return replace(ready, spec_hash=stored["metadata"]["hash"]) if is_same else ready


def without_hashes(shown: Mapping[Key, bytes], decided: Decided) -> dict[Key, bytes]:
    """Return the resources that a dry run would store, without hashes that cover a secret sent in clear text.

    An actor may be allowed to send secrets but not to read them, so a dry run must not reveal if a sent secret equals
    the stored one. Therefore it always counts as changed (`decisions`). A `(sensitive)` is no guess.
    """
    found = dict(shown)
    for key in decided.guessed() & shown.keys():
        decoded: dict[str, Any] = msgspec.json.decode(shown[key])
        decoded["metadata"].pop("hash", None)
        found[key] = values.canonical_json(decoded)
    return found
