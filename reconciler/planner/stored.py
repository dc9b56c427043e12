"""One snapshot of the store for a plan: stored documents with their secrets, and the types in force.

The body of a stored document is masked and without `status`; its secrets are stored apart. The type in force under a
name is that of the change, otherwise the stored one, otherwise the built-in one.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import cast

import msgspec

from reconciler.model import builtins, component_types, components, desired, names, type_checks, values
from reconciler.model.component_types import ComponentType
from reconciler.model.desired import Desired
from reconciler.model.names import Key
from reconciler.model.outcomes import BUILT_IN, StoredState
from reconciler.model.secret_references import NO_SECRETS, AvailableSecrets, is_secret_reference
from reconciler.model.type_checks import Fit, Lookup, TypeOf
from reconciler.model.values import Pointer, Value
from reconciler.planner.planner import References
from reconciler.store.contract import Damaged, PlanningView
from reconciler.store.records import StoredDocument, VersionRow


def document_in_clear(key: Key, stored: StoredDocument | VersionRow) -> dict[str, Value]:
    """Return a stored resource with its secrets, and with the server's metadata. Raises Damaged."""
    masked = masked_document(key, stored)
    return values.replaced(masked, values.by_place(masked, secrets_by_place(key, stored)))


def masked_document(key: Key, stored: StoredDocument | VersionRow) -> dict[str, Value]:
    """Return a stored resource as readers get it, without status. Raises Damaged."""
    return _decoded(key, stored.body)


def shown_spec(key: Key, stored: StoredDocument) -> Value:
    """Return the spec of a stored resource as readers get it, with the references that an earlier version of the
    product took for secrets. Raises Damaged.
    """
    references = {at: value for at, value in held_secrets(key, stored).items() if is_secret_reference(value)}
    return values.replaced(masked_document(key, stored), references)["spec"]


def held_secrets(key: Key, stored: StoredDocument | VersionRow) -> dict[Pointer, Value]:
    """Return the secrets of a stored resource by their places in it. Raises Damaged."""
    return values.by_place(masked_document(key, stored), secrets_by_place(key, stored))


def secrets_by_place(key: Key, stored: StoredDocument | VersionRow) -> dict[str, Value]:
    """Return the secrets of a stored resource by JSON pointers. Raises Damaged."""
    return {} if stored.secrets is None else _decoded(key, stored.secrets)


def _decoded(key: Key, stored: bytes) -> dict[str, Value]:
    try:
        return cast("dict[str, Value]", msgspec.json.decode(stored, type=dict))
    except msgspec.DecodeError:
        told = f"the {key.kind} {key.name} is damaged in the store; apply it anew, or restore a backup"
        raise Damaged(told) from None


class TypeLookup:
    """Finds types for one plan, inside one snapshot of the store. It reads each type once. `coming` are the types of
    the change. `going` types are deleted, and a built-in one may replace them.
    """

    def __init__(
        self, view: PlanningView, *, project: str, coming: Mapping[Key, Desired], going: Collection[Key] = ()
    ) -> None:
        self._view = view
        self._project = project
        self._coming = coming
        self._going = going
        self._known: dict[Key, ComponentType | None] = {}

    def __call__(self, key: Key) -> ComponentType | None:
        """Return the type in force, or None. Raises Damaged."""
        if key not in self._known:
            spec = self._coming[key].document()["spec"] if key in self._coming else self.present(key)
            self._known[key] = None if spec is None else component_types.compiled_spec(key.name, spec)
        return self._known[key]

    def of_extension(self, key: Key) -> str | None:
        """Return the name of the type of an Extension that is stored or built in, or None. Raises Damaged.

        Extensions of the change itself do not count, because they may be refused (see `types_after`).
        """
        return components.type_name_of(self.present(key))

    def present(self, key: Key) -> Value:
        """Return the masked spec of a resource that is stored or built in, or None. Raises Damaged."""
        stored = None if key in self._going else self._view.documents(self._project, [key]).get(key)
        return builtins.spec(key) if stored is None else shown_spec(key, stored)


class JudgedBefore:
    """The fits of judged documents, kept for the case that the change is decided again at another revision.

    A fit depends on a document and the types of its components. Permitted secrets and the rule for unknown parameters
    are the same for all decisions of one change. Equal compiled types are the same object, so a fit is still right if
    its types are the same objects. Judging takes seven eighths of a decision about 100,000 small documents, and almost
    nothing the second time.
    """

    def __init__(self) -> None:
        self._fits: dict[bytes, tuple[tuple[tuple[Key, ComponentType | None], ...], Fit]] = {}  # by JSON, with types

    def fit(self, owned: bytes, lookup: Lookup, *, available: AvailableSecrets, refuse_unknown: bool) -> Fit:
        """Judge a document, given as JSON, or return its fit if the types are the same as before. Raises Damaged."""
        known = self._fits.get(owned)
        if known is not None and all(lookup(key) is one for key, one in known[0]):
            return known[1]
        asked: dict[Key, ComponentType | None] = {}

        def noted(key: Key) -> ComponentType | None:
            found = asked[key] = lookup(key)
            return found

        document: dict[str, Value] = msgspec.json.decode(owned)
        fit = type_checks.fit(document, noted, available=available, refuse_unknown=refuse_unknown)
        self._fits[owned] = tuple(asked.items()), fit
        return fit


def is_same_type(key: Key, before: Lookup, after: Lookup) -> bool:
    """Return True when both find the same type, and it is not damaged."""
    with suppress(Damaged):
        return after(key) is before(key)
    return False


def types_after(arriving: Mapping[Key, Desired], type_of: TypeOf) -> TypeOf:
    """Return a function that finds the types of Extensions after these documents are stored; `type_of` finds the types
    of those before.
    """

    @cache
    def found(key: Key) -> str | None:
        return components.type_name_of(arriving[key].document()["spec"]) if key in arriving else type_of(key)

    return found


TOGETHER = 100  # stored documents that are read together


@dataclass(frozen=True, slots=True)
class StoreSnapshot:
    """One snapshot of the store, with the built-in resources and the rules of one plan."""

    view: PlanningView
    project: str
    hmac_key: bytes = field(repr=False)
    at: str = ""  # the time of the plan, RFC 3339
    hide_guesses: bool = False  # a dry run: the answer must not confirm a guess at a stored secret
    suspended: frozenset[str] = frozenset()  # repositories whose resources an admin may write
    available: AvailableSecrets = NO_SECRETS  # the secrets that the project may refer to
    check: Callable[[], object] = bool  # called while documents are judged: raises when no time is left
    assumed: Set[Key] = frozenset()  # resources that are assumed to exist, since that is unknown
    lenient: bool = False  # violations of recent rules do not count
    refuse_unknown: bool = False  # refuse parameters without a definition, even if a Collector executes the type
    known: Mapping[Key, bytes] = field(default_factory=dict)  # digests of documents that the caller has read
    judged: JudgedBefore = field(default_factory=JudgedBefore, repr=False)

    def stored(self, keys: Iterable[Key], *, to_delete: bool = False) -> dict[Key, StoredState]:
        """Return the stored resources of these keys, and the built-in ones with reserved names. `to_delete`: all
        built-in ones, since none can be deleted.
        """
        wanted = set(keys)
        built_in = builtins.built_in().keys() if to_delete else builtins.RESERVED
        return {key: self._built_in(key) for key in wanted & built_in} | self.view.stored(self.project, wanted)

    def documents(self, keys: Iterable[Key]) -> Iterator[tuple[Key, StoredDocument]]:
        """Yield the stored documents of these keys in order. They are read in batches, since all may be gigabytes."""
        ordered = sorted(keys)
        for start in range(0, len(ordered), TOGETHER):
            found = self.view.documents(self.project, ordered[start : start + TOGETHER])
            yield from sorted(found.items())

    def references(self, targets: Iterable[Key], written: Mapping[Key, Desired]) -> References:
        """Return the resources that refer to each of these after `written` is stored."""
        wanted = set(targets)
        after = {target: users - written.keys() for target, users in self.view.referrers(self.project, wanted).items()}
        for key, document in written.items():
            for target in wanted.intersection(document.references):
                after.setdefault(target, set()).add(key)
        return after

    def users(self, targets: Collection[Key]) -> set[Key]:
        """Return the stored resources that refer to any of these."""
        found = self.view.referrers(self.project, targets) if targets else {}
        return {user for users in found.values() for user in users}

    def _built_in(self, key: Key) -> StoredState:
        document = builtins.built_in()[key]
        owned = {name: document[name] for name in ("apiVersion", "kind", "metadata", "spec")}
        owned = desired.without_absent(owned, names.exact_kind(key.kind))
        return StoredState(key, digest=desired.digest(owned, hmac_key=self.hmac_key), version=1, owner=BUILT_IN)
