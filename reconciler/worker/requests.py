"""The jobs of people: apply, delete, and redact.

A redaction rewrites former versions. The present version of a resource is never redacted: the text would come back with
the next commit. Where it has the text as a secret, the text is where it belongs. A dry run searches only what readers
see.
"""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import msgspec
from msgspec import structs

from reconciler.model import (
    builtins,
    desired,
    error_codes,
    flows,
    positions,
    rendering,
    resource,
    stale_routes,
    values,
    violations,
)
from reconciler.model import documents as model_documents
from reconciler.model import outcomes as model_outcomes
from reconciler.model.desired import Desired, DocumentRules
from reconciler.model.error_codes import OF_STATUS, ErrorCode
from reconciler.model.names import Key
from reconciler.model.principals import Actor, Role
from reconciler.model.stale_routes import Past
from reconciler.model.values import Value, pointer_text
from reconciler.model.violations import Violation
from reconciler.planner import changes, decisions, delivery_changes, planner
from reconciler.planner.changes import ChangeParts, ChangeRows, Origin
from reconciler.planner.decisions import Decided, DocumentBatch
from reconciler.planner.remasking import Remasking
from reconciler.planner.stored import StoreSnapshot
from reconciler.store import records
from reconciler.store.contract import PlanningView
from reconciler.store.records import Changes, HeadRow, OriginRow, VersionRow
from reconciler.worker import messages
from reconciler.worker.messages import Emit, RedactJob, RedactPlanned, RequestJob, RequestPlanned, Verb

ANSWER_BYTES = 64 * 1024 * 1024  # of stored resources that one answer repeats
NODE_BYTES = 2  # of the shortest text with one more value: a shorter body need not be counted
REQUEST_SECONDS = 20.0  # of processor time: ten thousand resources that are as they should be take one
BATCH = 100  # resources looked up before their bytes are counted


class _Refused(Exception):
    """The request is answered with errors, one line for each problem, and nothing is stored."""

    def __init__(self, status: int, errors: Sequence[str], *codes: ErrorCode) -> None:
        super().__init__(errors)
        self.status = status
        self.body: dict[str, object] = {"errors": errors, "codes": codes or [_CODES[status]] * len(errors)}


_CODES = {400: ErrorCode.INVALID_REQUEST, 412: ErrorCode.VERSION_MISMATCH, 413: ErrorCode.TOO_LARGE}


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A request's resources, read without the project's lock. `found` are those of an apply."""

    job: RequestJob
    items: Sequence[Value]
    found: Sequence[Desired]


def read_request(job: RequestJob, *, number: int) -> ReadRequest | RequestPlanned:
    """Read a request; the answer at once for a body that is not as documented: 400, or 413."""
    rules = DocumentRules(api_versions=job.context.api_versions, hmac_key=job.context.hmac_key)
    try:
        items = _items(job.body, max_resources=job.max_resources, bare_array=job.verb is Verb.DELETE)
        is_apply = job.verb is Verb.APPLY
        found = desired.read_items(_TimeLeft().each(items), rules=rules) if is_apply else ()
    except _Refused as problem:
        return _answer(number, 0, status=problem.status, body=problem.body)
    return ReadRequest(job, items, found)


def plan_request(request: ReadRequest, view: PlanningView, *, number: int, emit: Emit) -> RequestPlanned:
    """Plan a request while its project is locked: 202 with one status per resource, 409 or 412 when nothing may be
    stored, 413 when it takes too long. Raises StoreFault.
    """
    try:
        return _plan(request, view, number=number, emit=emit)
    except _Refused as problem:
        return _answer(number, 0, status=problem.status, body=problem.body)


def _plan(request: ReadRequest, view: PlanningView, *, number: int, emit: Emit) -> RequestPlanned:
    job, items = request.job, request.items
    time_left = _TimeLeft()
    origin = _origin(job)
    with view.snapshot() as revision:
        world = StoreSnapshot(
            view,
            origin.project,
            origin.hmac_key,
            at=origin.at,
            hide_guesses=job.dry_run,
            suspended=view.suspended(job.context.at),
            available=job.context.secrets,
            refuse_unknown=job.context.refuse_unknown,
            check=time_left.check,
        )
        is_apply = job.verb is Verb.APPLY
        decided = _decide_apply(request, world) if is_apply else _decide_delete(request, world)
        rows = ChangeRows(decided, view, origin=origin, hide_guesses=job.dry_run)
        bodies = _stored_bodies(decided.outcomes, view, origin=origin)
        remasking = Remasking([rows], view, check=time_left.check)
        bodies |= remasking.shown(bodies)
        parts = tuple(rows.parts())
        changed = not job.dry_run and _emit(decided, chain(parts, remasking.parts()), emit=emit)
        endpoints = decisions.changed_endpoints([decided], view, project=origin.project) if changed else ()
        changed_flows = delivery_changes.find_flows([decided], world) if job.dry_run else ()
    written = _written(parts)
    bodies |= rows.restored
    restated = _restated(bodies, parts)
    shown = bodies | restated | (changes.without_hashes(written, decided) if job.dry_run else written)
    body: dict[str, object] = {
        "updates": [_update(outcome, _present(outcome, items, shown)) for outcome in decided.outcomes]
    }
    if not is_apply:
        refused = [outcome for outcome in decided.outcomes if outcome.status in model_outcomes.REFUSED]
        body = {"errors": [_line(outcome) for outcome in refused], **body}
    if changed_flows:
        body["flows"] = [flows.shown(flow) for flow in changed_flows[: flows.MOST]]
    return structs.replace(
        _answer(number, revision, status=202, body=body, changed=changed),
        touched=tuple(sorted(decided.standing.owners)) if changed else (),
        damaged=planner.damaged(decided.outcomes, limit=messages.MOST_DAMAGED),
        changed_endpoints=endpoints,
    )


def _actor(job: RequestJob) -> Actor:
    return Actor(name=job.actor, role=Role(job.role))


def _decide_apply(request: ReadRequest, world: StoreSnapshot) -> Decided:
    """Decide about an apply. Raises _Refused where it is atomic and something of it is refused."""
    job, found, actor = request.job, request.found, _actor(request.job)
    stored = world.stored(one.key for one in found if one.key is not None)
    conflicts = decisions.id_conflicts(found, stored, world)
    wanted = [one.refused(conflicts.get(ordinal)) for ordinal, one in enumerate(found)]
    if job.strict_version:
        wanted = _of_present_versions(wanted, request.items, stored, world)
    batch = DocumentBatch(wanted, stored, actor=actor, accept_invalid=job.accept_invalid, tell=_told)
    [decided] = decisions.decide([batch], world)
    refusals = planner.refusals(decided.outcomes, actor=actor) if job.atomic else ()
    if refusals:
        codes = [OF_STATUS[outcome.status] for outcome in refusals]
        raise _Refused(409, [_line(outcome) for outcome in refusals], *codes)
    return decided


def _decide_delete(request: ReadRequest, world: StoreSnapshot) -> Decided:
    """Decide about a delete. Raises _Refused where a resource has none of the versions that are asked for."""
    job = request.job
    wanted = [_named(item) for item in request.items]
    stored = world.removable(one.key for one in wanted if one.key is not None)
    references = world.references(stored, {})
    outcomes = planner.plan_deletes(wanted, stored, references=references, actor=_actor(job), suspended=world.suspended)
    others = [] if job.matching is None else _of_other_versions(outcomes, job.matching, world)
    if others:
        raise _Refused(412, others)
    return Decided((), outcomes)


class _Made(NamedTuple):
    """Which version a document was made from, as its metadata says; None for what it does not say."""

    version: Value
    hash: Value


def _made_from(item: Value) -> _Made:
    metadata = item.get("metadata") if isinstance(item, dict) else None
    return _Made(metadata.get("version"), metadata.get("hash")) if isinstance(metadata, dict) else _Made(None, None)


def _of_present_versions(
    wanted: Sequence[Desired],
    items: Sequence[Value],
    stored: Mapping[Key, model_outcomes.StoredState],
    world: StoreSnapshot,
) -> list[Desired]:
    """Return the wanted resources, with a conflict where a document was made from another version than the stored."""
    made = [_made_from(item) for item in items]
    asked = [one.key for one, of in zip(wanted, made, strict=True) if one.key is not None and of.hash is not None]
    hashes = _hashes(asked, world)
    return [
        one if one.key is None else structs.replace(one, conflict=_conflict(one.key, of, stored, hashes))
        for one, of in zip(wanted, made, strict=True)
    ]


def _conflict(
    key: Key, made: _Made, stored: Mapping[Key, model_outcomes.StoredState], hashes: Mapping[Key, str]
) -> str | None:
    """Why a document does not count as made from what is stored."""
    if made == _Made(None, None):
        return None
    present = stored.get(key)
    if present is None:
        told = f"there is no {key.kind} {key.name}"
        return f"{told}; to create it, leave out `metadata.version` and `metadata.hash`"
    named = "version" if made.version not in (None, present.version) else "hash"
    if named == "hash" and made.hash in (None, hashes.get(key)):
        return None
    told = f"the present version is {present.version}, and `metadata.{named}` of the document is of another"
    return f"{told}; get the resource and make the change again"


def _hashes(keys: Iterable[Key], world: StoreSnapshot) -> dict[Key, str]:
    """The hashes of the stored resources among these; one that is damaged has none."""
    found = {}
    for key, document in world.view.documents(world.project, list(keys)).items():
        with suppress(msgspec.DecodeError):
            found[key] = msgspec.json.decode(document.body, type=_Hashed).metadata.hash
    return found


class _HashedMetadata(msgspec.Struct):
    hash: str


class _Hashed(msgspec.Struct):
    metadata: _HashedMetadata


def _told(_: Desired, found: Sequence[Violation]) -> str:
    """Return the violations without places: the sender knows the pointers."""
    return violations.lines(found, lambda _: "")


class _TimeLeft:
    """The processor time that reading a request may take, and planning it: requests share a lane, and each waits for
    those before.
    """

    def __init__(self) -> None:
        self._end = time.thread_time() + REQUEST_SECONDS

    def check(self) -> None:
        """Raises _Refused when it is used up."""
        if time.thread_time() > self._end:
            told = f"The resources take more than {REQUEST_SECONDS:g} s to judge; send them in several requests."
            raise _Refused(413, (told,))

    def each(self, items: Iterable[Value]) -> Iterator[Value]:
        """The items, as long as there is time."""
        for item in items:
            self.check()
            yield item


def _of_other_versions(
    outcomes: Iterable[model_outcomes.Outcome], matching: Collection[str], world: StoreSnapshot
) -> list[str]:
    """One line for each resource that would go and has none of these versions and hashes."""
    going = [one.stored for one in outcomes if one.change is model_outcomes.Change.DELETE and one.stored is not None]
    hashes = _hashes([stored.key for stored in going], world)
    return [
        f"{stored.key.kind} {stored.key.name}: the present version is {stored.version}, which `If-Match` does not "
        "name; get the resource, and decide again"
        for stored in going
        if not {"*", str(stored.version), hashes.get(stored.key)} & set(matching)
    ]


def _items(body: bytes, *, max_resources: int, bare_array: bool) -> list[Value]:
    """The resources of a body, each a JSON object. A delete takes a bare array, and what an apply takes, too."""
    try:
        documents = model_documents.read(
            body, syntax=model_documents.Syntax.JSON, limits=positions.limits_of_body(len(body))
        )
    except model_documents.DocumentError as error:
        raise _Refused(400, (f"body:{error.line}:{error.column}: {error.message}",)) from error
    value = documents[0].value if documents else None
    if bare_array and isinstance(value, list):
        prefix: tuple[str, ...] = ()
        items, problems = value, list[str]()
    else:
        prefix, (items, problems) = ("resources",), _wrapped(value, bare_array=bare_array)
    if len(items) > max_resources:
        raise _Refused(413, (f"The body holds {len(items):,} resources, over the limit of {max_resources:,}.",))
    wrong = [index for index, item in enumerate(items) if not isinstance(item, dict)]
    problems += [f"{pointer_text((*prefix, index))}: must be an object" for index in wrong]
    if problems:
        raise _Refused(400, tuple(problems))
    if len(body) > NODE_BYTES * positions.FILE_LIMITS.nodes:
        _check_sizes(items, prefix)
    return items


def _check_sizes(items: Sequence[Value], prefix: tuple[str, ...]) -> None:
    """No resource is larger than a file in Git may be: much of what is done with one takes memory in proportion."""
    large = [
        index for index, item in enumerate(items) if values.has_more_nodes_than(item, nodes=positions.FILE_LIMITS.nodes)
    ]
    told = f"holds more than {positions.FILE_LIMITS.nodes:,} values and keys; make several resources of it"
    if large:
        raise _Refused(413, tuple(f"{pointer_text((*prefix, index))}: {told}" for index in large))


def _wrapped(value: Value, *, bare_array: bool) -> tuple[list[Value], list[str]]:
    """The array in `{"resources": [...]}`, and what is wrong around it."""
    if not isinstance(value, dict):
        shape = "an array of resources" if bare_array else 'an object such as {"resources": [...]}'
        raise _Refused(400, (f"The body must be {shape}.",))
    problems = [
        f"{pointer_text((key,))}: unknown key; only `resources` is allowed" for key in value if key != "resources"
    ]
    items = value.get("resources")
    if "resources" not in value:
        problems.append("/resources: is required")
    elif not isinstance(items, list):
        problems.append("/resources: must be an array")
    return items if isinstance(items, list) else [], problems


def _named(item: Value) -> Desired:
    """Return the key that a delete names. Only kind and name are read, and judged."""
    key, reason = resource.identify(item)
    return Desired(key=key, reason=reason)


def _origin(job: RequestJob) -> Origin:
    context = job.context
    return Origin(
        project=context.project,
        actor=job.actor,
        repository=None,
        run=None,
        request=job.request,
        at=context.at,
        milliseconds=context.milliseconds,
        seed=context.seed,
        hmac_key=context.hmac_key,
        source={"type": "api", "actor": job.actor, "date": context.at},
    )


def _emit(decided: Decided, parts: Iterable[Changes], *, emit: Emit) -> bool:
    """Send the rows; return True if there are any. An unchanged resource may have become complete."""
    if not decided.standing.rows and all(outcome.change is model_outcomes.Change.NONE for outcome in decided.outcomes):
        return False
    for part in parts:
        emit(part)
    return True


def _written(parts: Iterable[Changes]) -> dict[Key, bytes]:
    """The resources that these rows store, as a reader will get them. A request never replaces a head alone."""
    return {
        Key(version.kind, version.name): _joined(version, head, {origin.id: origin for origin in part.origins})
        for part in parts
        for version, head in zip(part.versions, part.heads, strict=True)
    }


def _joined(version: VersionRow, head: HeadRow, origins: Mapping[int, OriginRow]) -> bytes:
    origin = origins[version.origin]
    return rendering.shown((version.body, head.status, origin.head, origin.tail, version.path, version.line))


def _restated(bodies: Mapping[Key, bytes], parts: Iterable[Changes]) -> dict[Key, bytes]:
    """Return the resources that an answer shows and of which this request changes nothing but their status."""
    rows = {Key(row.kind, row.name): row.status for part in parts for row in part.head_statuses}
    return {key: rendering.restated(bodies[key], rows[key]) for key in rows.keys() & bodies.keys()}


def _stored_bodies(
    outcomes: Sequence[model_outcomes.Outcome], view: PlanningView, *, origin: Origin
) -> dict[Key, bytes]:
    """The stored resources that an answer shows: those that the request does not store anew."""
    shown = [
        outcome.key
        for outcome in outcomes
        if outcome.stored is not None and outcome.key is not None and outcome.change is not model_outcomes.Change.UPDATE
    ]
    bodies = {key: builtins.shown()[key] for key in shown if key in builtins.built_in()}
    size = 0
    for start in range(0, len(shown), BATCH):
        found = view.bodies(origin.project, shown[start : start + BATCH])
        size += sum(map(len, found.values()))
        if size > ANSWER_BYTES and len(outcomes) > 1:  # one resource alone is always shown
            raise _Refused(413, (f"The answer would hold more than {ANSWER_BYTES:,} bytes; name fewer resources.",))
        bodies |= found
    return bodies


def _present(outcome: model_outcomes.Outcome, items: Sequence[Value], bodies: dict[Key, bytes]) -> bytes:
    """The resource of one status: as it is stored after the update, else what was sent, masked."""
    if outcome.key in bodies and outcome.status is not model_outcomes.UpdateStatus.INVALID:
        return bodies[outcome.key]
    assert outcome.ordinal is not None
    return msgspec.json.encode(resource.mask_all(items[outcome.ordinal]))


def _update(outcome: model_outcomes.Outcome, resource: bytes) -> dict[str, object]:
    update: dict[str, object] = {"resource": msgspec.Raw(resource), "status": outcome.status.value}
    if outcome.status in model_outcomes.WITH_REASON:
        update["reason"] = outcome.reason
    why = None if outcome.status in model_outcomes.WITH_REASON else _why(outcome)
    notes = (*outcome.notes, *([why] if why else ()))
    if notes:
        update["notes"] = notes
    return update


def _line(outcome: model_outcomes.Outcome) -> str:
    """One line of `errors`: which resource, and why not."""
    which = f"item {outcome.ordinal}" if outcome.key is None else f"{outcome.key.kind} {outcome.key.name}"
    why = _why(outcome) or (outcome.reason or outcome.status.value).replace("\n", "; ")
    return f"{which}: {outcome.status.value}: {why}"


def _why(outcome: model_outcomes.Outcome) -> str | None:
    """Return why a status that has no `reason` refuses what was asked for."""
    if outcome.status is model_outcomes.UpdateStatus.FORBIDDEN:
        return _why_forbidden(outcome)
    if outcome.status is model_outcomes.UpdateStatus.IN_USE:
        return changes.in_use(outcome)
    if outcome.status is model_outcomes.UpdateStatus.DEPRECATED and outcome.change is model_outcomes.Change.NONE:
        return "a new resource cannot be deprecated from the start"
    return None


def _why_forbidden(outcome: model_outcomes.Outcome) -> str:
    owner = None if outcome.stored is None else outcome.stored.owner
    if owner is None:
        return "your role does not cover it"
    if owner == model_outcomes.BUILT_IN:
        return "it is built in; choose another name"
    return f"managed by the repository {owner}; change it there"


def _answer(
    number: int,
    revision: int,
    *,
    status: int,
    body: dict[str, object],
    changed: bool = False,
) -> RequestPlanned:
    answer = msgspec.json.encode(body)
    if len(answer) > messages.FRAME_LIMIT // 2:
        told = f"The answer would hold {len(answer):,} bytes; send fewer resources at once."
        return _answer(number, 0, status=413, body=error_codes.body([told], ErrorCode.TOO_LARGE))
    return RequestPlanned(number=number, revision=revision, status=status, answer=answer, changed=changed)


class _Obstacle(Exception):
    """Nothing may be rewritten; the message says why."""


class _RedactedRows(ChangeParts):
    """Rows, sent on whenever there are many. In a dry run they are dropped."""

    def __init__(self, emit: Emit, *, dry_run: bool) -> None:
        super().__init__()
        self._emit = emit
        self._dry_run = dry_run

    def added(self, size: int = 0) -> None:
        """Count one more row, which holds so many bytes."""
        if self.add(size):
            self.flush()

    def flush(self) -> None:
        """Send what is gathered."""
        part = self.take()
        if not self._dry_run:
            self._emit(part)


def plan_redaction(job: RedactJob, view: PlanningView, *, number: int, emit: Emit) -> RedactPlanned:
    """Find the versions with the text and send the rows that rewrite them, with an audit event. Raises StoreFault."""
    rows = _RedactedRows(emit, dry_run=job.dry_run)
    with view.snapshot() as revision:
        key = Key(job.kind, job.name)
        if not view.last_versions(job.context.project, [key]):
            return RedactPlanned(number, revision, exists=False)
        try:
            versions, places, rewritten = _versions(job, key, view, rows)
        except _Obstacle as obstacle:
            return RedactPlanned(number, revision, exists=True, obstacle=str(obstacle))
        places += _status(job, key, view, rows) + _quotes(job, view, rows)
        ends_routes = _end_routes(job, key, view, rows, rewritten=rewritten)
    rows.rows.audit.append(_audit(job, versions, places))
    rows.flush()
    return RedactPlanned(
        number, revision, exists=True, versions=tuple(versions), places=places, ends_routes=ends_routes
    )


def _versions(job: RedactJob, key: Key, view: PlanningView, rows: _RedactedRows) -> tuple[list[int], int, set[int]]:
    """Return the versions in which a reader sees the text, the number of strings, and all rewritten versions, also
    those that have it as a secret. Raises _Obstacle.
    """
    project = job.context.project
    present = view.stored(project, [key]).get(key)
    seen: list[int] = []
    rewritten: set[int] = set()
    places = 0
    for version in view.versions(project, key):
        left = _left(job, version, present)
        if left is None:
            continue
        rows.rows.rewritten.append(version._replace(body=left.body, secrets=left.secrets))
        rows.added(len(left.body) + len(left.secrets or b""))
        rewritten.add(version.version)
        places += left.places
        if left.places:
            seen.append(version.version)
    return sorted(seen), places, rewritten


def _end_routes(
    job: RedactJob, key: Key, view: PlanningView, rows: _RedactedRows, *, rewritten: Collection[int]
) -> bool:
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
            rows.rows.past_routes.append(row)
            rows.added()
            _restate(job, Key("Configuration", name), past, view, rows)
    return ended


def _restate(job: RedactJob, key: Key, past: Past, view: PlanningView, rows: _RedactedRows) -> None:
    """Write what a Configuration says of delivery without the webhooks that were redacted."""
    project = job.context.project
    stored = view.documents(project, [key]).get(key)
    said = None if stored is None else rendering.delivery(stored.status)
    if stored is not None and said is not None:
        reason = said.reason.removesuffix(f" {stale_routes.HELD}") if said.stale is None else said.stale.reason
        lines = [rendering.redaction_sentence(line, job.text) for line in rendering.incomplete(stored.status)]
        delivery = stale_routes.told(reason, past)
        status = rendering.with_standing(key.kind, stored.status, incomplete=lines, delivery=delivery)
        row = records.HeadStatusRow(project, *key, stored.incomplete, status)
        rows.rows.head_statuses.append(row)
        rows.added(len(status))


def _left(
    job: RedactJob, version: records.StoredVersion, present: model_outcomes.StoredState | None
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


def _status(job: RedactJob, key: Key, view: PlanningView, rows: _RedactedRows) -> int:
    """Redact the status: what it lists as missing may quote an earlier version, or its type."""
    project = job.context.project
    stored = view.documents(project, [key]).get(key)
    if stored is None:
        return 0
    lines = rendering.incomplete(stored.status)
    left = [rendering.redaction_sentence(line, job.text) for line in lines]
    places = sum(one != other for one, other in zip(lines, left, strict=True))
    if places:
        status = rendering.with_standing(key.kind, stored.status, incomplete=left)
        rows.rows.head_statuses.append(records.HeadStatusRow(project, *key, 1, status))
        rows.added(len(status))
    return places


def _quotes(job: RedactJob, view: PlanningView, rows: _RedactedRows) -> int:
    places = 0
    for quote in view.quotes(job.context.project, rendering.spellings(job.text)):
        row = quote._replace(text=rendering.redaction_sentence(quote.text, job.text))
        rows.rows.quotes.append(row)
        rows.added(len(row.text))
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
