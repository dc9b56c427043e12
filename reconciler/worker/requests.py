"""Planning a request: an apply or a delete."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import msgspec
from msgspec import structs

from reconciler.model import builtins, desired, error_codes, positions, rendering, resource, values, violations
from reconciler.model import documents as model_documents
from reconciler.model import outcomes as model_outcomes
from reconciler.model.desired import Desired, DocumentRules
from reconciler.model.error_codes import OF_STATUS, ErrorCode
from reconciler.model.names import Key
from reconciler.model.principals import Actor, Role
from reconciler.model.values import Value, pointer_text
from reconciler.model.violations import Violation
from reconciler.planner import changes, decisions, planner
from reconciler.planner.changes import ChangeRows, Origin
from reconciler.planner.decisions import Decided, DocumentBatch
from reconciler.planner.remasking import Remasking
from reconciler.planner.stored import StoreSnapshot
from reconciler.store.contract import PlanningView
from reconciler.store.records import Changes, HeadRow, OriginRow, VersionRow
from reconciler.worker import messages
from reconciler.worker.messages import RequestJob, RequestPlanned, Verb

Emit = Callable[[Changes], None]


ANSWER_BYTES = 64 * 1024 * 1024  # of stored resources that one answer repeats
NODE_BYTES = 2  # of the shortest text with one more value: a shorter body need not be counted
REQUEST_SECONDS = 20.0  # of processor time: ten thousand resources that are as they should be take one
BATCH = 100  # resources looked up before their bytes are counted


class _Malformed(Exception):
    """The body is not the documented shape; one line for each problem."""

    def __init__(self, status: int, errors: tuple[str, ...]) -> None:
        super().__init__(errors)
        self.status = status
        self.errors = errors
        self.code = ErrorCode.TOO_LARGE if status == 413 else ErrorCode.INVALID_REQUEST


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
    except _Malformed as problem:
        return _answer(number, 0, status=problem.status, body=error_codes.body(problem.errors, problem.code))
    return ReadRequest(job, items, found)


def plan_request(request: ReadRequest, view: PlanningView, *, number: int, emit: Emit) -> RequestPlanned:
    """Plan a request while its project is locked: 202 with one status per resource, 409 or 412 when nothing may be
    stored, 413 when it takes too long. Raises StoreFault.
    """
    plan_verb = _plan_delete if request.job.verb is Verb.DELETE else _plan_apply
    try:
        return plan_verb(request, view, number=number, emit=emit)
    except _Malformed as problem:
        return _answer(number, 0, status=problem.status, body=error_codes.body(problem.errors, problem.code))


def _plan_apply(request: ReadRequest, view: PlanningView, *, number: int, emit: Emit) -> RequestPlanned:
    job, items = request.job, request.items
    time_left = _TimeLeft()
    actor = Actor(name=job.actor, role=Role(job.role))
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
        decided = _decide(job, request.found, world, items, actor=actor)
        refusals = planner.refusals(decided.outcomes, actor=actor) if job.atomic else ()
        if refusals:
            lines = [_line(outcome) for outcome in refusals]
            codes = [OF_STATUS[outcome.status] for outcome in refusals]
            return _answer(number, revision, status=409, body={"errors": lines, "codes": codes})
        rows = ChangeRows(decided, view, origin=origin, hide_guesses=job.dry_run)
        bodies = _stored_bodies(decided.outcomes, view, origin=origin)
        remasking = Remasking([rows], view, check=time_left.check)
        bodies |= remasking.shown(bodies)
        parts = tuple(rows.parts())
        changed = not job.dry_run and _emit(decided, chain(parts, remasking.parts()), emit=emit)
        endpoints = decisions.changed_endpoints([decided], view, project=origin.project) if changed else ()
    written = _written(parts)
    bodies |= _restored(rows, parts)
    restated = _restated(bodies, parts)
    shown = bodies | restated | (changes.without_hashes(written, decided) if job.dry_run else written)
    updates = [_update(outcome, _present(outcome, items, shown)) for outcome in decided.outcomes]
    touched = tuple(sorted(decided.standing.owners)) if changed else ()
    return structs.replace(
        _answer(number, revision, status=202, body={"updates": updates}, changed=changed, touched=touched),
        damaged=planner.damaged(decided.outcomes, limit=messages.MOST_DAMAGED),
        changed_endpoints=endpoints,
    )


def _decide(
    job: RequestJob, found: Sequence[Desired], world: StoreSnapshot, items: Sequence[Value], *, actor: Actor
) -> Decided:
    stored = world.stored(one.key for one in found if one.key is not None)
    conflicts = decisions.id_conflicts(found, stored, world)
    wanted = [one.refused(conflicts.get(ordinal)) for ordinal, one in enumerate(found)]
    if job.strict_version:
        wanted = _of_present_versions(wanted, items, stored, world)
    batch = DocumentBatch(wanted, stored, actor=actor, accept_invalid=job.accept_invalid, tell=_told)
    [decided] = decisions.decide([batch], world)
    return decided


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
    """A request has no places: whoever sent it has the pointers."""
    return violations.lines(found, lambda _: "")


class _TimeLeft:
    """The processor time that reading a request may take, and planning it: requests share a lane, and each waits for
    those before.
    """

    def __init__(self) -> None:
        self._end = time.thread_time() + REQUEST_SECONDS

    def check(self) -> None:
        """Raises _Malformed when it is used up."""
        if time.thread_time() > self._end:
            told = f"The resources take more than {REQUEST_SECONDS:g} s to judge; send them in several requests."
            raise _Malformed(413, (told,))

    def each(self, items: Iterable[Value]) -> Iterator[Value]:
        """The items, as long as there is time."""
        for item in items:
            self.check()
            yield item


def _plan_delete(request: ReadRequest, view: PlanningView, *, number: int, emit: Emit) -> RequestPlanned:
    job, items = request.job, request.items
    wanted = [_named(item) for item in items]
    time_left = _TimeLeft()
    actor = Actor(name=job.actor, role=Role(job.role))
    origin = _origin(job)
    world = StoreSnapshot(view, origin.project, origin.hmac_key)
    with view.snapshot() as revision:
        stored = world.removable(one.key for one in wanted if one.key is not None)
        references = world.references(stored, {})
        suspended = view.suspended(job.context.at)
        outcomes = planner.plan_deletes(wanted, stored, references=references, actor=actor, suspended=suspended)
        others = [] if job.matching is None else _of_other_versions(outcomes, job.matching, world)
        if others:
            return _answer(number, revision, status=412, body=error_codes.body(others, ErrorCode.VERSION_MISMATCH))
        bodies = _stored_bodies(outcomes, view, origin=origin)
        decided = Decided((), outcomes)
        rows = ChangeRows(decided, view, origin=origin)
        remasking = Remasking([rows], view, check=time_left.check)
        bodies |= remasking.shown(bodies)
        parts = chain(rows.parts(), remasking.parts())
        changed = not job.dry_run and _emit(decided, parts, emit=emit)
        endpoints = decisions.changed_endpoints([decided], view, project=origin.project) if changed else ()
    updates = [_update(outcome, _present(outcome, items, bodies)) for outcome in outcomes]
    errors = [_line(outcome) for outcome in outcomes if outcome.status in model_outcomes.REFUSED]
    answer = _answer(number, revision, status=202, body={"errors": errors, "updates": updates}, changed=changed)
    return structs.replace(answer, changed_endpoints=endpoints)


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
        raise _Malformed(400, (f"body:{error.line}:{error.column}: {error.message}",)) from error
    value = documents[0].value if documents else None
    if bare_array and isinstance(value, list):
        prefix: tuple[str, ...] = ()
        items, problems = value, list[str]()
    else:
        prefix, (items, problems) = ("resources",), _wrapped(value, bare_array=bare_array)
    if len(items) > max_resources:
        raise _Malformed(413, (f"The body holds {len(items):,} resources, over the limit of {max_resources:,}.",))
    wrong = [index for index, item in enumerate(items) if not isinstance(item, dict)]
    problems += [f"{pointer_text((*prefix, index))}: must be an object" for index in wrong]
    if problems:
        raise _Malformed(400, tuple(problems))
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
        raise _Malformed(413, tuple(f"{pointer_text((*prefix, index))}: {told}" for index in large))


def _wrapped(value: Value, *, bare_array: bool) -> tuple[list[Value], list[str]]:
    """The array in `{"resources": [...]}`, and what is wrong around it."""
    if not isinstance(value, dict):
        shape = "an array of resources" if bare_array else 'an object such as {"resources": [...]}'
        raise _Malformed(400, (f"The body must be {shape}.",))
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
    """The key that a delete names. Kind and name alone are looked at; what is wrong with them is told."""
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
    """Send the rows; whether there are any. What nobody changes may be complete by now."""
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


def _restored(rows: ChangeRows, parts: Sequence[Changes]) -> dict[Key, bytes]:
    """The damaged resources that these rows make anew, as a reader will get them."""
    outcomes = rows.decided.outcomes
    present = {
        one.key: one.stored
        for one in outcomes
        if one.change is model_outcomes.Change.RESTORE and one.stored is not None
    }
    found = {}
    for row in (row for part in parts for row in part.rewritten):
        key = Key(row.kind, row.name)
        stored, identity = present[key], rows.identities[key]
        place = (identity.head, identity.tail, stored.path, stored.line)
        found[key] = rendering.shown((row.body, identity.status, *place))
    return found


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
            raise _Malformed(413, (f"The answer would hold more than {ANSWER_BYTES:,} bytes; name fewer resources.",))
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
    touched: tuple[str, ...] = (),
) -> RequestPlanned:
    answer = msgspec.json.encode(body)
    if len(answer) > messages.FRAME_LIMIT // 2:
        told = f"The answer would hold {len(answer):,} bytes; send fewer resources at once."
        return _answer(number, 0, status=413, body=error_codes.body([told], ErrorCode.TOO_LARGE))
    return RequestPlanned(
        number=number, revision=revision, status=status, answer=answer, changed=changed, touched=touched
    )
