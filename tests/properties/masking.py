"""What is masked in a store, found out anew from all that it holds."""

import json
from collections import defaultdict
from typing import Any, TypeAlias

from reconciler.documents.values import Pointer, Value
from reconciler.resources import builtins, component_types, definitions, fitting, replacing, restoring
from reconciler.resources.component_types import ComponentType
from reconciler.resources.keys import Key
from reconciler.resources.matching import Matching, Unmatched
from tests.properties.documents import MASK
from tests.worlds import World

Held: TypeAlias = tuple[dict[str, Any], dict[Pointer, Value]]
"""A version in clear, and its secrets by their places."""


def masked(world: World) -> None:
    """No version, however old, shows what the types in force call a secret, or what a newer one holds as a secret."""
    types = {Key(row["kind"], row["name"]): json.loads(row["body"]) for row in world.stored()}

    def lookup(key: Key) -> ComponentType | None:
        found = types.get(key) or builtins.built_in().get(key)
        return None if found is None else component_types.compiled(key.name, definitions.read(found["spec"]))

    newer: dict[Key, list[Held]] = defaultdict(list)
    for row in world.all("select kind, name, version, body, secrets from version order by version desc"):
        key, body = Key(row["kind"], row["name"]), json.loads(row["body"])
        secrets = json.loads(row["secrets"] or "{}")
        clear, held = restoring.in_clear(body, secrets), restoring.located(body, secrets)
        places = {pointer for pointer, _ in fitting.fit(body, lookup).secrets}
        places |= {place for version in newer[key] for place in _same(version, clear)}
        # What stands in a secret is masked with it.
        shown = {place for place in places if not any(place[:end] in held for end in range(len(place) + 1))}
        shown = {place for place in shown if replacing.at(body, place) != MASK}
        assert not shown, f"{key} shows in version {row['version']} what is a secret: {shown}"
        newer[key].append((clear, held))


def _same(newer: Held, clear: dict[str, Any]) -> set[Pointer]:
    """Where a version holds the same values as a newer one holds as secrets."""
    document, held = newer
    matching = Matching(document, clear)
    found = {pointer: matching.find(pointer) for pointer in held}
    return {
        there
        for pointer, there in found.items()
        if not isinstance(there, Unmatched) and restoring.is_same(replacing.at(clear, there), held[pointer])
    }
