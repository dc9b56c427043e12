"""How much of a provider is taken, and how long anything about it lasts.

Belongs here: the numbers, in one value that tests make smaller. Does not: the form of what is limited.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderLimits:
    """Seconds and bytes."""

    request_seconds: float = 10.0  # for connecting, asking and the whole answer together
    document_bytes: int = 256 << 10  # of the discovery document, and of the key set
    token_bytes: int = 1 << 20  # of the token endpoint's answer: whoever is in 10,000 groups must get in
    lifetime_seconds: float = 3600.0  # of the discovery document and of the keys; then they are asked for again
    pause_seconds: float = 1.0  # after a failure, in which nobody else asks
    rotation_seconds: float = 10.0  # between two times that a token of an unknown key has the keys asked for


LIMITS = ProviderLimits()
