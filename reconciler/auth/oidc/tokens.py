"""ID tokens: exchange, signatures and claims; the only module that imports Authlib and joserfc."""

import base64
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import quote_plus

import httpx2
from authlib.integrations.httpx_client import AsyncOAuth2Client, OAuthError  # type: ignore[import-untyped]  # as above
from authlib.oidc.core import CodeIDToken  # type: ignore[import-untyped]  # as above
from joserfc import jwk, jws
from joserfc.errors import ClaimError, JoseError, SecurityWarning, UnsupportedAlgorithmError

from reconciler.auth.oidc import discovery
from reconciler.auth.oidc.discovery import (
    PINNED,
    NotProved,
    ProviderAnswer,
    ProviderConfiguration,
    ProviderDocument,
    ProviderUnfit,
    ProviderUnreachable,
    quoted,
)
from reconciler.auth.oidc.fetching import HEADERS, ProviderClient
from reconciler.auth.oidc.flows import LIFETIME_SECONDS, Flow
from reconciler.model.directory import ProvedIdentity, ProviderIdentity

# Authlib: the authorization URL, the exchange of a code for tokens, the claims of an ID token.
#
# Authlib has no types, so only this module uses it, and returns typed values. Its traps, as of 1.9.9:
#
# - It does not compare the issuer, and `aud` only on request (`CHECKED`).
# - Its Basic authentication does not encode the client's id and secret (RFC 6749, 2.3.1), and fails beyond Latin-1.
# - It keeps the tokens on the client. So a client lives for one exchange, and gets only `TOKENS` of the answer.
# - It knows no hash for `Ed25519` as an algorithm's name (RFC 9864), under which `at_hash` is that of `EdDSA`.
# - It treats an empty claim as missing; `_wrong` checks those.

TOKENS: Final = frozenset({"error", "token_type", "access_token", "id_token"})
CHECKED: Final = ("iss", "sub", "aud", "exp", "iat", "nbf", "nonce", "azp", "at_hash")
_STATUSES: Final = frozenset({200, 400, 401, 403})  # RFC 6749, 5.2; some answer 403 where it says 400
_CODE_FAULTS: Final = ("invalid_grant",)  # RFC 6749, 5.2: the code, or the verifier
_BUSY: Final = ("temporarily_unavailable", "server_error", "slow_down")


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens for a code. They are kept only until the person is proved."""

    id_token: str = field(repr=False)
    access_token: str = field(repr=False)


async def authorization_url(configuration: ProviderConfiguration, document: ProviderDocument, flow: Flow) -> str:
    """Return the URL for the browser (OpenID Connect Core 1.0, 3.1.2.1; RFC 7636, 4.3)."""
    async with _client(configuration, document, _NoNetwork()) as client:
        url, _ = client.create_authorization_url(
            document.authorization_endpoint, state=flow.state, nonce=flow.nonce, code_verifier=flow.verifier
        )
    return str(url)


async def exchange_code(
    configuration: ProviderConfiguration,
    document: ProviderDocument,
    fetching: ProviderClient,
    *,
    code: str,
    verifier: str,
    most_bytes: int,
) -> Tokens:
    """Exchange a code for tokens (OpenID Connect Core 1.0, 3.1.3). Raises NotProved, ProviderUnreachable,
    ProviderUnfit.
    """
    asked = ProviderAnswer(
        what="The answer of the token endpoint",
        url=document.token_endpoint,
        most_bytes=most_bytes,
        statuses=_STATUSES,
        members=TOKENS,
    )
    try:
        async with (
            fetching.bounded(asked) as transport,
            _client(configuration, document, transport) as client,
        ):
            told = await client.fetch_token(
                document.token_endpoint, grant_type="authorization_code", code=code, code_verifier=verifier
            )
    except OAuthError as problem:
        raise _refused(problem.error) from None
    return _tokens(told)


def _client(
    configuration: ProviderConfiguration, document: ProviderDocument, transport: httpx2.AsyncBaseTransport
) -> Any:
    client = AsyncOAuth2Client(
        client_id=configuration.client_id,
        client_secret=configuration.client_secret,
        token_endpoint_auth_method=document.auth_method,
        scope=" ".join(discovery.requested_scopes(configuration, document)),
        redirect_uri=configuration.redirect_uri,
        code_challenge_method="S256",
        transport=transport,
        headers=HEADERS,
        timeout=None,  # `fetching` has one for the whole
        follow_redirects=False,
        trust_env=False,
    )
    client.register_client_auth_method(("client_secret_basic", _basic))
    return client


def _basic(client: Any, method: str, uri: str, headers: Any, body: Any) -> tuple[str, Any, Any]:  # noqa: ARG001 - Authlib's
    """Add Basic credentials. RFC 6749, 2.3.1: both parts are form-encoded before they are joined."""
    pair = f"{quote_plus(client.client_id)}:{quote_plus(client.client_secret)}"
    headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
    return uri, headers, body


class _NoNetwork(httpx2.AsyncBaseTransport):
    """A transport that sends nothing, for requests that are only written."""


def _tokens(told: Mapping[str, object]) -> Tokens:
    """Return the tokens in an answer. Raises NotProved if one is missing (OpenID Connect Core 1.0, 3.1.3.3)."""
    id_token, access_token, kind = told.get("id_token"), told.get("access_token"), told.get("token_type")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise NotProved("The provider gave a token of another type than `Bearer`; ask whoever runs it.")
    if not isinstance(access_token, str) or not access_token.isascii() or not access_token:
        raise NotProved("The provider gave no access token; ask whoever runs it.")
    if not isinstance(id_token, str) or not id_token:
        raise NotProved("The provider gave no ID token; ask whoever runs it whether `openid` is allowed here.")
    return Tokens(id_token, access_token)


def _refused(error: object) -> NotProved | ProviderUnfit | ProviderUnreachable:
    """Return the exception for an error of the token endpoint. Its class says who can correct it. The description is
    text of the provider.
    """
    if error in _CODE_FAULTS:
        return NotProved("The provider does not take its code (any more); begin again at the sign-in page.")
    if error in _BUSY:
        return ProviderUnreachable("The provider cannot sign anybody in at this moment; try again.")
    if error == "invalid_client":
        return ProviderUnfit(
            "The provider does not know this service; correct `auth.oidc.oauth2ClientID` or "
            "`auth.oidc.oauth2ClientSecret`."
        )
    return ProviderUnfit(
        f"The provider refuses to give this service tokens ({quoted(error)}); correct its client there."
    )


# Checks of an ID token before anything in it is believed (OpenID Connect Core 1.0, 2 and 3.1.3.7).

LEEWAY_SECONDS = 60.0  # between the provider's clock and ours
# A token with the nonce of a sign-in cannot be older than the sign-in, because nobody knew the nonce before. So this
# refuses no token that was made for us, even if the provider caches, unless its clock is far behind.
OLDEST_SECONDS = LIFETIME_SECONDS
LONGEST_SUBJECT = 255  # characters (2)
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


def not_signed() -> NotProved:
    """Return the error for a token that none of the provider's keys signed."""
    return NotProved(_sentence("is not signed with a key of the provider's"))


def proved_identity(
    signed: "SignedPayload", tokens: Tokens, *, configuration: ProviderConfiguration, nonce: str, now: float
) -> ProvedIdentity:
    """Return the identity that the signed claims prove; `now` is in seconds since the epoch. Raises NotProved."""
    try:
        claims = discovery.json_object(signed.payload)
    except discovery.NotAnObject:
        raise NotProved(_sentence(_WRONG[""])) from None
    told = {name: value for name, value in claims.items() if value is not None}  # null counts as missing
    wrong = _wrong(told, client_id=configuration.client_id, now=now)
    if wrong is None:
        wrong = _invalid(told, signed, tokens, configuration=configuration, nonce=nonce, now=now)
    if wrong is not None:
        raise NotProved(_sentence(_WRONG.get(wrong, _WRONG[""])))
    return ProvedIdentity(ProviderIdentity(configuration.issuer, str(told["sub"])), claims, tokens.id_token)


def _invalid(
    claims: Mapping[str, object],
    signed: "SignedPayload",
    tokens: Tokens,
    *,
    configuration: ProviderConfiguration,
    nonce: str,
    now: float,
) -> str | None:
    """Have Authlib check the claims (OpenID Connect Core 1.0, 3.1.3.7). Return the first that is wrong."""
    essential = {"iss": configuration.issuer, "aud": configuration.client_id}
    token = CodeIDToken(
        {name: claims[name] for name in CHECKED if name in claims},
        {"alg": "EdDSA" if signed.alg == "Ed25519" else signed.alg},
        {name: {"essential": True, "value": value} for name, value in essential.items()},
        {"client_id": configuration.client_id, "nonce": nonce, "access_token": tokens.access_token},
    )
    try:
        token.validate(now, LEEWAY_SECONDS)
    except ClaimError as problem:
        return str(problem.claim.partition(",")[0])
    except (JoseError, ValueError, TypeError, AttributeError):
        return ""
    return None


def _wrong(claims: Mapping[str, object], *, client_id: str, now: float) -> str | None:
    """Check claims more strictly than Authlib. Return the first that is wrong."""
    subject, issued, hashed = claims.get("sub"), claims.get("iat"), claims.get("at_hash", "none")
    if not isinstance(subject, str) or not 0 < len(subject) <= LONGEST_SUBJECT:
        return "sub"
    if not (subject.isascii() and subject.isprintable()):  # a control character would be unreadable in a log
        return "sub"
    if claims.get("azp", client_id) != client_id:
        return "azp"
    earliest, latest = now - OLDEST_SECONDS - LEEWAY_SECONDS, now + LEEWAY_SECONDS
    # A number of seconds (RFC 7519, 2), compared before anything is computed with it.
    if not isinstance(issued, int | float) or not earliest <= issued <= latest:
        return "iat"
    return None if isinstance(hashed, str) and hashed else "at_hash"


def _sentence(why: str) -> str:
    return f"The provider's ID token {why}; try again, or ask whoever runs it."


# Signatures of ID tokens, and the keys that verify them, with joserfc.

MOST_KEYS = 100
SMALLEST_RSA, LARGEST_RSA = 2048, 8192  # bits; NIST SP 800-131A, and what verifies within a millisecond
_FAULTS: Final = (JoseError, ValueError, TypeError, KeyError)  # that joserfc raises for unusable input
Keys: TypeAlias = tuple[jwk.Key, ...]
warnings.filterwarnings("ignore", category=SecurityWarning)  # joserfc warns that `EdDSA` has a new name


class SignedPayload(NamedTuple):
    """The payload of a token, and the algorithm of the signature that was verified."""

    alg: str
    payload: bytes


class _Registry(jws.JWSRegistry):
    """joserfc's algorithms with our limits."""

    max_header_length = 4096
    max_payload_length = 1 << 20
    max_signature_length = 2048


def signing_keys(told: Mapping[str, object]) -> Keys:
    """Return the keys of a JSON Web Key Set that may sign ID tokens (RFC 7517, 5). Raises ProviderUnfit without any.

    Keys for encryption or other algorithms, private, symmetric and malformed ones are left out.
    """
    listed = told.get("keys")
    if not isinstance(listed, list) or len(listed) > MOST_KEYS:
        raise ProviderUnfit(f"The provider's key set is no list of at most {MOST_KEYS} keys; correct it there.")
    found = tuple(key for each in listed if isinstance(each, dict) and (key := _key(each)) is not None)
    if not found:
        raise ProviderUnfit(
            f"The provider's key set holds no public key for {', '.join(PINNED)}, of {SMALLEST_RSA} bits or more "
            "where it is RSA; correct it there."
        )
    return found


def signed_payload(token: str, *, allowed: frozenset[str], among: Keys) -> SignedPayload | None:
    """Return the payload if one of the keys signed it; otherwise None.

    Keys that the token brings or points to (`jwk`, `jku`, `x5c`, `x5u`) do not count. Raises NotProved for a text that
    is no token, and for an algorithm that is not allowed.
    """
    registry = _Registry(algorithms=allowed, strict_check_header=False)
    try:
        header = jws.extract_compact(token.encode(), registry=registry).headers()
        registry.check_header(header)
        alg = registry.get_alg(header["alg"]).name
    except UnsupportedAlgorithmError:
        raise NotProved(_sentence("is signed with an algorithm that is not allowed, or not at all")) from None
    except _FAULTS:
        raise NotProved(_sentence("is no signed token that this service knows")) from None
    for key in among:
        if header.get("kid") in (None, key.kid) or key.kid is None:  # RFC 7515, 4.1.4
            try:
                return SignedPayload(alg, jws.deserialize_compact(token, key, registry=registry).payload)
            except _FAULTS:
                continue
    return None


def _key(told: dict[str, Any]) -> jwk.Key | None:
    """Parse a key of the set; None if it may not sign ID tokens. joserfc only warns of weak sizes, so this checks."""
    if "d" in told:
        return None
    try:
        key = jwk.import_key(told)
        key.check_key_op("verify")
    except _FAULTS:
        return None
    if isinstance(key, jwk.RSAKey) and not SMALLEST_RSA <= key.raw_value.key_size <= LARGEST_RSA:
        return None
    return key if jws.JWSRegistry.filter_algorithms(key, list(PINNED)) else None
