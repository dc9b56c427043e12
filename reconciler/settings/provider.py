"""Which settings of sign-in through a provider fit each other, where `auth.type` is `oidc`.

Judged on plain values, so that these mistakes show beside those of shape. Pure: whether the provider is there, the
start asks, and only warns.
"""

from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from reconciler.model.values import Pointer, Value
from reconciler.settings import addresses, environment

NEEDED = ("issuer", "oauth2ClientID", "oauth2ClientSecret")
OPENID = "openid"
WELL_KNOWN = "/.well-known/openid-configuration"  # OpenID Connect Discovery 1.0, 4


def provider_mistakes(oidc: Mapping[str, Value]) -> Iterator[tuple[Pointer, str]]:
    """What is missing or contradicts, as (the key's pointer in `auth.oidc`, the sentence)."""
    for key in NEEDED:
        if oidc.get(key) in ("", None):
            # Wherever it is shown, the other of the two is what somebody may want.
            variable = environment.variable_of(("auth", "oidc", key))
            yield (key,), f"is required where auth.type is oidc; set auth.oidc.{key} in the file, or {variable}"
    yield from _issuer(oidc.get("issuer"))
    yield from _scopes(oidc.get("scopes"))
    first = oidc.get("firstAdmin")
    given = {key for key, value in first.items() if value not in ("", None)} if isinstance(first, dict) else set()
    for one, other in (("claim", "value"), ("value", "claim")):
        # Half of it would let in whoever comes first, or anybody without the claim.
        if one in given and other not in given:
            yield ("firstAdmin", one), f"needs auth.oidc.firstAdmin.{other} too"


def is_below_a_path(web_url: Value) -> bool:
    """Whether the redirect URI, made of it, would lead where no page is."""
    try:
        return isinstance(web_url, str) and urlsplit(web_url).path.strip("/") != ""
    except ValueError:
        return False  # a mistake of shape, shown as such


def _issuer(value: Value) -> Iterator[tuple[Pointer, str]]:
    try:
        parts = urlsplit(addresses.issuer(value)) if isinstance(value, str) and value else None
    except ValueError:
        return  # a mistake of shape, shown as such
    if parts is not None and parts.path.rstrip("/").endswith(WELL_KNOWN):
        yield ("issuer",), f"must not end in {WELL_KNOWN}, which is looked for there; leave that part out"
    # OpenID Connect Discovery 1.0, 3. On this machine alone nobody is in between.
    if parts is not None and parts.scheme != "https" and not addresses.is_loopback(parts.hostname or ""):
        yield ("issuer",), "must begin with https:// beyond this machine, since nothing else proves who answers"


def _scopes(value: Value) -> Iterator[tuple[Pointer, str]]:
    # OpenID Connect Core 1.0, 3.1.2.1: without it there is no ID token.
    if isinstance(value, list) and OPENID not in value:
        yield ("scopes",), "must hold `openid`, without which a provider tells nobody's identity"
