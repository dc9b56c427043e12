"""Signatures of ID tokens, and the keys that verify them; the door to joserfc.

Belongs here: which keys of a provider's set count, and whether one of them signed. Does not: when the set is fetched
(`provider`), what the token says (`tokens`).

joserfc is told what to do in every point where its own choice would be another: its header checks run after ours
(`tokens`) and are left out, its bounds are ours, and it looks up no key by itself.
"""

import base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from joserfc import jwk, jws
from joserfc.errors import JoseError

from reconciler.oidc.algorithms import PINNED, FittingAlgorithms
from reconciler.oidc.faults import ProviderUnfit

MOST_KEYS = 100
SMALLEST_RSA, LARGEST_RSA = 2048, 8192  # bits; NIST SP 800-131A, and what verifies within a millisecond
LARGEST_EXPONENT = 32  # bits
LONGEST_KID = 512  # characters
_MEMBERS: Final = {"RSA": ("n", "e"), "EC": ("crv", "x", "y"), "OKP": ("crv", "x")}
_LONGEST_MEMBER = LARGEST_RSA // 6 + 4  # characters of base64url


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A public key; `kid` and `alg` are what the provider says of it, or None."""

    kid: str | None
    alg: str | None
    fit: FittingAlgorithms
    public: jwk.Key = field(repr=False)

    def takes(self, alg: str, kid: str | None) -> bool:
        """Whether a token of this algorithm and key id may be signed with it (RFC 7515, 4.1.4; 10.7)."""
        return PINNED[alg] == self.fit and self.alg in (None, alg) and (kid is None or self.kid in (None, kid))


class _Registry(jws.JWSRegistry):
    """joserfc's algorithms without its advice: that an algorithm is deprecated is no news for each sign-in."""

    max_header_length = 4096
    max_payload_length = 1 << 20
    max_signature_length = 2048

    def get_alg(self, name: str) -> Any:
        """One that is pinned, whatever joserfc recommends."""
        return self.algorithms[name if name in PINNED else ""]

    def check_header(self, header: dict[str, Any]) -> None:
        """`tokens` has done it."""


_REGISTRY: Final = _Registry()


def signing_keys(told: Mapping[str, object]) -> tuple[SigningKey, ...]:
    """The keys of a JSON Web Key Set that may sign ID tokens (RFC 7517, 5). Raises Unfit when there is none.

    Left out are those for encryption, for other algorithms, private or symmetric ones, and what is no key.
    """
    listed = told.get("keys")
    if not isinstance(listed, list) or len(listed) > MOST_KEYS:
        raise ProviderUnfit(f"The provider's key set is no list of at most {MOST_KEYS} keys; correct it there.")
    found = tuple(_usable(listed))
    if not found:
        raise ProviderUnfit(
            f"The provider's key set holds no public key for {', '.join(PINNED)}, of {SMALLEST_RSA} bits or more "
            "where it is RSA; correct it there."
        )
    return found


def signed_payload(token: str, *, alg: str, kid: str | None, among: Iterable[SigningKey]) -> bytes | None:
    """What one of the keys signed; None when none of them did. `alg` is pinned."""
    for key in among:
        if key.takes(alg, kid):
            try:
                return jws.deserialize_compact(token, key.public, registry=_REGISTRY).payload
            except (JoseError, ValueError, TypeError, KeyError):
                continue
    return None


def _usable(listed: list[object]) -> Iterator[SigningKey]:
    for each in listed:
        if isinstance(each, dict):
            key = _key(each)
            if key is not None:
                yield key


def _key(told: Mapping[str, object]) -> SigningKey | None:
    """A key of the set, by the few members that matter; None for one that may not sign ID tokens."""
    kid, alg, kty = told.get("kid"), told.get("alg"), told.get("kty")
    names = _MEMBERS.get(kty) if isinstance(kty, str) else None
    if names is None or "d" in told or told.get("use", "sig") != "sig" or not _verifies(told.get("key_ops")):
        return None
    if not (kid is None or (isinstance(kid, str) and len(kid) <= LONGEST_KID)):
        return None
    if not (alg is None or (isinstance(alg, str) and alg in PINNED)):
        return None
    members = {name: told.get(name) for name in names}
    if not all(isinstance(value, str) and len(value) <= _LONGEST_MEMBER for value in members.values()):
        return None
    fit = FittingAlgorithms(str(kty), str(members.get("crv", "")))
    public = _imported({"kty": fit.kty, **members}) if fit in PINNED.values() else None
    return None if public is None else SigningKey(kid, alg, fit, public)


def _verifies(operations: object) -> bool:
    return operations is None or (isinstance(operations, list) and "verify" in operations)


def _imported(members: dict[str, Any]) -> jwk.Key | None:
    """The key itself; None for one that is none, or too weak: of those joserfc would only warn."""
    try:
        if members["kty"] == "RSA" and not _is_strong(modulus=members["n"], exponent=members["e"]):
            return None
        return jwk.import_key(members)
    except (JoseError, ValueError, TypeError, KeyError):
        return None


def _is_strong(*, modulus: str, exponent: str) -> bool:
    bits = _bits(modulus)
    return SMALLEST_RSA <= bits <= LARGEST_RSA and _bits(exponent) <= LARGEST_EXPONENT


def _bits(number: str) -> int:
    return int.from_bytes(base64.urlsafe_b64decode(number + "=" * (-len(number) % 4))).bit_length()
