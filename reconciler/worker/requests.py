"""The jobs of people: apply, delete, and redact.

A redaction rewrites former versions. The present version of a resource is never redacted, because the next commit would
bring the text back; if it has the text as a secret, that is correct. A dry run searches only what readers see.
"""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain

import msgspec
from msgspec import structs

from reconciler.model import builtins, desired, flows, rendering, request_bodies, values, violations
from reconciler.model.desired import Desired, DocumentRules
from reconciler.model.error_codes import OF_STATUS
from reconciler.model.names import Key
from reconciler.model.outcomes import BUILT_IN, REFUSED, WITH_REASON, Change, Outcome, StoredState, UpdateStatus
from reconciler.model.request_bodies import RequestRefused
from reconciler.model.values import Value
from reconciler.planner import changes, decisions, delivery, field_changes, planner
from reconciler.planner.changes import ChangeParts, ChangeRows, Origin
from reconciler.planner.decisions import Decided, DocumentBatch
from reconciler.planner.delivery import Past
from reconciler.planner.field_changes import BoundedFields
from reconciler.planner.remasking import Remasking
from reconciler.planner.stored import StoreSnapshot, masked_document
from reconciler.store import records
from reconciler.store.contract import Damaged, PlanningView
from reconciler.store.records import Changes
from reconciler.worker import messages
from reconciler.worker.messages import Emit, RedactJob, RedactPlanned, RequestJob, RequestPlanned, Steps, Verb

ANSWER_BYTES = 64 * 1024 * 1024  # of stored resources that one answer repeats
REQUEST_SECONDS = 20.0  # of processor time: ten thousand valid resources take one second
BATCH = 100  # resources looked up before their bytes are counted


def plan_request(job: RequestJob, view: PlanningView, *, emit: Emit) -> Steps[RequestPlanned]:
    """Plan a request: 202 with one status for each resource, 400 for a malformed body, 409 or 412 if nothing may be
    stored, 413 if it is too large or takes too long. Raises StoreFault.
    """
    try:
        items = request_bodies.read_resources(
            job.body, max_resources=job.max_resources, bare_array=job.verb is Verb.DELETE
        )
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
        remasking = Remasking([rows], view, check=time_left.check)
        bodies |= remasking.shown(bodies)
        parts = tuple(rows.parts())
        # An unchanged resource may have become complete.
        changed = not is_dry and (
            bool(decided.standing.rows) or any(one.change is not Change.NONE for one in decided.outcomes)
        )
        for part in chain(parts, remasking.parts()) if changed else ():
            emit(part)
        endpoints = decisions.changed_endpoints([decided], snapshot) if changed else ()
        changed_flows = decisions.find_flows([decided], snapshot) if is_dry else ()
        fields = field_changes.would_change(decided, snapshot, seed=context.seed) if is_dry else {}
    written = _written(parts)
    restated = _restated(bodies, parts)
    shown = bodies | restated | (changes.without_hashes(written, decided) if is_dry else written)
    body: dict[str, object] = {
        "updates": [
            _update(outcome, _present(outcome, items, shown)) | _changed_fields(outcome, fields)
            for outcome in decided.outcomes
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
    stored = snapshot.removable(one.key for one in wanted if one.key is not None)
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
    """Return those resources of the answer of which the request changes only the status."""
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


def _changed_fields(outcome: Outcome, found: Mapping[Key, BoundedFields]) -> dict[str, object]:
    if outcome.change is Change.NONE or outcome.key is None or outcome.key not in found:
        return {}
    shown, left_out = found[outcome.key]
    return {"fields": shown} | ({"fieldsLeftOut": left_out} if left_out else {})


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


class _Obstacle(Exception):
    """Nothing may be rewritten; the message says why."""


def plan_redaction(job: RedactJob, view: PlanningView, *, emit: Emit) -> RedactPlanned:
    """Find the versions with the text and send the rows that rewrite them, with an audit event. A dry run sends none.
    Raises StoreFault.
    """
    search = _Redaction(job, view)
    with view.snapshot():
        if not view.last_versions(search.project, [search.key]):
            return RedactPlanned(exists=False)
        try:
            for part in search.parts():
                if not job.dry_run:
                    emit(part)
        except _Obstacle as obstacle:
            return RedactPlanned(exists=True, obstacle=str(obstacle))
    versions = tuple(sorted(search.versions))
    return RedactPlanned(exists=True, versions=versions, places=search.places)


class _Redaction:
    """A search for a text. Each step adds rows that replace it, and yields their size in bytes."""

    def __init__(self, job: RedactJob, view: PlanningView) -> None:
        self.project, self.key = job.context.project, Key(job.kind, job.name)
        self.versions: list[int] = []  # versions in which a reader sees the text
        self.places = 0  # strings with the text
        self._rewritten: set[int] = set()  # versions, also those that have it as a secret
        self._job = job
        self._view = view
        self._parts = ChangeParts()

    def parts(self) -> Iterator[Changes]:
        """Search, and yield the rows. Raises _Obstacle."""
        steps = (self._redact_versions(), self._redact_status(), self._redact_quotes(), self._end_routes())
        yield from self._parts.parts(chain(*steps, self._tell_audit()))

    def _redact_versions(self) -> Iterator[int]:
        """Rewrite every version that has the text. Raises _Obstacle."""
        present = self._view.stored(self.project, [self.key]).get(self.key)
        for version in self._view.versions(self.project, self.key):
            left = self._left(version, is_present=present is not None and present.version == version.version)
            if left is None:
                continue
            self._rewritten.add(version.version)
            self.places += left.places
            if left.places:
                self.versions.append(version.version)
            self._parts.rows.rewritten.append(version._replace(body=left.body, secrets=left.secrets))
            yield len(left.body) + len(left.secrets or b"")

    def _left(self, version: records.VersionRow, *, is_present: bool) -> rendering.RedactedVersion | None:
        """Return a version without the text; None if it does not have it. Raises _Obstacle."""
        text, context = self._job.text, self._job.context
        secrets = None if self._job.dry_run or is_present else version.secrets
        which = f"{version.key.kind} {version.key.name}"
        try:
            if rendering.is_known_by(version.body, text):
                raise _Obstacle(f"The text is a part of the name or the id of {which}, which stay; give a longer text.")
            left = rendering.redacted_version(
                version.body, secrets, text, project=self.project, hmac_key=context.hmac_key
            )
        except (LookupError, ValueError):
            told = f"Version {version.version} of {which} is damaged in the store and cannot be read; restore a backup."
            raise _Obstacle(told) from None
        if is_present and left is not None:
            told = f"The present version of {which} still holds the text; change it first, in Git or by apply."
            raise _Obstacle(told)
        return left

    def _redact_status(self) -> Iterator[int]:
        """Redact the status: its list of what is missing may quote an earlier version or a type."""
        stored = self._view.documents(self.project, [self.key]).get(self.key)
        if stored is None:
            return
        lines = rendering.incomplete(stored.status)
        left = [rendering.redaction_sentence(line, self._job.text) for line in lines]
        places = sum(one != other for one, other in zip(lines, left, strict=True))
        if places:
            self.places += places
            status = rendering.with_standing(self.key.kind, stored.status, incomplete=left)
            self._parts.rows.head_statuses.append(records.HeadStatusRow(self.project, *self.key, 1, status))
            yield len(status)

    def _redact_quotes(self) -> Iterator[int]:
        """Redact the sentences of runs and of the audit that quote the text."""
        for quote in self._view.quotes(self.project, rendering.spellings(self._job.text)):
            text = rendering.redaction_sentence(quote.text, self._job.text)
            self.places += 1
            self._parts.rows.quotes.append(quote._replace(text=text))
            yield len(text)

    def _end_routes(self) -> Iterator[int]:
        """End the last good routes that use a rewritten version. The statuses of their Configurations follow when the
        routes are compiled again.
        """
        for name, encoded in self._view.past_routes(self.project).items():
            before = past = msgspec.json.decode(encoded, type=Past)
            for use, number in before.uses:
                if self.key.kind == "Configuration":
                    ends = self.key.name == name and before.version in self._rewritten
                else:
                    ends = self.key == Key("Destination", use) and number in self._rewritten
                past = delivery.route_without(past, use) if ends else past
            if past != before:
                past = structs.replace(past, at=self._job.context.at)
                row = records.PastRouteRow(self.project, name, int(bool(past.uses)), msgspec.json.encode(past))
                self._parts.rows.past_routes.append(row)
                yield 0

    def _tell_audit(self) -> Iterator[int]:
        job, detail = self._job, f"versions rewritten: {len(self.versions)}; places: {self.places}"
        event = (job.context.at, self.project, job.actor, "redacted", *self.key)
        self._parts.rows.audit.append(records.AuditRow(*event, request=job.request, detail=detail))
        yield 0
