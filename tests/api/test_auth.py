"""A credential is checked before anything else of a request matters."""

import base64
import dataclasses
from collections.abc import AsyncIterator
from unittest.mock import ANY

import httpx2
import pytest

from api import auth
from api.calls import Services
from reconciler.auth import changes, sign_in
from reconciler.model.directory import User
from tests.api import parts
from tests.api.callers import password_header
from tests.api.conftest import connect
from tests.auth import directories

pytestmark = pytest.mark.anyio

NONE = auth.ASK
WRONG = "The key is not known."
NOBODY = "The name or the password is wrong."
KEY = parts.KEY
OTHER = KEY[:-1] + "x"


def shown(text: str) -> tuple[str, str]:
    """The header of HTTP Basic with this in it."""
    return password_header(text)[0]


@pytest.fixture
async def stranger(services: Services) -> AsyncIterator[httpx2.AsyncClient]:
    async with connect(services, key="") as client:
        yield client


@pytest.mark.parametrize(
    ("headers", "status", "sentence"),
    [
        ([("Authorization", f"Bearer {KEY}")], 200, None),
        ([("authorization", f"bearer  {KEY} ")], 200, None),
        ([("X-Service-Api-Key", KEY)], 200, None),
        ([("X-Service-Api-Key", KEY), ("Authorization", f"Bearer {KEY}")], 200, None),
        ([("X-Service-Api-Key", KEY), ("Authorization", "Basic cHJveHk6cHJveHk=")], 200, None),
        ([], 401, NONE),
        ([("Authorization", "Basic cHJveHk6cHJveHk=")], 401, NOBODY),
        ([shown(f":{KEY}")], 200, None),
        ([shown(f"proxy:{KEY}")], 200, None),
        ([shown(f"proxy:{KEY}"), ("Authorization", f"Bearer {KEY}")], 200, None),
        ([shown(f"proxy:{KEY}"), ("Authorization", f"Bearer {OTHER}")], 401, WRONG),
        ([shown(f"other:{OTHER}")], 401, NOBODY),
        ([shown(f"{KEY}:proxy")], 401, NOBODY),
        ([shown("proxy:rck_x")], 401, WRONG),
        ([shown("proxy:rck_\0\U0001f511")], 401, WRONG),
        ([shown("capitals:RCK_x")], 401, NOBODY),
        ([shown(f"proxy:{KEY}"), shown("proxy:rck_x")], 401, WRONG),
        ([("Authorization", KEY)], 401, NONE),
        ([("Authorization", "Bearer")], 401, WRONG),
        ([("Authorization", f"Bearer {OTHER}")], 401, WRONG),
        ([("Authorization", f"Bearer {KEY[:-1]}")], 401, WRONG),
        ([("Authorization", f"Bearer {KEY.upper()}")], 401, WRONG),
        ([("Authorization", f"Bearer {KEY}, Bearer {KEY}")], 401, WRONG),
        ([("X-Service-Api-Key", "")], 401, WRONG),
        ([("X-Service-Api-Key", "\xff")], 401, WRONG),
        ([("X-Service-Api-Key", KEY), ("X-Service-Api-Key", OTHER)], 401, WRONG),
        ([("X-Service-Api-Key", KEY), ("Authorization", f"Bearer {OTHER}")], 401, WRONG),
        ([("X-Service-Api-Key", OTHER), ("Authorization", f"Bearer {KEY}")], 401, WRONG),
    ],
)
async def test_a_key_opens_the_interface_and_nothing_else_does(
    stranger: httpx2.AsyncClient, headers: list[tuple[str, str]], status: int, sentence: str | None
) -> None:
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    answer = await stranger.get("/v1/resources/Source", headers=raw)
    expected = {"resources": []} if sentence is None else {"errors": [sentence], "codes": ANY}
    assert (answer.status_code, answer.json()) == (status, expected)
    asking = 'Bearer realm="service", Basic realm="service", charset="UTF-8"'
    wrong = 'Bearer realm="service", error="invalid_token"'
    challenges = {None: None, NONE: asking, NOBODY: asking, WRONG: wrong}
    assert answer.headers.get("www-authenticate") == challenges[sentence]


@pytest.mark.parametrize("presented", ["", " ", KEY])
async def test_without_a_configured_key_nobody_gets_in(services: Services, presented: str) -> None:
    async with connect(dataclasses.replace(services, api_key=""), key="") as client:
        answer = await client.get("/v1/runs", headers={"Authorization": f"Bearer {presented}"})
        assert (answer.status_code, answer.json()) == (401, {"errors": [WRONG], "codes": ANY})
        answer = await client.get("/v1/runs", headers={"X-Service-Api-Key": presented})
        assert (answer.status_code, answer.json()) == (401, {"errors": [WRONG], "codes": ANY})
        if presented == KEY:
            answer = await client.get("/v1/runs", headers=dict([shown(f"unset:{presented}")]))
            assert (answer.status_code, answer.json()) == (401, {"errors": [NOBODY], "codes": ANY})


@pytest.mark.parametrize("path", ["/v1/version", "/livez", "/readyz", "/openapi.json"])
async def test_what_is_public_needs_no_key_and_ignores_a_wrong_one(stranger: httpx2.AsyncClient, path: str) -> None:
    assert (await stranger.get(path)).status_code == 200
    assert (await stranger.get(path, headers={"Authorization": f"Bearer {OTHER}"})).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/resources/Destination/none"),
        ("GET", "/v1/resources/Pod"),
        ("GET", "/v1/resources/Destination?limit=0"),
        ("PUT", "/v1/resources/Destination/none"),
        ("DELETE", "/v1/resources/Destination/none?x=1"),
        ("GET", "/v1/Destination/-/history"),
        ("POST", "/v1/apply?dryrun=true"),
        ("GET", "/v1/apply"),
        ("POST", "/v1/delete"),
        ("GET", "/v1/runs/none"),
        ("GET", "/v1/repositories"),
        ("POST", "/v1/repositories/telemetry/reconcile"),
        ("GET", "/v1/no/such/path"),
        ("GET", "/v1"),
        ("GET", "/v1/"),
        ("GET", "/v1/version/"),
        ("GET", "/V1/version"),
        ("GET", "/elsewhere"),
    ],
)
async def test_without_a_key_every_path_answers_the_same(stranger: httpx2.AsyncClient, method: str, path: str) -> None:
    answer = await stranger.request(method, path)
    assert (answer.status_code, answer.json()) == (401, {"errors": [NONE], "codes": ANY})


async def test_the_body_of_a_stranger_is_not_read(stranger: httpx2.AsyncClient) -> None:
    async def body() -> AsyncIterator[bytes]:
        raise AssertionError("the body was read")
        yield b""

    answer = await stranger.post("/v1/apply", content=body(), headers={"Content-Encoding": "gzip"})
    assert (answer.status_code, answer.json()) == (401, {"errors": [NONE], "codes": ANY})


PASSWORD = "päss:word of this person"
UNREADABLE = "The header Authorization is not `Basic` with a name, a colon and a password in base64."
DIFFERENT = "The credentials mean different callers; send one."


def basic(text: str | bytes) -> tuple[str, str]:
    """The header of HTTP Basic with this in it."""
    content = text.encode() if isinstance(text, str) else text
    return "Authorization", f"Basic {base64.b64encode(content).decode()}"


@pytest.fixture
async def person(services: Services) -> str:
    """Somebody with a password, made once."""
    name = "basic@people.example"
    if name not in services.accounts.directory.users:
        one = User("U-basic", name, directories.AT, password=sign_in.encode_password(PASSWORD))
        await services.accounts.amend(lambda directory: changes.create_user(directory, one), actor="-", request=None)
    return name


async def test_a_name_with_a_password_is_a_person_and_nothing_like_it_is(
    stranger: httpx2.AsyncClient, person: str
) -> None:
    right = basic(f"{person}:{PASSWORD}")
    encoded = right[1].removeprefix("Basic ")
    for headers, status, found in [
        ([right], 200, f"user:{person}"),
        ([("authorization", f"bAsIc   {encoded} ")], 200, f"user:{person}"),
        ([right, right], 200, f"user:{person}"),
        ([("X-Service-Api-Key", KEY), right], 200, "key:SERVICE_API_KEY"),  # a proxy's password, whatever it is
        ([right, ("Authorization", f"Bearer {KEY}")], 401, DIFFERENT),
        ([right, ("Authorization", f"Bearer {OTHER}")], 401, WRONG),
        ([right, basic(f"{person}:{PASSWORD}x")], 401, NOBODY),
        ([basic(f"{person.upper()}:{PASSWORD}")], 401, NOBODY),
        ([basic(f"{person}: {PASSWORD}")], 401, NOBODY),
        ([basic(f"{person}:{PASSWORD}".encode("latin-1"))], 400, UNREADABLE),
        ([basic(f"{person}")], 400, UNREADABLE),
        ([basic(b"\xff:\xff")], 400, UNREADABLE),
        ([basic("")], 400, UNREADABLE),
        ([("Authorization", "Basic")], 400, UNREADABLE),
        ([("Authorization", f"Basic {encoded}=")], 400, UNREADABLE),
        ([("Authorization", f"Basic {encoded[:-3]}")], 400, UNREADABLE),
        ([("Authorization", f"Basic {encoded} {encoded}")], 400, UNREADABLE),
        ([("Authorization", f"Digest {encoded}")], 401, NONE),
        ([("Cookie", f"Authorization=Basic {encoded}")], 401, NONE),
    ]:
        raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
        answer = await stranger.get("/v1/me", headers=raw)
        told = answer.json()
        assert (answer.status_code, told["me"]["name"] if status == 200 else told["errors"]) == (
            status,
            found if status == 200 else [found],
        ), headers
