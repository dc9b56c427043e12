"""Delivery: `status.delivery` of Configurations once a change is made, and the last good routes that it leaves.

A component concerns the Configurations that use it only when that changes of it which decides whether they deliver: its
type, whether it is disabled, its processors; and a Destination those whose last good route goes there. So another
password of a destination costs nothing here, however many name it.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from functools import cached_property, partial
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec import structs

from reconciler.model import builtins, components, rendering, routes, stale_routes
from reconciler.model.desired import Desired
from reconciler.model.names import Key
from reconciler.model.rendering import Delivery
from reconciler.model.routes import ComponentUse, Use
from reconciler.model.stale_routes import Past
from reconciler.model.type_checks import Lookup
from reconciler.model.values import Value
from reconciler.planner import stored
from reconciler.planner.stored import StoreSnapshot
from reconciler.store.contract import BATCH, Damaged, PlanningView
from reconciler.store.records import PastRouteRow, StoredDocument


class Asked(NamedTuple):
    """A Configuration as it will be: its spec, and whether it is complete. `stored` is what is stored of it, None for
    one that this change writes.
    """

    spec: Value
    ready: bool
    stored: StoredDocument | None = None


class DeliveryStatuses:
    """Answers for one change that stores `written`. `past_routes` are the rows that go with the answers."""

    def __init__(self, snapshot: StoreSnapshot, *, written: Mapping[Key, Desired], lookup: Lookup) -> None:
        self._snapshot = snapshot
        self._written = written
        self._lookup = lookup
        # In a dry run it is not compared whether a secret is the stored one, lest the answer tell.
        self._compared = [name for name in routes.WHERE if not (snapshot.hide_guesses and name == "headers")]
        self._parts: dict[Key, ComponentUse | None] = {}
        self._parts_before: dict[Key, ComponentUse | None] = {}
        self.past_routes: list[PastRouteRow] = []

    def answers(self, asked: Mapping[Key, Asked]) -> dict[Key, Delivery]:
        """Tell of each of these Configurations whether it delivers then."""
        reasons = {
            key: routes.route_verdict(key.name, one.spec, ready=one.ready, known=self._part).reason
            for key, one in asked.items()
        }
        written = [key for key, reason in reasons.items() if reason and asked[key].stored is None]
        before = dict(self._documents(written))
        return {
            key: self._answer(key, one, reasons[key], before=one.stored or before.get(key))
            for key, one in asked.items()
        }

    def _answer(self, key: Key, asked: Asked, reason: str, *, before: StoredDocument | None) -> Delivery:
        known = self._past.get(key.name)
        if not reason:
            if known is not None:
                self.past_routes.append(PastRouteRow(self._snapshot.project, key.name, 0, None))
            return Delivery()
        said = None if before is None else rendering.delivery(before.status)
        past = None
        if before is not None and said is not None:
            with suppress(Damaged):  # of what nobody can read, nobody can say which route was good
                past = self._past_of(key, before, known=known, delivered=not said.reason)
        if past is None:
            return Delivery(reason)
        wanted = routes.wants(key.name, asked.spec, self._part)
        leads_elsewhere = partial(self._leads_elsewhere, key, past, asked)
        left = stale_routes.after(past, wanted, leads_elsewhere=leads_elsewhere)
        delivery = stale_routes.told(reason, left)
        if left != known or delivery != said or asked.stored is None:
            left = structs.replace(left, at=self._snapshot.at)
            row = PastRouteRow(self._snapshot.project, key.name, int(bool(left.uses)), msgspec.json.encode(left))
            self.past_routes.append(row)
        return delivery

    @cached_property
    def _past(self) -> dict[str, Past]:
        """The remembered routes, by the names of the Configurations."""
        found = self._snapshot.view.past_routes(self._snapshot.project)
        return {name: msgspec.json.decode(past, type=Past) for name, past in found.items()}

    def _past_of(self, key: Key, before: StoredDocument, *, known: Past | None, delivered: bool) -> Past | None:
        """Return what is remembered of this Configuration, or is to be, since it delivered before. Raises Damaged."""
        body = stored.masked_document(key, before)
        identity = rendering.identity_of(body)
        if known is not None and known.id == identity.id:
            return known
        found = routes.route_verdict(key.name, body["spec"], ready=not before.incomplete, known=self._part_before)
        if not delivered or found.reason:
            return None
        named = [use.key for use in found.webhooks if use.key is not None]
        present = self._snapshot.view.stored(self._snapshot.project, named)
        uses = tuple((use.name, 0 if use.key is None else present[use.key].version) for use in found.webhooks)
        at = self._snapshot.at
        return Past(id=identity.id, version=identity.version, since=at, at=at, uses=uses)

    def _leads_elsewhere(self, key: Key, past: Past, asked: Asked, name: str, now: Use) -> bool:
        """Return True when a webhook of the route leads elsewhere by this change, or nobody can say where it led."""
        if now.key is not None and now.key in self._written:
            later = routes.given(self._written[now.key].document()["spec"])
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
        """Yield the stored Configurations, none of those that are written, that may have another answer than before."""
        components_written = [key for key in self._written if key.kind in components.KINDS]
        changed = [key for key, one in self._documents(components_written) if _stored_part(key, one) != self._part(key)]
        users = self._users(changed)
        # A processor may be named by a component that a Configuration names.
        users |= self._users([key for key in users if key.kind in components.KINDS])
        destinations = {key.name for key in self._written if key.kind == "Destination"}
        for name, past in self._past.items() if destinations else ():
            if any(use in destinations and use not in past.held for use, _ in past.uses):
                users.add(Key("Configuration", name))
        yield from self._documents(sorted(key for key in users - self._written.keys() if key.kind == "Configuration"))

    def _documents(self, keys: list[Key]) -> Iterator[tuple[Key, StoredDocument]]:
        for start in range(0, len(keys), BATCH):
            found = self._snapshot.view.documents(self._snapshot.project, keys[start : start + BATCH])
            yield from sorted(found.items())

    def _users(self, targets: Collection[Key]) -> set[Key]:
        found = self._snapshot.view.referrers(self._snapshot.project, targets) if targets else {}
        return {user for users in found.values() for user in users}

    def _part(self, key: Key) -> ComponentUse | None:
        """Return a component as it will be, read once."""
        if key not in self._parts:
            after = self._written.get(key)
            self._parts[key] = (
                routes.component_use(after.document()["spec"]) if after is not None else self._part_before(key)
            )
        return self._parts[key]

    def _part_before(self, key: Key) -> ComponentUse | None:
        """Return a component as it is stored or built in, read once."""
        if key not in self._parts_before:
            before = self._snapshot.view.documents(self._snapshot.project, [key]).get(key)
            built_in = builtins.built_in().get(key)
            if before is not None:
                self._parts_before[key] = _stored_part(key, before)
            else:
                self._parts_before[key] = None if built_in is None else routes.component_use(built_in["spec"])
        return self._parts_before[key]


def given_at(view: PlanningView, project: str, configuration: str, past: Past, name: str) -> list[Value] | None:
    """Return the parameters of a webhook of a last good route, as they were, secrets in clear; None when nobody can
    say.
    """
    _, colon, given_id = name.partition(":")
    key = Key("Configuration", configuration) if colon else Key("Destination", name)
    version = view.version(project, key, past.version if colon else dict(past.uses)[name])
    if version is None:
        return None
    with suppress(Damaged):
        spec = stored.document_in_clear(key, version)["spec"]
        component = routes.in_place(spec, given_id) if colon else spec
        return routes.given(component) if routes.is_webhook(routes.component_use(component)) else None
    return None


def changed_endpoints(
    view: PlanningView, *, project: str, later: Mapping[Key, Desired | None], lookup: Lookup
) -> tuple[str, ...]:
    """Return the names of the stored webhooks that a change deletes, disables or points elsewhere, sorted. One that a
    Configuration names no more is among them, even if another one still names it.

    `later` are the resources that the change updates, and None for those that it deletes.
    """
    keys = sorted(key for key in later if key.kind in ("Configuration", "Destination"))
    found: set[str] = set()
    for start in range(0, len(keys), BATCH):
        for key, before in view.documents(project, keys[start : start + BATCH]).items():
            document = later[key]
            after = {} if document is None else _endpoints(key, document.document()["spec"])
            for name, good in _stored_endpoints(key, before).items():
                if name not in after or _is_another(good, after[name], lookup):
                    found.add(name)
    return tuple(sorted(found))


_Endpoints: TypeAlias = dict[str, list[Value] | None]
"""The enabled webhooks of a resource by their names, with their parameters; None for one that it only names."""


def _endpoints(key: Key, spec: Value) -> _Endpoints:
    if key.kind == "Destination":
        part = routes.component_use(spec)
        return {key.name: routes.given(spec)} if routes.is_webhook(part) and not part.disabled else {}
    found: _Endpoints = {}
    for component in routes.component_entries(spec.get("destinations")) if isinstance(spec, Mapping) else ():
        named = routes.component_name(component)
        if not routes.is_disabled(component) and (
            named is not None or routes.is_webhook(routes.component_use(component))
        ):
            found[named or f"{key.name}:{component.get('id')}"] = None if named else routes.given(component)
    return found


def _stored_endpoints(key: Key, before: StoredDocument) -> _Endpoints:
    with suppress(Damaged):
        return _endpoints(key, stored.document_in_clear(key, before)["spec"])
    return {key.name: None}  # the route may be older than the damage


def _is_another(good: list[Value] | None, later: list[Value] | None, lookup: Lookup) -> bool:
    if good is None or later is None:
        return good is not later
    component_type = lookup(routes.WEBHOOK_TYPE)
    return component_type is None or routes.leads_elsewhere(good, later, component_type)


def _stored_part(key: Key, before: StoredDocument) -> ComponentUse | None:
    with suppress(Damaged):
        return routes.component_use(stored.masked_document(key, before)["spec"])
    return None
