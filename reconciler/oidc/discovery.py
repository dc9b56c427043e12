"""What a provider says of itself (OpenID Connect Discovery 1.0).

Belongs here: where that is, what of it counts, and which providers are refused. Does not: fetching it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from reconciler.oidc import algorithms, plain
from reconciler.oidc.faults import ProviderUnfit, quoted

LONGEST_URL = 2048  # characters
_BASIC, _POST = "client_secret_basic", "client_secret_post"


@dataclass(frozen=True, slots=True)
class ProviderDocument:
    """What of the discovery document is used."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    end_session_endpoint: str | None
    algorithms: frozenset[str]  # those that it offers and that are pinned
    auth_method: str  # how this service says who it is (OpenID Connect Core 1.0, 9)
    names_itself: bool  # it adds `iss` to every redirect back (RFC 9207, 3)


def discovery_url(issuer: str) -> str:
    """Where the document is: the issuer without a slash at its end, and the well-known path (Discovery, 4.1)."""
    return issuer.removesuffix("/") + "/.well-known/openid-configuration"


def provider_document(told: Mapping[str, object], *, issuer: str) -> ProviderDocument:
    """What was told, when it comes from the provider that is configured and can be used safely. Raises Unfit."""
    if told.get("issuer") != issuer:  # character by character (Discovery, 4.3)
        raise ProviderUnfit(
            f"The provider at {quoted(issuer)} says that its issuer is {quoted(told.get('issuer'))}; set "
            "`auth.oidc.issuer` to exactly what the provider says, when that is the right one."
        )
    if "code" not in _offered(told, "response_types_supported", ("code",)):
        raise ProviderUnfit(_lacks(issuer, "the response type `code`"))
    # A provider that does not tell may know PKCE all the same, and ignores it when not (RFC 7636, 5).
    if "S256" not in _offered(told, "code_challenge_methods_supported", ("S256",)):
        raise ProviderUnfit(_lacks(issuer, "PKCE with `S256`"))
    return ProviderDocument(
        issuer=issuer,
        authorization_endpoint=_endpoint(told, "authorization_endpoint", issuer=issuer),
        token_endpoint=_endpoint(told, "token_endpoint", issuer=issuer),
        jwks_uri=_endpoint(told, "jwks_uri", issuer=issuer),
        end_session_endpoint=_end_session(told, issuer=issuer),
        algorithms=_algorithms(told, issuer=issuer),
        auth_method=_auth_method(told, issuer=issuer),
        names_itself=told.get("authorization_response_iss_parameter_supported") is True,
    )


def is_local(url: str) -> bool:
    """Whether a URL is plain http to this machine alone, where nobody else listens."""
    parts = _split(url)
    return parts is not None and parts.scheme == "http" and _is_loopback(parts.hostname or "")


def _lacks(issuer: str, what: str) -> str:
    return f"The provider {quoted(issuer)} does not offer {what}, without which nobody signs in here; turn it on there."


def _offered(told: Mapping[str, object], name: str, default: tuple[str, ...]) -> tuple[str, ...]:
    """The strings of a member; the default when it is not told, nothing when it is no array of strings."""
    value = told.get(name)
    return default if value is None else plain.json_texts(value) or ()


def _algorithms(told: Mapping[str, object], *, issuer: str) -> frozenset[str]:
    offered = _offered(told, "id_token_signing_alg_values_supported", algorithms.DEFAULT)
    usable = frozenset(offered) & frozenset(algorithms.PINNED)
    if not usable:
        raise ProviderUnfit(_lacks(issuer, f"any of the algorithms {', '.join(algorithms.PINNED)} for ID tokens"))
    return usable


def _auth_method(told: Mapping[str, object], *, issuer: str) -> str:
    offered = _offered(told, "token_endpoint_auth_methods_supported", (_BASIC,))
    for method in (_BASIC, _POST):
        if method in offered:
            return method
    raise ProviderUnfit(_lacks(issuer, f"`{_BASIC}` or `{_POST}` at its token endpoint"))


def _endpoint(told: Mapping[str, object], name: str, *, issuer: str) -> str:
    url = told.get(name)
    if isinstance(url, str) and _is_safe(url, issuer=issuer):
        return url
    raise ProviderUnfit(f"The provider {quoted(issuer)} names no `{name}` that is an https URL; correct it there.")


def _end_session(told: Mapping[str, object], *, issuer: str) -> str | None:
    """Signing out there is a kindness: without a safe place for it people sign out here alone."""
    url = told.get("end_session_endpoint")
    return url if isinstance(url, str) and _is_safe(url, issuer=issuer) else None


def _is_safe(url: str, *, issuer: str) -> bool:
    """Whether what goes there reaches the provider alone: https, or this machine when the issuer is on it."""
    parts = _split(url)
    if parts is None or not parts.hostname or parts.username is not None or parts.fragment:
        return False
    return parts.scheme == "https" or (is_local(url) and is_local(issuer))


def _split(url: str) -> SplitResult | None:
    if len(url) > LONGEST_URL or not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        return None
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - reading it checks it
    except ValueError:
        return None
    return parts


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
