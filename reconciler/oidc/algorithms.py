"""The algorithms by which an ID token may be signed.

Belongs here: their names and which keys fit them. Does not: signatures (`signatures`).

The list is ours: what a provider says it supports can only make it shorter. On it are those whose verifying key is
public (RFC 7518, 3.3 to 3.5; RFC 8037; RFC 9864), so no key that anybody can read makes a signature. `none` is none.
"""

from typing import Final, NamedTuple


class FittingAlgorithms(NamedTuple):
    """Which keys an algorithm takes: `kty` and `crv` of a JSON Web Key; no curve for RSA."""

    kty: str
    crv: str = ""


_RSA: Final = FittingAlgorithms("RSA")
PINNED: Final = {
    "RS256": _RSA,
    "RS384": _RSA,
    "RS512": _RSA,
    "PS256": _RSA,
    "PS384": _RSA,
    "PS512": _RSA,
    "ES256": FittingAlgorithms("EC", "P-256"),
    "ES384": FittingAlgorithms("EC", "P-384"),
    "ES512": FittingAlgorithms("EC", "P-521"),
    "EdDSA": FittingAlgorithms("OKP", "Ed25519"),
    "Ed25519": FittingAlgorithms("OKP", "Ed25519"),
}
DEFAULT: Final = ("RS256",)  # of a provider that does not say (OpenID Connect Core 1.0, 15.1)
