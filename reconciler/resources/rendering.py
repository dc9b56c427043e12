"""What a reader of the service gets, as bytes that are stored once and sent as they are.

Belongs here: the body of one version, and joining it with its status. Does not: what the status says.
"""

from typing import NamedTuple, cast

import msgspec

from reconciler.documents.values import Value
from reconciler.resources import canonical
from reconciler.resources.preparing import Prepared


class Identity(NamedTuple):
    """What the server adds to a resource's metadata."""

    id: str
    version: int
    date_modified: str  # RFC 3339, UTC


def body(prepared: Prepared, *, identity: Identity) -> bytes:
    """The masked resource with the server's metadata, canonical JSON, without `status`."""
    masked: dict[str, Value] = msgspec.json.decode(prepared.masked)
    metadata: dict[str, Value] = {
        **cast("dict[str, Value]", masked["metadata"]),  # a resource has metadata
        "id": identity.id,
        "hash": prepared.spec_hash,
        "version": identity.version,
        "dateModified": identity.date_modified,
    }
    return canonical.encode({**masked, "metadata": metadata})


def with_status(body: bytes, status: bytes) -> bytes:
    """A body joined with the JSON of its status, which changes without a new version of the resource.

    `status` sorts after every key of a body, so what is canonical stays so.
    """
    return b'%b,"status":%b}' % (body[:-1], status)
