"""Preparing a resource that is to be stored: its hash, what may be shown of it and what may not.

Belongs here: taking secrets out. Does not: finding them (`fitting`), showing what is left (`rendering`).
"""

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass, field

from reconciler.documents.values import Pointer, Value, pointer_text
from reconciler.resources import canonical, parameters, replacing


@dataclass(frozen=True, slots=True)
class Prepared:
    """A resource as the store keeps it. `spec_hash` covers each secret by its HMAC, so it tells nobody what it is."""

    spec_hash: str  # hex SHA-256 of the spec
    masked: dict[str, Value]  # what a user owns, each secret replaced by `(sensitive)`
    secrets: bytes | None = field(default=None, repr=False)  # canonical JSON {JSON pointer: value}


def prepare(owned: dict[str, Value], secrets: Iterable[tuple[Pointer, Value]], *, hmac_key: bytes) -> Prepared:
    """Take the secrets out of what a user owns. `hmac_key` is this server's; another key gives other hashes."""
    found = dict(secrets)
    covered = replacing.replaced(owned, {pointer: _covered(value, hmac_key) for pointer, value in found.items()})
    return Prepared(
        spec_hash=hashlib.sha256(canonical.encode(covered["spec"])).hexdigest(),
        masked=replacing.replaced(owned, dict.fromkeys(found, parameters.MASK)),
        secrets=canonical.encode({pointer_text(at): value for at, value in found.items()}) if found else None,
    )


def _covered(value: Value, hmac_key: bytes) -> str:
    """What stands for a secret in a hash. A reference, left as it is, begins otherwise: the two never collide."""
    return "hmac-sha256:" + hmac.digest(hmac_key, canonical.encode(value), "sha256").hex()
