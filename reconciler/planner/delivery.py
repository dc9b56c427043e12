"""Delivery: `status.delivery` of Configurations after a change, and their last good routes.

A changed component affects its Configurations only by the fields that decide if they deliver: its type, `disabled` and
its processors. A Destination also affects Configurations whose last good route leads to it. So a new password of a
Destination costs nothing here, even if many Configurations name it.

The last good route of a Configuration stays in use while the present version wants records but cannot deliver them,
since something in it is wrong or not supported. A webhook that the present version removes or disables is removed from
the route. A webhook to which a later version gives another endpoint or other headers is held: nothing is sent to it any
more, and its records wait until a version delivers. It stays held, whatever later versions say.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import cached_property, partial
from typing import NamedTuple

import msgspec
from msgspec import structs

from reconciler.model import builtins, components, flows, rendering, routes
from reconciler.model.desired import Desired
from reconciler.model.flows import NOTHING, Delivering, Flow
from reconciler.model.names import Key
from reconciler.model.rendering import Delivery, Stale
from reconciler.model.routes import ComponentUse, RouteVerdict, Use
from reconciler.model.type_checks import Lookup
from reconciler.model.values import Value
from reconciler.planner import stored
from reconciler.planner.stored import StoreSnapshot
from reconciler.store.contract import Damaged, PlanningView
from reconciler.store.records import PastRouteRow, StoredDocument

HELD = (
    "Its last good route is not used either, since a later version names another endpoint or other headers: records "
    "wait in the queue until a version can deliver."
)

WANTED_SECONDS = 600  # after its last change, for which senders keep what only such a Configuration wants


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """The last route of a Configuration that delivered, kept as long as its present version does not.

    `id` is the resource's: one that is deleted and created again did not deliver before. `version` is the last that
    delivered, `since` when the present one could not, `at` its last change that concerns delivery; both are RFC 3339.
    `uses` are the webhooks of the route with the version of each Destination that is in force, 0 for one in place,
    whose version is the Configuration's; none when the route has ended. `held` are those of them that nothing is sent
    to.
    """

    id: str
    version: int
    since: str
    at: str
    uses: tuple[tuple[str, int], ...] = ()
    held: tuple[str, ...] = ()

    @property
    def sends(self) -> bool:
        """True if it still sends to one of its webhooks."""
        return any(name not in self.held for name, _ in self.uses)


def wanted_until(past: Past) -> int:
    """Return the time in Unix milliseconds until which senders should keep records that only this Configuration
    wants.
    """
    return int(datetime.fromisoformat(past.at).timestamp() * 1000) + WANTED_SECONDS * 1000


def told(verdict: RouteVerdict, past: Past | None = None) -> Delivery:
    """Return the status of a Configuration, by the verdict on its present version and its last good route."""
    reason, _, runs_on, left_out = verdict
    said = Delivery(reason, None, runs_on, left_out)
    if not reason or past is None or not past.uses:
        return said
    if past.sends:
        return said._replace(reason="", stale=Stale(past.version, past.since, reason))
    return said._replace(reason=f"{reason} {HELD}")


def route_after(past: Past, wanted: Iterable[Use], *, leads_elsewhere: Callable[[str, Use], bool]) -> Past:
    """Return what a change leaves of a route, for a Configuration that now wants records at these webhooks.

    `leads_elsewhere` compares a webhook of the route, by its name, with its present form.
    """
    left, held = [], []
    for name, version in past.uses:
        now = _present_uses(name, wanted)
        if now:
            left.append((name, version))
            if name in past.held or all(leads_elsewhere(name, use) for use in now):
                held.append(name)
    return structs.replace(past, uses=tuple(left), held=tuple(held))


def route_without(past: Past, name: str) -> Past:
    """Return the same without one of its webhooks."""
    uses = tuple(use for use in past.uses if use[0] != name)
    return structs.replace(past, uses=uses, held=tuple(one for one in past.held if one != name))


def _present_uses(name: str, wanted: Iterable[Use]) -> list[Use]:
    """Find the present form of a webhook of the route. One in place may have lost its `id`, which is an error and no
    decision.
    """
    configuration, colon, _ = name.partition(":")
    known = [use for use in wanted if use.name == name]
    return known or [use for use in wanted if colon and use.name == f"{configuration}:"]


class Asked(NamedTuple):
    """A Configuration after the change: its spec, and if it is complete. `stored` is the stored document; None if this
    change writes it.
    """

    spec: Value
    ready: bool
    stored: StoredDocument | None = None


class ComponentUses:
    """The components that Configurations name, before and after a change that stores `written`. Each is read once."""

    def __init__(self, snapshot: StoreSnapshot, *, written: Mapping[Key, Desired]) -> None:
        self._snapshot = snapshot
        self._written = written
        self._before: dict[Key, ComponentUse | None] = {}
        self._after: dict[Key, ComponentUse | None] = {}

    def after(self, key: Key) -> ComponentUse | None:
        """Return a component after the change; None if it cannot be read."""
        if key not in self._after:
            written = self._written.get(key)
            self._after[key] = self.before(key) if written is None else routes.component_use(written.document()["spec"])
        return self._after[key]

    def before(self, key: Key) -> ComponentUse | None:
        """Return a stored or built-in component; None if it cannot be read."""
        if key not in self._before:
            present = self._snapshot.view.documents(self._snapshot.project, [key]).get(key)
            if present is not None:
                self._before[key] = stored_part(key, present)
            else:
                spec = builtins.spec(key)
                self._before[key] = None if spec is None else routes.component_use(spec)
        return self._before[key]


class DeliveryStatuses:
    """The delivery of Configurations after a change that stores `written`. `past_routes` are the rows of their last
    good routes, `flows` the changes of delivery.
    """

    def __init__(self, snapshot: StoreSnapshot, *, written: Mapping[Key, Desired], lookup: Lookup) -> None:
        self._snapshot = snapshot
        self._written = written
        self._lookup = lookup
        # A dry run does not compare secrets with stored ones, because the answer would reveal the result.
        self._compared = [name for name in routes.WHERE if not (snapshot.hide_guesses and name == "headers")]
        self._parts = ComponentUses(snapshot, written=written)
        self.past_routes: list[PastRouteRow] = []
        self.flows: list[Flow] = []

    def answers(self, asked: Mapping[Key, Asked]) -> dict[Key, Delivery]:
        """Return for each of these Configurations if it delivers after the change."""
        verdicts = {
            key: routes.route_verdict(key.name, one.spec, ready=one.ready, known=self._parts.after)
            for key, one in asked.items()
        }
        before = dict(self._snapshot.documents([key for key, one in asked.items() if one.stored is None]))
        return {
            key: self._answer(key, one, verdicts[key], before=one.stored or before.get(key))
            for key, one in asked.items()
        }

    def _answer(self, key: Key, asked: Asked, verdict: RouteVerdict, *, before: StoredDocument | None) -> Delivery:
        known = self._past.get(key.name)
        said = None if before is None else rendering.delivery(before.status)
        delivered = NOTHING if before is None else delivering_before(key, before, self._parts, known)
        if not verdict.reason:
            if known is not None:
                self.past_routes.append(PastRouteRow(self._snapshot.project, key.name, 0, None))
            names = tuple(use.name for use in verdict.webhooks)
            self._compare(key, delivered, Delivering(names, routes.labels(asked.spec)))
            return told(verdict)
        past = None
        if before is not None and said is not None:
            with suppress(Damaged):  # of what nobody can read, nobody can say which route was good
                past = self._past_of(key, before, known=known, delivered=not said.reason)
        if past is None:
            self._compare(key, delivered, NOTHING, reason=verdict.reason)
            return told(verdict)
        wanted = routes.wants(key.name, asked.spec, self._parts.after)
        leads_elsewhere = partial(self._leads_elsewhere, key, past, asked)
        left = route_after(past, wanted, leads_elsewhere=leads_elsewhere)
        delivery = told(verdict, left)
        names = tuple(name for name, _ in left.uses if name not in left.held)
        self._compare(key, delivered, Delivering(names, delivered.labels, left.version), reason=verdict.reason)
        if left != known or delivery != said or asked.stored is None:
            left = structs.replace(left, at=self._snapshot.at)
            row = PastRouteRow(self._snapshot.project, key.name, int(bool(left.uses)), msgspec.json.encode(left))
            self.past_routes.append(row)
        return delivery

    def _compare(self, key: Key, before: Delivering, after: Delivering, *, reason: str = "") -> None:
        self.flows += flows.compare(key.name, before, after, reason=reason)

    @cached_property
    def _past(self) -> dict[str, Past]:
        """The remembered routes, by the names of the Configurations."""
        found = self._snapshot.view.past_routes(self._snapshot.project)
        return {name: msgspec.json.decode(past, type=Past) for name, past in found.items()}

    def _past_of(self, key: Key, before: StoredDocument, *, known: Past | None, delivered: bool) -> Past | None:
        """Return the last good route of a Configuration: the stored one, or that of its delivery before the change.
        Raises Damaged.
        """
        body = stored.masked_document(key, before)
        identity = rendering.identity_of(body)
        if known is not None and known.id == identity.id:
            return known
        found = routes.route_verdict(key.name, body["spec"], ready=not before.incomplete, known=self._parts.before)
        if not delivered or found.reason:
            return None
        named = [use.key for use in found.webhooks if use.key is not None]
        present = self._snapshot.view.stored(self._snapshot.project, named)
        uses = tuple((use.name, 0 if use.key is None else present[use.key].version) for use in found.webhooks)
        at = self._snapshot.at
        return Past(id=identity.id, version=identity.version, since=at, at=at, uses=uses)

    def _leads_elsewhere(self, key: Key, past: Past, asked: Asked, name: str, now: Use) -> bool:
        """Return True if this change moves a webhook of the route, or if its former address is unknown."""
        if now.key is not None and now.key in self._written:
            later = components.given_parameters(self._written[now.key].document()["spec"])
        elif now.key is None and asked.stored is None:
            later = now.given
        else:
            return False
        component_type = self._lookup(routes.WEBHOOK_TYPE)
        good = given_at(self._snapshot.view, self._snapshot.project, key.name, past, name)
        if component_type is None or good is None:
            return True
        return routes.leads_elsewhere(good, later, component_type, names=self._compared)

    def concerned(self) -> Iterator[tuple[Key, StoredDocument]]:
        """Yield the stored Configurations, except written ones, whose delivery may change."""
        components_written = [key for key in self._written if key.kind in components.KINDS]
        before = self._snapshot.documents(components_written)
        changed = [key for key, one in before if stored_part(key, one) != self._parts.after(key)]
        users = self._snapshot.users(changed)
        # A Configuration may use a processor through one of its components.
        users |= self._snapshot.users([key for key in users if key.kind in components.KINDS])
        destinations = {key.name for key in self._written if key.kind == "Destination"}
        for name, past in self._past.items() if destinations else ():
            if any(use in destinations and use not in past.held for use, _ in past.uses):
                users.add(Key("Configuration", name))
        users = {key for key in users if key.kind == "Configuration"}
        yield from self._snapshot.documents(users - self._written.keys())


def delivering_before(key: Key, before: StoredDocument, uses: ComponentUses, known: Past | None) -> Delivering:
    """Return the delivery of a stored Configuration. `known` is its last good route, if one is stored."""
    said = rendering.delivery(before.status)
    if said is None or said.reason:
        return NOTHING
    with suppress(Damaged):
        spec = stored.masked_document(key, before)["spec"]
        if said.stale is not None:
            if known is None:
                return NOTHING
            names = tuple(name for name, _ in known.uses if name not in known.held)
            return Delivering(names, routes.labels(spec), known.version)
        verdict = routes.route_verdict(key.name, spec, ready=not before.incomplete, known=uses.before)
        return Delivering(tuple(use.name for use in verdict.webhooks), routes.labels(spec))
    return NOTHING


def given_at(view: PlanningView, project: str, configuration: str, past: Past, name: str) -> list[Value] | None:
    """Return the former parameters of a webhook of a last good route, with secrets in clear text; None if they are
    unknown.
    """
    _, colon, given_id = name.partition(":")
    key = Key("Configuration", configuration) if colon else Key("Destination", name)
    number = past.version if colon else dict(past.uses)[name]
    version = next(view.versions(project, key, number=number), None)
    if version is None:
        return None
    with suppress(Damaged):
        spec = stored.document_in_clear(key, version)["spec"]
        component = routes.in_place(spec, given_id) if colon else spec
        return components.given_parameters(component) if routes.is_webhook(routes.component_use(component)) else None
    return None


def stored_part(key: Key, before: StoredDocument) -> ComponentUse | None:
    """Return the fields of a stored component that decide about delivery; None if it cannot be read."""
    with suppress(Damaged):
        return routes.component_use(stored.masked_document(key, before)["spec"])
    return None
