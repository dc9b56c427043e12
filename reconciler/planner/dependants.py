"""Dependants: the resources that a change makes incomplete or complete.

A resource is incomplete when parameters of its components do not fit their types, or when it names a component that is
incomplete. Nothing is refused here. The cost depends on the change: it examines the users of a changed type or
extension, and then the users of each resource that becomes incomplete or complete.
"""

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

from reconciler.model import components, rendering, text, type_checks
from reconciler.model.desired import Desired
from reconciler.model.flows import Flow
from reconciler.model.names import Key
from reconciler.model.rendering import Delivery
from reconciler.model.type_checks import BlindTypes, Fit
from reconciler.model.values import Value, pointer_text
from reconciler.planner import resolving, stored
from reconciler.planner.delivery import Asked, DeliveryStatuses
from reconciler.planner.stored import StoreSnapshot, TypeLookup
from reconciler.store.contract import Damaged
from reconciler.store.records import HeadStatusRow, PastRouteRow, StoredDocument

Lines: TypeAlias = tuple[str, ...]

MOST_CAUSES = 10  # of one resource that becomes incomplete

JUDGES = components.TYPES | {"Extension"}
"""The kinds that say what fits: a type of its components, an Extension of the webhooks that keep their queues there."""


@dataclass(frozen=True, slots=True)
class DependantState:
    """The effects of a change on statuses. `owners` are the repositories whose stored resources are affected.

    `written` has the lines of `status.incomplete` for resources that the change writes, `stored` those for other
    resources whose status changes; `rows` are the rows of the latter. `delivery` says for each Configuration among both
    if it delivers; `past_routes` are the rows of last good routes. `made_incomplete` has, for each written resource,
    the others that it makes incomplete, in order. `flows` are the changes of delivery, except by deletions and moves.
    """

    written: Mapping[Key, Lines] = field(default_factory=dict)
    stored: Mapping[Key, Lines] = field(default_factory=dict)
    rows: tuple[HeadStatusRow, ...] = ()
    owners: frozenset[str] = frozenset()
    delivery: Mapping[Key, Delivery] = field(default_factory=dict)
    past_routes: tuple[PastRouteRow, ...] = ()
    made_incomplete: Mapping[Key, tuple[Key, ...]] = field(default_factory=dict)
    flows: tuple[Flow, ...] = ()


NOTHING = DependantState()


class DependantSearch:
    """Finds the effects of storing `written` on statuses. `judging` finds the types for the judgement."""

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
        self._stored: dict[Key, StoredDocument] = {}  # resources whose status may change
        self._documents: dict[Key, dict[str, Value]] = {}
        self._own: dict[Key, Lines] = {
            key: resolving.unresolved_lines(fit.violations) if fit.violations else ()
            for key, (_, fit) in written.items()
        }
        self._named_by: dict[Key, list[Key]] = defaultdict(list)  # the written users of each component
        for key, document in self._written.items():
            for target in document.references:
                if target.kind in components.KINDS:
                    self._named_by[target].append(key)

    def find(self, incomplete: Iterable[Key], doubtful: Collection[Key]) -> DependantState:
        """Find the effects. `incomplete` are written resources that were incomplete before; `doubtful` are stored
        resources that are judged again in any case.
        """
        # First the users of types and extensions, then the users of every resource that was or is incomplete.
        toggled = {key for key, own in self._own.items() if own}
        toggled |= self._written.keys() & set(incomplete)
        toggled |= {key for target in self._incomplete(self._named_by) for key in self._named_by[target]}
        toggled |= self._judge(self._snapshot.users([key for key in self._written if key.kind in JUDGES]))
        toggled |= self._judge(doubtful)
        fresh = toggled
        while fresh:
            users = self._snapshot.users(fresh)
            self._judge(users)
            # A resource that names a changed one may change too, and so on.
            users |= {key for target in fresh for key in self._named_by.get(target, ())}
            fresh = users - toggled
            toggled |= users
        return self._settled()

    def _judge(self, keys: Collection[Key]) -> set[Key]:
        """Judge these stored resources. Return those that were or are incomplete."""
        snapshot = self._snapshot
        # A difference of sets would iterate over everything that is written, in every step of a chain.
        fresh = {key for key in keys if key not in self._written and key not in self._stored}
        for key, one in sorted(snapshot.view.documents(snapshot.project, fresh).items()):
            with suppress(Damaged):  # a damaged resource keeps its status
                document = stored.document_in_clear(key, one)
                lookup = self._judging.of(document, stored.held_secrets(key, one))
                fit = type_checks.fit(
                    document, lookup, available=snapshot.available, refuse_unknown=snapshot.refuse_unknown
                )
                fit = type_checks.with_storages(fit, document, self._type_of)
                self._own[key] = resolving.unresolved_lines(fit.violations)
                self._stored[key] = one
                self._documents[key] = document
        return {key for key in fresh & self._stored.keys() if self._own[key] or self._stored[key].incomplete}

    def _settled(self) -> DependantState:
        """Find the smallest set of incomplete resources: two that name each other do not keep each other incomplete."""
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
            flows=tuple(self._delivering.flows),
        )

    def _caused(self, incomplete: set[Key], named_by: Mapping[Key, Sequence[Key]]) -> dict[Key, tuple[Key, ...]]:
        """Return, for each written resource, the stored resources that it makes incomplete."""
        fresh = {key for key in self._stored.keys() & incomplete if not self._stored[key].incomplete}
        causes: dict[Key, set[Key]] = defaultdict(set)
        todo = deque((key, key) for key in sorted(incomplete & self._written.keys()))
        todo.extend((key, judge) for key in sorted(fresh) if self._own[key] for judge in self._judged_by(key))
        while todo:
            key, cause = todo.popleft()
            if cause not in causes[key] and len(causes[key]) < MOST_CAUSES:
                causes[key].add(cause)
                todo.extend((user, cause) for user in sorted(named_by.get(key, ())) if user in fresh)
        found: dict[Key, list[Key]] = defaultdict(list)
        for key in sorted(fresh):
            for cause in causes[key]:
                found[cause].append(key)
        return {cause: tuple(keys) for cause, keys in found.items()}

    def _judged_by(self, key: Key) -> set[Key]:
        """Find the written resources, such as types, that may make a stored resource invalid."""
        named = {one.key for one in components.references(self._documents[key]) if one.key.kind in JUDGES}
        return named & self._written.keys()

    def _incomplete(self, targets: Iterable[Key]) -> list[Key]:
        """Return the targets that are incomplete and stay so, because this change does not affect them."""
        untouched = [key for key in targets if key not in self._own]
        found = self._snapshot.view.stored(self._snapshot.project, untouched)
        return [key for key, one in found.items() if one.incomplete]

    def _delivery(self, lines: dict[Key, Lines], incomplete: set[Key]) -> dict[Key, Delivery]:
        """Return for each written or judged Configuration if it delivers. Other Configurations whose delivery changes
        are added to `lines`.
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
        return tuple(text.bounded((*self._own[key], *told)))

    def _document(self, key: Key) -> dict[str, Value]:
        return self._written[key].document() if key in self._written else self._documents[key]

    def _row(self, key: Key, lines: Lines, delivery: Delivery | None) -> HeadStatusRow:
        status = rendering.with_standing(key.kind, self._stored[key].status, incomplete=lines, delivery=delivery)
        return HeadStatusRow(self._snapshot.project, key.kind, key.name, int(bool(lines)), status)
