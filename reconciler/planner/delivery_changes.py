"""Changes of delivery by one change: flows that stop, start, move or become stale, and webhooks with a new address."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

import msgspec

from reconciler.model import flows, rendering, routes
from reconciler.model.desired import Desired
from reconciler.model.flows import NOTHING, Flow, FlowChange
from reconciler.model.names import Key
from reconciler.model.outcomes import Change
from reconciler.model.rendering import Delivery
from reconciler.model.routes import Endpoints
from reconciler.model.values import Value
from reconciler.planner import delivery, stored
from reconciler.planner.decisions import Decided
from reconciler.planner.delivery import ComponentUses, Past
from reconciler.planner.stored import StoreSnapshot, TypeLookup
from reconciler.store.contract import Damaged

ADDRESS = tuple(name for name in routes.WHERE if name != "headers")  # the parameters that say where records go
DELETED = "the Configuration is deleted"


def find_flows(decided: Sequence[Decided], snapshot: StoreSnapshot) -> tuple[Flow, ...]:
    """Return the changes of delivery, the gravest first. Call it inside the snapshot of the decision.

    Raises StoreFault.
    """
    found = [flow for one in decided for flow in one.standing.flows]
    found += _ended(decided, snapshot)
    found += _moved(decided, snapshot)
    return flows.in_order(found)


def subject(flow: Flow) -> Key:
    """Return the resource that a flow is reported with: the Configuration, or the destination that moves."""
    configuration, colon, _ = flow.destination.partition(":")
    if flow.configuration or colon:
        return Key("Configuration", flow.configuration or configuration)
    return Key("Destination", flow.destination)


def _ended(decided: Iterable[Decided], snapshot: StoreSnapshot) -> Iterator[Flow]:
    """Yield the flows of the Configurations that are deleted."""
    keys = [key for key, document in _changed(decided).items() if document is None and key.kind == "Configuration"]
    if not keys:
        return
    uses = ComponentUses(snapshot, written={})
    past = snapshot.view.past_routes(snapshot.project)
    for key, before in snapshot.documents(keys):
        remembered = past.get(key.name)
        known = None if remembered is None else msgspec.json.decode(remembered, type=Past)
        delivered = delivery.delivering_before(key, before, uses, known)
        yield from flows.compare(key.name, delivered, NOTHING, reason=DELETED)


def _moved(decided: Sequence[Decided], snapshot: StoreSnapshot) -> Iterator[Flow]:
    """Yield the used destinations whose address changes."""
    lookup = TypeLookup(snapshot.view, project=snapshot.project, coming={})
    told = {key: each for one in decided for key, each in one.standing.delivery.items()}
    for name, good, after in _endpoints_changed(decided, snapshot):
        later = after.get(name)
        component_type = lookup(routes.WEBHOOK_TYPE)
        if good is None or later is None or component_type is None:
            continue
        if not routes.leads_elsewhere(good, later, component_type, names=ADDRESS):
            continue
        configuration, colon, _ = name.partition(":")
        if colon:
            users = {Key("Configuration", configuration)}
        else:
            users = {key for key in snapshot.users([Key("Destination", name)]) if key.kind == "Configuration"}
        others = snapshot.documents(users - told.keys())
        if any(_delivers(told[key]) for key in users if key in told) or any(
            _delivers(rendering.delivery(one.status)) for _, one in others
        ):
            yield Flow(change=FlowChange.MOVED, destination=name)


def _delivers(said: Delivery | None) -> bool:
    return said is not None and not said.reason and said.stale is None


def changed_endpoints(decided: Iterable[Decided], snapshot: StoreSnapshot) -> tuple[str, ...]:
    """Return the names of stored webhooks that a change deletes, disables or moves to another address, sorted. It also
    has webhooks that a Configuration no longer names, even if another one still names them.
    """
    lookup = TypeLookup(snapshot.view, project=snapshot.project, coming={})
    found = {
        name
        for name, good, after in _endpoints_changed(decided, snapshot)
        if name not in after or routes.is_another_endpoint(good, after[name], lookup)
    }
    return tuple(sorted(found))


def _endpoints_changed(
    decided: Iterable[Decided], snapshot: StoreSnapshot
) -> Iterator[tuple[str, list[Value] | None, Endpoints]]:
    """Yield each stored webhook of changed resources with its parameters, and the resource's webhooks afterwards."""
    changed = {key: one for key, one in _changed(decided).items() if key.kind in ("Configuration", "Destination")}
    for key, before in snapshot.documents(changed):
        document = changed[key]
        after = {} if document is None else routes.endpoints(key, document.document()["spec"])
        good: Endpoints = {key.name: None}  # of a damaged one, whose route may still be in use
        with suppress(Damaged):
            good = routes.endpoints(key, stored.document_in_clear(key, before)["spec"])
        for name, parameters in good.items():
            yield name, parameters, after


def _changed(decided: Iterable[Decided]) -> dict[Key, Desired | None]:
    """Return the resources that are updated, with their documents, and those that are deleted, with None."""
    found: dict[Key, Desired | None] = {}
    for one in decided:
        for outcome in one.outcomes:
            if outcome.key is not None and outcome.change is Change.UPDATE:
                found[outcome.key] = one.document(outcome)
            elif outcome.key is not None and outcome.change is Change.DELETE:
                found[outcome.key] = None
    return found
