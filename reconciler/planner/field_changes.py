"""The fields that differ from the stored version, for plans, dry runs, runs and the history."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import TypeAlias

from reconciler.model import components, desired, diffs, names, plan, type_checks
from reconciler.model.diffs import ResourceState
from reconciler.model.names import Key
from reconciler.model.outcomes import Change, Outcome, UpdateStatus
from reconciler.model.plan import PlanField, PlanPlace, PlanStatus
from reconciler.model.type_checks import Lookup
from reconciler.planner import stored
from reconciler.planner.decisions import WRITING, Decided
from reconciler.planner.stored import StoreSnapshot, TypeLookup
from reconciler.store.contract import Damaged, PlanningView
from reconciler.store.records import ChangedVersions, StoredDocument, VersionRow

MOST_TOGETHER = 5_000  # fields of one answer, at most some 40 MB

BoundedFields: TypeAlias = tuple[tuple[PlanField, ...], int]
"""The first fields, and how many more there are."""
NONE: BoundedFields = ((), 0)


def stored_state(key: Key, held: StoredDocument | VersionRow) -> ResourceState:
    """Return the state that a stored version holds. Raises Damaged."""
    owned = desired.without_servers(stored.document_in_clear(key, held))
    return ResourceState(desired.without_absent(owned, names.exact_kind(key.kind)), stored.held_secrets(key, held))


def bounded(found: Iterator[PlanField], *, most: int = plan.MOST_FIELDS) -> BoundedFields:
    """Return the first fields and the number of others; nothing for a damaged resource."""
    with suppress(Damaged):
        shown = tuple(islice(found, most))
        return shown, sum(1 for _ in found)
    return NONE


# Two stored versions of a resource.


def compare_versions(pairs: Sequence[ChangedVersions], view: PlanningView, *, project: str) -> tuple[PlanStatus, ...]:
    """Return a status with the fields for each pair, until there are enough fields for one answer."""
    lookup = TypeLookup(view, project=project, coming={})
    found: list[PlanStatus] = []
    left = MOST_TOGETHER
    for one in pairs:
        if left <= 0:
            break
        found.append(_compared(one, view, project=project, lookup=lookup))
        left -= len(found[-1].fields)
    return tuple(found)


def _compared(one: ChangedVersions, view: PlanningView, *, project: str, lookup: Lookup) -> PlanStatus:
    key = Key(one.kind, one.name)

    def state(number: int | None) -> ResourceState | None:
        versions = [] if number is None else list(view.versions(project, key, number=number))
        return stored_state(key, versions[0]) if versions else None

    fields = NONE
    reason = None
    try:
        fields = bounded(diffs.find_fields(state(one.before), state(one.after), lookup=lookup))
    except Damaged as damage:
        reason = damage.message
    return PlanStatus(
        status=UpdateStatus(one.status),
        kind=one.kind,
        name=one.name,
        reason=reason,
        at=None if one.path is None else PlanPlace(path=one.path, line=one.line or 1),
        fields=fields[0],
        fields_left_out=fields[1],
    )


# A dry run, whose caller may guess at stored secrets.


def would_change(decided: Decided, snapshot: StoreSnapshot, *, seed: bytes) -> Iterator[BoundedFields]:
    """Yield for each outcome the fields that would be written or deleted, or would be if it were not refused; none once
    there are enough for one answer.

    A secret that was sent in clear text always counts as changed, so that the answer confirms no guess. `seed` is
    random.
    """
    lookup = TypeLookup(snapshot.view, project=snapshot.project, coming=decided.written(components.TYPES))
    left = MOST_TOGETHER
    for outcome in decided.outcomes:
        fields = NONE
        if left > 0 and _has_fields(outcome, decided):
            snapshot.check()
            fields = bounded(
                _would_change(outcome, decided, snapshot, lookup, seed=seed), most=min(left, plan.MOST_FIELDS)
            )
            left -= len(fields[0])
        yield fields


def _has_fields(outcome: Outcome, decided: Decided) -> bool:
    if outcome.change in (*WRITING, Change.DELETE):
        return True
    if not decided.documents or outcome.ordinal is None or not decided.document(outcome).owned:
        return False
    # Without a stored version it is the role that forbids it.
    is_owned = outcome.status is UpdateStatus.FORBIDDEN and outcome.stored is not None
    return outcome.status is UpdateStatus.INVALID or is_owned


def _would_change(
    outcome: Outcome, decided: Decided, snapshot: StoreSnapshot, lookup: Lookup, *, seed: bytes
) -> Iterator[PlanField]:
    """Yield the fields of one outcome. Raises Damaged."""
    key, new = outcome.key, None
    assert key is not None
    if outcome.change is not Change.DELETE:
        document, kept = decided.document(outcome).document(), decided.kept.get(key, frozenset())
        secrets = dict((decided.fits.get(key) or type_checks.fit(document, lookup)).secrets)
        if not kept <= secrets.keys():
            return  # a stored secret, which the type no longer calls one
        new = diffs.veiled(ResourceState(document, secrets), known=kept, seed=seed)
    before = snapshot.view.documents(snapshot.project, [key]).get(key)
    old = None if before is None else stored_state(key, before)
    old = old and diffs.veiled(old, known=old.secrets, seed=seed)
    yield from diffs.find_fields(old, new, lookup=lookup)
