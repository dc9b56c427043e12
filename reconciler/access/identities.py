"""Who an OpenID Connect provider says that somebody is.

Belongs here: the values that sign-in, the directory and the store share. Does not: proving them (`reconciler.oidc`),
what claims grant (`claims`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Identity(NamedTuple):
    """A person at a provider. Only the two together are stable and never given to somebody else (OpenID Connect Core
    1.0, 5.7); a name or an e-mail address may be.
    """

    issuer: str
    subject: str


@dataclass(frozen=True, slots=True)
class Proved:
    """What a checked ID token says: whose it is, and every claim of it, as JSON values."""

    identity: Identity
    claims: Mapping[str, object] = field(repr=False)
    id_token: str = field(repr=False)  # as it came, for the provider's own sign-out
