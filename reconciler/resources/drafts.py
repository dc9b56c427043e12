"""A valid document made small, until it is known what surrounds it: which types its parameters have, what is stored.

Belongs here: what follows from the document alone. Does not: its secrets, which its types decide (`fitting`).
"""

import hmac
from dataclasses import dataclass, field, replace
from typing import cast

import msgspec

from reconciler.documents.values import Value
from reconciler.resources import canonical, references
from reconciler.resources.keys import Key
from reconciler.resources.resource import Resource


@dataclass(frozen=True, slots=True)
class Draft:
    """A first read holds a hundred thousand of these, hence bytes.

    `digest` decides equality: an HMAC of all that a user owns, secrets in clear, so that it tells nobody a secret and
    stays the same when a type changes its mind about what a secret is.
    """

    digest: bytes
    owned: bytes = field(repr=False)  # canonical JSON, secrets in clear
    references: tuple[Key, ...] = ()  # each once, in order
    has_placeholders: bool = False  # `(sensitive)` stands for a stored value somewhere
    proposed_id: str | None = None
    deprecated: bool = False
    protected: bool = False


def draft(resource: Resource, *, hmac_key: bytes) -> Draft:
    """The draft of a resource. `hmac_key` is this server's; another key gives other digests."""
    encoded = canonical.encode(resource.owned)
    return Draft(
        digest=_digest(encoded, hmac_key),
        owned=encoded,
        references=_keys(resource.owned),
        has_placeholders=bool(resource.placeholders),
        proposed_id=resource.proposed_id,
        deprecated=resource.deprecated,
        protected=resource.protected,
    )


def restored(draft: Draft, owned: dict[str, Value], *, hmac_key: bytes) -> Draft:
    """The same draft with the values in place that `(sensitive)` stood for."""
    encoded = canonical.encode(owned)
    return replace(
        draft, digest=_digest(encoded, hmac_key), owned=encoded, references=_keys(owned), has_placeholders=False
    )


def digest(owned: dict[str, Value], *, hmac_key: bytes) -> bytes:
    """The digest of what a user owns."""
    return _digest(canonical.encode(owned), hmac_key)


def owned(draft: Draft) -> dict[str, Value]:
    """What a user owns: a value of its own, which the caller may change."""
    return cast("dict[str, Value]", msgspec.json.decode(draft.owned))


def _digest(encoded: bytes, hmac_key: bytes) -> bytes:
    return hmac.digest(hmac_key, encoded, "sha256")


def _keys(owned: dict[str, Value]) -> tuple[Key, ...]:
    return tuple(sorted({each.key for each in references.references(owned)}))
