"""Invitations over the API: a code that is shown once, an address that waits, and where neither admits anybody."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from unittest.mock import ANY

import httpx2
import pytest

from api import auth, projects, users
from api.calls import Services
from reconciler.auth import changes
from reconciler.model.directory import Amendment, Audited, Member, ProviderIdentity
from reconciler.model.principals import Role
from tests import stores
from tests.api import parts
from tests.api.conftest import connect, make_key
from tests.auth import arrivals, directories

pytestmark = pytest.mark.anyio

MONTH = "2026-12-21T06:12:00.123Z"
WEEK = "2026-11-28T06:12:00.123Z"


@pytest.fixture
def open_services(services: Services) -> Services:
    """Services where people come in through a provider, and invitations count."""
    return replace(services, auth_type="oidc", takes_invitations=True)


@pytest.fixture
async def client(open_services: Services) -> AsyncIterator[httpx2.AsyncClient]:
    async with connect(open_services) as client:
        yield client


async def made(client: httpx2.AsyncClient, project: str, **body: Any) -> dict[str, Any]:
    answer = await client.post(f"/v1/projects/{project}/invitations", json={"role": "user", **body})
    assert answer.status_code == 201
    return dict(answer.json()["invitation"])


async def waiting(client: httpx2.AsyncClient, project: str) -> list[dict[str, Any]]:
    return list((await client.get(f"/v1/projects/{project}/invitations")).json()["invitations"])


async def test_a_code_is_shown_once_and_kept_as_a_digest(
    client: httpx2.AsyncClient, project: str, services: Services
) -> None:
    shown = await made(client, project)
    code = shown.pop("code")
    assert changes.code_digest(code)
    assert shown == {
        "id": shown["id"],
        "project": project,
        "role": "user",
        "email": None,
        "createdAt": parts.AT,
        "createdBy": "key:SERVICE_API_KEY",
        "expiresAt": WEEK,
    }
    assert await waiting(client, project) == [shown]
    kept = services.accounts.directory.invitations[shown["id"]]
    assert kept.digest == changes.code_digest(code)
    assert (await services.store.directory()).invitations[shown["id"]] == kept
    assert code[4:].encode() not in b"".join(stores.content(stores.state_of(services.store)).values())


async def test_an_address_waits_without_a_code_and_once(client: httpx2.AsyncClient, project: str) -> None:
    first = await made(client, project, email="Noa@Example.com")
    assert (first["email"], first["expiresAt"], "code" in first) == ("noa@example.com", MONTH, False)
    second = await made(client, project, email="noa@example.com", role="viewer", expiry="2026-11-21T07:12:00.123Z")
    assert await waiting(client, project) == [second]
    assert second["expiresAt"] == "2026-11-21T07:12:00.123Z"


async def test_what_is_withdrawn_or_over_waits_no_more(
    client: httpx2.AsyncClient, project: str, everything: parts.Parts
) -> None:
    lasting, ending = await made(client, project), await made(client, project, expiry="1h")
    everything.clock.pass_(hours=1)
    lasting.pop("code")
    assert await waiting(client, project) == [lasting]
    place = f"/v1/projects/{project}/invitations"
    assert (await client.delete(f"{place}/{ending['id']}")).status_code == 404
    assert (await client.delete(f"{place}/{lasting['id']}")).status_code == 204
    again = await client.delete(f"{place}/{lasting['id']}")
    assert (again.status_code, again.json()) == (404, {"errors": [changes.NO_INVITATION], "codes": ANY})
    assert await waiting(client, project) == []
    left = everything.services.accounts.directory.invitations
    assert [one for one in left.values() if one.project == project] == []


async def test_another_project_s_invitation_is_not_withdrawn(
    client: httpx2.AsyncClient, project: str, services: Services
) -> None:
    await services.accounts.ensure_project("elsewhere")
    theirs = await made(client, "elsewhere")
    assert (await client.delete(f"/v1/projects/{project}/invitations/{theirs['id']}")).status_code == 404
    theirs.pop("code")
    assert await waiting(client, "elsewhere") == [theirs]


async def test_a_key_of_the_project_s_admin_invites_and_its_revocation_ends_that(
    open_services: Services, project: str
) -> None:
    admin = await make_key(open_services, Role.ADMIN, project=project)
    user = await make_key(open_services, Role.USER, project=project)
    async with connect(open_services, key=user) as client:
        assert (await client.post(f"/v1/projects/{project}/invitations", json={"role": "user"})).status_code == 403
    async with connect(open_services, key=admin) as client:
        await made(client, project)
    async with connect(open_services) as client:
        assert len(await waiting(client, project)) == 1
        keys = (await client.get("/v1/api-keys", headers={"X-Service-Project": project})).json()["apiKeys"]
        for key in keys:
            await client.delete(f"/v1/api-keys/{key['id']}")
        assert await waiting(client, project) == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "/role: is required"),
        ({"role": "owner"}, "/role: must be one of admin, user, viewer"),
        ({"role": "user", "email": ""}, f"/email: {changes.EMAIL_RULE}"),
        ({"role": "user", "email": "noa"}, f"/email: {changes.EMAIL_RULE}"),
        ({"role": "user", "email": "nöa@example.com"}, f"/email: {changes.EMAIL_RULE}"),
        ({"role": "user", "email": None}, "/email: must be a string"),
        ({"role": "user", "expiry": "721h"}, "/expiry: must be in the future, and at most 30 days away"),
        (
            {"role": "user", "expiry": "2026-11-21T06:12:00Z"},
            "/expiry: must be in the future, and at most 30 days away",
        ),
        ({"role": "user", "code": "x"}, "/code: unknown key; only `role`, `email` and `expiry` are allowed"),
    ],
)
async def test_what_breaks_a_rule_is_refused(
    client: httpx2.AsyncClient, project: str, body: dict[str, Any], said: str
) -> None:
    answer = await client.post(f"/v1/projects/{project}/invitations", json=body)
    assert (answer.status_code, answer.json()) == (400, {"errors": [said], "codes": ANY})
    assert await waiting(client, project) == []


@pytest.mark.parametrize(
    ("auth_type", "sentence"),
    [
        ("oidc", projects.CLAIMS_DECIDE),
        ("local", projects.NO_PROVIDER),
        ("none", projects.NO_PROVIDER),
    ],
)
async def test_where_invitations_admit_nobody_none_is_made(
    services: Services, project: str, auth_type: str, sentence: str
) -> None:
    async with connect(replace(services, auth_type=auth_type, takes_invitations=False)) as client:
        answer = await client.post(f"/v1/projects/{project}/invitations", json={"role": "user"})
        assert (answer.status_code, answer.json()) == (409, {"errors": [sentence], "codes": ANY})
        assert await waiting(client, project) == []


@pytest.mark.parametrize("path", ["/v1/runs?after={code}", "/invitation/{code}", "/v1/resources/{code}"])
async def test_a_code_in_a_url_is_refused(services: Services, path: str) -> None:
    async with connect(services, key="") as client:
        answer = await client.get(path.format(code=arrivals.code(1)))
    assert (answer.status_code, answer.json()) == (400, {"errors": [auth.IN_A_URL], "codes": ANY})


async def test_a_person_of_the_provider_is_shown_with_who_they_are_there(
    client: httpx2.AsyncClient, project: str, services: Services
) -> None:
    plain = directories.user("noa@example.com")
    noa = replace(plain, identity=ProviderIdentity("https://id.example", "s-1"), email="noa@example.com")
    amendment = Amendment(
        Audited("created", "User", noa.name), users=(noa,), members=(Member(project, noa.id, Role.USER),)
    )
    await services.accounts.amend(lambda _: amendment, actor="sign-in", request=None)
    shown = (await client.get("/v1/users/noa@example.com")).json()["user"]
    assert (shown["identity"], shown["email"]) == ({"issuer": "https://id.example", "subject": "s-1"}, noa.email)
    assert shown["hasPassword"] is False
    directory = services.accounts.directory
    told = users.described_person(directory.principal(noa), directory)
    assert told == {
        "name": "user:noa@example.com",
        "organizationAdmin": False,
        "scopes": ["resources"],
        "projects": [{"name": project, "role": "user"}],
        "identity": shown["identity"],
        "email": noa.email,
    }
    answer = await client.patch("/v1/users/noa@example.com", json={"password": "canary-a-long-password"})
    sentence = "noa@example.com signs in through the OpenID Connect provider and has no password here."
    assert (answer.status_code, answer.json()) == (409, {"errors": [sentence], "codes": ANY})
    changed = await client.patch("/v1/users/noa@example.com", json={"displayName": "Noa"})
    assert changed.json()["user"] == {**shown, "displayName": "Noa"}
    assert (await client.delete("/v1/users/noa@example.com")).status_code == 204


async def test_nobody_is_created_who_could_never_sign_in(client: httpx2.AsyncClient, services: Services) -> None:
    before = services.accounts.directory
    answer = await client.post("/v1/users", json={"name": "mallory"})
    assert (answer.status_code, answer.json()) == (409, {"errors": [users.BY_PROVIDER], "codes": ANY})
    assert services.accounts.directory is before
