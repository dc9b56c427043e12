"""The JSON Schemas of the service's resources: one file per kind, and `envelope` for what all kinds share.

Belongs here: the files, which editors may use as they are, and finding them; beside them the resources that are built
in (`types/`) and the names of time zones. Does not: compiling or explaining them, nor reading YAML.

A subschema may say `errorMessage`: what to tell a person when its pattern or prohibition refuses a value; an object
says it for each keyword.
"""

import json
from importlib.resources import files
from typing import Any

ENVELOPE = "envelope"

_FOLDER = files(__name__) / "v1"
_BUILT_IN = files(__name__) / "types"


def names() -> tuple[str, ...]:
    """Every schema, by name: the kinds and `envelope`."""
    return tuple(sorted(file.name.removesuffix(".json") for file in _FOLDER.iterdir() if file.name.endswith(".json")))


def load(name: str) -> dict[str, Any]:
    """One schema, read anew: the caller may change what it gets. Raises LookupError for a name without a schema."""
    if name not in names():
        raise LookupError(f"there is no schema named {name!r}")
    schema: dict[str, Any] = json.loads((_FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return schema


def built_in() -> tuple[tuple[str, bytes], ...]:
    """The files of the resources that are built in, each with its name, `DestinationType.webhook.yaml`, by name."""
    found = sorted((file.name, file.read_bytes()) for file in _BUILT_IN.iterdir() if file.name.endswith(".yaml"))
    return tuple(found)


def time_zones() -> frozenset[str]:
    """The names of time zones in IANA's database, old ones included.

    A list of our own: what a resource may say must not depend on the machine that judges it.
    """
    return frozenset(json.loads((files(__name__) / "timezones.json").read_text(encoding="utf-8")))
