"""From the context of a job to the inputs of the planner: the snapshot of the store and the origin of the change."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from reconciler.model.values import Value
from reconciler.planner.changes import Origin
from reconciler.planner.stored import StoreSnapshot
from reconciler.store.contract import PlanningView
from reconciler.worker.messages import Context


def store_snapshot(context: Context, view: PlanningView, *, check: Callable[[], object]) -> StoreSnapshot:
    """Return the snapshot that a plan is judged against. `check` raises when no time is left."""
    snapshot = StoreSnapshot(view, context.project, context.hmac_key, context.at, check=check)
    return replace(snapshot, available=context.secrets, refuse_unknown=context.refuse_unknown)


def origin(context: Context, actor: str, source: Mapping[str, Value]) -> Origin:
    """Return the origin of a change, still without run, request and repository."""
    when = (context.at, context.milliseconds, context.seed)
    return Origin(context.project, actor, None, None, None, *when, source, context.hmac_key)
