"""Dependants: resources that a change makes incomplete or complete, and Configurations whose delivery it changes.

A resource is incomplete when parameters of its components do not fit their types, or when it names a component that is
incomplete. Nothing is refused here. The cost follows what the change touches: users of a changed type or extension,
and, upwards from each resource that becomes incomplete or complete, those that name it.

`status.delivery` of a Configuration is decided anew only if a fact changed that decides about it: of a component its
type, `disabled` and its processors; of a Destination also its endpoint, if the last good route leads there. So another
password of a destination costs nothing here, however many Configurations name it.
"""

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec import structs

from reconciler.model import builtins, components, rendering, routes, stale_routes, type_checks, violations
from reconciler.model.desired import Desired
from reconciler.model.names import Key
from reconciler.model.rendering import Delivery
from reconciler.model.routes import ComponentUse, Use
from reconciler.model.stale_routes import Past
from reconciler.model.type_checks import Fit, Lookup
from reconciler.model.values import Pointer, Value, pointer_text
from reconciler.planner import resolving, stored
from reconciler.planner.resolving import BlindTypes
from reconciler.planner.stored import StoreSnapshot, TypeLookup
from reconciler.store.contract import BATCH, Damaged, PlanningView
from reconciler.store.records import HeadStatusRow, PastRouteRow, StoredDocument


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
        """Return True if this change alters the endpoint of a webhook of the route, or if its former endpoint is
        unknown.
        """
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
    """Return the former parameters of a webhook of a last good route, secrets in clear; None if they are unknown."""
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


Lines: TypeAlias = tuple[str, ...]

MOST_CAUSES = 10  # of one resource that becomes incomplete
MOST_PLACES = 100  # violations of one resource whose cause is looked for

JUDGES = components.TYPES | {"Extension"}
"""The kinds that say what fits: a type of its components, an Extension of the webhooks that keep their queues there."""


@dataclass(frozen=True, slots=True)
class DependantState:
    """The lines that each resource's status lists under `incomplete`; `owners` are the repositories whose resources
    changed so.

    `written` has the lines of what the change stores, where there are any. `stored` has those of what it does not
    store, but whose status changes; `rows` are theirs. `delivery` has, of every Configuration among both, whether it
    delivers; `past_routes` are the rows that go with that. `made_incomplete` has, of what the change stores, which
    others become incomplete by it, in order.
    """

    written: Mapping[Key, Lines] = field(default_factory=dict)
    stored: Mapping[Key, Lines] = field(default_factory=dict)
    rows: tuple[HeadStatusRow, ...] = ()
    owners: frozenset[str] = frozenset()
    delivery: Mapping[Key, Delivery] = field(default_factory=dict)
    past_routes: tuple[PastRouteRow, ...] = ()
    made_incomplete: Mapping[Key, tuple[Key, ...]] = field(default_factory=dict)


NOTHING = DependantState()


class DependantSearch:
    """Finds the standing of everything that storing `written` touches. `judging` are the types that judge it."""

    def __init__(
        self,
        written: Mapping[Key, tuple[Desired, Fit]],
        snapshot: StoreSnapshot,
        *,
        lookup: TypeLookup,
        judging: BlindTypes,
    ) -> None:
        self._snapshot = snapshot
        self._judging = judging
        self._written = {key: document for key, (document, _) in written.items()}
        self._type_of = stored.types_after(self._written, lookup.of_extension)
        self._delivering = DeliveryStatuses(snapshot, written=self._written, lookup=lookup)
        self._stored: dict[Key, StoredDocument] = {}  # those whose standing may change
        self._documents: dict[Key, dict[str, Value]] = {}
        self._own: dict[Key, Lines] = {
            key: resolving.unresolved_lines(fit.violations) if fit.violations else ()
            for key, (_, fit) in written.items()
        }
        self._wrong: dict[Key, list[Pointer]] = {}  # where, of what is stored and was whole
        self._named_by: dict[Key, list[Key]] = defaultdict(list)  # of the components that what is written names
        for key, document in self._written.items():
            for target in document.references:
                if target.kind in components.KINDS:
                    self._named_by[target].append(key)

    def find(self, incomplete: Iterable[Key], doubtful: Collection[Key]) -> DependantState:
        """Find them. `incomplete` are those of `written` that were so before; `doubtful` are stored resources that are
        judged again whatever is written.
        """
        self._spread(incomplete, doubtful)
        return self._settled()

    def _spread(self, incomplete: Iterable[Key], doubtful: Collection[Key]) -> None:
        """Gather the users of what judges, then, from whatever was or is incomplete, all that names it."""
        toggled = {key for key, own in self._own.items() if own}
        toggled |= self._written.keys() & set(incomplete)
        toggled |= {key for target in self._incomplete(self._named_by) for key in self._named_by[target]}
        toggled |= self._judge(self._users([key for key in self._written if key.kind in JUDGES]))
        toggled |= self._judge(doubtful)
        fresh = toggled
        while fresh:
            users = self._users(fresh)
            self._judge(users)
            # A resource that names a changed one may change too, and so on upwards.
            users |= {key for target in fresh for key in self._named_by.get(target, ())}
            fresh = users - toggled
            toggled |= users

    def _users(self, targets: Iterable[Key]) -> set[Key]:
        found = self._snapshot.view.referrers(self._snapshot.project, targets)
        return {user for users in found.values() for user in users}

    def _judge(self, keys: Collection[Key]) -> set[Key]:
        """Judge these stored resources; those that were or are incomplete."""
        snapshot = self._snapshot
        # A difference of sets would look at all that is written, once in every step of a chain.
        fresh = {key for key in keys if key not in self._written and key not in self._stored}
        for key, one in sorted(snapshot.view.documents(snapshot.project, fresh).items()):
            with suppress(Damaged):  # of what nobody can read, nothing new can be said
                document = stored.document_in_clear(key, one)
                lookup = self._judging.of(document, stored.held_secrets(key, one))
                fit = type_checks.fit(
                    document, lookup, available=snapshot.available, refuse_unknown=snapshot.refuse_unknown
                )
                fit = type_checks.with_storages(fit, document, self._type_of)
                self._own[key] = resolving.unresolved_lines(fit.violations)
                if not one.incomplete:
                    self._wrong[key] = [each.pointer for each in fit.violations[:MOST_PLACES]]
                self._stored[key] = one
                self._documents[key] = document
        return {key for key in fresh & self._stored.keys() if self._own[key] or self._stored[key].incomplete}

    def _settled(self) -> DependantState:
        """Find the least set of incomplete resources: two that name each other do not keep each other incomplete."""
        named_by = defaultdict(list, {target: list(users) for target, users in self._named_by.items()})
        for key in self._stored:
            for target in {one.key for one in components.references(self._documents[key])}:
                if target.kind in components.KINDS:
                    named_by[target].append(key)
        unsettled = [key for key, own in self._own.items() if own]
        unsettled += self._incomplete(named_by)
        incomplete: set[Key] = set()
        while unsettled:
            key = unsettled.pop()
            if key not in incomplete:
                incomplete.add(key)
                unsettled += named_by[key]
        made_incomplete = self._caused(incomplete, named_by)
        written = {key: self._lines(key, incomplete) for key in incomplete if key in self._written}
        lines = {key: self._lines(key, incomplete) if key in incomplete else () for key in sorted(self._stored)}
        delivery = self._delivery(lines, incomplete)
        before = {key: self._stored[key] for key in lines}
        restated = {key for key in lines if lines[key] != rendering.incomplete(before[key].status)}
        owners = {before[key].owner for key in restated}
        restated |= {key for key in lines if delivery.get(key) != rendering.delivery(before[key].status)}
        changed = {key: lines[key] for key in lines if key in restated}
        return DependantState(
            written=written,
            stored=changed,
            rows=tuple(self._row(key, each, delivery.get(key)) for key, each in changed.items()),
            owners=frozenset(owner for owner in owners if owner is not None),
            delivery=delivery,
            past_routes=tuple(self._delivering.past_routes),
            made_incomplete=made_incomplete,
        )

    def _caused(self, incomplete: set[Key], named_by: Mapping[Key, Sequence[Key]]) -> dict[Key, tuple[Key, ...]]:
        """Of what is written, the stored resources that were whole and become incomplete by it."""
        fresh = sorted(incomplete & self._wrong.keys())
        if not fresh:
            return {}
        causes: dict[Key, list[Key]] = defaultdict(list)
        todo = deque((key, key) for key in sorted(incomplete & self._written.keys()))
        todo.extend((key, judge) for key in fresh for judge in self._judged_by(key))
        while todo:
            key, cause = todo.popleft()
            if cause in causes[key] or len(causes[key]) >= MOST_CAUSES:
                continue
            causes[key].append(cause)
            users = set(named_by.get(key, ()))
            todo.extend((user, cause) for user in sorted(users & incomplete) if user not in self._written)
        found: dict[Key, list[Key]] = defaultdict(list)
        for key in fresh:
            for cause in causes[key]:
                found[cause].append(key)
        return {cause: tuple(keys) for cause, keys in found.items()}

    def _judged_by(self, key: Key) -> list[Key]:
        """Find what is written and says that a stored resource is wrong: for each place what is named next to it."""
        named = [
            one
            for one in components.references(self._documents[key])
            if one.key.kind in JUDGES and one.key in self._written
        ]
        judges = set()
        for pointer in self._wrong[key] if named else ():
            near = [_shared(pointer, one.pointer) for one in named]
            judges |= {one.key for one, shared in zip(named, near, strict=True) if shared == max(near)}
        return sorted(judges)

    def _incomplete(self, targets: Iterable[Key]) -> list[Key]:
        """Those of the targets that are incomplete and stay so, since this change does not touch them."""
        untouched = [key for key in targets if key not in self._own]
        found = self._snapshot.view.stored(self._snapshot.project, untouched)
        return [key for key, one in found.items() if one.incomplete]

    def _delivery(self, lines: dict[Key, Lines], incomplete: set[Key]) -> dict[Key, Delivery]:
        """Tell of each Configuration that is written or judged here whether it delivers; others that have another
        answer than before are added to `lines`.
        """
        told = self._delivering.answers(
            {
                key: Asked(self._document(key)["spec"], key not in incomplete, self._stored.get(key))
                for key in (*self._written, *lines)
                if key.kind == "Configuration"
            }
        )
        others = {}
        for key, one in self._delivering.concerned():
            with suppress(Damaged):
                if key not in told:
                    others[key] = Asked(stored.masked_document(key, one)["spec"], not one.incomplete, one)
        for key, delivery in self._delivering.answers(others).items():
            before = others[key].stored
            if before is not None and delivery != rendering.delivery(before.status):
                told[key] = delivery
                self._stored[key] = before
                lines[key] = rendering.incomplete(before.status)
        return told

    def _lines(self, key: Key, incomplete: set[Key]) -> Lines:
        named = [one for one in components.references(self._document(key)) if one.key in incomplete]
        told = (
            f"{pointer_text(one.pointer)}: the {resolving.which_reference(one)} is incomplete; complete it"
            for one in named
        )
        return tuple(violations.bounded((*self._own[key], *told)))

    def _document(self, key: Key) -> dict[str, Value]:
        return self._written[key].document() if key in self._written else self._documents[key]

    def _row(self, key: Key, lines: Lines, delivery: Delivery | None) -> HeadStatusRow:
        status = rendering.with_standing(key.kind, self._stored[key].status, incomplete=lines, delivery=delivery)
        return HeadStatusRow(self._snapshot.project, key.kind, key.name, int(bool(lines)), status)


def _shared(one: Pointer, other: Pointer) -> int:
    """Count the steps that two pointers have in common from the root."""
    return next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), len(one))
