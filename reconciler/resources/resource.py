"""A resource: a document that broke no rule, less what belongs to the server.

Belongs here: the value and how it is taken from a document. Does not: the rules (`judging`), secrets (`fitting`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from reconciler.documents.values import Pointer, Value
from reconciler.resources.keys import Key

SERVER_KEYS = frozenset({"id", "hash", "version", "dateModified"})
"""The keys of `metadata` that the server sets; `id` may be proposed for a new resource."""

PRUNE_LABEL = "service/prune"


@dataclass(frozen=True, slots=True)
class Resource:
    """What a user owns. Two resources are equal when `owned` is.

    `owned` holds secrets in clear, so no representation shows it; nobody may change what is inside. `placeholders`
    says where it holds `(sensitive)` instead of a value, from the document's root down.
    """

    key: Key
    owned: dict[str, Value] = field(repr=False)  # apiVersion, kind, metadata, spec
    placeholders: tuple[Pointer, ...] = ()
    proposed_id: str | None = None
    deprecated: bool = False
    protected: bool = False  # stays when it disappears from Git


def of_document(document: dict[str, Value], *, key: Key, placeholders: Sequence[Pointer]) -> Resource:
    """The resource of a valid document, in which null labels and an absent or null spec are read as empty."""
    metadata = cast("dict[str, Value]", document["metadata"])  # the schema says so
    labels = metadata.get("labels")
    proposed = metadata.get("id")
    return Resource(
        key=key,
        owned={
            "apiVersion": document["apiVersion"],
            "kind": key.kind,
            "metadata": {name: value for name, value in metadata.items() if name not in SERVER_KEYS},
            "spec": document["spec"],
        },
        placeholders=tuple(placeholders),
        proposed_id=proposed if isinstance(proposed, str) else None,
        deprecated=metadata.get("deprecated") is True,
        protected=isinstance(labels, dict) and labels.get(PRUNE_LABEL) == "disabled",
    )
