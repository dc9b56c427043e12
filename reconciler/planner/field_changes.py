"""The fields that differ from the stored version, for plans, dry runs, runs and the history."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import TypeAlias

from reconciler.model import components, desired, diffs, names, plan
from reconciler.model.diffs import ResourceState
from reconciler.model.names import Key
from reconciler.model.outcomes import Change, UpdateStatus
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


def stored_state(key: Key, held: StoredDocument | VersionRow) -> ResourceState:
    """Return the state that a stored version holds. Raises Damaged."""
    owned = desired.without_servers(stored.document_in_clear(key, held))
    return ResourceState(desired.without_absent(owned, names.exact_kind(key.kind)), stored.held_secrets(key, held))


def bounded(found: Iterator[PlanField], *, most: int = plan.MOST_FIELDS) -> BoundedFields:
    """Return the first fields and the number of others; nothing for a damaged resource."""
    with suppress(Damaged):
        shown = tuple(islice(found, most))
        return shown, sum(1 for _ in found)
    return (), 0


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

    fields: BoundedFields = (), 0
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


def would_change(decided: Decided, snapshot: StoreSnapshot, *, seed: bytes) -> dict[Key, BoundedFields]:
    """Return the fields of each resource that would be written or deleted, until there are enough for one answer.

    A secret that was sent in clear text always counts as changed, so that the answer confirms no guess. `seed` is
    random.
    """
    lookup = TypeLookup(snapshot.view, project=snapshot.project, coming=decided.written(components.TYPES))
    found: dict[Key, BoundedFields] = {}
    left = MOST_TOGETHER
    for outcome in decided.outcomes:
        if left <= 0:
            break
        if outcome.change not in (*WRITING, Change.DELETE) or outcome.key is None:
            continue
        snapshot.check()
        key, new = outcome.key, None
        if outcome.change is not Change.DELETE:
            sent = ResourceState(decided.document(outcome).document(), dict(decided.fits[key].secrets))
            new = diffs.veiled(sent, known=decided.kept.get(key, ()), seed=seed)
        with suppress(Damaged):
            before = snapshot.view.documents(snapshot.project, [key]).get(key)
            old = None if before is None else stored_state(key, before)
            old = old and diffs.veiled(old, known=old.secrets, seed=seed)
            found[key] = bounded(diffs.find_fields(old, new, lookup=lookup), most=min(left, plan.MOST_FIELDS))
            left -= len(found[key][0])
    return found
