"""Which type of components is in force under a name: the one that comes with this change, the stored one, the built-in.

Belongs here: finding and compiling it, once; which type an extension has. Does not: judging components by it
(`resources.fitting`).
"""

import hashlib
from collections.abc import Collection, Mapping
from functools import cache

import msgspec

from reconciler.deciding import stored_secrets
from reconciler.model import builtins, component_types, components, resource
from reconciler.model.component_types import ComponentType
from reconciler.model.names import Key
from reconciler.model.resource import Draft
from reconciler.model.type_checks import TypeOf
from reconciler.model.values import Value
from reconciler.store.planning_view import PlanningView

MOST_BYTES = 4 * 1024 * 1024  # of the specs of types that are kept compiled, which takes up to eighty times as much


class CompiledTypes:
    """Compiled types by what they say, for the life of the process: compiling one costs as much as judging hundreds."""

    def __init__(self) -> None:
        self._types: dict[bytes, ComponentType] = {}
        self._bytes = 0

    def of(self, name: str, spec: Value) -> ComponentType:
        """The type of this name that defines what `spec` says."""
        encoded = msgspec.json.encode(spec)
        digest = hashlib.sha256(name.encode() + b"\0" + encoded).digest()
        known = self._types.get(digest)
        if known is not None:
            return known
        compiled = component_types.compiled(name, component_types.read_definitions(spec))
        # Two threads may do this at once, and then compile or forget something twice.
        if self._bytes + len(encoded) > MOST_BYTES:
            self._types, self._bytes = {}, 0
        self._types[digest] = compiled
        self._bytes += len(encoded)
        return compiled


_compiled = CompiledTypes()


class TypeLookup:
    """A lookup for one plan: inside one snapshot of the store, each type is asked for once.

    What is `going` is not there any more; what is built in may stand in for it.
    """

    def __init__(
        self, view: PlanningView, *, project: str, coming: Mapping[Key, Draft], going: Collection[Key] = ()
    ) -> None:
        self._view = view
        self._project = project
        self._coming = coming
        self._going = going
        self._known: dict[Key, ComponentType | None] = {}
        self._extensions: dict[Key, str | None] = {}

    def __call__(self, key: Key) -> ComponentType | None:
        """The type in force, or None. Raises Damaged when nobody can tell what it says."""
        if key not in self._known:
            spec = self._spec(key)
            self._known[key] = None if spec is None else _compiled.of(key.name, spec)
        return self._known[key]

    def of_extension(self, key: Key) -> str | None:
        """The name of the type of an Extension that is stored or built in, or None. Raises Damaged.

        Not of one that comes: it may be refused (see `after`), which a type, that refers to nothing, is not.
        """
        if key not in self._extensions:
            self._extensions[key] = components.type_name_of(self._standing(key))
        return self._extensions[key]

    def _spec(self, key: Key) -> Value:
        if key in self._coming:
            return resource.owned_by_user(self._coming[key])["spec"]
        return self._standing(key)

    def _standing(self, key: Key) -> Value:
        stored = None if key in self._going else self._view.documents(self._project, [key]).get(key)
        if stored is not None:
            return stored_secrets.masked_document(key, stored)["spec"]
        built_in = builtins.built_in().get(key)
        return None if built_in is None else built_in["spec"]


def types_after(arriving: Mapping[Key, Draft], type_of: TypeOf) -> TypeOf:
    """The types of Extensions once these documents are stored; `type_of` knows those of what is there before."""

    @cache
    def found(key: Key) -> str | None:
        if key in arriving:
            return components.type_name_of(resource.owned_by_user(arriving[key])["spec"])
        return type_of(key)

    return found
