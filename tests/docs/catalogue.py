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


def listed() -> list[Key]:
    """Return the types of the page, in its order."""
    return [key for key in builtins.built_in() if key.kind in components.TYPES and key not in builtins.RESERVED]


def page() -> str:
    """Return the whole page."""
    return _HEAD + "".join(map(_section, listed()))


def _section(key: Key) -> str:
    document = cast("dict[str, Any]", builtins.built_in()[key])
    rows = "".join(f"| {' | '.join(_row(each))} |\n" for each in document["spec"]["parameters"])
    head = "| parameter | type | default | meaning |\n|---|---|---|---|\n"
    return f"\n## {key.kind} {key.name}\n\n{document['metadata']['description']}\n\n{head}{rows}"


def _row(definition: dict[str, Any]) -> Iterator[str]:
    yield f"`{definition['name']}`{'*' if definition.get('required') else ''}"
    values = definition.get("validValues")
    secret = ", secret" if definition.get("options", {}).get("sensitive") else ""
    yield (" ".join(f"`{value}`" for value in values) if values else definition["type"]) + secret
    default = definition.get("default")
    yield "" if default in (None, "", [], {}) else f"`{default if isinstance(default, str) else json.dumps(default)}`"
    yield definition["description"]
