"""Masking of stored versions in which a value became a secret.

Two things make secrets of values that were stored in clear: a type that calls more parameters secrets than before, or
is not there any more; and a new version of a resource that holds such a value as a secret.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from reconciler.model import components, masking, rendering, resource
from reconciler.model import values as model_values
from reconciler.model.component_types import ComponentType
from reconciler.model.masking import Matching, Secrets, Unmatched
from reconciler.model.names import Key
from reconciler.model.outcomes import Change
from reconciler.model.resource import Draft
from reconciler.model.values import Pointer, Value
from reconciler.planner import decisions, stored_secrets
from reconciler.planner.changes import PART, PART_BYTES, Decided, Stock
from reconciler.planner.resolving import TypeLookup
from reconciler.store.contract import Changes, Damaged, RewrittenRow
from reconciler.store.planning_view import PlanningView, StoredDocument, StoredVersion

HOLDING = (*sorted(components.KINDS), "Configuration")
"""The kinds of resources that hold components."""


@dataclass(frozen=True, slots=True)
class MarkedSecret:
    """A document that is stored now, and what of its secrets was none, or another, in the version before."""

    document: dict[str, Value] = field(repr=False)
    secrets: Secrets = field(repr=False)


NOTHING = MarkedSecret({}, ())


class Remasking:
    """What one change makes secret. Every method reads the same snapshot of the store, as it was before the change.

    `check` is called before each version is looked at: raises when there is no time left.
    """

    def __init__(
        self,
        changes: Sequence[tuple[Decided, Stock]],
        view: PlanningView,
        *,
        project: str,
        hmac_key: bytes,
        check: Callable[[], object] = bool,
    ) -> None:
        self._view = view
        self._check = check
        self._project = project
        self._hmac_key = hmac_key
        self._marked = {key: one for decided, stock in changes for key, one in _marked(decided, stock)}
        coming: dict[Key, Draft] = {}  # of the types, since no others are looked up
        for decided, _ in changes:
            coming |= decisions.written(decided, components.TYPES)
        outcomes = (one for decided, _ in changes for one in decided.outcomes)
        going = {one.key for one in outcomes if one.change is Change.DELETE and one.key is not None}
        self._after = TypeLookup(view, project=project, coming=coming, going=going)
        self._stricter = self._find_stricter(coming.keys() | going)

    def parts(self) -> Iterator[Changes]:
        """The versions with what is masked in them now, in parts of bounded size."""
        gathered: list[RewrittenRow] = []
        size = 0
        for row in self._rows():
            gathered.append(row)
            size += len(row.body) + len(row.secrets or b"")
            if len(gathered) == PART or size > PART_BYTES:
                yield Changes(rewritten=tuple(gathered))
                gathered, size = [], 0
        if gathered:
            yield Changes(rewritten=tuple(gathered))

    def shown(self, keys: Iterable[Key]) -> dict[Key, bytes]:
        """Those of these stored resources that a type masks, as a reader will get them, with their present status."""
        if not self._stricter:
            return {}
        bodies = {}
        for key, document in self._view.documents(self._project, keys).items():
            row = self._row(StoredVersion(key, 0, document.body, document.secrets), NOTHING)
            if row is not None:
                bodies[key] = row.body
        stored = self._view.bodies(self._project, bodies)
        return {key: rendering.rewritten(stored[key], body) for key, body in bodies.items()}

    def _find_stricter(self, changing: Collection[Key]) -> tuple[Key, ...]:
        """The types by which more is a secret afterwards."""
        before = TypeLookup(self._view, project=self._project, coming={})
        types = sorted(key for key in changing if key.kind in components.TYPES)
        return tuple(key for key in types if _is_stricter(key, before, self._after))

    def _rows(self) -> Iterator[RewrittenRow]:
        rewritten: set[tuple[Key, int]] = set()
        for key, marked in self._marked.items():
            values = {model_values.canonical_json(value) for _, value in marked.secrets}
            for version in self._view.versions_holding(self._project, key, values):
                row = self._row(version, marked)
                if row is not None:
                    rewritten.add((key, version.version))
                    yield row
        if self._stricter:
            names = {key.name for key in self._stricter}
            for version in self._view.versions_naming(self._project, HOLDING, names):
                if (version.key, version.version) not in rewritten:
                    row = self._row(version, NOTHING)
                    if row is not None:
                        yield row

    def _row(self, version: StoredVersion, marked: MarkedSecret) -> RewrittenRow | None:
        """The version with everything masked that is a secret now; None when it is already, or nobody can read it."""
        self._check()
        with suppress(Damaged, LookupError):
            stored = stored_secrets.masked_document(version.key, version)
            held = stored_secrets.held_secrets(version.key, version)
            document = model_values.replaced(stored, held)
            found = (*self._by_type(document), *_where(marked, document))
            if not all(_is_masked(place, held) for place, _ in found):
                return self._rewritten(version, document, masking.united(found, tuple(held.items())))
        return None

    def _rewritten(self, version: StoredVersion, document: dict[str, Value], secrets: Secrets) -> RewrittenRow:
        identity = rendering.identity_of(document)
        bound = rendering.Bound(self._project, identity.id, identity.version)
        prepared = rendering.prepare(document, secrets, hmac_key=self._hmac_key, bound=bound)
        body = rendering.body(prepared, identity=identity)
        return RewrittenRow(self._project, *version.key, version.version, body, prepared.secrets)

    def _by_type(self, document: dict[str, Value]) -> Secrets:
        kind = document["kind"]
        if not self._stricter or not isinstance(kind, str):
            return ()
        types = components.component_types_of(components.find_components(kind, document["spec"]), self._type)
        return tuple(
            (("spec", *place), value) for place, value in components.find_parameters(document["spec"], types).secrets
        )

    def _type(self, key: Key) -> ComponentType | None:
        """The type in force afterwards. What a damaged one says nobody knows, so all may be secret."""
        try:
            return self._after(key)
        except Damaged:
            return None


def _is_stricter(key: Key, before: TypeLookup, after: TypeLookup) -> bool:
    with suppress(Damaged):
        return not _open(before, key) <= _open(after, key)
    return True  # what a damaged type let be shown nobody knows


def _open(types: TypeLookup, key: Key) -> frozenset[str]:
    """The parameters that are no secrets by the type in force; without one, none is open."""
    found = types(key)
    return frozenset() if found is None else found.open


def _marked(decided: Decided, stock: Stock) -> Iterator[tuple[Key, MarkedSecret]]:
    """What may have been stored before without being a secret, of what is a secret now.

    What the version before holds as the same secret is left out: it was looked for then.
    """
    for key, outcome, secrets in decided.storing_secrets():
        if outcome.change is Change.CREATE and key not in stock.last_versions:
            continue
        assert outcome.ordinal is not None
        draft = decided.candidates[outcome.ordinal].draft
        assert draft is not None
        document = resource.owned_by_user(draft)
        fresh = tuple(_fresh(document, secrets, key, stock.before.get(key)))
        if fresh:
            yield key, MarkedSecret(document, fresh)


def _fresh(
    document: dict[str, Value], secrets: Secrets, key: Key, before: StoredDocument | None
) -> Iterator[tuple[Pointer, Value]]:
    held: Mapping[Pointer, Value] = {}
    if before is not None and before.secrets is not None:
        with suppress(Damaged):
            held = stored_secrets.held_secrets(key, before)
            matching = Matching(document, stored_secrets.masked_document(key, before))
    for place, value in secrets:
        found = matching.find(place) if held else Unmatched.ABSENT
        if isinstance(found, Unmatched) or found not in held or not masking.is_same_secret(held[found], value):
            yield place, value


def _where(marked: MarkedSecret, document: dict[str, Value]) -> Iterator[tuple[Pointer, Value]]:
    """Where another version has the same values.

    An entry of a list that nothing tells from the others is looked for at the same position: it is the same value that
    is masked, so a mistake shows nothing.
    """
    matching = Matching(marked.document, document)
    for place, value in marked.secrets:
        found = matching.find(place)
        there = place if isinstance(found, Unmatched) else found
        with suppress(LookupError):
            if masking.is_same_secret(model_values.value_at(document, there), value):
                yield there, value


def _is_masked(place: Pointer, held: Mapping[Pointer, Value]) -> bool:
    """Whether a secret stands there already, or around it."""
    return any(place[:end] in held for end in range(len(place) + 1))
