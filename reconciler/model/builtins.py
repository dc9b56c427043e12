"""Resources that every project has from the start, and the names that are reserved."""

import hashlib
from functools import cache
from typing import cast

import schemas
from reconciler.model import components, documents, positions, routes, values
from reconciler.model.names import Key
from reconciler.model.values import Value

RESERVED = frozenset(
    {
        Key("DestinationType", "webhook"),
        Key("ExtensionType", "file_storage"),
        Key("Extension", "file_storage_persistent_queue"),
    }
)
"""Types that the service itself executes. A project may replace any other built-in type by one of the same name."""


@cache
def built_in() -> dict[Key, dict[str, Value]]:
    """Return the documents by key, in the order of keys. Do not change them."""
    documents = [_document(data) for _, data in schemas.built_in()]
    return dict(sorted((_key(document), document) for document in documents))


def spec(key: Key) -> Value:
    """Return the spec of a built-in resource, or None."""
    document = built_in().get(key)
    return None if document is None else document["spec"]


@cache
def shown() -> dict[Key, bytes]:
    """Return each built-in resource as a reader gets it, in the order of keys; the same bytes in every process."""
    return {key: _body(key, document) for key, document in built_in().items()}


@cache
def built_in_ids() -> dict[str, Key]:
    """Return the built-in resources by their `metadata.id`."""
    return {_id(key): key for key in built_in()}


def _body(key: Key, document: dict[str, Value]) -> bytes:
    """Return a resource like others, but without a date of modification."""
    metadata: dict[str, Value] = {
        **cast("dict[str, Value]", document["metadata"]),
        "id": _id(key),
        "hash": hashlib.sha256(values.canonical_json(document["spec"])).hexdigest(),
        "version": 1,
    }
    status: dict[str, Value] = {"latest": True, "source": {"type": "builtin"}}
    if key.kind in components.TYPES:
        status["runsOn"] = [*routes.type_runs_on(key)]
    return values.canonical_json({**document, "metadata": metadata, "status": status})


def _id(key: Key) -> str:
    return f"builtin.{key.kind}.{key.name}"


def _document(data: bytes) -> dict[str, Value]:
    [document] = documents.read(data, syntax=documents.Syntax.YAML, limits=positions.FILE_LIMITS)
    return cast("dict[str, Value]", document.value)  # a test holds every file against its kind's schema


def _key(document: dict[str, Value]) -> Key:
    metadata = cast("dict[str, Value]", document["metadata"])
    return Key(str(document["kind"]), str(metadata["name"]))
