"""Which type of components is in force under a name: the one that comes with this change, the stored one, the built-in.

Belongs here: finding and compiling it, once. Does not: judging components by it (`resources.fitting`).
"""

import hashlib
from collections.abc import Mapping

import msgspec

from reconciler.deciding import stored_secrets
from reconciler.documents.values import Value
from reconciler.resources import builtins, component_types, definitions, drafts
from reconciler.resources.component_types import ComponentType
from reconciler.resources.drafts import Draft
from reconciler.resources.keys import Key
from reconciler.store.planning_view import PlanningView

MOST_COMPILED = 1_000  # types kept compiled by the process; about 20 KB each


class Compiled:
    """Compiled types by what they say, for the life of the process: compiling one costs as much as judging hundreds."""

    def __init__(self) -> None:
        self._types: dict[bytes, ComponentType] = {}

    def of(self, name: str, spec: Value) -> ComponentType:
        """The type of this name that defines what `spec` says."""
        digest = hashlib.sha256(name.encode() + b"\0" + msgspec.json.encode(spec)).digest()
        if digest not in self._types:
            if len(self._types) >= MOST_COMPILED:
                self._types.clear()
            self._types[digest] = component_types.compiled(name, definitions.read(spec))
        return self._types[digest]


_compiled = Compiled()


class Types:
    """A lookup for one plan: inside one snapshot of the store, each type is asked for once."""

    def __init__(self, view: PlanningView, *, project: str, coming: Mapping[Key, Draft]) -> None:
        self._view = view
        self._project = project
        self._coming = coming
        self._known: dict[Key, ComponentType | None] = {}

    def __call__(self, key: Key) -> ComponentType | None:
        """The type in force, or None. Raises Damaged when nobody can tell what it says."""
        if key not in self._known:
            spec = self._spec(key)
            self._known[key] = None if spec is None else _compiled.of(key.name, spec)
        return self._known[key]

    def _spec(self, key: Key) -> Value:
        if key in self._coming:
            return drafts.owned(self._coming[key])["spec"]
        stored = self._view.documents(self._project, [key]).get(key)
        if stored is not None:
            return stored_secrets.masked(key, stored)["spec"]
        built_in = builtins.built_in().get(key)
        return None if built_in is None else built_in["spec"]
