"""The providers themselves, before the service has any part in it: a code flow by hand, and what an ID token says."""

import base64
import hashlib
import json
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest

from tests.providers.certified import Certified
from tests.providers.people import Person
from tests.providers.second import Second
from tests.providers.services import Provider

pytestmark = pytest.mark.providers

VERIFIER = "a-verifier-that-is-forty-three-characters-long-or-more"
GROUPS = ["service-user", "service-projects-north"]


def discovery(provider: Provider) -> dict[str, Any]:
    return dict(httpx2.get(f"{provider.issuer}/.well-known/openid-configuration", trust_env=False).json())


def asked(provider: Provider, url: str) -> str:
    """Return where a browser would be sent to sign in (OpenID Connect Core 1.0, 3.1.2.1)."""
    digest = hashlib.sha256(VERIFIER.encode()).digest()
    query = {
        "client_id": provider.client,
        "response_type": "code",
        "redirect_uri": f"{url}/oidc/redirect",
        "scope": "openid profile email",
        "state": "state-of-this-sign-in",
        "nonce": "nonce-of-this-sign-in",
        "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
    }
    return f"{discovery(provider)['authorization_endpoint']}?{urlencode(query)}"


def claims(provider: Provider, url: str, person: Person) -> dict[str, Any]:
    """Return what the ID token says of somebody who signs in by hand."""
    with pytest.raises(httpx2.ConnectError) as caught:  # nothing listens where the code goes
        provider.let_in(person, person.visit(asked(provider, url)))
    [code] = parse_qs(urlsplit(str(caught.value.request.url)).query)["code"]
    body = {"grant_type": "authorization_code", "code": code, "code_verifier": VERIFIER}
    answer = httpx2.post(
        discovery(provider)["token_endpoint"],
        data={**body, "redirect_uri": f"{url}/oidc/redirect"},
        auth=(provider.client, provider.secret),
        trust_env=False,
    )
    part = answer.json()["id_token"].split(".")[1]
    return dict(json.loads(base64.urlsafe_b64decode(part + "==")))


@pytest.fixture(params=["certified", "second"])
def provider(request: pytest.FixtureRequest) -> Provider:
    chosen: Certified | Second = request.getfixturevalue(request.param)
    return chosen


def test_it_is_who_it_says_and_offers_what_a_sign_in_needs(provider: Provider) -> None:
    told = discovery(provider)
    assert told["issuer"] == provider.issuer
    assert "S256" in told["code_challenge_methods_supported"]
    assert "RS256" in told["id_token_signing_alg_values_supported"]
    assert told["end_session_endpoint"].startswith("http://localhost:")


def test_its_id_token_says_what_it_was_told_to_say_at_each_sign_in(provider: Provider, url: str) -> None:
    told = []
    for groups in (GROUPS, ["service-viewer"]):
        provider.say("eve", name="Eve", email="eve@example.test", email_verified=True, groups=groups)
        with Person("eve") as eve:
            found = claims(provider, url, eve)
        told.append((found["iss"], found["aud"], found["nonce"], found["groups"], found["email"]))
        assert found["email_verified"] is True
    expected = (provider.issuer, provider.client, "nonce-of-this-sign-in")
    assert told == [(*expected, groups, "eve@example.test") for groups in (GROUPS, ["service-viewer"])]
