"""Attacks by a provider, or by somebody between it and the browser; each with the exception and the sentence to it.

Belongs here: the table, which is why it is long. Does not: running it (`test_attacks`).

`{issuer}` and `{origin}` in a sentence stand for those of the provider that runs.
"""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from joserfc import jwk

from reconciler.auth.oidc.flows import Flow
from reconciler.auth.oidc.provider import Declined, NotProved, ProviderUnfit, ProviderUnreachable
from reconciler.model.errors import ReconcilerError
from tests.auth.oidc import hostile
from tests.auth.oidc.hostile import GONE, Provider
from tests.auth.oidc.scene import NOW

Callback = dict[str, list[str]]
OTHER: Final = "another-service"
US: Final = hostile.CLIENT_ID


@dataclass(frozen=True, slots=True)
class Attack:
    """`prepare` tells the provider what to do; `tamper` changes what comes back to the service."""

    name: str
    refused: type[ReconcilerError]
    sentence: str
    prepare: Callable[[Provider], None] = lambda _: None
    tamper: Callable[[Callback, Flow], tuple[Callback, Flow]] = lambda callback, flow: (callback, flow)


def behave(**changes: Any) -> Callable[[Provider], None]:
    def prepare(provider: Provider) -> None:
        for name, value in changes.items():
            setattr(provider.behaviour, name, value)

    return prepare


class Honest(NamedTuple):
    """The parts of an honest token."""

    provider: Provider
    header: dict[str, Any]
    claims: dict[str, Any]

    @property
    def key(self) -> jwk.Key:
        """The key that would sign it."""
        return self.provider.key()


def _written(write: Callable[[Honest], str]) -> Callable[[Provider], None]:
    """A token made in a way of the attacker's."""

    def prepare(provider: Provider) -> None:
        provider.behaviour.write = lambda header, claims: write(Honest(provider, header, claims))

    return prepare


# What a provider says of itself.


def _told(name: str, sentence: str, **document: object) -> Attack:
    return Attack(f"discovery: {name}", ProviderUnfit, sentence, behave(document=document))


def _lacks(what: str) -> str:
    return f"The provider {{issuer}} does not offer {what}, without which nobody signs in here; turn it on there."


def _another_issuer(quoted: str) -> str:
    return (
        f"The provider at {{issuer}} says that its issuer is {quoted}; set `auth.oidc.issuer` to exactly what the "
        "provider says, when that is the right one."
    )


def _no_endpoint(name: str) -> str:
    return f"The provider {{issuer}} names no `{name}` that is an https URL; correct it there."


PINNED: Final = "RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA, Ed25519"
_ALGORITHMS: Final = _lacks(f"any of the algorithms {PINNED} for ID tokens")

DISCOVERY: Final = (
    _told("another issuer", _another_issuer("https://evil.example"), issuer="https://evil.example"),
    _told("no issuer", _another_issuer("no text"), issuer=GONE),
    _told(
        "an issuer that acts on terminals", _another_issuer("\\x1b[2Jx\\nfalse: line"), issuer="\x1b[2Jx\nfalse: line"
    ),
    _told("an endless issuer", _another_issuer("x" * 200 + "..."), issuer="x" * 5000),
    _told("a list of issuers", _another_issuer("no text"), issuer=["https://evil.example"]),
    _told("no code flow", _lacks("the response type `code`"), response_types_supported=["id_token"]),
    _told("PKCE in the clear", _lacks("PKCE with `S256`"), code_challenge_methods_supported=["plain"]),
    _told("secret algorithms alone", _ALGORITHMS, id_token_signing_alg_values_supported=["none", "HS256"]),
    _told("a curve that is not pinned", _ALGORITHMS, id_token_signing_alg_values_supported=["ES256K"]),
    _told("algorithms as one text", _ALGORITHMS, id_token_signing_alg_values_supported="RS256"),
    _told(
        "secrets in the address",
        _lacks("`client_secret_basic` or `client_secret_post` at its token endpoint"),
        token_endpoint_auth_methods_supported=["private_key_jwt", "none"],
    ),
    _told("tokens over plain http", _no_endpoint("token_endpoint"), token_endpoint="http://192.0.2.7/token"),
    _told("keys from a file", _no_endpoint("jwks_uri"), jwks_uri="file:///etc/passwd"),
    _told("keys from nowhere", _no_endpoint("jwks_uri"), jwks_uri=GONE),
    _told(
        "a host that looks like another",
        _no_endpoint("authorization_endpoint"),
        authorization_endpoint="https://provider.example@evil.example/",
    ),
    _told(
        "a line end in an address",
        _no_endpoint("authorization_endpoint"),
        authorization_endpoint="https://evil.example/\r\nSet-Cookie: a=b",
    ),
    _told("an address without end", _no_endpoint("token_endpoint"), token_endpoint="https://a.example/" + "x" * 2048),
)


# What is between us and the provider.


def _unreachable(what: str, path: str, why: str) -> str:
    return f"{what} at {{origin}}{path} {why}; try again, or ask whoever runs the provider."


_ASKED: Final = {
    "discovery": ("The discovery document", "/.well-known/openid-configuration"),
    "keys": ("The key set", "/keys"),
    "token": ("The answer of the token endpoint", "/token"),
}
_ANSWERS: Final = (
    ("500", hostile.failing(500), "was not given (HTTP 500)"),
    ("429", hostile.failing(429), "was not given (HTTP 429)"),
    ("a page of a gateway", hostile.html(), "is no JSON object"),
    ("a redirect", hostile.redirecting("http://127.0.0.1:1/"), "was not given (HTTP 302)"),
    ("a compressed bomb", hostile.bomb(), "is no JSON object"),
    ("headers without end", hostile.Answer(headers={"X-Filler": "x" * 200_000}), "did not come whole"),
    ("a list", hostile.json_of([]), "is no JSON object"),
    ("no number", hostile.Answer(body=b'{"a": NaN}'), "is no JSON object"),
    ("half a character", hostile.Answer(body=b'{"a": "\\ud800"}'), "is no JSON object"),
    ("100,000 levels", hostile.Answer(body=b'{"a":' * 40_000), "is no JSON object"),
    ("half an answer", hostile.Answer(body=b'{"canary-half": 1}', cut=True), "did not come whole"),
)

BETWEEN: Final = (
    *(
        Attack(
            f"{endpoint}: {name}",
            ProviderUnreachable,
            _unreachable(*_ASKED[endpoint], why),
            behave(answers={endpoint: answer}),
        )
        for endpoint in _ASKED
        for name, answer, why in _ANSWERS
    ),
    *(
        Attack(
            f"token: {status} without an error",
            ProviderUnreachable,
            _unreachable(*_ASKED["token"], f"was not given (HTTP {status})"),
            behave(answers={"token": hostile.json_of({"message": "canary-message"}, status)}),
        )
        for status in (400, 401, 403, 204, 201)
    ),
    *(
        Attack(
            f"{endpoint}: more than is read",
            ProviderUnreachable,
            _unreachable(*_ASKED[endpoint], f"is larger than {kib} KiB"),
            behave(answers={endpoint: hostile.large(kib << 10)}),
        )
        for endpoint, kib in (("discovery", 256), ("keys", 256), ("token", 1024))
    ),
)


# The keys.

_NO_KEY: Final = (
    f"The provider's key set holds no public key for {PINNED}, of 2048 bits or more where it is RSA; correct it there."
)


def _weak() -> dict[str, Any]:
    """An RSA key of 1,024 bits, its modulus any odd number of that size."""
    modulus = ((1 << 1023) + 12345).to_bytes(128, "big")
    return {"kty": "RSA", "kid": "RS256-0", "n": _text(modulus), "e": "AQAB"}


def _published(provider: Provider) -> dict[str, Any]:
    return dict(provider.key().as_dict(private=False))


def _keys(name: str, sentence: str, published: Callable[[Provider], list[Any]]) -> Attack:
    def prepare(provider: Provider) -> None:
        provider.behaviour.published = published(provider)

    return Attack(f"keys: {name}", ProviderUnfit, sentence, prepare)


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


KEYS: Final = (
    _keys("none", _NO_KEY, lambda _: []),
    _keys(
        "what is no key", _NO_KEY, lambda _: [None, "key", {}, {"kty": ["RSA"]}, {"kty": "RSA", "n": 3, "e": "AQAB"}]
    ),
    _keys("a symmetric one", _NO_KEY, lambda _: [{"kty": "oct", "k": _text(b"canary-" * 8), "kid": "RS256-0"}]),
    _keys("one for encryption", _NO_KEY, lambda p: [{**p.key().as_dict(private=False), "use": "enc"}]),
    _keys("one that may not verify", _NO_KEY, lambda p: [{**p.key().as_dict(private=False), "key_ops": ["encrypt"]}]),
    _keys("a private one", _NO_KEY, lambda p: [p.key().as_dict(private=True)]),
    _keys("a weak one", _NO_KEY, lambda _: [_weak()]),
    _keys("one without end", _NO_KEY, lambda _: [{"kty": "RSA", "n": "_" * 6000, "e": "AQAB"}]),
    _keys("a point that is on no curve", _NO_KEY, lambda _: [{"kty": "EC", "crv": "P-256", "x": "AQAB", "y": "AQAB"}]),
    _keys("a curve that is not pinned", _NO_KEY, lambda _: [{"kty": "EC", "crv": "secp256k1", "x": "AQAB", "y": "AQ"}]),
    _keys(
        "too many",
        "The provider's key set is no list of at most 100 keys; correct it there.",
        lambda p: [p.key().as_dict(private=False)] * 101,
    ),
)


# What the browser brings back.

AGAIN: Final = "begin again at the sign-in page."
_NOT_BEGUN: Final = f"This browser did not begin this sign-in; {AGAIN}"
_TWICE: Final = f"The provider's answer has a parameter twice; {AGAIN}"
_NO_CODE: Final = f"The provider's answer holds no code; {AGAIN}"


def _brought(name: str, sentence: str, refused: type[ReconcilerError] = NotProved, **parameters: object) -> Attack:
    """Other parameters than the provider gave: a value, several, or none."""

    def tamper(callback: Callback, flow: Flow) -> tuple[Callback, Flow]:
        changed = hostile.changed(callback, parameters)
        return {each: value if isinstance(value, list) else [value] for each, value in changed.items()}, flow

    return Attack(f"callback: {name}", refused, sentence, tamper=tamper)


def _verifier(callback: Callback, flow: Flow) -> tuple[Callback, Flow]:
    """The code of somebody else in a sign-in of one's own."""
    return callback, replace(flow, verifier="A" * 43)


def _declined(error: str) -> str:
    return f"The provider did not sign you in ({error}); try again, or ask whoever runs it."


CALLBACKS: Final = (
    _brought("another state", _NOT_BEGUN, state="A" * 43),
    _brought("no state", _NOT_BEGUN, state=GONE),
    _brought("an empty state", _NOT_BEGUN, state=""),
    _brought("a state beyond ASCII", _NOT_BEGUN, state="\u00e4" * 43),
    _brought("a state of half a character", _NOT_BEGUN, state="\ud800"),
    _brought("two states", _NOT_BEGUN, state=["A" * 43, "A" * 43]),
    _brought("two codes", _TWICE, code=["canary-one", "canary-two"]),
    _brought("two errors", _TWICE, error=["access_denied", "access_denied"]),
    _brought("no code", _NO_CODE, code=GONE),
    _brought("an empty code", _NO_CODE, code=""),
    _brought("a code without end", _NO_CODE, code="canary-" * 300),
    _brought("a line end in the code", _NO_CODE, code="canary-code\r\nHost: evil.example"),
    _brought(
        "another provider's", f"The answer is another provider's, not {{issuer}}'s; {AGAIN}", iss="https://b.example"
    ),
    _brought(
        "nobody's",
        f"The answer does not say which provider it is from, as {{issuer}}'s do; {AGAIN}",
        iss=GONE,
    ),
    _brought(
        "another provider's error",
        f"The answer is another provider's, not {{issuer}}'s; {AGAIN}",
        iss="https://b.example",
        error="access_denied",
    ),
    _brought("a person who said no", _declined("access_denied"), Declined, error="access_denied", code=GONE),
    _brought(
        "an error with a description",
        _declined("server_error"),
        Declined,
        error="server_error",
        error_description="canary-call this number",
    ),
    _brought(
        "an error that acts on terminals",
        _declined("an error that it does not name"),
        Declined,
        error="\x1b]0;canary-title\x07",
    ),
    _brought("an error without end", _declined("an error that it does not name"), Declined, error="canary-" * 100),
    _brought(
        "a made-up code",
        f"The provider does not take its code (any more); {AGAIN}",
        code="canary-made-up",
    ),
    Attack(
        "callback: another browser's code",
        NotProved,
        f"The provider does not take its code (any more); {AGAIN}",
        tamper=_verifier,
    ),
)


# What the token endpoint answers.


def _answered(name: str, sentence: str, refused: type[ReconcilerError] = NotProved, **token: object) -> Attack:
    return Attack(f"token endpoint: {name}", refused, sentence, behave(token=token))


def _error(error: str, sentence: str, refused: type[ReconcilerError], status: int = 400) -> Attack:
    answer = hostile.json_of({"error": error, "error_description": "canary-description"}, status)
    return Attack(f"token endpoint: {error}", refused, sentence, behave(answers={"token": answer}))


_NO_ID_TOKEN: Final = "The provider gave no ID token; ask whoever runs it whether `openid` is allowed here."
_KIND: Final = "The provider gave a token of another type than `Bearer`; ask whoever runs it."
_NO_ACCESS: Final = "The provider gave no access token; ask whoever runs it."

TOKEN_ENDPOINT: Final = (
    _answered("no ID token", _NO_ID_TOKEN, id_token=GONE),
    _answered("an empty ID token", _NO_ID_TOKEN, id_token=""),
    _answered("a list of ID tokens", _NO_ID_TOKEN, id_token=["canary-token"]),
    _answered("no access token", _NO_ACCESS, access_token=GONE),
    _answered("a number as access token", _NO_ACCESS, access_token=7),
    _answered("another type of token", _KIND, token_type="mac"),
    _answered("no type of token", _KIND, token_type=GONE),
    _error("invalid_grant", f"The provider does not take its code (any more); {AGAIN}", NotProved),
    _error(
        "invalid_client",
        "The provider does not know this service; correct `auth.oidc.oauth2ClientID` or "
        "`auth.oidc.oauth2ClientSecret`.",
        ProviderUnfit,
        401,
    ),
    _error(
        "unauthorized_client",
        "The provider refuses to give this service tokens (unauthorized_client); correct its client there.",
        ProviderUnfit,
    ),
    _error(
        "temporarily_unavailable", "The provider cannot sign anybody in at this moment; try again.", ProviderUnreachable
    ),
    _error(
        "\x1b[2J" + "x" * 300,
        "The provider refuses to give this service tokens (\\x1b[2J" + "x" * 193 + "...); correct its client there.",
        ProviderUnfit,
    ),
)


# ID tokens.


def _token(why: str) -> str:
    return f"The provider's ID token {why}; try again, or ask whoever runs it."


_ALGORITHM: Final = _token("is signed with an algorithm that is not allowed, or not at all")
_NOT_SIGNED: Final = _token("is not signed with a key of the provider's")
_CANNOT_READ: Final = _token("cannot be read")
_NO_FORM: Final = _token("is no signed token that this service knows")


def _forged(name: str, sentence: str, write: Callable[[Honest], str]) -> Attack:
    return Attack(f"signature: {name}", NotProved, sentence, _written(write))


def _public(provider: Provider) -> jwk.RSAKey:
    key = provider.key("RS256")
    assert isinstance(key, jwk.RSAKey)
    return key


def _own(algorithm: str = "RS256") -> jwk.Key:
    """A key of the attacker's."""
    return hostile.fresh_key(algorithm, -1)


def _retold(token: str, claims: dict[str, Any]) -> str:
    """An honest token with other claims under its signature."""
    head, _, signature = token.split(".")
    return f"{head}.{_text(json.dumps(claims).encode())}.{signature}"


SIGNATURES: Final = (
    _forged("none", _ALGORITHM, lambda t: hostile.unsigned({**t.header, "alg": "none"}, t.claims)),
    _forged("nOnE", _ALGORITHM, lambda t: hostile.unsigned({**t.header, "alg": "nOnE"}, t.claims)),
    _forged("no algorithm", _NO_FORM, lambda t: hostile.unsigned({"kid": t.header["kid"]}, t.claims)),
    _forged("a list of algorithms", _NO_FORM, lambda t: hostile.unsigned({**t.header, "alg": ["RS256"]}, t.claims)),
    _forged("left out", _NOT_SIGNED, lambda t: hostile.unsigned(t.header, t.claims)),
    _forged(
        "HS256 with the RSA key as PEM",
        _ALGORITHM,
        lambda t: hostile.hashed({**t.header, "alg": "HS256"}, t.claims, _public(t.provider).as_pem(private=False)),
    ),
    _forged(
        "HS256 with the RSA key as JSON",
        _ALGORITHM,
        lambda t: hostile.hashed(
            {**t.header, "alg": "HS256"}, t.claims, json.dumps(_public(t.provider).as_dict(private=False)).encode()
        ),
    ),
    _forged(
        "HS256 with the client's secret",
        _ALGORITHM,
        lambda t: hostile.hashed({**t.header, "alg": "HS256"}, t.claims, hostile.CLIENT_SECRET.encode()),
    ),
    _forged(
        "HMAC under the name of RS256",
        _NOT_SIGNED,
        lambda t: hostile.hashed(t.header, t.claims, _public(t.provider).as_pem(private=False)),
    ),
    _forged(
        "RS384, which was not offered",
        _ALGORITHM,
        lambda t: hostile.signed({**t.header, "alg": "RS384"}, t.claims, _own()),
    ),
    _forged("another key", _NOT_SIGNED, lambda t: hostile.signed(t.header, t.claims, _own())),
    _forged(
        "an unknown key", _NOT_SIGNED, lambda t: hostile.signed({**t.header, "kid": "canary-none"}, t.claims, _own())
    ),
    _forged(
        "a key id of another key",
        _NOT_SIGNED,
        lambda t: hostile.signed({**t.header, "kid": "ES256-0"}, t.claims, _own()),
    ),
    _forged(
        "our key under a name that it does not have",
        _NOT_SIGNED,
        lambda t: hostile.signed({**t.header, "kid": "canary-none"}, t.claims, t.key),
    ),
    _forged("another key without an id", _NOT_SIGNED, lambda t: hostile.signed({"alg": "RS256"}, t.claims, _own())),
    _forged(
        "the key in the header",
        _NOT_SIGNED,
        lambda t: hostile.signed({"alg": "RS256", "jwk": _own().as_dict(private=False)}, t.claims, _own()),
    ),
    _forged(
        "the key at an address",
        _NOT_SIGNED,
        lambda t: hostile.signed(
            {"alg": "RS256", "jku": f"{t.provider.issuer}/keys?evil", "x5u": f"{t.provider.issuer}/keys?evil"},
            t.claims,
            _own(),
        ),
    ),
    _forged(
        "PS256 with a key for RS256",
        _NOT_SIGNED,
        lambda t: hostile.signed({**t.header, "alg": "PS256"}, t.claims, hostile.fresh_key("RS256", 0)),
    ),
    _forged(
        "other claims",
        _NOT_SIGNED,
        lambda t: _retold(hostile.signed(t.header, t.claims, t.key), {**t.claims, "sub": "admin"}),
    ),
    _forged("cut off", _NOT_SIGNED, lambda t: hostile.signed(t.header, t.claims, t.key)[:-8]),
    _forged(
        "a critical extension",
        _NO_FORM,
        lambda t: hostile.signed({**t.header, "crit": ["exp"], "exp": 1}, t.claims, t.key),
    ),
    _forged("claims in the clear", _NO_FORM, lambda t: hostile.unsigned({**t.header, "b64": False}, t.claims)),
    _forged("a key id that is a number", _NO_FORM, lambda t: hostile.signed({**t.header, "kid": 7}, t.claims, t.key)),
    _forged(
        "two algorithms",
        _ALGORITHM,
        lambda t: _text(b'{"alg":"RS256","alg":"none"}') + "." + hostile.unsigned(t.header, t.claims).split(".", 1)[1],
    ),
    _forged("a header without end", _NO_FORM, lambda t: hostile.signed({**t.header, "x": "x" * 4096}, t.claims, t.key)),
    _forged("an encrypted token", _NO_FORM, lambda _: "canary.canary.canary.canary.canary"),
    _forged("no token at all", _NO_FORM, lambda _: "canary-opaque"),
    _forged("a list of claims", _CANNOT_READ, lambda t: hostile.signed(t.header, [t.claims], t.key)),  # type: ignore[arg-type]  # on purpose
)


def _claims(name: str, why: str, **id_token: object) -> Attack:
    return Attack(f"claims: {name}", NotProved, _token(why), behave(id_token=id_token))


_ISS: Final = "is another provider's (`iss`)"
_AUD: Final = "is for another service (`aud`)"
_AZP: Final = "was given to another service (`azp`)"
_EXP: Final = "has expired, or the clocks differ (`exp`)"
_IAT: Final = "is not from now, or the clocks differ (`iat`)"
_NBF: Final = "does not hold yet, or the clocks differ (`nbf`)"
_SUB: Final = "does not say whose it is (`sub`)"
_NONCE: Final = "is of another sign-in (`nonce`)"
_HASH: Final = "does not belong to the access token beside it (`at_hash`)"

CLAIMS: Final = (
    _claims("another issuer", _ISS, iss="https://evil.example"),
    _claims("the issuer with a slash", _ISS, iss="http://127.0.0.1/"),
    _claims("no issuer", _ISS, iss=GONE),
    _claims("issuers", _ISS, iss=["https://evil.example"]),
    _claims("no audience", _AUD, aud=GONE),
    _claims("null as audience", _AUD, aud=None),
    _claims("an empty audience", _AUD, aud=[]),
    _claims("another audience", _AUD, aud=OTHER),
    _claims("another audience, given to us", _AUD, aud=OTHER, azp=US),
    _claims("other audiences, given to us", _AUD, aud=[OTHER, "third"], azp=US),
    _claims("an audience that begins like us", _AUD, aud=US + "-test"),
    _claims("an audience that is an object", _AUD, aud={US: True}),
    _claims("several audiences, given to nobody", _AZP, aud=[US, OTHER]),
    _claims("several audiences, given to another", _AZP, aud=[US, OTHER], azp=OTHER),
    _claims("our audience, given to another", _AZP, azp=OTHER),
    _claims("our audience, given to nobody by name", _AZP, azp=""),
    _claims("our audience, given to a list", _AZP, azp=[US]),
    _claims("no end", _EXP, exp=GONE),
    _claims("expired", _EXP, exp=int(NOW) - 60),
    _claims("an end that is text", _EXP, exp=str(int(NOW) + 60)),
    _claims("an end that is true", _EXP, exp=True),
    _claims("no beginning", _IAT, iat=GONE),
    _claims("from the future", _IAT, iat=int(NOW) + 61),
    _claims("older than any sign-in", _IAT, iat=int(NOW) - 661),
    _claims("a beginning that is text", _IAT, iat=str(int(NOW))),
    _claims("not yet", _NBF, nbf=int(NOW) + 61),
    _claims("a number without end", _IAT, iat=10**400),
    _claims("no nonce", _NONCE, nonce=GONE),
    _claims("another nonce", _NONCE, nonce="A" * 43),
    _claims("an empty nonce", _NONCE, nonce=""),
    _claims("nonces", _NONCE, nonce=["A" * 43]),
    _claims("nobody", _SUB, sub=GONE),
    _claims("an empty subject", _SUB, sub=""),
    _claims("a number as subject", _SUB, sub=7),
    _claims("a subject without end", _SUB, sub="x" * 256),
    _claims("a subject that looks like another", _SUB, sub="\u0430dmin"),
    _claims("a subject that forges a log line", _SUB, sub="admin\nadmin"),
    _claims("another access token", _HASH, at_hash="A" * 22),
    _claims("an empty hash of the access token", _HASH, at_hash=""),
    _claims("a hash of the access token that is a list", _HASH, at_hash=["A"]),
)

ALL: Final = (*DISCOVERY, *BETWEEN, *KEYS, *CALLBACKS, *TOKEN_ENDPOINT, *SIGNATURES, *CLAIMS)
