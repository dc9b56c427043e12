"""A person whom an honest provider names is proved, however it says so; and the requests on the way."""

import asyncio
import dataclasses
import logging
import re
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from reconciler.auth.oidc.discovery import STOPPING, ProviderLimits
from reconciler.auth.oidc.provider import NotProved, ProviderUnfit, ProviderUnreachable
from reconciler.model.directory import ProviderIdentity
from tests.auth.oidc import hostile
from tests.auth.oidc.attacks import behave
from tests.auth.oidc.hostile import CLIENT_ID, GONE, Provider
from tests.auth.oidc.scene import NOW, SIGNED_OUT, configuration, scene
from tests.servers import forward
from tests.servers.certificates import Authority

pytestmark = pytest.mark.anyio


def _bare(provider: Provider) -> None:
    """Keys without a name or a purpose, and a token that names none."""
    keys = [provider.key(algorithm).as_dict(private=False) for algorithm in hostile.ALGORITHMS]
    provider.behaviour.published = [
        {name: value for name, value in key.items() if name not in ("kid", "use", "alg")} for key in keys
    ]
    provider.behaviour.header = {"kid": GONE, "typ": GONE}


def _named_by_the_token_alone(provider: Provider) -> None:
    """Keys without a name, and a token that names one."""
    _bare(provider)
    provider.behaviour.header = {}


def _among_others(provider: Provider) -> None:
    """The right key behind others that this service cannot use, or need not."""
    own = provider.key().as_dict(private=False)
    provider.behaviour.published = [
        {"kty": "AKP", "alg": "ML-DSA-44", "pub": "AQAB"},
        {**own, "use": "enc", "alg": "RSA-OAEP"},
        {"kty": "oct", "k": "AQAB"},
        {**hostile.fresh_key("RS256", -1).as_dict(private=False), "kid": own["kid"]},
        {**own, "x5c": ["MIIB"], "key_ops": ["verify"]},
    ]


def _renamed(provider: Provider) -> None:
    """The name that RFC 9864 gave to EdDSA with Ed25519."""
    provider.behaviour.algorithm = "Ed25519"
    provider.behaviour.published = [provider.key("Ed25519").as_dict(private=False)]
    provider.behaviour.document = {"id_token_signing_alg_values_supported": ["Ed25519"]}


def _larger(algorithm: str) -> Callable[[Provider], None]:
    def prepare(provider: Provider) -> None:
        provider.behaviour.algorithm = algorithm
        provider.behaviour.published = [provider.key(algorithm).as_dict(private=False)]
        provider.behaviour.document = {"id_token_signing_alg_values_supported": [algorithm]}

    return prepare


HONEST: dict[str, Callable[[Provider], None]] = {
    "RS256": behave(algorithm="RS256"),
    "PS256": behave(algorithm="PS256"),
    "ES256": behave(algorithm="ES256"),
    "EdDSA": behave(algorithm="EdDSA"),
    "Ed25519": _renamed,
    "RS384": _larger("RS384"),
    "RS512": _larger("RS512"),
    "PS512": _larger("PS512"),
    "ES384": _larger("ES384"),
    "ES512": _larger("ES512"),
    "keys without names": _bare,
    "keys without names, of which a token names one": _named_by_the_token_alone,
    "keys among others": _among_others,
    "the secret in the form": behave(methods=("client_secret_post",)),
    "the ways of the secret not told": behave(document={"token_endpoint_auth_methods_supported": GONE}),
    "PKCE not told": behave(document={"code_challenge_methods_supported": GONE}),
    "algorithms not told": behave(document={"id_token_signing_alg_values_supported": GONE}),
    "no name in the redirect": behave(
        document={"authorization_response_iss_parameter_supported": GONE}, redirect={"iss": GONE}
    ),
    "more in the redirect": behave(redirect={"session_state": "canary-session", "scope": "openid"}),
    "an audience in a list": behave(id_token={"aud": [CLIENT_ID]}),
    "several audiences, given to us": behave(id_token={"aud": ["another", CLIENT_ID], "azp": CLIENT_ID}),
    "one audience, given to us": behave(id_token={"azp": CLIENT_ID}),
    "no hash of the access token": behave(id_token={"at_hash": GONE}),
    "null where nothing is told": behave(id_token={"at_hash": None, "azp": None, "nbf": None}),
    "signed in at no time": behave(id_token={"auth_time": 0}),
    "methods as one text": behave(id_token={"amr": "pwd", "auth_time": "yesterday"}),
    "just expired": behave(id_token={"exp": int(NOW) - 59}),
    "a clock that is ahead": behave(id_token={"iat": int(NOW) + 60, "nbf": int(NOW) + 60}),
    "a clock that is behind": behave(id_token={"iat": int(NOW) - 600}),
    "fractions of seconds": behave(id_token={"iat": NOW - 0.5, "exp": NOW + 60.5}),
    "the longest subject": behave(subject="x" * 255),
    "a small word for the token's type": behave(token={"token_type": "bearer"}),
    "an odd end of the access token": behave(token={"expires_in": "canary-soon", "expires_at": []}),
    "a header that nobody knows": behave(header={"x-tenant": "a", "typ": "JOSE"}),
    "10,000 groups": behave(claims={"groups": [f"group-{each:04}-of-a-large-company" for each in range(10_000)]}),
}


@pytest.mark.parametrize("prepare", HONEST.values(), ids=HONEST)
async def test_is_proved_with_all_claims(prepare: Callable[[Provider], None]) -> None:
    async with scene() as made:
        made.behaviour.claims = {"email": "ada@example.com"}
        prepare(made.provider)
        proved = await made.sign_in()
    assert proved.identity == ProviderIdentity(made.provider.issuer, made.behaviour.subject)
    assert {**proved.claims, **made.behaviour.claims} == dict(proved.claims)
    assert proved.id_token.count(".") == 2


@pytest.mark.parametrize("path", ["", "/", "/realms/one", "/realms/one/"])
async def test_an_issuer_with_a_path_is_found_below_it(path: str) -> None:
    async with scene(path=path) as made:
        assert (await made.sign_in()).identity.issuer == made.provider.issuer
    assert made.provider.requests[0].path == path.rstrip("/") + "/.well-known/openid-configuration"


async def test_the_browser_is_sent_with_a_state_a_nonce_and_a_challenge() -> None:
    async with scene() as made:
        made.behaviour.document = {"authorization_endpoint": f"{made.provider.issuer}/authorize?tenant=a"}
        flow = made.flow()
        url = urlsplit(await made.service.authorization(flow))
    query = parse_qs(url.query)
    assert len(query.pop("code_challenge")[0]) == 43
    assert query == {
        "tenant": ["a"],
        "response_type": ["code"],
        "client_id": [CLIENT_ID],
        "redirect_uri": [hostile.REDIRECT_URI],
        "scope": ["openid profile email"],
        "state": [flow.state],
        "nonce": [flow.nonce],
        "code_challenge_method": ["S256"],
    }
    assert flow.verifier not in url.query


SCOPES: list[tuple[object, tuple[str, ...], str, str]] = [
    (GONE, (), "openid profile email", ""),
    (["openid", "profile", "email", "groups"], (), "openid profile email groups", ""),
    (["openid", "phone", "can\nary"], (), "openid profile email", r"phone, can\\nary"),
    (["groups", "openid"], ("openid",), "openid", "groups"),
    (["groups", "openid"], ("groups", "openid"), "groups openid", ""),
    ("groups", (), "openid profile email", ""),
    ([f"s{number}" for number in range(22)], (), "openid profile email", "s0, .*s19 and 2 more"),
]


@pytest.mark.parametrize(("offered", "configured", "asked", "told"), SCOPES)
async def test_groups_are_asked_for_where_they_are_offered_and_nobody_wrote_the_scopes_down(
    offered: object, configured: tuple[str, ...], asked: str, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with scene(scopes=configured) as made:
        made.behaviour.document = {"scopes_supported": offered}
        for _ in range(2):
            url = urlsplit(await made.service.authorization(made.flow()))
            assert parse_qs(url.query)["scope"] == [asked]
    lines = [line for line in caplog.messages if "scopes" in line]
    assert len(lines) == bool(told)
    assert not told or re.search(f"does not ask for: {told}; if claims are missing", lines[0])


async def test_requests_carry_our_name_and_no_cookie() -> None:
    async with scene() as made:
        await made.sign_in()
        await made.sign_in()
    ours = [request for request in made.provider.requests if request.endpoint != "authorize"]
    assert [request.endpoint for request in ours] == ["discovery", "token", "keys", "token"]
    assert {request.headers["user-agent"].partition("/")[0] for request in ours} == {"reconciler"}
    assert {request.headers["accept-encoding"] for request in ours} == {"identity"}
    assert not any("cookie" in request.headers for request in ours)
    assert "client_secret" not in ours[1].form


async def test_a_state_opens_one_callback() -> None:
    async with scene() as made:
        made.behaviour.replays = True  # the provider would take the code again
        flow = made.flow()
        callback = await made.visit(flow)
        await made.service.proved(callback, flow)
        with pytest.raises(NotProved, match="This sign-in came to its end before"):
            await made.service.proved(callback, flow)
    assert made.provider.counted("token") == 1


async def test_of_many_who_bring_one_state_at_once_one_is_proved() -> None:
    async with scene() as made:
        made.behaviour.replays = True
        flow = made.flow()
        callback = await made.visit(flow)
        ends = await asyncio.gather(*(made.service.proved(callback, flow) for _ in range(20)), return_exceptions=True)
    assert sum(isinstance(end, NotProved) for end in ends) == 19
    assert made.provider.counted("token") == 1


async def test_a_code_that_was_used_is_refused_with_another_state() -> None:
    async with scene() as made:
        first, second = made.flow(), made.flow()
        used = await made.visit(first)
        await made.service.proved(used, first)
        callback = {**await made.visit(second), "code": used["code"]}
        with pytest.raises(NotProved, match="does not take its code"):
            await made.service.proved(callback, second)


async def test_a_token_of_another_sign_in_is_refused() -> None:
    async with scene() as made:
        earlier = (await made.sign_in()).id_token
        made.behaviour.write = lambda *_: earlier
        made.behaviour.token = {"access_token": "canary-other"}
        with pytest.raises(NotProved, match=r"is of another sign-in \(`nonce`\)"):
            await made.sign_in()


async def test_signing_out_leads_to_the_provider_and_back() -> None:
    async with scene() as made:
        made.behaviour.document = {"end_session_endpoint": f"{made.provider.issuer}/end-session?tenant=a"}
        proved = await made.sign_in()
        url = await made.service.end_session(id_token=proved.id_token)
        assert url is not None
        assert parse_qs(urlsplit(url).query) == {
            "tenant": ["a"],
            "id_token_hint": [proved.id_token],
            "client_id": [CLIENT_ID],
            "post_logout_redirect_uri": [SIGNED_OUT],
        }
        assert await asyncio.to_thread(hostile.visited, url) == SIGNED_OUT


@pytest.mark.parametrize("token", ["", "x" * 4097])
async def test_signing_out_without_a_token_that_fits_gives_no_hint(token: str) -> None:
    async with scene() as made:
        url = await made.service.end_session(id_token=token)
    assert url is not None
    assert "id_token_hint" not in url


@pytest.mark.parametrize("endpoint", [GONE, None, "http://192.0.2.7/out", "javascript:alert(1)", ["https://a"]])
async def test_signing_out_stays_here_when_the_provider_has_no_safe_place_for_it(endpoint: object) -> None:
    async with scene() as made:
        made.behaviour.document = {"end_session_endpoint": endpoint}
        assert await made.service.end_session(id_token="canary-token") is None


async def test_signing_out_does_not_wait_for_a_provider_that_is_down() -> None:
    async with scene() as made:
        await made.service.check()
        made.wait(4000)
        made.provider.stop()
        assert await made.service.end_session(id_token="canary-token") is not None
    async with scene() as made:
        made.provider.stop()
        assert await made.service.end_session(id_token="canary-token") is None


@pytest.mark.parametrize("endpoint", ["discovery", "keys", "token"])
@pytest.mark.parametrize(
    "answer", [hostile.Answer(silent=True), hostile.Answer(trickling=True)], ids=["silent", "slow"]
)
async def test_a_provider_that_takes_too_long_is_given_up(endpoint: str, answer: hostile.Answer) -> None:
    async with scene(limits=ProviderLimits(request_seconds=0.2)) as made:
        made.behaviour.answers = {endpoint: answer}
        began = time.monotonic()
        with pytest.raises(ProviderUnreachable, match=r"did not come within 0\.2 s; try again"):
            await made.sign_in()
        assert time.monotonic() - began < 10


async def test_a_provider_that_is_down_is_told_as_such() -> None:
    async with scene() as made:
        made.provider.stop()
        with pytest.raises(
            ProviderUnreachable, match="cannot be reached; try again, or ask whoever runs the provider"
        ) as caught:
            await made.service.check()
    assert f"The discovery document at {made.provider.issuer}/.well-known/" in caught.value.message


async def test_a_service_that_stops_asks_nothing_more() -> None:
    async with scene() as made:
        await made.service.close()
        with pytest.raises(ProviderUnreachable, match="The service is stopping"):
            await made.service.check()
        assert made.provider.requests == []


@pytest.mark.parametrize("endpoint", ["discovery", "keys", "token"])
async def test_one_that_stops_lets_go_of_what_it_waits_for(endpoint: str) -> None:
    async with scene() as made:
        made.behaviour.answers = {endpoint: hostile.Answer(silent=True)}
        waiting = asyncio.create_task(made.sign_in())
        while not made.provider.counted(endpoint):  # noqa: ASYNC110 - the provider is a thread, which sets no event of ours
            await asyncio.sleep(0.01)
        await made.service.close()
        async with asyncio.timeout(5):
            [ended] = await asyncio.gather(waiting, return_exceptions=True)
    assert (type(ended), str(ended)) == (ProviderUnreachable, STOPPING)


async def test_a_certificate_of_an_authority_in_a_file_is_trusted(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path / "authority")
    async with scene(certificate=authority.issue(), ca_file=authority.bundle) as made:
        await made.service.check()


async def test_a_certificate_of_an_authority_that_nobody_named_is_not_trusted(tmp_path: Path) -> None:
    authority, other = Authority.make(tmp_path / "authority"), Authority.make(tmp_path / "other")
    async with scene(certificate=authority.issue(), ca_file=other.bundle) as made:
        with pytest.raises(ProviderUnreachable, match=r"a certificate that is not trusted \(`outbound\.caFile`"):
            await made.service.check()
        other.bundle.write_bytes(authority.bundle.read_bytes())  # and then somebody corrects the file
        made.wait(1)
        await made.service.check()


@pytest.mark.parametrize("content", [None, b"", b"no certificate", b"\xff"], ids=["missing", "empty", "text", "binary"])
async def test_a_file_without_authorities_is_the_operators_to_mend(tmp_path: Path, content: bytes | None) -> None:
    authority, file = Authority.make(tmp_path / "authority"), tmp_path / "ca.pem"
    if content is not None:
        file.write_bytes(content)
    async with scene(certificate=authority.issue(), ca_file=file) as made:
        with pytest.raises(ProviderUnfit, match=r"`outbound\.caFile` holds no certificates in PEM; put them at "):
            await made.service.check()


async def test_requests_go_through_the_proxy(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path / "authority")
    with forward.proxying() as proxy:
        async with scene(certificate=authority.issue(), ca_file=authority.bundle, proxy=proxy.url) as made:
            await made.service.check()
    assert proxy.targets == [f"127.0.0.1:{made.provider.port}"] * 2


async def test_a_proxy_that_refuses_is_told_as_such(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path / "authority")
    with forward.proxying(status=403) as proxy:
        async with scene(certificate=authority.issue(), ca_file=authority.bundle, proxy=proxy.url) as made:
            with pytest.raises(ProviderUnreachable, match=r"cannot be reached through the proxy \(`outbound\.proxy`\)"):
                await made.service.check()


async def test_plain_http_on_this_machine_goes_past_the_proxy() -> None:
    with forward.proxying() as proxy:
        async with scene(proxy=proxy.url) as made:
            await made.sign_in()
    assert proxy.asked == []


async def test_the_environment_names_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with forward.proxying() as proxy:
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        async with scene() as made:
            await made.sign_in()
    assert proxy.asked == []


async def test_nothing_that_is_secret_shows_in_what_is_written_of_values() -> None:
    async with scene() as made:
        flow = dataclasses.replace(made.flow(), invitation="canary-invitation")
        proved = await made.sign_in()
        written = repr([configuration("https://a.example"), flow, proved, made.service])
    assert "canary" not in written
    assert flow.verifier not in written
