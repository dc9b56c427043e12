"""Rules for every request before anything of it is judged: hosts, origins, media types and headers."""

import base64
import dataclasses
from collections.abc import AsyncIterator
from ipaddress import ip_network
from typing import Any
from unittest.mock import ANY

import httpx2
import pytest

from api import responses as answer_headers
from api.calls import Services
from reconciler.auth import changes, sign_in
from reconciler.model.directory import User
from reconciler.model.principals import LOCAL, Role
from tests.api.conftest import connect, make_key
from tests.auth import directories

pytestmark = pytest.mark.anyio

WEB = "https://telemetry.example"
HOME = ("Host", "localhost:3001")
FOREIGN_HOST = {
    "errors": [
        "This service asks nobody who they are, and answers to its own host names alone: localhost, 127.0.0.1, [::1], "
        "and the host of `webURL` in its settings."
    ],
    "codes": ANY,
}
FOREIGN_SITE = {
    "errors": [
        "A browser sent this for a page of another site; only pages of this service may change anything. Behind a "
        "proxy, set `webURL` to the address that people use."
    ],
    "codes": ANY,
}
NOT_JSON = {"errors": ["A write that carries a cookie must say `Content-Type: application/json`."], "codes": ANY}
EMPTY = b'{"resources": []}'


@pytest.fixture
async def local(services: Services) -> AsyncIterator[httpx2.AsyncClient]:
    """The service with `auth.type: none`, asked without a credential."""
    async with connect(dataclasses.replace(services, anybody=LOCAL, web_url=WEB), key="") as client:
        yield client


@pytest.fixture
async def guarded(services: Services) -> AsyncIterator[httpx2.AsyncClient]:
    """The service that asks for a credential, asked with one."""
    async with connect(dataclasses.replace(services, web_url=WEB)) as client:
        yield client


async def send(
    client: httpx2.AsyncClient, method: str, path: str, *headers: tuple[str, str], content: bytes | None = None
) -> httpx2.Response:
    """A request with exactly these headers, in their order, and the client's credential."""
    request = client.build_request(method, path, content=content)
    shown = [one for one in request.headers.raw if one[0].lower() == b"authorization"]
    request.headers = httpx2.Headers(
        [*shown, *((name.lower().encode(), value.encode("latin-1")) for name, value in headers)]
    )
    return await client.send(request)


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:3001",
        "LocalHost:3001",
        "localhost.",
        "localhost.:3001",
        "127.0.0.1",
        "127.0.0.1:80",
        "[::1]",
        "[::1]:3001",
        "telemetry.example",
        "Telemetry.Example:8443",
    ],
)
async def test_without_sign_in_the_services_own_names_are_answered(local: httpx2.AsyncClient, host: str) -> None:
    answer = await send(local, "GET", "/v1/me", ("Host", host))
    assert (answer.status_code, answer.json()["me"]["name"]) == (200, "user:local")


@pytest.mark.parametrize("path", ["/v1/me", "/v1/version", "/livez", "/readyz", "/openapi.json", "/v1/nothing"])
@pytest.mark.parametrize(
    "hosts",
    [
        ["attacker.example"],
        ["attacker.example:3001"],
        ["localhost.attacker.example"],
        ["localhost:3001.attacker.example"],
        ["telemetry.example.attacker.example"],
        ["attacker.example#localhost"],
        ["localhost@attacker.example"],
        ["localhost.."],
        ["127.0.0.1.attacker.example"],
        ["127.1"],
        ["2130706433"],
        ["::1"],
        ["[::1"],
        ["[::ffff:127.0.0.1]"],
        ["localhost:\xb2"],
        [""],
        [":3001"],
        [],
        ["localhost", "attacker.example"],
        ["attacker.example", "localhost"],
        ["localhost", "localhost"],
    ],
    ids=repr,
)
async def test_without_sign_in_no_other_name_is_answered(
    local: httpx2.AsyncClient, hosts: list[str], path: str
) -> None:
    answer = await send(local, "GET", path, *(("Host", host) for host in hosts))
    assert (answer.status_code, answer.json()) == (403, FOREIGN_HOST)


async def test_with_sign_in_the_name_does_not_matter(guarded: httpx2.AsyncClient) -> None:
    assert (await send(guarded, "GET", "/v1/me", ("Host", "attacker.example"))).status_code == 200


@pytest.mark.parametrize(
    ("headers", "is_ours"),
    [
        ([], True),
        ([("Sec-Fetch-Site", "same-origin")], True),
        ([("Sec-Fetch-Site", "none")], True),
        ([("Sec-Fetch-Site", "same-origin"), ("Origin", "http://localhost:3001")], True),
        ([("Origin", "http://localhost:3001")], True),
        ([("Origin", "http://LOCALHOST:3001")], True),
        ([("Origin", WEB)], True),
        ([("Sec-Fetch-Site", "same-site"), ("Origin", WEB)], True),  # a proxy gave us another Host
        ([("Sec-Fetch-Site", "cross-site")], False),
        ([("Sec-Fetch-Site", "same-site")], False),
        ([("Sec-Fetch-Site", "same-site"), ("Origin", "http://localhost:3001")], False),
        ([("Sec-Fetch-Site", "Same-Origin")], False),
        ([("Sec-Fetch-Site", "")], False),
        ([("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Site", "cross-site")], False),
        ([("Origin", "https://attacker.example")], False),
        ([("Origin", "http://localhost:8080")], False),
        ([("Origin", "http://localhost")], False),
        ([("Origin", "https://telemetry.example.attacker.example")], False),
        ([("Origin", "https://attacker.example/https://telemetry.example")], False),
        ([("Origin", "http://telemetry.example")], False),
        ([("Origin", "null")], False),
        ([("Origin", "")], False),
        ([("Origin", "localhost:3001")], False),
        ([("Origin", WEB), ("Origin", "https://attacker.example")], False),
    ],
    ids=repr,
)
async def test_a_write_that_a_browser_sends_for_another_site_is_refused(
    local: httpx2.AsyncClient, guarded: httpx2.AsyncClient, headers: list[tuple[str, str]], is_ours: bool
) -> None:
    expected: tuple[int, Any] = (202, {"updates": []}) if is_ours else (403, FOREIGN_SITE)
    for client in (local, guarded):
        answer = await send(client, "POST", "/v1/apply", HOME, *headers, content=EMPTY)
        assert (answer.status_code, answer.json()) == expected
        # A page of another site cannot read an answer, so that it may have one.
        assert (await send(client, "GET", "/v1/me", HOME, *headers)).status_code == 200


async def test_a_password_is_not_tried_for_a_page_of_another_site(services: Services) -> None:
    async with connect(services, key="") as client:
        basic = ("Authorization", "Basic " + base64.b64encode(b"una:a guess of hers").decode())
        answer = await send(client, "POST", "/v1/apply", HOME, basic, ("Sec-Fetch-Site", "cross-site"))
        assert (answer.status_code, answer.json()) == (403, FOREIGN_SITE)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/apply"),
        ("POST", "/v1/delete"),
        ("DELETE", "/v1/resources/Destination/none"),
        ("POST", "/v1/repositories/telemetry/reconcile"),
        ("PUT", "/v1/me/password"),
        ("PATCH", "/v1/users/una"),
        ("POST", "/v1/projects"),
        ("POST", "/v1/nothing"),
    ],
)
@pytest.mark.parametrize(
    ("types", "is_json"),
    [
        (["application/json"], True),
        (["application/json; charset=utf-8"], True),
        (["Application/JSON ;charset=utf-8"], True),
        ([], False),
        ([""], False),
        (["text/plain"], False),
        (["text/plain; application/json"], False),
        (["application/jsonp"], False),
        (["application/x-www-form-urlencoded"], False),
        (["multipart/form-data; boundary=application/json"], False),
        (["application/json", "text/plain"], False),
        (["application/json, text/plain"], False),
    ],
    ids=repr,
)
async def test_a_write_with_a_cookie_must_say_that_it_is_json(
    guarded: httpx2.AsyncClient, method: str, path: str, types: list[str], is_json: bool
) -> None:
    headers = [HOME, ("Cookie", "session=x"), *(("Content-Type", one) for one in types)]
    answer = await send(guarded, method, path, *headers, content=b"?")
    if is_json:
        assert answer.status_code != 415
    else:
        assert (answer.status_code, answer.json()) == (415, NOT_JSON)
    assert (await send(guarded, method, path, HOME, *headers[2:], content=b"?")).status_code != 415
    assert (await send(guarded, "GET", "/v1/me", *headers)).status_code == 200


async def test_where_nobody_is_asked_a_key_says_who_asks_and_a_wrong_one_is_refused(
    services: Services, project: str
) -> None:
    key = await make_key(services, Role.VIEWER, project=project)
    async with connect(dataclasses.replace(services, anybody=LOCAL, web_url=WEB), key="") as client:
        shown = ("Authorization", f"Bearer {key}")
        me = (await send(client, "GET", "/v1/me", HOME, shown)).json()["me"]
        assert (me["organizationAdmin"], me["projects"]) == (False, [{"name": project, "role": "viewer"}])
        answer = await send(client, "POST", "/v1/apply", HOME, shown, content=EMPTY)
        assert answer.status_code == 403
        assert (await send(client, "POST", "/v1/apply", HOME, content=EMPTY)).status_code == 202
        answer = await send(client, "GET", "/v1/me", HOME, ("Authorization", f"Bearer {key[:-1]}x"))
        assert (answer.status_code, answer.json()) == (401, {"errors": ["The key is not known."], "codes": ANY})
        wrong = ("Authorization", "Basic " + base64.b64encode(b"nobody:a guess").decode())
        assert (await send(client, "GET", "/v1/me", HOME, wrong)).status_code == 401


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/livez", [HOME], 200),
        ("GET", "/v1/me", [HOME], 200),
        ("HEAD", "/v1/me", [HOME], 200),
        ("DELETE", "/v1/resources/Source/none", [HOME], 404),
        ("POST", "/v1/apply", [HOME], 400),
        ("POST", "/v1/apply", [HOME, ("Cookie", "a=b")], 415),
        ("POST", "/v1/apply", [HOME, ("Origin", "null")], 403),
        ("GET", "/v1/me", [HOME, ("Authorization", "Bearer x")], 401),
        ("GET", "/v1/me", [("Host", "attacker.example")], 403),
        ("GET", "/v1/me?api_key=x", [HOME], 400),
        ("GET", "/elsewhere", [HOME], 404),
        ("TRACE", "/livez", [HOME], 405),
    ],
)
async def test_every_answer_has_the_security_headers(
    services: Services, method: str, path: str, headers: list[tuple[str, str]], status: int
) -> None:
    for tls in (False, True):
        expected = answer_headers.security_headers(tls=tls, web_url=WEB)
        changed = dataclasses.replace(services, anybody=LOCAL, web_url=WEB, headers=expected)
        async with connect(changed, key="") as client:
            answer = await send(client, method, path, *headers)
        assert answer.status_code == status
        found = [(name.lower(), value) for name, value in answer.headers.raw]
        assert [found.count(one) for one in expected] == [1] * len(expected)
        assert ("strict-transport-security" in answer.headers) is tls


async def test_an_answer_to_what_went_wrong_has_the_security_headers(services: Services) -> None:
    class Broken:
        def __getattr__(self, name: str) -> None:
            raise RuntimeError(name)

    async with connect(dataclasses.replace(services, accounts=Broken()), key="") as client:  # type: ignore[arg-type]
        answer = await client.get("/v1/me", headers={"X-Service-Api-Key": "x"})
    assert answer.status_code == 500
    assert {(name.lower(), value) for name, value in answer.headers.raw} >= set(answer_headers.SECURITY)


@pytest.mark.parametrize(
    ("tls", "web_url", "is_sent"),
    [
        (True, WEB, True),
        (True, "http://127.0.0.1:3001", False),  # the default: a certificate on this machine closes no other port
        (False, WEB, False),  # whoever ends TLS before us says so
        (False, "http://127.0.0.1:3001", False),
    ],
)
def test_browsers_are_told_to_come_back_by_https_where_they_are_meant_to(
    tls: bool, web_url: str, is_sent: bool
) -> None:
    assert (answer_headers.HSTS in answer_headers.security_headers(tls=tls, web_url=web_url)) is is_sent


async def test_failed_attempts_are_told_when_to_come_again_and_lock_nobody_out(services: Services) -> None:
    password = "the password of this person"
    person = User("U-limits", "limits", directories.AT, password=sign_in.encode_password(password))
    await services.accounts.amend(lambda directory: changes.create_user(directory, person), actor="-", request=None)
    trusted = dataclasses.replace(services, trusted_proxies=(ip_network("127.0.0.0/8"),))
    async with connect(trusted, key="") as client:

        async def attempt(password: str, *forwarded: str, name: str = "limits") -> httpx2.Response:
            shown = "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()
            headers = [HOME, ("Authorization", shown), *(("X-Forwarded-For", one) for one in forwarded)]
            return await send(client, "GET", "/v1/me", *headers)

        guesses = [(await attempt("a guess", "192.0.2.1")).status_code for _ in range(6)]
        assert guesses == [401] * 5 + [429]
        refused = await attempt(password, "192.0.2.1")
        assert (refused.status_code, refused.json()) == (
            429,
            {"errors": ["Too many attempts to sign in failed; wait."], "codes": ANY},
        )
        assert 25 <= int(refused.headers["retry-after"]) <= 30
        # What a stranger writes before their own address changes nothing.
        assert (await attempt(password, "198.51.100.7, 192.0.2.1")).status_code == 429
        assert (await attempt(password, "198.51.100.7", "192.0.2.1:4711")).status_code == 429
        # Elsewhere the right password is right, and another person signs in from there.
        assert (await attempt(password, "192.0.2.2")).status_code == 200
        assert (await attempt("a guess", "192.0.2.1", name="somebody")).status_code == 401
        # What was right is known for a while, wherever it comes from.
        assert (await attempt(password, "192.0.2.1")).status_code == 200


async def test_a_wrong_present_password_counts_as_an_attempt(services: Services) -> None:
    person = User("U-changes", "changes", directories.AT, password=sign_in.encode_password("the right one of theirs"))
    await services.accounts.amend(lambda directory: changes.create_user(directory, person), actor="-", request=None)
    shown = "Basic " + base64.b64encode(b"changes:the right one of theirs").decode()
    async with connect(services, key="") as client:
        body = {"password": "a guess", "newPassword": "a new password of theirs"}
        answers = [await client.put("/v1/me/password", json=body, headers={"Authorization": shown}) for _ in range(6)]
    assert [answer.status_code for answer in answers] == [403] * 5 + [429]
    assert int(answers[-1].headers["retry-after"]) > 0
