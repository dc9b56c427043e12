"""docs/types.md: the built-in types of components for Collectors, made from their documents.

`scripts/references` writes it.
"""

import json
from collections.abc import Iterator
from typing import Any, cast

from reconciler.model import builtins, components
from reconciler.model.names import Key
from tests.docs import pages

PAGE = pages.ROOT / "docs" / "types.md"
_HEAD = """\
# Built-in types

Types for today's OpenTelemetry Collectors, by kind and name. [Collectors](collectors.md) says how a Collector's
configuration is made of them. `*` marks what is required; empty defaults are left out. The service itself runs two
more: [`webhook`](kinds/Destination.webhook.md) and [`file_storage`](kinds/Extension.md#the-type-file_storage). A source
of type `otlp` also [routes log records](routing.md). `scripts/references` writes this page.
"""


_WORTH_NAMING = 2  # equal parameters


def listed() -> list[Key]:
    """Return the types of the page, in its order."""
    return [key for key in builtins.built_in() if key.kind in components.TYPES and key not in builtins.RESERVED]


def page() -> str:
    """Return the whole page."""
    told: dict[Key, dict[str, str]] = {}
    sections = []
    for key in listed():
        sections.append(_section(key, told))
    return _HEAD + "".join(sections)


def _section(key: Key, told: dict[Key, dict[str, str]]) -> str:
    """Return the section of a type. Parameters that an earlier one has in the same words are only named."""
    document = cast("dict[str, Any]", builtins.built_in()[key])
    own = {each["name"]: f"|{'|'.join(_row(each))}|\n" for each in document["spec"]["parameters"]}
    shared: dict[Key, list[str]] = {
        one: [name for name in own if rows.get(name) == own[name]] for one, rows in told.items()
    }
    told[key] = own
    closest = max(shared, key=lambda one: len(shared[one]), default=None)
    again = shared[closest] if closest is not None and len(shared[closest]) >= _WORTH_NAMING else []
    rows = "".join(row for name, row in own.items() if name not in again)
    parts = [f"## {key.kind} {key.name}", document["metadata"]["description"]]
    if again and closest is not None:
        parts.append(f"As [{closest.kind} {closest.name}](#{closest.kind.lower()}-{closest.name}): {_named(again)}.")
    if rows:
        parts.append(f"|parameter|type|default|meaning|\n|---|---|---|---|\n{rows.rstrip()}")
    return "".join(f"\n{part}\n" for part in parts)


def _named(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _row(definition: dict[str, Any]) -> Iterator[str]:
    yield f"`{definition['name']}`{'*' if definition.get('required') else ''}"
    values = definition.get("validValues")
    secret = ", secret" if definition.get("options", {}).get("sensitive") else ""
    yield (" ".join(f"`{value}`" for value in values) if values else definition["type"]) + secret
    default = definition.get("default")
    yield "" if default in (None, "", [], {}) else f"`{default if isinstance(default, str) else json.dumps(default)}`"
    yield definition["description"]
