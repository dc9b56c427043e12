"""What an admin stores over what a suspended repository owns: the repository keeps it, and its status says so.

Whether that is allowed is decided in `planning.planner`. When the repository is resumed, it stores its own again, or,
where both are equal, takes the version over as its own.
"""

from collections.abc import Iterable, Mapping

from reconciler.model import rendering
from reconciler.model.names import Key
from reconciler.model.outcomes import Change, Outcome
from reconciler.model.values import Value
from reconciler.store.contract import HeadRow
from reconciler.store.planning_view import PlanningView


def wanted_drift(outcomes: Iterable[Outcome], view: PlanningView) -> dict[Key, bytes | None]:
    """What the owners' heads want in place of what a request stores, by digest; None for an invalid document."""
    keys: dict[str, list[Key]] = {}
    for outcome in outcomes:
        stored = outcome.stored
        if outcome.change is Change.UPDATE and stored is not None and stored.owner is not None:
            keys.setdefault(stored.owner, []).append(stored.key)
    return {key: digest for owner in sorted(keys) for key, digest in view.wanted_digests(owner, keys[owner]).items()}


def kept_drift(head: HeadRow, outcome: Outcome, wanted: Mapping[Key, bytes | None]) -> HeadRow:
    """The head of what a request stores: whose it was it stays, at the place where it stood."""
    stored = outcome.stored
    if stored is None or stored.owner is None:
        return head
    status = head.status
    if wanted.get(stored.key) != head.digest:
        drift: dict[str, Value] = {"repository": stored.owner, "path": stored.path, "line": stored.line}
        status = rendering.with_drift(status, drift)
    return head._replace(owner=stored.owner, path=stored.path, line=stored.line, status=status, drifted=1)
