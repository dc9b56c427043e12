"""The small parts of a sign-in: where a provider may be, states that came back, and what a start does not import."""

import subprocess
import sys

import pytest

from reconciler.auth.oidc import discovery, tokens
from reconciler.auth.oidc.provider import ProviderUnfit
from tests.auth.oidc import hostile

ISSUER = "https://provider.example"
TOLD = {
    "issuer": ISSUER,
    "authorization_endpoint": "https://login.example/a",
    "token_endpoint": "https://provider.example/t",
    "jwks_uri": "https://keys.example/k",
}


@pytest.mark.parametrize(
    ("issuer", "url"),
    [
        ("https://a.example", "https://a.example/.well-known/openid-configuration"),
        ("https://a.example/", "https://a.example/.well-known/openid-configuration"),
        ("https://a.example/b/c", "https://a.example/b/c/.well-known/openid-configuration"),
        ("https://a.example/b/", "https://a.example/b/.well-known/openid-configuration"),
    ],
)
def test_the_document_is_below_the_issuer(issuer: str, url: str) -> None:
    assert discovery.discovery_url(issuer) == url


def test_a_provider_that_tells_the_least_is_used_by_the_defaults() -> None:
    document = discovery.provider_document(TOLD, issuer=ISSUER)
    assert (document.algorithms, document.auth_method) == (frozenset({"RS256"}), "client_secret_basic")
    assert (document.end_session_endpoint, document.names_itself) == (None, False)


@pytest.mark.parametrize(
    ("issuer", "endpoint", "taken"),
    [
        ("http://127.0.0.1:1", "http://127.0.0.1:2/t", True),
        ("http://localhost", "http://localhost/t", True),
        ("http://[::1]:1", "http://[::1]:1/t", True),
        ("http://127.0.0.1", "https://provider.example/t", True),
        ("http://127.0.0.1", "http://provider.example/t", False),
        ("https://127.0.0.1", "http://127.0.0.1/t", False),
        (ISSUER, "http://127.0.0.1/t", False),
        (ISSUER, "https://", False),
        (ISSUER, "https://a.example:99999/", False),
        (ISSUER, "https://a.example/#part", False),
        (ISSUER, "https://a.example\\@b.example/", False),
        (ISSUER, "https://\u0430.example/", False),
        (ISSUER, "//a.example/t", False),
        (ISSUER, "/t", False),
    ],
)
def test_an_address_is_https_or_on_this_machine_as_the_issuer_is(issuer: str, endpoint: str, taken: bool) -> None:
    told = {**TOLD, "issuer": issuer, "token_endpoint": endpoint}
    if taken:
        assert discovery.provider_document(told, issuer=issuer).token_endpoint == endpoint
        return
    with pytest.raises(ProviderUnfit, match="names no `token_endpoint` that is an https URL"):
        discovery.provider_document(told, issuer=issuer)


@pytest.mark.parametrize(
    ("alg", "kid", "said", "takes"),
    [
        ("ES256", "a", {"kid": "a"}, True),
        ("ES256", None, {"kid": "a"}, True),
        ("ES256", "b", {"kid": "a"}, False),
        ("ES256", "b", {}, True),
        ("ES256", "b", {"alg": "ES256"}, True),
        ("RS256", "a", {"kid": "a"}, False),
    ],
)
def test_a_key_verifies_what_names_it_and_fits_it(alg: str, kid: str | None, said: dict[str, str], takes: bool) -> None:
    key = hostile.fresh_key("ES256", 0)
    public = {name: value for name, value in key.as_dict(private=False).items() if name not in ("kid", "alg")}
    among = tokens.signing_keys({"keys": [{**public, **said}]})
    named = {} if kid is None else {"kid": kid}
    header = hostile.fresh_key(alg, 0)
    token = hostile.signed({"alg": alg, **named}, {"sub": "ada"}, header)
    found = tokens.signed_payload(token, allowed=frozenset({"ES256", "RS256"}), among=among)
    assert (found is not None) == takes


def test_naming_the_provider_imports_no_library() -> None:
    program = (
        "import sys; import reconciler.auth.oidc.provider, reconciler.auth.oidc.flows; "
        "print(sorted({'authlib', 'joserfc', 'httpx2', 'cryptography'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
