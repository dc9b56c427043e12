"""Preparing a resource that is to be stored: its hash, what may be shown of it and what may not.

Belongs here: taking secrets out. Does not: finding them (`fitting`), showing what is left (`rendering`).
"""

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from reconciler.documents.values import Pointer, Value, pointer_text
from reconciler.resources import canonical, parameters, replacing


class Bound(NamedTuple):
    """The one version of the one resource whose hash this is: nowhere else do equal secrets give an equal hash.

    Otherwise whoever may store resources could store a guess, in one of their own or in this one, and compare hashes.
    """

    project: str
    resource_id: str
    version: int


@dataclass(frozen=True, slots=True)
class Prepared:
    """A resource as the store keeps it. `spec_hash` covers each secret by its HMAC, so it tells nobody what it is."""

    spec_hash: str  # hex SHA-256 of the spec
    masked: dict[str, Value]  # what a user owns, each secret replaced by `(sensitive)`
    secrets: bytes | None = field(default=None, repr=False)  # canonical JSON {JSON pointer: value}


def prepare(
    owned: dict[str, Value], secrets: Iterable[tuple[Pointer, Value]], *, hmac_key: bytes, bound: Bound
) -> Prepared:
    """Take the secrets out of what a user owns. `hmac_key` is this server's; another key gives other hashes."""
    found = {pointer: (pointer_text(pointer), value) for pointer, value in secrets}
    if not found:
        return Prepared(hashlib.sha256(canonical.encode(owned["spec"])).hexdigest(), owned)
    covered = replacing.replaced(owned, {at: _covered(owned, told, hmac_key, bound) for at, told in found.items()})
    return Prepared(
        spec_hash=hashlib.sha256(canonical.encode(covered["spec"])).hexdigest(),
        masked=replacing.replaced(owned, dict.fromkeys(found, parameters.MASK)),
        secrets=canonical.encode(dict(found.values())),
    )


def _covered(owned: dict[str, Value], told: tuple[str, Value], hmac_key: bytes, bound: Bound) -> str:
    """What stands for a secret, told with its place, in a hash.

    A reference, left as it is, begins otherwise, and a list is no document, whose digest has the same key.
    """
    metadata = owned["metadata"]
    name = metadata["name"] if isinstance(metadata, dict) else None
    covered = canonical.encode([*bound, owned["kind"], name, *told])
    return "hmac-sha256:" + hmac.digest(hmac_key, covered, "sha256").hex()
