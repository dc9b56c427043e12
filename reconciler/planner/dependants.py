"""Resources that a change makes incomplete or complete, and what then delivers."""

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec import structs

from reconciler.model import builtins, components, rendering, resource, routes, stale_routes, type_checks, violations
from reconciler.model.names import Key
from reconciler.model.rendering import Delivery
from reconciler.model.resource import Draft, owned_by_user
from reconciler.model.routes import ComponentUse, Use
from reconciler.model.secret_references import AvailableSecrets
from reconciler.model.stale_routes import Past
from reconciler.model.type_checks import Fit, Lookup, TypeOf
from reconciler.model.values import Pointer, Value, pointer_text
from reconciler.planner import resolving, stored_secrets
from reconciler.planner.stored_secrets import BlindTypes
from reconciler.store.contract import Damaged, HeadStatusRow, PastRouteRow
from reconciler.store.planning_view import BATCH, PlanningView, StoredDocument

# What `status.delivery` of Configurations says once a change is made, and which last good routes it leaves.
#
# A component concerns the Configurations that use it only when that changes of it which decides whether they deliver:
# its type, whether it is disabled, its processors; and a Destination those whose last good route goes there. So another
# password of a destination costs nothing here, however many name it.


class Asked(NamedTuple):
    """A Configuration as it will be: its spec, and whether it is complete. `stored` is what is stored of it, None for
    one that this change writes.
    """

    spec: Value
    ready: bool
    stored: StoredDocument | None = None


class DeliveryStatuses:
    """Answers for one change that stores `written`, inside one snapshot of the store; `at` is when, as RFC 3339.

    `is_dry_run`: whether a secret is the stored one is not looked at, lest the answer tell. `past_routes` are the rows
    that go with the answers.
    """

    def __init__(
        self,
        view: PlanningView,
        *,
        project: str,
        at: str,
        written: Mapping[Key, Draft],
        lookup: Lookup,
        is_dry_run: bool,
    ) -> None:
        self._view = view
        self._project = project
        self._at = at
        self._written = written
        self._lookup = lookup
        self._compared = [name for name in routes.WHERE if not (is_dry_run and name == "headers")]
        self._parts: dict[Key, ComponentUse | None] = {}
        self._parts_before: dict[Key, ComponentUse | None] = {}
        self.past_routes: list[PastRouteRow] = []

    def answers(self, asked: Mapping[Key, Asked]) -> dict[Key, Delivery]:
        """Whether each of these Configurations delivers then."""
        reasons = {key: self._reason(key.name, one) for key, one in asked.items()}
        written = [key for key, reason in reasons.items() if reason and asked[key].stored is None]
        before: dict[Key, StoredDocument] = {}
        for start in range(0, len(written), BATCH):
            before |= self._view.documents(self._project, written[start : start + BATCH])
        return {
            key: self._answer(key, one, reasons[key], before=one.stored or before.get(key))
            for key, one in asked.items()
        }

    def _reason(self, name: str, asked: Asked) -> str:
        return routes.route_verdict(name, asked.spec, ready=asked.ready, known=self._part).reason

    def _answer(self, key: Key, asked: Asked, reason: str, *, before: StoredDocument | None) -> Delivery:
        known = self._past.get(key.name)
        if not reason:
            if known is not None:
                self.past_routes.append(PastRouteRow(self._project, key.name, 0, None))
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
            left = structs.replace(left, at=self._at)
            row = PastRouteRow(self._project, key.name, int(bool(left.uses)), msgspec.json.encode(left))
            self.past_routes.append(row)
        return delivery

    @cached_property
    def _past(self) -> dict[str, Past]:
        """What is remembered, by the names of the Configurations."""
        found = self._view.past_routes(self._project)
        return {name: msgspec.json.decode(past, type=Past) for name, past in found.items()}

    def _past_of(self, key: Key, before: StoredDocument, *, known: Past | None, delivered: bool) -> Past | None:
        """What is remembered of this Configuration, or is to be, since it delivered before. Raises Damaged."""
        body = stored_secrets.masked_document(key, before)
        identity = rendering.identity_of(body)
        if known is not None and known.id == identity.id:
            return known
        found = routes.route_verdict(key.name, body["spec"], ready=not before.incomplete, known=self._part_before)
        if not delivered or found.reason:
            return None
        named = [use.key for use in found.webhooks if use.key is not None]
        versions = {one: stored.version for one, stored in self._view.stored(self._project, named).items()}
        uses = tuple((use.name, 0 if use.key is None else versions[use.key]) for use in found.webhooks)
        return Past(id=identity.id, version=identity.version, since=self._at, at=self._at, uses=uses)

    def _leads_elsewhere(self, key: Key, past: Past, asked: Asked, name: str, now: Use) -> bool:
        """Whether a webhook of the route leads elsewhere by this change, or nobody can say where it led."""
        if now.key is not None and now.key in self._written:
            later = routes.given(resource.owned_by_user(self._written[now.key])["spec"])
        elif now.key is None and asked.stored is None:
            later = now.given
        else:
            return False
        component_type = self._lookup(routes.WEBHOOK_TYPE)
        good = given_at(self._view, self._project, key.name, past, name)
        if component_type is None or good is None:
            return True
        return routes.leads_elsewhere(good, later, component_type, names=self._compared)

    def concerned(self) -> Iterator[tuple[Key, StoredDocument]]:
        """The stored Configurations, none of those that are written, that may have another answer than before."""
        changed = self._changed()
        users = self._users(changed)
        # A processor may be named by a component that a Configuration names.
        users |= self._users([key for key in users if key.kind in components.KINDS])
        users |= self._with_past_route()
        keys = sorted(key for key in users - self._written.keys() if key.kind == "Configuration")
        for start in range(0, len(keys), BATCH):
            yield from sorted(self._view.documents(self._project, keys[start : start + BATCH]).items())

    def _with_past_route(self) -> set[Key]:
        """The Configurations whose last good route goes to a Destination that is written."""
        written = {key.name for key in self._written if key.kind == "Destination"}
        if not written:
            return set()
        return {
            Key("Configuration", name)
            for name, past in self._past.items()
            if any(use in written and use not in past.held for use, _ in past.uses)
        }

    def _changed(self) -> list[Key]:
        """The components whose part is another one than before."""
        keys = [key for key in self._written if key.kind in components.KINDS]
        return [
            key
            for start in range(0, len(keys), BATCH)
            for key, stored in self._view.documents(self._project, keys[start : start + BATCH]).items()
            if _stored_part(key, stored) != self._part(key)
        ]

    def _users(self, targets: Collection[Key]) -> set[Key]:
        if not targets:
            return set()
        return {user for found in self._view.referrers(self._project, targets).values() for user in found}

    def _part(self, key: Key) -> ComponentUse | None:
        """A component as it will be, read once."""
        if key not in self._parts:
            self._parts[key] = self._found(key)
        return self._parts[key]

    def _found(self, key: Key) -> ComponentUse | None:
        if key in self._written:
            return routes.component_use(resource.owned_by_user(self._written[key])["spec"])
        return self._part_before(key)

    def _part_before(self, key: Key) -> ComponentUse | None:
        """A component as it is stored, read once."""
        if key not in self._parts_before:
            self._parts_before[key] = self._stored_or_built_in(key)
        return self._parts_before[key]

    def _stored_or_built_in(self, key: Key) -> ComponentUse | None:
        stored = self._view.documents(self._project, [key]).get(key)
        if stored is not None:
            return _stored_part(key, stored)
        built_in = builtins.built_in().get(key)
        return None if built_in is None else routes.component_use(built_in["spec"])


def given_at(view: PlanningView, project: str, configuration: str, past: Past, name: str) -> list[Value] | None:
    """The parameters of a webhook of a last good route, as they were, secrets in clear; None when nobody can say."""
    _, colon, given_id = name.partition(":")
    key = Key("Configuration", configuration) if colon else Key("Destination", name)
    version = view.version(project, key, past.version if colon else dict(past.uses)[name])
    if version is None:
        return None
    with suppress(Damaged):
        spec = stored_secrets.document_in_clear(key, version)["spec"]
        component = routes.in_place(spec, given_id) if colon else spec
        return routes.given(component) if routes.is_webhook(routes.component_use(component)) else None
    return None


def changed_endpoints(
    view: PlanningView, *, project: str, later: Mapping[Key, Draft | None], lookup: Lookup
) -> tuple[str, ...]:
    """Return the names of the stored webhooks that a change deletes, disables or points elsewhere, sorted. One that a
    Configuration names no more is among them, even if another one still names it.

    `later` are the resources that the change updates, and None for those that it deletes.
    """
    keys = sorted(key for key in later if key.kind in ("Configuration", "Destination"))
    found: set[str] = set()
    for start in range(0, len(keys), BATCH):
        for key, stored in view.documents(project, keys[start : start + BATCH]).items():
            draft = later[key]
            after = {} if draft is None else _endpoints(key, resource.owned_by_user(draft)["spec"])
            for name, good in _stored_endpoints(key, stored).items():
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


def _stored_endpoints(key: Key, stored: StoredDocument) -> _Endpoints:
    with suppress(Damaged):
        return _endpoints(key, stored_secrets.document_in_clear(key, stored)["spec"])
    return {key.name: None}  # the route may be older than the damage


def _is_another(good: list[Value] | None, later: list[Value] | None, lookup: Lookup) -> bool:
    if good is None or later is None:
        return good is not later
    component_type = lookup(routes.WEBHOOK_TYPE)
    return component_type is None or routes.leads_elsewhere(good, later, component_type)


def _stored_part(key: Key, stored: StoredDocument) -> ComponentUse | None:
    with suppress(Damaged):
        return routes.component_use(stored_secrets.masked_document(key, stored)["spec"])
    return None


# Which resources are incomplete once a change is made: those that it stores, and those stored that depend on it; and
# what Configurations say of delivery then.
#
# A resource is incomplete when parameters of its components do not fit their types, or when it names a component that
# is incomplete. Nothing is refused here.
#
# The cost follows what the change touches: users of a changed type or extension, and, upwards from whatever becomes
# incomplete or complete, those that name it.

Lines = tuple[str, ...]

MOST_CAUSES = 10  # of one resource that becomes incomplete
MOST_PLACES = 100  # violations of one resource whose cause is looked for

JUDGES = components.TYPES | {"Extension"}
"""The kinds that say what fits: a type of its components, an Extension of the webhooks that keep their queues there."""


@dataclass(frozen=True, slots=True)
class DependantState:
    """What each resource's status lists under `incomplete`; `owners` are the repositories whose resources changed so.

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


def find_dependants(
    written: Mapping[Key, tuple[Draft, Fit]],
    view: PlanningView,
    *,
    project: str,
    at: str,
    lookup: Lookup,
    type_of: TypeOf,
    available: AvailableSecrets | None,
    incomplete: Iterable[Key],
    doubtful: Collection[Key] = (),
    blinding: BlindTypes | None = None,
    refuse_unknown: bool = False,
) -> DependantState:
    """The standing of everything that storing `written` touches; `incomplete` are those of it that were so before.

    `type_of` tells the types of the Extensions that are there before, `available` the secrets that may be referred to.
    `at` is when, as RFC 3339.
    `doubtful` are stored resources that are judged again whatever is written. `blinding` is for a dry run.
    `refuse_unknown` as in `type_checks.fit`.
    """
    judging = blinding or BlindTypes(lookup, frozenset())
    delivering = DeliveryStatuses(
        view,
        project=project,
        at=at,
        written={key: draft for key, (draft, _) in written.items()},
        lookup=lookup,
        is_dry_run=blinding is not None,
    )
    search = _Search(
        view,
        project=project,
        judging=judging,
        type_of=type_of,
        available=available,
        written=written,
        delivering=delivering,
        refuse_unknown=refuse_unknown,
    )
    search.spread(incomplete, doubtful)
    return search.settled()


class _Search:
    def __init__(
        self,
        view: PlanningView,
        *,
        project: str,
        judging: BlindTypes,
        type_of: TypeOf,
        available: AvailableSecrets | None,
        written: Mapping[Key, tuple[Draft, Fit]],
        delivering: DeliveryStatuses,
        refuse_unknown: bool,
    ) -> None:
        self._view = view
        self._project = project
        self._judging = judging
        self._available = available
        self._refuse_unknown = refuse_unknown
        self._drafts = {key: draft for key, (draft, _) in written.items()}
        self._type_of = resolving.types_after(self._drafts, type_of)
        self._written = written
        self._delivering = delivering
        self._stored: dict[Key, StoredDocument] = {}  # those whose standing may change
        self._documents: dict[Key, dict[str, Value]] = {}
        self._own: dict[Key, Lines] = {
            key: resolving.unresolved_lines(fit.violations) if fit.violations else ()
            for key, (_, fit) in written.items()
        }
        self._wrong: dict[Key, list[Pointer]] = {}  # where, of what is stored and was whole
        self._named_by: dict[Key, list[Key]] = defaultdict(list)  # of the components that what is written names
        for key, draft in self._drafts.items():
            for target in draft.references:
                if target.kind in components.KINDS:
                    self._named_by[target].append(key)

    def spread(self, incomplete: Iterable[Key], doubtful: Collection[Key]) -> None:
        """Gather the users of what judges, then, from whatever was or is incomplete, all that names it."""
        toggled = {key for key, own in self._own.items() if own}
        toggled |= self._written.keys() & set(incomplete)
        toggled |= {key for target in self._incomplete(self._named_by) for key in self._named_by[target]}
        toggled |= self._gather([key for key in self._written if key.kind in JUDGES])
        toggled |= self._judge(doubtful)
        fresh = toggled
        while fresh:
            self._gather(fresh)
            # Whoever names what may have changed may change too, and so on upwards.
            users = {user for found in self._view.referrers(self._project, fresh).values() for user in found}
            users |= {key for target in fresh for key in self._named_by.get(target, ())}
            fresh = users - toggled
            toggled |= users

    def _gather(self, targets: Iterable[Key]) -> set[Key]:
        """Judge the stored resources that refer to these; those that were or are incomplete."""
        return self._judge({user for found in self._view.referrers(self._project, targets).values() for user in found})

    def _judge(self, keys: Collection[Key]) -> set[Key]:
        """The same for these themselves."""
        # A difference of sets would look at all that is written, once in every step of a chain.
        fresh = {key for key in keys if key not in self._written and key not in self._stored}
        for key, stored in sorted(self._view.documents(self._project, fresh).items()):
            with suppress(Damaged):  # of what nobody can read, nothing new can be said
                document = stored_secrets.document_in_clear(key, stored)
                lookup = self._judging.of(document, stored_secrets.held_secrets(key, stored))
                fit = type_checks.fit(document, lookup, available=self._available, refuse_unknown=self._refuse_unknown)
                fit = type_checks.with_storages(fit, document, self._type_of)
                self._own[key] = resolving.unresolved_lines(fit.violations)
                if not stored.incomplete:
                    self._wrong[key] = [one.pointer for one in fit.violations[:MOST_PLACES]]
                self._stored[key] = stored
                self._documents[key] = document
        return {key for key in fresh & self._stored.keys() if self._own[key] or self._stored[key].incomplete}

    def settled(self) -> DependantState:
        """The least set of incomplete resources: two that name each other do not keep each other incomplete."""
        named_by = defaultdict(list, {target: list(users) for target, users in self._named_by.items()})
        for key in self._stored:
            for target in self._named(key):
                named_by[target].append(key)
        unsettled = [key for key, own in self._own.items() if own]
        unsettled += self._incomplete(named_by)
        incomplete: set[Key] = set()
        while unsettled:
            key = unsettled.pop()
            if key not in incomplete:
                incomplete.add(key)
                unsettled += named_by[key]
        return replace(self._standing(incomplete), made_incomplete=self._caused(incomplete, named_by))

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
        """What is written and says that a stored resource is wrong: for each place what is named next to it."""
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
        return [key for key, stored in self._view.stored(self._project, untouched).items() if stored.incomplete]

    def _named(self, key: Key) -> list[Key]:
        """The components that a stored resource names."""
        targets = {one.key for one in components.references(self._documents[key])}
        return [target for target in targets if target.kind in components.KINDS]

    def _standing(self, incomplete: set[Key]) -> DependantState:
        written = {key: self._lines(key, incomplete) for key in incomplete if key in self._written}
        stored = {key: self._lines(key, incomplete) if key in incomplete else () for key in sorted(self._stored)}
        delivery = self._delivery(stored, incomplete)
        before = {key: self._stored[key] for key in stored}
        restated = {key for key, lines in stored.items() if lines != rendering.incomplete(before[key].status)}
        owners = {before[key].owner for key in restated}
        restated |= {key for key in stored if delivery.get(key) != rendering.delivery(before[key].status)}
        changed = {key: lines for key, lines in stored.items() if key in restated}
        rows = tuple(self._row(key, lines, delivery.get(key)) for key, lines in changed.items())
        told = frozenset(owner for owner in owners if owner is not None)
        return DependantState(written, changed, rows, told, delivery, tuple(self._delivering.past_routes))

    def _delivery(self, stored: dict[Key, Lines], incomplete: set[Key]) -> dict[Key, Delivery]:
        """Of each Configuration that is written or judged here whether it delivers; others that have another answer
        than before are added to what is `stored`.
        """
        told = self._delivering.answers(
            {
                key: Asked(self._document(key)["spec"], key not in incomplete, self._stored.get(key))
                for key in (*self._written, *stored)
                if key.kind == "Configuration"
            }
        )
        others = {}
        for key, one in self._delivering.concerned():
            with suppress(Damaged):
                if key not in told:
                    others[key] = Asked(stored_secrets.masked_document(key, one)["spec"], not one.incomplete, one)
        for key, delivery in self._delivering.answers(others).items():
            before = others[key].stored
            if before is not None and delivery != rendering.delivery(before.status):
                told[key] = delivery
                self._stored[key] = before
                stored[key] = rendering.incomplete(before.status)
        return told

    def _lines(self, key: Key, incomplete: set[Key]) -> Lines:
        named = [one for one in components.references(self._document(key)) if one.key in incomplete]
        told = (
            f"{pointer_text(one.pointer)}: the {resolving.which_reference(one)} is incomplete; complete it"
            for one in named
        )
        return tuple(violations.bounded((*self._own[key], *told)))

    def _document(self, key: Key) -> dict[str, Value]:
        return owned_by_user(self._written[key][0]) if key in self._written else self._documents[key]

    def _row(self, key: Key, lines: Lines, delivery: Delivery | None) -> HeadStatusRow:
        status = rendering.with_standing(key.kind, self._stored[key].status, incomplete=lines, delivery=delivery)
        return HeadStatusRow(self._project, key.kind, key.name, int(bool(lines)), status)


def _shared(one: Pointer, other: Pointer) -> int:
    """How many steps two pointers have in common from the root."""
    return next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), len(one))
