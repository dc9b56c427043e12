"""Flows of one change: what stops, starts, moves or goes stale in delivery by all that is decided together."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from reconciler.model import flows, rendering
from reconciler.model.desired import Desired
from reconciler.model.flows import NOTHING, Flow, FlowChange
from reconciler.model.names import Key
from reconciler.model.outcomes import Change
from reconciler.model.rendering import Delivery
from reconciler.model.stale_routes import Past
from reconciler.planner import delivery
from reconciler.planner.decisions import Decided
from reconciler.planner.delivery import ComponentUses
from reconciler.planner.stored import StoreSnapshot, TypeLookup
from reconciler.store.contract import BATCH

DELETED = "the Configuration is deleted"


def find_flows(decided: Sequence[Decided], snapshot: StoreSnapshot) -> tuple[Flow, ...]:
    """Return what a change does to delivery, the gravest first. Asked for inside the snapshot of the decision.

    Raises StoreFault.
    """
    written = {key: document for one in decided for key, document in one.written().items()}
    found = [flow for one in decided for flow in one.standing.flows]
    found += _ended(decided, snapshot)
    found += _moved(decided, snapshot, written)
    return flows.in_order(found)


def flows_of_each(parts: Sequence[Sequence[Decided]], snapshot: StoreSnapshot, *, otherwise: int) -> list[list[Flow]]:
    """Return what a change does to delivery, divided by the part that changes the resource a flow is told with;
    `otherwise` is the number of the part for all others. Raises StoreFault.
    """
    told: list[list[Flow]] = [[] for _ in parts]
    holders = {
        one.key: number
        for number, part in enumerate(parts)
        for each in part
        for one in each.outcomes
        if one.change is not Change.NONE
    }
    for flow in find_flows([one for part in parts for one in part], snapshot):
        told[holders.get(subject(flow), otherwise)].append(flow)
    return told


def subject(flow: Flow) -> Key:
    """Return the resource that a flow is told with: the Configuration, or the destination that moves."""
    configuration, colon, _ = flow.destination.partition(":")
    if flow.configuration or colon:
        return Key("Configuration", flow.configuration or configuration)
    return Key("Destination", flow.destination)


def _ended(decided: Iterable[Decided], snapshot: StoreSnapshot) -> Iterator[Flow]:
    """Yield the flows of the Configurations that are deleted."""
    keys = sorted(
        one.key
        for each in decided
        for one in each.outcomes
        if one.change is Change.DELETE and one.key is not None and one.key.kind == "Configuration"
    )
    if not keys:
        return
    uses = ComponentUses(snapshot, written={})
    past = snapshot.view.past_routes(snapshot.project)
    for start in range(0, len(keys), BATCH):
        found = snapshot.view.documents(snapshot.project, keys[start : start + BATCH])
        for key, before in sorted(found.items()):
            remembered = past.get(key.name)
            known = None if remembered is None else msgspec.json.decode(remembered, type=Past)
            delivered = delivery.delivering_before(key, before, uses, known)
            yield from flows.compare(key.name, delivered, NOTHING, reason=DELETED)


def _moved(decided: Sequence[Decided], snapshot: StoreSnapshot, written: Mapping[Key, Desired]) -> Iterator[Flow]:
    """Yield the destinations that something delivers to, and whose endpoint changes."""
    view, project = snapshot.view, snapshot.project
    lookup = TypeLookup(view, project=project, coming={})
    names = delivery.moved_endpoints(view, project=project, written=written, lookup=lookup)
    told = {key: each for one in decided for key, each in one.standing.delivery.items()}
    for name in names:
        configuration, colon, _ = name.partition(":")
        if colon:
            users = {Key("Configuration", configuration)}
        else:
            target = Key("Destination", name)
            users = {key for key in view.referrers(project, [target]).get(target, ()) if key.kind == "Configuration"}
        if any(_delivers(told[key]) for key in users if key in told) or _any_delivers(users - told.keys(), snapshot):
            yield Flow(change=FlowChange.MOVED, destination=name)


def _any_delivers(configurations: set[Key], snapshot: StoreSnapshot) -> bool:
    """Tell if one of these stored Configurations delivers by its present version; many may name one destination."""
    keys = sorted(configurations)
    for start in range(0, len(keys), BATCH):
        found = snapshot.view.documents(snapshot.project, keys[start : start + BATCH])
        if any(_delivers(rendering.delivery(one.status)) for one in found.values()):
            return True
    return False


def _delivers(said: Delivery | None) -> bool:
    return said is not None and not said.reason and said.stale is None
