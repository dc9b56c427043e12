"""Discovery of a provider: its document, algorithms, limits and faults."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit

import msgspec

from reconciler.model import errors
from reconciler.model import text as model_text
from reconciler.settings import scalars

# The algorithms by which an ID token may be signed.
#
# The list is ours; a provider can only make it shorter. It has the algorithms with a public verifying key (RFC 7518,
# 3.3 to 3.5; RFC 8037; RFC 9864), so nobody can sign with a key that is readable. `none` is not in it.

PINNED: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)
DEFAULT: Final = ("RS256",)  # of a provider that does not say (OpenID Connect Core 1.0, 15.1)


class NotAnObject(ValueError):
    """The bytes are not a JSON object."""


def json_object(data: bytes) -> Mapping[str, object]:
    """Parse a JSON object from outside. Raises NotAnObject."""
    try:
        return msgspec.json.decode(data, type=dict[str, object])
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        raise NotAnObject from None


# The provider and the client.


@dataclass(frozen=True, slots=True)
class ProviderConfiguration:
    """The provider and the client in the settings; `redirect_uri` is `<webURL>/oidc/redirect`."""

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    scopes: tuple[str, ...]
    redirect_uri: str
    signed_out_uri: str  # `<webURL>/signed-out`, registered there as post-logout redirect URI
    proxy: str = ""
    ca_file: Path | None = None
    wants_groups: bool = False  # ask for the scope `groups` too where the provider offers it


# Limits on sizes and times of a provider's answers.


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderLimits:
    """The limits on requests to the provider, in seconds and bytes."""

    request_seconds: float = 10.0  # for the connection, the request and the whole answer together
    document_bytes: int = 256 << 10  # of the discovery document, and of the key set
    token_bytes: int = 1 << 20  # of the token endpoint's answer: a person in 10,000 groups must be able to sign in
    lifetime_seconds: float = 3600.0  # of the discovery document and of the keys; then they are fetched again
    pause_seconds: float = 1.0  # after a failure, without another request
    rotation_seconds: float = 10.0  # between two fetches of the keys because a token has an unknown key


LIMITS = ProviderLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderAnswer:
    """The expected answer to one kind of request to the provider."""

    what: str  # as a sentence names it: `the discovery document`
    url: str
    most_bytes: int
    statuses: frozenset[int] = frozenset({200})  # of answers that are read
    members: frozenset[str] | None = None  # the members of the JSON object that are kept; None: all


# Errors of a sign-in, by who can mend them.
#
#     Refused      Unfit        the operator: the provider is another one, or offers nothing that is safe
#                  NotProved    the person: begin again
#                  Declined     the person, or who runs the provider: it said no
#     Transient    Unreachable  nobody: try again

LONGEST_QUOTE = 200  # characters
STOPPING = "The service is stopping; sign in when it runs again."


class ProviderUnreachable(errors.Transient):
    """The provider gives no valid answer. The message is one sentence without text from the provider."""


class ProviderUnfit(errors.Refused):
    """The provider is not the configured one, or offers nothing safe; the operator must correct it."""


class NotProved(errors.Refused):
    """The callback proves no identity: the state is wrong, the code was used, or the token is not for us."""


class Declined(errors.Refused):
    """The provider, or the person there, refused the sign-in (`access_denied` and the like, OpenID Connect Core 1.0,
    3.1.2.6).

    `told` is the error with its description, for the log only: anybody who makes a link can write this text.
    """

    def __init__(self, message: str, *, told: str) -> None:
        super().__init__(message)
        self.told = told


def quoted(value: object) -> str:
    """Return a text of the provider for a sentence: short, visible and on one line."""
    text = model_text.visible(value[: LONGEST_QUOTE + 1]) if isinstance(value, str) else "no text"
    return text if len(text) <= LONGEST_QUOTE else text[:LONGEST_QUOTE] + "..."


# The discovery document (OpenID Connect Discovery 1.0).

LONGEST_URL = 2048  # characters
GROUPS = "groups"  # no standard names this scope; Dex, Okta and others give the claim `groups` for it
_BASIC, _POST = "client_secret_basic", "client_secret_post"


@dataclass(frozen=True, slots=True)
class ProviderDocument:
    """The used parts of the discovery document."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    end_session_endpoint: str | None
    algorithms: frozenset[str]  # those that it offers and that are pinned
    auth_method: str  # how this service authenticates (OpenID Connect Core 1.0, 9)
    names_itself: bool  # it adds `iss` to every redirect back (RFC 9207, 3)
    scopes: tuple[str, ...]  # those that it offers; empty when it does not say


def discovery_url(issuer: str) -> str:
    """Return the URL of the document: the issuer without its last slash, and the well-known path (Discovery, 4.1)."""
    return issuer.removesuffix("/") + "/.well-known/openid-configuration"


def provider_document(told: Mapping[str, object], *, issuer: str) -> ProviderDocument:
    """Read the document of the configured provider. Raises ProviderUnfit for another provider's, or an unsafe one."""
    if told.get("issuer") != issuer:  # character by character (Discovery, 4.3)
        raise ProviderUnfit(
            f"The provider at {quoted(issuer)} says that its issuer is {quoted(told.get('issuer'))}; set "
            "`auth.oidc.issuer` to exactly what the provider says, when that is the right one."
        )
    if "code" not in _offered(told, "response_types_supported", ("code",)):
        raise ProviderUnfit(_lacks(issuer, "the response type `code`"))
    # A provider that does not list PKCE may support it nevertheless, and otherwise ignores it (RFC 7636, 5).
    if "S256" not in _offered(told, "code_challenge_methods_supported", ("S256",)):
        raise ProviderUnfit(_lacks(issuer, "PKCE with `S256`"))
    offered = _offered(told, "id_token_signing_alg_values_supported", DEFAULT)
    algorithms = frozenset(offered) & frozenset(PINNED)
    if not algorithms:
        raise ProviderUnfit(_lacks(issuer, f"any of the algorithms {', '.join(PINNED)} for ID tokens"))
    offered = _offered(told, "token_endpoint_auth_methods_supported", (_BASIC,))
    method = next((one for one in (_BASIC, _POST) if one in offered), None)
    if method is None:
        raise ProviderUnfit(_lacks(issuer, f"`{_BASIC}` or `{_POST}` at its token endpoint"))
    end_session = told.get("end_session_endpoint")
    if not isinstance(end_session, str) or not _is_safe(end_session, issuer=issuer):
        end_session = None  # signing out there is optional: without a safe URL, people only sign out here
    return ProviderDocument(
        issuer=issuer,
        authorization_endpoint=_endpoint(told, "authorization_endpoint", issuer=issuer),
        token_endpoint=_endpoint(told, "token_endpoint", issuer=issuer),
        jwks_uri=_endpoint(told, "jwks_uri", issuer=issuer),
        end_session_endpoint=end_session,
        algorithms=algorithms,
        auth_method=method,
        names_itself=told.get("authorization_response_iss_parameter_supported") is True,
        scopes=_offered(told, "scopes_supported", ()),
    )


def requested_scopes(configuration: ProviderConfiguration, document: ProviderDocument) -> tuple[str, ...]:
    """Return the scopes to request: those of the settings, and `groups` if it is wanted and offered."""
    if configuration.wants_groups and GROUPS in document.scopes and GROUPS not in configuration.scopes:
        return (*configuration.scopes, GROUPS)
    return configuration.scopes


def is_local(url: str) -> bool:
    """Return True for plain http to this machine, where nobody else can listen."""
    parts = _split(url)
    return parts is not None and parts.scheme == "http" and scalars.is_loopback(parts.hostname or "")


def _lacks(issuer: str, what: str) -> str:
    return f"The provider {quoted(issuer)} does not offer {what}, without which nobody signs in here; turn it on there."


def _offered(told: Mapping[str, object], name: str, default: tuple[str, ...]) -> tuple[str, ...]:
    """Return the strings of a member; the default without the member, nothing if it is no array of strings."""
    value = told.get(name)
    if value is None:
        return default
    return tuple(value) if isinstance(value, list) and all(isinstance(each, str) for each in value) else ()


def _endpoint(told: Mapping[str, object], name: str, *, issuer: str) -> str:
    url = told.get(name)
    if isinstance(url, str) and _is_safe(url, issuer=issuer):
        return url
    raise ProviderUnfit(f"The provider {quoted(issuer)} names no `{name}` that is an https URL; correct it there.")


def _is_safe(url: str, *, issuer: str) -> bool:
    """Return True if a request to the URL reaches only the provider: by https, or on this machine if the issuer is on
    it.
    """
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
