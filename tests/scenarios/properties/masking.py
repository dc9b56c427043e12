"""Masked values in a store, found out anew from all that it holds."""

import json
from collections import defaultdict
from typing import Any, TypeAlias

from reconciler.model import builtins, component_types, type_checks, values
from reconciler.model.component_types import ComponentType
from reconciler.model.masking import Matching
from reconciler.model.names import Key
from reconciler.model.values import Pointer, Value
from tests.scenarios.properties.documents import MASK
from tests.worlds import World

Held: TypeAlias = tuple[dict[str, Any], dict[Pointer, Value]]
"""A version in clear, and its secrets by their places."""


def masked(world: World) -> None:
    """No version, however old, shows what the types in force call a secret, or what a newer one holds as a secret."""
    types = {Key(row["kind"], row["name"]): json.loads(row["body"]) for row in world.stored()}

    def lookup(key: Key) -> ComponentType | None:
        found = types.get(key) or builtins.built_in().get(key)
        return (
            None
            if found is None
            else component_types.compiled(key.name, component_types.read_definitions(found["spec"]))
        )

    newer: dict[Key, list[Held]] = defaultdict(list)
    for row in world.all("select kind, name, version, body, secrets from version order by version desc"):
        key, body = Key(row["kind"], row["name"]), json.loads(row["body"])
        secrets = json.loads(row["secrets"] or "{}")
        held = values.by_place(body, secrets)
        clear = values.replaced(body, held)
        places = {pointer for pointer, _ in type_checks.fit(body, lookup).secrets}
        places |= {place for version in newer[key] for place in _same(version, clear)}
        # What stands in a secret is masked with it.
        shown = {place for place in places if not any(place[:end] in held for end in range(len(place) + 1))}
        shown = {place for place in shown if values.value_at(body, place) != MASK}
        assert not shown, f"{key} shows in version {row['version']} what is a secret: {shown}"
        newer[key].append((clear, held))


def _same(newer: Held, clear: dict[str, Any]) -> set[Pointer]:
    """Return where a version holds the same values as a newer one holds as secrets."""
    document, held = newer
    matching = Matching(document, clear)
    found = {pointer: matching.find(pointer) for pointer in held}
    return {
        there
        for pointer, there in found.items()
        if there is not None and values.is_same(values.value_at(clear, there), held[pointer])
    }
