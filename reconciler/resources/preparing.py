"""Preparing a valid resource for the store: its digest, its hash, what may be shown and what may not.

Belongs here: taking secrets out. Does not: finding them (`judging`), showing (`rendering`), reading references.
"""

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from reconciler.documents.values import Pointer, Value, pointer_text
from reconciler.resources import canonical, parameters
from reconciler.resources.resource import Resource


class _Container(Protocol):
    """A list or a mapping, either of which a step of a pointer leads on from."""

    def __getitem__(self, step: Any, /) -> Value: ...
    def __setitem__(self, step: Any, value: Value, /) -> None: ...
    def copy(self) -> "_Container": ...


@dataclass(frozen=True, slots=True)
class Prepared:
    """All that the store keeps of a resource, made small: a first read holds a hundred thousand of these.

    `digest` decides equality; both it and `spec_hash` cover each secret by its HMAC, so they tell nobody what it is.
    """

    digest: bytes  # SHA-256 of everything that a user owns
    spec_hash: str  # hex SHA-256 of the spec
    masked: bytes  # canonical JSON of what a user owns, each secret replaced by `(sensitive)`
    secrets: bytes | None = field(repr=False)  # canonical JSON {JSON pointer: value}
    proposed_id: str | None = None
    deprecated: bool = False
    protected: bool = False


def prepare(resource: Resource, *, hmac_key: bytes) -> Prepared:
    """Everything that follows from a resource alone. `hmac_key` is this server's; another key gives other digests."""
    owned = resource.owned
    secrets = dict(resource.secrets)
    covered = _replaced(owned, {pointer: _covered(value, hmac_key) for pointer, value in secrets.items()})
    encoded = canonical.encode(covered)
    masked = canonical.encode(_replaced(owned, dict.fromkeys(secrets, parameters.MASK))) if secrets else encoded
    return Prepared(
        digest=hashlib.sha256(encoded).digest(),
        spec_hash=hashlib.sha256(canonical.encode(covered["spec"])).hexdigest(),
        masked=masked,
        secrets=canonical.encode({pointer_text(at): value for at, value in secrets.items()}) if secrets else None,
        proposed_id=resource.proposed_id,
        deprecated=resource.deprecated,
        protected=resource.protected,
    )


def _covered(value: Value, hmac_key: bytes) -> str:
    """What stands for a secret in a digest. A reference, left as it is, begins otherwise: the two never collide."""
    return "hmac-sha256:" + hmac.digest(hmac_key, canonical.encode(value), "sha256").hex()


def _replaced(owned: dict[str, Value], replacements: dict[Pointer, str]) -> dict[str, Value]:
    """`owned` with other values at some pointers; only what leads to them is copied, once, and all else is shared."""
    if not replacements:
        return owned
    root: dict[str, Value] = dict(owned)
    copies: dict[Pointer, _Container] = {(): root}
    for pointer, value in replacements.items():
        _copy(pointer[:-1], copies)[pointer[-1]] = value
    return root


def _copy(pointer: Pointer, copies: dict[Pointer, _Container]) -> _Container:
    """The copy of the container at a pointer, made now if need be, in the copy of its own parent."""
    if pointer not in copies:
        above = _copy(pointer[:-1], copies)
        copies[pointer] = cast("_Container", above[pointer[-1]]).copy()  # pointers to secrets come from this document
        above[pointer[-1]] = cast("Value", copies[pointer])
    return copies[pointer]
