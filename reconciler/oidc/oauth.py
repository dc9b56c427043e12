"""The door to Authlib: the authorization URL, the exchange of a code for tokens, the claims of an ID token.

Belongs here: every call of it, and its traps. Does not: how requests are made (`fetching`), signatures (`signatures`).

Authlib has no types; so it is named here alone, and what leaves this module is typed. Its traps, as of 1.9.9:

- It compares an issuer with nothing, and `aud` only when it is told to (`CHECKED`).
- Its Basic authentication does not encode the client's id and secret (RFC 6749, 2.3.1), and fails beyond Latin-1.
- It keeps the tokens on the client. So a client lives for one exchange, and of the answer only `TOKENS` reach it.
- It knows no hash for `Ed25519` as an algorithm's name (RFC 9864), under which `at_hash` is that of `EdDSA`.
- A claim that is empty counts for it as one that is not there; `tokens` looks at those.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote_plus

import httpx2
from authlib.integrations.httpx_client import AsyncOAuth2Client, OAuthError  # type: ignore[import-untyped]  # as above
from authlib.oidc.core import CodeIDToken  # type: ignore[import-untyped]  # as above
from joserfc.errors import ClaimError, JoseError

from reconciler.oidc.configuration import ProviderConfiguration
from reconciler.oidc.discovery import ProviderDocument
from reconciler.oidc.faults import NotProved, ProviderUnfit, ProviderUnreachable, quoted
from reconciler.oidc.fetching import HEADERS, ProviderAnswer, ProviderClient
from reconciler.oidc.flows import Flow

TOKENS: Final = frozenset({"error", "token_type", "access_token", "id_token"})
CHECKED: Final = ("iss", "sub", "aud", "exp", "iat", "nbf", "nonce", "azp", "at_hash")
_STATUSES: Final = frozenset({200, 400, 401, 403})  # RFC 6749, 5.2; some answer 403 where it says 400
_CODE_FAULTS: Final = ("invalid_grant",)  # RFC 6749, 5.2: the code, or the verifier
_BUSY: Final = ("temporarily_unavailable", "server_error", "slow_down")


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a code is worth. Neither is kept longer than it takes to prove who came."""

    id_token: str = field(repr=False)
    access_token: str = field(repr=False)


class WrongClaim(Exception):
    """A claim of the ID token is missing, or not what it must be; its name."""

    def __init__(self, claim: str) -> None:
        self.claim = claim
        super().__init__(claim)


async def authorization_url(configuration: ProviderConfiguration, document: ProviderDocument, flow: Flow) -> str:
    """Where the browser goes (OpenID Connect Core 1.0, 3.1.2.1; RFC 7636, 4.3)."""
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
    """The tokens for a code (OpenID Connect Core 1.0, 3.1.3). Raises NotProved, Unreachable, Unfit."""
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


def check_claims(
    claims: Mapping[str, object],
    *,
    alg: str,
    configuration: ProviderConfiguration,
    nonce: str,
    access_token: str,
    now: float,
    leeway: float,
) -> None:
    """What Authlib checks of an ID token's claims (OpenID Connect Core 1.0, 3.1.3.7). Raises WrongClaim."""
    checked = {name: claims[name] for name in CHECKED if name in claims}
    token = CodeIDToken(
        checked,
        {"alg": "EdDSA" if alg == "Ed25519" else alg},
        {
            "iss": {"essential": True, "value": configuration.issuer},
            "aud": {"essential": True, "value": configuration.client_id},
        },
        {"client_id": configuration.client_id, "nonce": nonce, "access_token": access_token},
    )
    try:
        token.validate(now, leeway)
    except ClaimError as problem:
        raise WrongClaim(problem.claim.partition(",")[0]) from None
    except (JoseError, ValueError, TypeError, AttributeError):
        raise WrongClaim("") from None


def _client(
    configuration: ProviderConfiguration, document: ProviderDocument, transport: httpx2.AsyncBaseTransport
) -> Any:
    client = AsyncOAuth2Client(
        client_id=configuration.client_id,
        client_secret=configuration.client_secret,
        token_endpoint_auth_method=document.auth_method,
        scope=" ".join(configuration.scopes),
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
    """RFC 6749, 2.3.1: each is encoded as in a form before the two are put together."""
    pair = f"{quote_plus(client.client_id)}:{quote_plus(client.client_secret)}"
    headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
    return uri, headers, body


class _NoNetwork(httpx2.AsyncBaseTransport):
    """For what is written, not sent."""


def _tokens(told: Mapping[str, object]) -> Tokens:
    """Raises NotProved for an answer without what must be in it (OpenID Connect Core 1.0, 3.1.3.3)."""
    id_token, access_token, kind = told.get("id_token"), told.get("access_token"), told.get("token_type")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise NotProved("The provider gave a token of another type than `Bearer`; ask whoever runs it.")
    if not isinstance(access_token, str) or not access_token.isascii() or not access_token:
        raise NotProved("The provider gave no access token; ask whoever runs it.")
    if not isinstance(id_token, str) or not id_token:
        raise NotProved("The provider gave no ID token; ask whoever runs it whether `openid` is allowed here.")
    return Tokens(id_token, access_token)


def _refused(error: object) -> NotProved | ProviderUnfit | ProviderUnreachable:
    """An error of the token endpoint, by who can mend it; its description is the provider's own text."""
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
