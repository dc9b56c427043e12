"""The jobs of people: apply and delete."""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, repeat

import msgspec
from msgspec import structs

from reconciler.model import builtins, desired, flows, rendering, values, violations
from reconciler.model.desired import Desired, DocumentRules, RequestRefused
from reconciler.model.error_codes import OF_STATUS
from reconciler.model.names import Key
from reconciler.model.outcomes import BUILT_IN, REFUSED, WITH_REASON, Change, Outcome, StoredState, UpdateStatus
from reconciler.model.values import Value
from reconciler.planner import changes, decisions, field_changes, planner
from reconciler.planner.changes import ChangeRows, Origin
from reconciler.planner.decisions import Decided, DocumentBatch
from reconciler.planner.field_changes import BoundedFields
from reconciler.planner.remasking import Remasking
from reconciler.planner.stored import StoreSnapshot, masked_document
from reconciler.store.contract import Damaged, PlanningView
from reconciler.store.records import Changes
from reconciler.worker import messages
from reconciler.worker.messages import Emit, RequestJob, RequestPlanned, Steps, Verb

ANSWER_BYTES = 64 * 1024 * 1024  # of stored resources that one answer repeats
REQUEST_SECONDS = 20.0  # of processor time: ten thousand valid resources take one second
BATCH = 100  # resources looked up before their bytes are counted


def plan_request(job: RequestJob, view: PlanningView, *, emit: Emit) -> Steps[RequestPlanned]:
    """Plan a request: 202 with one status for each resource, 400 for a malformed body, 409 or 412 if nothing may be
    stored, 413 if it is too large or takes too long. Raises StoreFault.
    """
    try:
        items = desired.read_resources(job.body, max_resources=job.max_resources, bare_array=job.verb is Verb.DELETE)
        rules = DocumentRules(api_versions=job.context.api_versions, hmac_key=job.context.hmac_key)
        found = desired.read_items(_TimeLeft().each(items), rules=rules) if job.verb is Verb.APPLY else ()
        yield
        return _plan(job, items, found, view, emit=emit)
    except RequestRefused as problem:
        return RequestPlanned(problem.status, msgspec.json.encode(problem.body))


def _plan(
    job: RequestJob, items: Sequence[Value], found: Sequence[Desired], view: PlanningView, *, emit: Emit
) -> RequestPlanned:
    """Plan the items of a request, while the project is locked. `found` are the resources of an apply."""
    time_left, context, is_dry = _TimeLeft(), job.context, job.options.dry_run
    is_apply = job.verb is Verb.APPLY
    with view.snapshot():
        snapshot = StoreSnapshot(
            view,
            context.project,
            context.hmac_key,
            context.at,
            hide_guesses=is_dry,
            suspended=view.suspended(context.at),
            available=context.secrets,
            check=time_left.check,
            refuse_unknown=context.refuse_unknown,
        )
        decided = _decide_apply(job, items, found, snapshot) if is_apply else _decide_delete(job, items, snapshot)
        source: dict[str, Value] = {"type": "api", "actor": job.actor.name, "date": context.at}
        when = (context.at, context.milliseconds, context.seed)
        origin = Origin(context.project, job.actor.name, None, None, job.request, *when, source, context.hmac_key)
        rows = ChangeRows(decided, view, origin=origin)
        bodies = _stored_bodies(decided.outcomes, view, project=context.project)
        remasking = Remasking([rows], view, check=time_left.check) if rows.may_mask else None
        bodies |= {} if remasking is None else remasking.shown(bodies)
        parts = tuple(rows.parts())
        # An unchanged resource may have become complete.
        changed = not is_dry and (
            bool(decided.standing.rows) or any(one.change is not Change.NONE for one in decided.outcomes)
        )
        for part in chain(parts, () if remasking is None else remasking.parts()) if changed else ():
            emit(part)
        endpoints = decisions.changed_endpoints([decided], snapshot) if changed else ()
        changed_flows = decisions.find_flows([decided], snapshot) if is_dry else ()
        fields = [*field_changes.would_change(decided, snapshot, seed=context.seed)] if is_dry else []
    written = _written(parts)
    restated = _restated(bodies, parts)
    shown = bodies | restated | (changes.without_hashes(written, decided) if is_dry else written)
    body: dict[str, object] = {
        "updates": [
            _update(outcome, _present(outcome, items, shown)) | _changed_fields(found)
            for outcome, found in zip(decided.outcomes, chain(fields, repeat(field_changes.NONE)), strict=False)
        ]
    }
    if not is_apply:
        refused = [outcome for outcome in decided.outcomes if outcome.status in REFUSED]
        body = {"errors": [_line(outcome) for outcome in refused], **body}
    if changed_flows:
        body["flows"] = [flows.shown(flow) for flow in changed_flows[: flows.MOST]]
    answer = msgspec.json.encode(body)
    if len(answer) > messages.FRAME_LIMIT // 2:
        raise RequestRefused(413, (f"The answer would hold {len(answer):,} bytes; send fewer resources at once.",))
    return RequestPlanned(
        202,
        answer,
        changed=changed,
        touched=tuple(sorted(decided.standing.owners)) if changed else (),
        changed_endpoints=endpoints,
    )


def _decide_apply(
    job: RequestJob, items: Sequence[Value], found: Sequence[Desired], snapshot: StoreSnapshot
) -> Decided:
    """Decide about an apply. Raises RequestRefused if it is atomic and one of its resources is refused."""
    stored = snapshot.stored(one.key for one in found if one.key is not None)
    conflicts = decisions.id_conflicts(found, stored, snapshot)
    wanted = [one.refused(conflicts.get(ordinal)) for ordinal, one in enumerate(found)]
    if job.options.strict_version:
        wanted = _of_present_versions(wanted, items, stored, snapshot)
    batch = DocumentBatch(
        wanted,
        stored,
        actor=job.actor,
        accept_invalid=job.options.accept_invalid,
        tell=lambda _, found: violations.lines(found, lambda _: ""),  # without places: the sender knows the pointers
    )
    [decided] = decisions.decide([batch], snapshot)
    refusals = planner.refusals(decided.outcomes, actor=job.actor) if job.options.atomic else ()
    if refusals:
        codes = [OF_STATUS[outcome.status] for outcome in refusals]
        raise RequestRefused(409, [_line(outcome) for outcome in refusals], *codes)
    return decided


def _decide_delete(job: RequestJob, items: Sequence[Value], snapshot: StoreSnapshot) -> Decided:
    """Decide about a delete. Raises RequestRefused if a resource has none of the versions in `matching`."""
    named = (desired.identify(item) for item in items)  # only kind and name are read
    wanted = [Desired(key=key, reason=reason) for key, reason in named]
    stored = snapshot.stored((one.key for one in wanted if one.key is not None), to_delete=True)
    references, suspended = snapshot.references(stored, {}), snapshot.suspended
    outcomes = planner.plan_deletes(wanted, stored, references=references, actor=job.actor, suspended=suspended)
    others = [] if job.options.matching is None else _of_other_versions(outcomes, job.options.matching, snapshot)
    if others:
        raise RequestRefused(412, others)
    return Decided((), outcomes)


def _of_present_versions(
    wanted: Sequence[Desired],
    items: Sequence[Value],
    stored: Mapping[Key, StoredState],
    snapshot: StoreSnapshot,
) -> list[Desired]:
    """Return the wanted resources, with a conflict for each document that was made from another version."""
    hashes = _hashes([one.key for one in wanted if one.key is not None], snapshot)
    return [
        one if one.key is None else structs.replace(one, conflict=_conflict(one.key, item, stored, hashes))
        for one, item in zip(wanted, items, strict=True)
    ]


def _conflict(key: Key, item: Value, stored: Mapping[Key, StoredState], hashes: Mapping[Key, str]) -> str | None:
    """Return why a document was not made from the stored version; None if it was, or does not say."""
    metadata = item.get("metadata") if isinstance(item, dict) else None
    if not isinstance(metadata, dict):
        return None
    version, hash_ = metadata.get("version"), metadata.get("hash")
    if version is None and hash_ is None:
        return None
    present = stored.get(key)
    if present is None:
        told = f"there is no {key.kind} {key.name}"
        return f"{told}; to create it, leave out `metadata.version` and `metadata.hash`"
    named = "version" if version not in (None, present.version) else "hash"
    if named == "hash" and hash_ in (None, hashes.get(key)):
        return None
    told = f"the present version is {present.version}, and `metadata.{named}` of the document is of another"
    return f"{told}; get the resource and make the change again"


def _hashes(keys: Iterable[Key], snapshot: StoreSnapshot) -> dict[Key, str]:
    """Return the hashes of the stored resources among these; a damaged one has none."""
    found = {}
    for key, document in snapshot.view.documents(snapshot.project, keys).items():
        with suppress(Damaged, LookupError):
            found[key] = str(values.value_at(masked_document(key, document), ("metadata", "hash")))
    return found


class _TimeLeft:
    """The processor time that reading or planning a request may take: requests share a lane, and each waits for those
    before it.
    """

    def __init__(self) -> None:
        self._end = time.thread_time() + REQUEST_SECONDS

    def check(self) -> None:
        """Raise RequestRefused if the time is used up."""
        if time.thread_time() > self._end:
            told = f"The resources take more than {REQUEST_SECONDS:g} s to judge; send them in several requests."
            raise RequestRefused(413, (told,))

    def each(self, items: Iterable[Value]) -> Iterator[Value]:
        """Yield the items, and check the time before each."""
        for item in items:
            self.check()
            yield item


def _of_other_versions(outcomes: Iterable[Outcome], matching: Collection[str], snapshot: StoreSnapshot) -> list[str]:
    """Return a line for each resource to delete that has none of these versions and hashes."""
    going = [one.stored for one in outcomes if one.change is Change.DELETE and one.stored is not None]
    hashes = _hashes([stored.key for stored in going], snapshot)
    return [
        f"{stored.key.kind} {stored.key.name}: the present version is {stored.version}, which `If-Match` does not "
        "name; get the resource, and decide again"
        for stored in going
        if not {"*", str(stored.version), hashes.get(stored.key)} & set(matching)
    ]


def _written(parts: Iterable[Changes]) -> dict[Key, bytes]:
    """Return the resources in these rows as a reader will get them. A request never moves a head without a version."""
    found = {}
    for part in parts:
        origins = {origin.id: origin for origin in part.origins}
        for version, head in zip(part.versions, part.heads, strict=True):
            origin = origins[version.origin]
            place = (origin.head, origin.tail, version.path, version.line)
            found[Key(version.kind, version.name)] = rendering.shown((version.body, head.status, *place))
    return found


def _restated(bodies: Mapping[Key, bytes], parts: Iterable[Changes]) -> dict[Key, bytes]:
    """Return the resources of the answer whose status is their only change."""
    rows = {Key(row.kind, row.name): row.status for part in parts for row in part.head_statuses}
    return {key: rendering.restated(bodies[key], rows[key]) for key in rows.keys() & bodies.keys()}


def _stored_bodies(outcomes: Sequence[Outcome], view: PlanningView, *, project: str) -> dict[Key, bytes]:
    """Return those resources of the answer that the request leaves as they are stored."""
    shown = [
        outcome.key
        for outcome in outcomes
        if outcome.stored is not None and outcome.key is not None and outcome.change is not Change.UPDATE
    ]
    bodies = {key: builtins.shown()[key] for key in shown if key in builtins.built_in()}
    size = 0
    for start in range(0, len(shown), BATCH):
        found = view.bodies(project, shown[start : start + BATCH])
        size += sum(map(len, found.values()))
        if size > ANSWER_BYTES and len(outcomes) > 1:  # a single resource is always shown
            raise RequestRefused(
                413, (f"The answer would hold more than {ANSWER_BYTES:,} bytes; name fewer resources.",)
            )
        bodies |= found
    return bodies


def _present(outcome: Outcome, items: Sequence[Value], bodies: dict[Key, bytes]) -> bytes:
    """Return the resource of one status: as it is stored after the update, otherwise as it was sent, masked."""
    if outcome.key in bodies and outcome.status is not UpdateStatus.INVALID:
        return bodies[outcome.key]
    assert outcome.ordinal is not None
    return msgspec.json.encode(desired.mask_all(items[outcome.ordinal]))


def _update(outcome: Outcome, resource: bytes) -> dict[str, object]:
    update: dict[str, object] = {"resource": msgspec.Raw(resource), "status": outcome.status.value}
    if outcome.status in WITH_REASON:
        update["reason"] = outcome.reason
    why = None if outcome.status in WITH_REASON else _why(outcome)
    notes = (*outcome.notes, *([why] if why else ()))
    if notes:
        update["notes"] = notes
    return update


def _changed_fields(found: BoundedFields) -> dict[str, object]:
    shown, left_out = found
    return ({"fields": shown} if shown else {}) | ({"fieldsLeftOut": left_out} if left_out else {})


def _line(outcome: Outcome) -> str:
    """Return a line of `errors`: the resource, its status, and the reason."""
    which = f"item {outcome.ordinal}" if outcome.key is None else f"{outcome.key.kind} {outcome.key.name}"
    why = _why(outcome) or (outcome.reason or outcome.status.value).replace("\n", "; ")
    return f"{which}: {outcome.status.value}: {why}"


def _why(outcome: Outcome) -> str | None:
    """Return why the resource is refused, for statuses without a `reason`."""
    if outcome.status is UpdateStatus.IN_USE:
        return outcome.used_by()
    if outcome.status is UpdateStatus.DEPRECATED and outcome.change is Change.NONE:
        return "a new resource cannot be deprecated from the start"
    if outcome.status is not UpdateStatus.FORBIDDEN:
        return None
    owner = None if outcome.stored is None else outcome.stored.owner
    if owner is None:
        return "your role does not cover it"
    if owner == BUILT_IN:
        return "it is built in; choose another name"
    return f"managed by the repository {owner}; change it there"
