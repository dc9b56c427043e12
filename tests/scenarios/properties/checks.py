"""Invariants of a store, found out anew from all that it holds."""

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from reconciler.model import builtins, component_types, components, type_checks, values
from reconciler.model.component_types import ComponentType
from reconciler.model.names import Key
from reconciler.planner import resolving
from tests import worlds
from tests.scenarios.properties.documents import CANARY
from tests.worlds import World


def consistent(world: World) -> None:
    """References, completeness, readiness and delivery are as a look at the whole store finds them."""
    rows = {Key(row["kind"], row["name"]): row for row in world.stored()}
    bodies = {key: _in_clear(row) for key, row in rows.items()}
    referred = {key: {one.key for one in components.references(body)} for key, body in bodies.items()}
    assert _reference_rows(world) == {key: targets for key, targets in referred.items() if targets}
    there = bodies.keys() | builtins.built_in().keys()
    lost = {key: targets - there for key, targets in referred.items() if targets - there}
    assert not lost, "references lead nowhere"
    own = {key: _own(body, bodies) for key, body in bodies.items()}
    incomplete = _closure({key for key, lines in own.items() if lines}, referred)
    assert {key for key, row in rows.items() if row["incomplete"]} == incomplete
    for key, row in rows.items():
        _has_status(key, json.loads(row["status"]), incomplete=key in incomplete, own=own[key])
    assert world.routes()[1] == (), "what Configurations say of delivery is what the routes are made from"


def no_canary(world: World) -> None:
    """No secret stands where somebody may read it."""
    shown = {
        "version": "select body, path from version",
        "origin": "select * from origin",
        "resource": "select status, path from resource",
        "run": "select * from run",
        "run_status": "select * from run_status",
        "repository": "select * from repository",
        "audit": "select * from audit",
        "wanted": "select * from wanted",
    }
    for table, statement in shown.items():
        seen = [row for row in world.all(statement) if CANARY in str(row)]
        assert not seen, f"a secret is seen in {table}"


def _has_status(key: Key, status: dict[str, Any], *, incomplete: bool, own: tuple[str, ...]) -> None:
    listed = tuple(status.get("incomplete", ()))
    assert bool(listed) == incomplete, key
    assert listed[: len(own)] == own, key
    assert status.get("ready") == (not incomplete if key.kind == "Configuration" else None), key


def _in_clear(row: dict[str, Any]) -> dict[str, Any]:
    secrets = {} if row["secrets"] is None else json.loads(row["secrets"])
    body: dict[str, Any] = json.loads(row["body"])
    return values.replaced(body, values.by_place(body, secrets))


def _reference_rows(world: World) -> dict[Key, set[Key]]:
    found: dict[Key, set[Key]] = defaultdict(set)
    for row in world.all("select * from reference"):
        found[Key(row["kind"], row["name"])].add(Key(row["target_kind"], row["target_name"]))
    return dict(found)


def _own(body: dict[str, Any], bodies: dict[Key, dict[str, Any]]) -> tuple[str, ...]:
    """Return what the parameters of a resource break of the types in force."""

    def lookup(key: Key) -> ComponentType | None:
        found = bodies.get(key) or builtins.built_in().get(key)
        return (
            None
            if found is None
            else component_types.compiled(key.name, component_types.read_definitions(found["spec"]))
        )

    def type_of(key: Key) -> str | None:
        found: Mapping[str, Any] | None = bodies.get(key) or builtins.built_in().get(key)
        return None if found is None else str(found["spec"]["type"]).partition(":")[0]

    fit = type_checks.fit(body, lookup, available=worlds.SECRETS)
    return resolving.unresolved_lines(type_checks.with_storages(fit, body, type_of).violations)


def _closure(incomplete: set[Key], referred: dict[Key, set[Key]]) -> set[Key]:
    """Those, and whatever names an incomplete component, and so on."""
    found = set(incomplete)
    while True:
        more = {
            key
            for key, targets in referred.items()
            if any(target in found and target.kind in components.KINDS for target in targets)
        } - found
        if not more:
            return found
        found |= more
