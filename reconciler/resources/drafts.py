"""A valid document made small, until it is known what surrounds it: which types its parameters have, what is stored.

Belongs here: what follows from the document alone. Does not: its secrets, which its types decide (`fitting`).
"""

import hmac
from functools import lru_cache
from typing import cast

import msgspec
from msgspec import structs

from reconciler.documents.values import Value
from reconciler.resources import canonical, references
from reconciler.resources.keys import Key
from reconciler.resources.resource import Resource

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

SHARED = 8  # references that are one object for all drafts which have the same: what is shared outlives its drafts


class Draft(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A first read holds a hundred thousand of these, hence bytes, and nothing that leads back to a draft, so that the
    garbage collector need not look.

    `digest` decides equality: an HMAC of all that a user owns, secrets in clear, so that it tells nobody a secret and
    stays the same when a type changes its mind about what a secret is.
    """

    digest: bytes
    owned: bytes  # canonical JSON, secrets in clear
    references: tuple[Key, ...] = ()  # each once, in order; if few, one object for all that refer to the same
    has_placeholders: bool = False  # `(sensitive)` stands for a stored value somewhere
    proposed_id: str | None = None
    deprecated: bool = False
    protected: bool = False

    def __post_init__(self) -> None:
        if len(self.references) <= SHARED:
            structs.force_setattr(self, "references", _shared(self.references))

    def __repr__(self) -> str:
        """Without the secrets."""
        return f"Draft({self.digest!r})"


@lru_cache(maxsize=4096)
def _shared(keys: tuple[Key, ...]) -> tuple[Key, ...]:
    return keys


def draft(resource: Resource, *, hmac_key: bytes) -> Draft:
    """The draft of a resource. `hmac_key` is this server's; another key gives other digests."""
    return Draft(
        digest=_digest(resource.encoded, hmac_key),
        owned=resource.encoded,
        references=_keys(resource.owned),
        has_placeholders=bool(resource.placeholders),
        proposed_id=resource.proposed_id,
        deprecated=resource.deprecated,
        protected=resource.protected,
    )


def restored(draft: Draft, owned: dict[str, Value], *, hmac_key: bytes) -> Draft:
    """The same draft with the values in place that `(sensitive)` stood for."""
    encoded = canonical.encode(owned)
    return structs.replace(
        draft, digest=_digest(encoded, hmac_key), owned=encoded, references=_keys(owned), has_placeholders=False
    )


def digest(owned: dict[str, Value], *, hmac_key: bytes) -> bytes:
    """The digest of what a user owns."""
    return _digest(canonical.encode(owned), hmac_key)


def owned(draft: Draft) -> dict[str, Value]:
    """What a user owns: a value of its own, which the caller may change."""
    return cast("dict[str, Value]", msgspec.json.decode(draft.owned))


def members(draft: Draft) -> dict[str, Value]:
    """The same for encoding alone: each member, and each of `metadata`, is the JSON that it has in the draft."""
    found = cast("dict[str, Value]", _members(draft.owned))
    found["metadata"] = cast("dict[str, Value]", _members(cast("msgspec.Raw", found["metadata"])))
    return found


def _digest(encoded: bytes, hmac_key: bytes) -> bytes:
    found = _keyed(hmac_key).copy()
    found.update(encoded)
    return found.digest()


@lru_cache(maxsize=8)
def _keyed(hmac_key: bytes) -> hmac.HMAC:
    """What has taken the key: going on from a copy of it takes half the time."""
    return hmac.new(hmac_key, digestmod="sha256")


def _keys(owned: dict[str, Value]) -> tuple[Key, ...]:
    found = {each.key for each in references.references(owned)}
    return tuple(found if len(found) < 2 else sorted(found))
