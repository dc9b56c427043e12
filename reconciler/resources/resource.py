"""A resource: a document that broke no rule, less what belongs to the server.

Belongs here: the value and how it is taken from a document. Does not: the rules (`judging`), secrets (`fitting`).
"""

import msgspec

from reconciler.documents.values import Pointer, Value
from reconciler.resources import canonical
from reconciler.resources.keys import Key

SERVER_KEYS = frozenset({"id", "hash", "version", "dateModified"})
"""The keys of `metadata` that the server sets; `id` may be proposed for a new resource."""

PRUNE_LABEL = "service/prune"


class Resource(msgspec.Struct, frozen=True, gc=False):
    """What a user owns. Two resources are equal when `owned` is.

    `owned` holds secrets in clear, so no representation shows it; nobody may change what is inside. `placeholders`
    says where it holds `(sensitive)` instead of a value, from the document's root down.
    """

    key: Key
    owned: dict[str, Value]  # apiVersion, kind, metadata, spec
    encoded: bytes  # the canonical JSON of `owned`
    placeholders: tuple[Pointer, ...] = ()
    proposed_id: str | None = None
    deprecated: bool = False
    protected: bool = False  # stays when it disappears from Git

    def __repr__(self) -> str:
        """Without the secrets."""
        return f"Resource({self.key!r})"


def of_document(document: dict[str, Value], *, key: Key) -> Resource:
    """The resource of a document of the shape that its schema asks for; parts of it are the document's own."""
    metadata = document["metadata"]
    assert isinstance(metadata, dict), "the schema says so"
    labels = metadata.get("labels")
    proposed = metadata.get("id")
    kept = metadata
    if not SERVER_KEYS.isdisjoint(metadata):
        kept = {name: value for name, value in metadata.items() if name not in SERVER_KEYS}
    owned: dict[str, Value] = {
        "apiVersion": document["apiVersion"],
        "kind": key.kind,
        "metadata": kept,
        "spec": document["spec"],
    }
    return Resource(
        key=key,
        owned=owned,
        encoded=canonical.encode(owned),
        proposed_id=proposed if isinstance(proposed, str) else None,
        deprecated=metadata.get("deprecated") is True,
        protected=isinstance(labels, dict) and labels.get(PRUNE_LABEL) == "disabled",
    )
