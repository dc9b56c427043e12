"""Whatever a provider or a browser sends, it is taken or refused in one short sentence; nothing else ever happens."""

import contextlib
import dataclasses
import json
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from reconciler.auth.oidc import discovery, flows, provider, tokens
from reconciler.auth.oidc.provider import Declined, NotProved, ProviderUnfit
from reconciler.auth.oidc.tokens import SignedPayload, Tokens
from reconciler.model.errors import ReconcilerError
from reconciler.model.text import visible
from tests.auth.oidc.hostile import CLIENT_ID, fresh_key
from tests.auth.oidc.scene import NOW, configuration

ISSUER = "https://provider.example"
DOCUMENT = discovery.provider_document(
    {
        "issuer": ISSUER,
        "authorization_endpoint": "https://a.example",
        "token_endpoint": "https://a.example",
        "jwks_uri": "https://a.example",
    },
    issuer=ISSUER,
)
FLOW = flows.begin_flow(back="/", invitation="", now=NOW)
TEXT = st.text(max_size=50)
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
MEMBERS = [
    "issuer",
    "authorization_endpoint",
    "token_endpoint",
    "jwks_uri",
    "end_session_endpoint",
    "response_types_supported",
    "id_token_signing_alg_values_supported",
    "code_challenge_methods_supported",
    "token_endpoint_auth_methods_supported",
    "authorization_response_iss_parameter_supported",
]
LONGEST_SENTENCE = 700  # characters: two quotes of 200 and what is around them


@contextlib.contextmanager
def _or_refused(*kinds: type[ReconcilerError]) -> Iterator[None]:
    """Let the block run, or be refused in one short line."""
    sentence = ""
    try:
        yield
    except kinds as problem:
        sentence = problem.message
    assert len(sentence) <= LONGEST_SENTENCE
    assert visible(sentence) == sentence


@given(st.binary() | VALUE.map(lambda value: json.dumps(value).encode()))
def test_bytes_are_an_object_or_refused(data: bytes) -> None:
    with contextlib.suppress(discovery.NotAnObject):
        assert discovery.json_object(data) == json.loads(data)


@given(st.dictionaries(st.sampled_from(["code", "iss", "error", "state", "x"]), st.lists(st.text(), max_size=2)))
def test_a_callback_holds_one_code_or_is_refused(callback: dict[str, list[str]]) -> None:
    for document in (DOCUMENT, dataclasses.replace(DOCUMENT, names_itself=True)):
        with _or_refused(NotProved, Declined):
            assert [provider.callback_code(callback, document)] == callback["code"]
    assert not provider.is_callback_of(callback, FLOW)


@given(st.dictionaries(st.sampled_from(MEMBERS), VALUE | st.just(["code", "S256", "RS256", "client_secret_post"])))
def test_a_document_is_used_or_refused(told: dict[str, object]) -> None:
    with _or_refused(ProviderUnfit):
        assert discovery.provider_document({**told, "issuer": ISSUER}, issuer=ISSUER).algorithms <= set(
            discovery.PINNED
        )
    with _or_refused(ProviderUnfit):
        discovery.provider_document(told, issuer=ISSUER)


MEMBER = VALUE | st.sampled_from(["RSA", "EC", "OKP", "oct", "P-256", "Ed25519", "sig", "AQAB", "RS256", "_" * 400])


@given(
    st.lists(
        st.dictionaries(st.sampled_from(["kty", "n", "e", "crv", "x", "y", "kid", "alg", "use", "key_ops"]), MEMBER)
    )
)
def test_a_key_set_has_usable_keys_or_is_refused(listed: list[dict[str, object]]) -> None:
    own = fresh_key("ES256", 0).as_dict(private=False)
    assert len(tokens.signing_keys({"keys": [*listed, own]})) <= len(listed) + 1
    with _or_refused(ProviderUnfit):
        tokens.signing_keys({"keys": listed})


@given(st.text() | st.text(alphabet="eyJhbGciOiJSUzI1NiJ9.-_="))
def test_text_is_a_token_or_refused(text: str) -> None:
    with _or_refused(NotProved):
        assert tokens.signed_payload(text, allowed=frozenset({"RS256"}), among=()) is None


@given(
    st.dictionaries(
        st.sampled_from(["iss", "sub", "aud", "azp", "exp", "iat", "nbf", "nonce", "at_hash", "auth_time", "x"]),
        VALUE | st.integers(int(NOW) - 100, int(NOW) + 100) | st.sampled_from([ISSUER, CLIENT_ID, FLOW.nonce]),
    )
)
def test_claims_prove_who_they_name_or_nobody(changes: dict[str, object]) -> None:
    honest = {"iss": ISSUER, "sub": "ada", "aud": CLIENT_ID, "exp": NOW + 60, "iat": NOW, "nonce": FLOW.nonce}
    claims = {**honest, **changes}
    with _or_refused(NotProved):
        proved = tokens.proved_identity(
            SignedPayload("RS256", json.dumps(claims).encode()),
            Tokens("canary-id-token", "canary-access-token"),
            configuration=configuration(ISSUER),
            nonce=FLOW.nonce,
            now=NOW,
        )
        assert (proved.identity, proved.claims) == ((ISSUER, claims["sub"]), claims)
        assert claims["aud"] == CLIENT_ID or CLIENT_ID in claims["aud"]  # type: ignore[operator]  # a text or a list, now
        assert (claims["iss"], claims["nonce"]) == (ISSUER, FLOW.nonce)
        assert claims.get("azp") in (None, CLIENT_ID)
