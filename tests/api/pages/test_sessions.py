"""Sessions in the course of time, with the whole application and a clock that a test moves."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest

import api.app
from api.calls import Services
from reconciler.auth import changes, sign_in
from reconciler.model.directory import User
from reconciler.model.principals import LOCAL, Role
from tests.api import parts
from tests.api.parts import LIFETIMES, Parts
from tests.auth import directories

pytestmark = pytest.mark.anyio

PASSWORD = "canary-of-ana-ana-ana"
SAME = {"Origin": "http://service", "Host": "service"}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def everything(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Parts]:
    async with parts.started(tmp_path_factory.mktemp("sessions")) as started:
        ana = User("U-ana", "ana", directories.AT, password=sign_in.encode_password(PASSWORD))
        accounts = started.services.accounts
        await accounts.amend(lambda directory: changes.create_user(directory, ana), actor="-", request=None)
        yield started


@pytest.fixture
async def browser(everything: Parts) -> AsyncIterator[httpx2.AsyncClient]:
    """Ana's, signed in; an admin of `default`."""
    everything.clock.instant = parts.START
    await give(everything.services, Role.ADMIN)
    transport = httpx2.ASGITransport(app=api.app.build(everything.services))
    async with httpx2.AsyncClient(transport=transport, base_url="http://service") as client:
        answer = await client.post("/sign-in", data={"name": "ana", "password": PASSWORD}, headers=SAME)
        assert answer.status_code == 303
        yield client


async def give(services: Services, role: Role) -> None:
    """Ana's role."""
    await services.accounts.amend(
        lambda directory: changes.set_member(directory, project="default", name="ana", role=role),
        actor="-",
        request=None,
    )


async def status(browser: httpx2.AsyncClient) -> tuple[int, int]:
    """Return what the interface and the page answer."""
    return (await browser.get("/v1/me")).status_code, (await browser.get("/account")).status_code


IN, OUT = (200, 200), (401, 303)


async def test_a_session_that_is_used_goes_on_and_one_that_is_not_ends(
    everything: Parts, browser: httpx2.AsyncClient
) -> None:
    for _ in range(3):
        everything.clock.pass_(seconds=LIFETIMES.idle - 1)
        assert await status(browser) == IN
    everything.clock.pass_(seconds=LIFETIMES.idle + 1)
    assert await status(browser) == OUT
    everything.clock.instant -= timedelta(seconds=60)
    assert await status(browser) == OUT  # what is over stays so


async def test_no_session_outlives_its_lifetime_however_much_it_is_used(
    everything: Parts, browser: httpx2.AsyncClient
) -> None:
    step = LIFETIMES.idle / 2
    for _ in range(int(LIFETIMES.absolute / step) - 1):
        everything.clock.pass_(seconds=step)
        assert await status(browser) == IN
    everything.clock.pass_(seconds=step + 1)
    assert await status(browser) == OUT


async def test_whoever_gains_a_role_stays_signed_in_and_whoever_loses_one_does_not(
    everything: Parts, browser: httpx2.AsyncClient
) -> None:
    await everything.services.accounts.ensure_project("payments")
    await everything.services.accounts.amend(
        lambda directory: changes.set_member(directory, project="payments", name="ana", role=Role.USER),
        actor="-",
        request=None,
    )
    assert await status(browser) == IN
    await give(everything.services, Role.USER)
    assert await status(browser) == OUT
    await give(everything.services, Role.ADMIN)
    assert await status(browser) == OUT


@pytest.mark.parametrize("path", ["/v1/api-keys", "/account/keys"])
async def test_a_session_that_ends_while_its_body_is_on_the_way_changes_nothing(
    everything: Parts, browser: httpx2.AsyncClient, path: str
) -> None:
    services, arrived, ended = everything.services, asyncio.Event(), asyncio.Event()
    if path.startswith("/v1"):
        first, last, kind = b'{"name":"late",', b'"role":"user","project":"default"}', "application/json"
    else:
        first, last = b"name=late&", b"role=user&project=default&scopes=resources"
        kind = "application/x-www-form-urlencoded"

    async def slowly() -> AsyncIterator[bytes]:
        yield first
        arrived.set()
        await ended.wait()
        yield last

    async def sign_out() -> None:
        await arrived.wait()
        await services.sessions.end(browser.cookies["reconciler"])
        ended.set()

    before = services.accounts.directory.keys
    headers = {**SAME, "Content-Type": kind}
    answer, _ = await asyncio.gather(browser.post(path, content=slowly(), headers=headers), sign_out())
    assert answer.status_code == 401
    assert services.accounts.directory.keys == before


async def test_where_nobody_signs_in_the_pages_are_the_local_persons(tmp_path: Path) -> None:
    async with parts.started(tmp_path) as started:
        services = replace(started.services, auth_type="none", anybody=LOCAL, web_url="http://localhost:3001")
        transport = httpx2.ASGITransport(app=api.app.build(services))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost:3001") as client:
            page = await client.get("/account")
            assert page.status_code == 200
            assert "local" in page.text
            assert "Sign out" not in page.text
            assert (await client.get("/sign-in")).headers["location"] == "/account"
            fields = {
                "name": "mine",
                "project": "default",
                "role": "admin",
                "scopes": "resources",
                "expiry": "",
            }
            assert (await client.post("/account/keys", data=fields)).status_code == 403
            same = {"Sec-Fetch-Site": "same-origin"}
            assert (await client.post("/account/keys", data=fields, headers=same)).status_code == 201
            assert (await client.post("/account/password", data={"password": ""}, headers=same)).status_code == 400
        async with httpx2.AsyncClient(transport=transport, base_url="http://evil.example") as client:
            answer = await client.get("/account")
            assert (answer.status_code, answer.headers["content-type"]) == (403, "text/html; charset=utf-8")
