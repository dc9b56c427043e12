"""What an ID token must be before anything in it is believed (OpenID Connect Core 1.0, 2 and 3.1.3.7).

Belongs here: its form and header, and its claims beyond what Authlib checks. Does not: whose keys they are
(`signatures`), what the claims grant (`reconciler.access`).
"""

import base64
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from reconciler.model.directory import ProvedIdentity, ProviderIdentity
from reconciler.oidc import oauth, plain
from reconciler.oidc.configuration import ProviderConfiguration
from reconciler.oidc.faults import NotProved
from reconciler.oidc.flows import LIFETIME_SECONDS
from reconciler.oidc.oauth import Tokens, WrongClaim

LEEWAY_SECONDS = 60.0  # between the provider's clock and ours
# A token with the nonce of a sign-in is never older than the sign-in: nobody knew the nonce before. So this turns away
# no token that was made for us, however the provider caches, unless its clock is far behind.
OLDEST_SECONDS = LIFETIME_SECONDS
LONGEST_SUBJECT = 255  # characters (2)
LONGEST_HEADER = 4096  # characters of base64url
_FORM: Final = re.compile(r"([A-Za-z0-9_-]+)\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*", re.ASCII)
_WRONG: Final = {
    "": "cannot be read",
    "iss": "is another provider's (`iss`)",
    "sub": "does not say whose it is (`sub`)",
    "aud": "is for another service (`aud`)",
    "azp": "was given to another service (`azp`)",
    "exp": "has expired, or the clocks differ (`exp`)",
    "iat": "is not from now, or the clocks differ (`iat`)",
    "nbf": "does not hold yet, or the clocks differ (`nbf`)",
    "nonce": "is of another sign-in (`nonce`)",
    "at_hash": "does not belong to the access token beside it (`at_hash`)",
}


class TokenHeader(NamedTuple):
    """What of a token's header is used. Keys that it brings or points to (`jwk`, `jku`, `x5c`, `x5u`) are not."""

    alg: str
    kid: str | None


def token_header(token: str, *, allowed: frozenset[str]) -> TokenHeader:
    """The header, with one of the allowed algorithms. Raises NotProved."""
    found = _FORM.fullmatch(token)
    if found is None or len(found[1]) > LONGEST_HEADER:
        raise NotProved(_sentence("is no signed token"))
    try:
        told = plain.json_object(base64.urlsafe_b64decode(found[1] + "=" * (-len(found[1]) % 4)))
    except ValueError:
        raise NotProved(_sentence("cannot be read")) from None
    alg, kid = told.get("alg"), told.get("kid")
    if not isinstance(alg, str) or alg not in allowed:
        raise NotProved(_sentence("is signed with an algorithm that is not allowed, or not at all"))
    if "crit" in told or "b64" in told:  # RFC 7515, 4.1.11: what must be understood and is not
        raise NotProved(_sentence("asks for an extension that this service does not know (`crit`)"))
    if not (kid is None or isinstance(kid, str)):
        raise NotProved(_sentence("cannot be read"))
    return TokenHeader(alg, kid)


def not_signed() -> NotProved:
    """For a token that none of the provider's keys signed."""
    return NotProved(_sentence("is not signed with a key of the provider's"))


def proved_identity(
    payload: bytes, tokens: Tokens, *, alg: str, configuration: ProviderConfiguration, nonce: str, now: float
) -> ProvedIdentity:
    """Whom the signed claims prove; `now` is in seconds since the epoch. Raises NotProved."""
    try:
        claims = plain.json_object(payload)
    except plain.NotAnObject:
        raise NotProved(_sentence(_WRONG[""])) from None
    told = {name: value for name, value in claims.items() if value is not None}  # null counts as missing
    try:
        _check(told, client_id=configuration.client_id, now=now)
        oauth.check_claims(
            told,
            alg=alg,
            configuration=configuration,
            nonce=nonce,
            access_token=tokens.access_token,
            now=now,
            leeway=LEEWAY_SECONDS,
        )
    except WrongClaim as problem:
        raise NotProved(_sentence(_WRONG.get(problem.claim, _WRONG[""]))) from None
    return ProvedIdentity(ProviderIdentity(configuration.issuer, str(told["sub"])), claims, tokens.id_token)


def _check(claims: Mapping[str, object], *, client_id: str, now: float) -> None:
    """What Authlib takes more lightly than we do. Raises WrongClaim."""
    wrong = {
        "sub": not _is_subject(claims.get("sub")),
        "azp": claims.get("azp", client_id) != client_id,
        "iat": not _is_recent(claims.get("iat"), now),
        "at_hash": not _is_text(claims.get("at_hash", "none")),
    }
    for claim, is_wrong in wrong.items():
        if is_wrong:
            raise WrongClaim(claim)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _is_subject(value: object) -> bool:
    """Letters of ASCII that can be seen: a control character would name nobody in a log."""
    return isinstance(value, str) and 0 < len(value) <= LONGEST_SUBJECT and value.isascii() and value.isprintable()


def _is_recent(value: object, now: float) -> bool:
    """Whether it is a number of seconds (RFC 7519, 2) from now; compared before anything is computed with it."""
    earliest, latest = now - OLDEST_SECONDS - LEEWAY_SECONDS, now + LEEWAY_SECONDS
    return isinstance(value, int | float) and earliest <= value <= latest


def _sentence(why: str) -> str:
    return f"The provider's ID token {why}; try again, or ask whoever runs it."
