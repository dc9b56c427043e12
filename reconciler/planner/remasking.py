"""Masking of stored versions in which a value became a secret.

A value that was stored in clear becomes a secret if its type now calls the parameter a secret, if the type was deleted,
or if a new version of the resource has the value as a secret.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from reconciler.model import components, masking, rendering
from reconciler.model import values as model_values
from reconciler.model.component_types import ComponentType
from reconciler.model.desired import Desired
from reconciler.model.masking import Matching, Secrets
from reconciler.model.names import Key
from reconciler.model.outcomes import Change
from reconciler.model.values import Pointer, Value
from reconciler.planner import stored
from reconciler.planner.changes import ChangeParts, ChangeRows
from reconciler.planner.stored import TypeLookup
from reconciler.store.contract import Damaged, PlanningView
from reconciler.store.records import Changes, StoredDocument, VersionRow

HOLDING = (*sorted(components.KINDS), "Configuration")
"""The kinds of resources that hold components."""


@dataclass(frozen=True, slots=True)
class MarkedSecret:
    """A document that is stored now, and those of its secrets that the previous version did not have."""

    document: dict[str, Value] = field(repr=False)
    secrets: Secrets = field(repr=False)


NOTHING = MarkedSecret({}, ())


class Remasking:
    """The values that one change makes secret. Every method reads the snapshot of the store from before the change.

    `check` is called before each version; it raises when there is no time left.
    """

    def __init__(
        self, changes: Sequence[ChangeRows], view: PlanningView, *, check: Callable[[], object] = bool
    ) -> None:
        origin = changes[0].origin
        self._view = view
        self._check = check
        self._project = origin.project
        self._hmac_key = origin.hmac_key
        self._marked = {key: one for change in changes for key, one in _marked(change, view)}
        coming: dict[Key, Desired] = {}  # of the types, since no others are looked up
        for change in changes:
            coming |= change.decided.written(components.TYPES)
        outcomes = (one for change in changes for one in change.decided.outcomes)
        going = {one.key for one in outcomes if one.change is Change.DELETE and one.key is not None}
        self._after = TypeLookup(view, project=self._project, coming=coming, going=going)
        before = TypeLookup(view, project=self._project, coming={})
        types = sorted(key for key in coming.keys() | going if key.kind in components.TYPES)
        self._stricter = [key for key in types if _is_stricter(key, before, self._after)]

    def parts(self) -> Iterator[Changes]:
        """Yield the versions in which values are masked now, in parts of bounded size."""
        parts = ChangeParts()

        def weights() -> Iterator[int]:
            for row in self._rows():
                parts.rows.rewritten.append(row)
                yield len(row.body) + len(row.secrets or b"")

        return parts.parts(weights())

    def shown(self, keys: Iterable[Key]) -> dict[Key, bytes]:
        """Return those of these resources in which a stricter type masks values, as readers will get them."""
        if not self._stricter:
            return {}
        bodies = {}
        for key, document in self._view.documents(self._project, keys).items():
            row = self._row(VersionRow(self._project, *key, 0, document.body, document.secrets), NOTHING)
            if row is not None:
                bodies[key] = row.body
        shown = self._view.bodies(self._project, bodies)
        return {key: rendering.rewritten(shown[key], body) for key, body in bodies.items()}

    def _rows(self) -> Iterator[VersionRow]:
        rewritten: set[tuple[Key, int]] = set()
        for key, marked in self._marked.items():
            for version in self._view.versions(self._project, key):
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

    def _row(self, version: VersionRow, marked: MarkedSecret) -> VersionRow | None:
        """Return the version with all present secrets masked; None if they are already, or it is damaged."""
        self._check()
        with suppress(Damaged, LookupError):
            held = stored.held_secrets(version.key, version)
            document = model_values.replaced(stored.masked_document(version.key, version), held)
            found = (*self._by_type(document), *_where(marked, document))
            # Rewrite only if a value is not inside a secret already.
            if not all(any(place[:end] in held for end in range(len(place) + 1)) for place, _ in found):
                identity = rendering.identity_of(document)
                bound = rendering.Bound(self._project, identity.id, identity.version)
                secrets = masking.united(found, tuple(held.items()))
                prepared = rendering.prepare(document, secrets, hmac_key=self._hmac_key, bound=bound)
                body = rendering.body(prepared, identity=identity)
                return version._replace(body=body, secrets=prepared.secrets)
        return None

    def _by_type(self, document: dict[str, Value]) -> Secrets:
        kind = document["kind"]
        if not self._stricter or not isinstance(kind, str):
            return ()
        types = components.component_types_of(components.find_components(kind, document["spec"]), self._type)
        return tuple(
            (("spec", *place), value) for place, value in components.find_parameters(document["spec"], types).secrets
        )

    def _type(self, key: Key) -> ComponentType | None:
        """Return the type in force afterwards. With a damaged one, all values may be secret."""
        try:
            return self._after(key)
        except Damaged:
            return None


def _is_stricter(key: Key, before: TypeLookup, after: TypeLookup) -> bool:
    """Return True if a parameter is no longer open. Without a type, no parameter is open."""
    with suppress(Damaged):
        was, now = before(key), after(key)
        return was is not None and not was.open <= (frozenset() if now is None else now.open)
    return True  # the open parameters of a damaged type are unknown


def _marked(change: ChangeRows, view: PlanningView) -> Iterator[tuple[Key, MarkedSecret]]:
    """Yield the present secrets that former versions may have in clear text. A secret that the previous version has too
    is left out: the former versions were searched then.
    """
    decided = change.decided
    new = {one.key for one in decided.outcomes if one.change is Change.CREATE} - change.last_versions.keys()
    secret = {key: one for key, one in decided.written().items() if key not in new and decided.fits[key].secrets}
    before = view.documents(change.origin.project, secret)
    for key, one in secret.items():
        document = one.document()
        fresh = tuple(_fresh(document, decided.fits[key].secrets, key, before.get(key)))
        if fresh:
            yield key, MarkedSecret(document, fresh)


def _fresh(
    document: dict[str, Value], secrets: Secrets, key: Key, before: StoredDocument | None
) -> Iterator[tuple[Pointer, Value]]:
    held: Mapping[Pointer, Value] = {}
    if before is not None and before.secrets is not None:
        with suppress(Damaged):
            held = stored.held_secrets(key, before)
            matching = Matching(document, stored.masked_document(key, before))
    for place, value in secrets:
        found = matching.find(place) if held else None
        if found is None or found not in held or not model_values.is_same(held[found], value):
            yield place, value


def _where(marked: MarkedSecret, document: dict[str, Value]) -> Iterator[tuple[Pointer, Value]]:
    """Find where another version has the same values.

    An entry of a list without identity is searched at the same position. Only equal values are masked, so a mistake
    reveals nothing.
    """
    matching = Matching(marked.document, document)
    for place, value in marked.secrets:
        found = matching.find(place)
        there = place if found is None else found
        with suppress(LookupError):
            if model_values.is_same(model_values.value_at(document, there), value):
                yield there, value
