"""ID tokens: exchange, signatures and claims; the only module that imports Authlib and joserfc."""

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from urllib.parse import quote_plus

import httpx2
from authlib.integrations.httpx_client import AsyncOAuth2Client, OAuthError  # type: ignore[import-untyped]  # as above
from authlib.oidc.core import CodeIDToken  # type: ignore[import-untyped]  # as above
from joserfc import jwk, jws
from joserfc.errors import ClaimError, JoseError

from reconciler.auth.oidc import discovery
from reconciler.auth.oidc.discovery import (
    PINNED,
    FittingAlgorithms,
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

# The door to Authlib: the authorization URL, the exchange of a code for tokens, the claims of an ID token.
#
# Authlib has no types; so it is named here alone, and what leaves this module is typed. Its traps, as of 1.9.9:
#
# - It compares an issuer with nothing, and `aud` only when it is told to (`CHECKED`).
# - Its Basic authentication does not encode the client's id and secret (RFC 6749, 2.3.1), and fails beyond Latin-1.
# - It keeps the tokens on the client. So a client lives for one exchange, and of the answer only `TOKENS` reach it.
# - It knows no hash for `Ed25519` as an algorithm's name (RFC 9864), under which `at_hash` is that of `EdDSA`.
# - A claim that is empty counts for it as one that is not there; `tokens` looks at those.

TOKENS: Final = frozenset({"error", "token_type", "access_token", "id_token"})
CHECKED: Final = ("iss", "sub", "aud", "exp", "iat", "nbf", "nonce", "azp", "at_hash")
_STATUSES: Final = frozenset({200, 400, 401, 403})  # RFC 6749, 5.2; some answer 403 where it says 400
_CODE_FAULTS: Final = ("invalid_grant",)  # RFC 6749, 5.2: the code, or the verifier
_BUSY: Final = ("temporarily_unavailable", "server_error", "slow_down")


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens for a code. Neither is kept longer than it takes to prove who came."""

    id_token: str = field(repr=False)
    access_token: str = field(repr=False)


class WrongClaim(Exception):
    """A claim of the ID token is missing, or not what it must be; its name."""

    def __init__(self, claim: str) -> None:
        self.claim = claim
        super().__init__(claim)


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
    """Have Authlib check an ID token's claims (OpenID Connect Core 1.0, 3.1.3.7). Raises WrongClaim."""
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


# Checks of an ID token before anything in it is believed (OpenID Connect Core 1.0, 2 and 3.1.3.7).

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
    """The used parts of a token's header. Keys that it brings or points to (`jwk`, `jku`, `x5c`, `x5u`) are not."""

    alg: str
    kid: str | None


def token_header(token: str, *, allowed: frozenset[str]) -> TokenHeader:
    """The header, with one of the allowed algorithms. Raises NotProved."""
    found = _FORM.fullmatch(token)
    if found is None or len(found[1]) > LONGEST_HEADER:
        raise NotProved(_sentence("is no signed token"))
    try:
        told = discovery.json_object(base64.urlsafe_b64decode(found[1] + "=" * (-len(found[1]) % 4)))
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
    """Return the identity that the signed claims prove; `now` is in seconds since the epoch. Raises NotProved."""
    try:
        claims = discovery.json_object(payload)
    except discovery.NotAnObject:
        raise NotProved(_sentence(_WRONG[""])) from None
    told = {name: value for name, value in claims.items() if value is not None}  # null counts as missing
    try:
        _check(told, client_id=configuration.client_id, now=now)
        check_claims(
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
    """Check what Authlib takes more lightly than we do. Raises WrongClaim."""
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
    """Return True for a number of seconds (RFC 7519, 2) near now, compared before anything is computed with it."""
    earliest, latest = now - OLDEST_SECONDS - LEEWAY_SECONDS, now + LEEWAY_SECONDS
    return isinstance(value, int | float) and earliest <= value <= latest


def _sentence(why: str) -> str:
    return f"The provider's ID token {why}; try again, or ask whoever runs it."


# Signatures of ID tokens, and the keys that verify them; the door to joserfc.
#
# joserfc is told what to do in every point where its own choice would be another: its header checks run after ours
# (`tokens`) and are left out, its bounds are ours, and it looks up no key by itself.

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
        """Return True when a token of this algorithm and key id may be signed with it (RFC 7515, 4.1.4; 10.7)."""
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
    """Return the payload that one of the keys signed; None when none of them did. `alg` is pinned."""
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
