"""References of resources: a resource in use stays, and the answer names its users."""

from typing import Any
from unittest.mock import ANY

import httpx2
import pytest

from api import resources
from api.calls import Services
from tests.api import parts
from tests.api.conftest import connect
from tests.api.parts import destination

pytestmark = pytest.mark.anyio


def document(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "service/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def key(kind: str, name: str) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name}}


OWN = document("SourceType", "own", parameters=[{"name": "host", "type": "string"}])
SOURCE = document("Source", "web", type="own:3", processors=[{"name": "drop"}])
DROP = document("Processor", "drop", type="custom")
CONFIGURATION = document("Configuration", "all", sources=[{"name": "web"}], destinations=[{"name": "a"}])
ALL = [CONFIGURATION, SOURCE, OWN, DROP, destination("a")]


async def apply(client: httpx2.AsyncClient, *resources: object, query: str = "") -> list[dict[str, Any]]:
    answer = await client.post(f"/v1/apply{query}", json={"resources": resources})
    assert answer.status_code == 202, answer.json()
    return list(answer.json()["updates"])


async def delete(client: httpx2.AsyncClient, *items: object) -> tuple[list[str], list[str]]:
    answer = await client.post("/v1/delete", json=items)
    assert answer.status_code == 202
    return [update["status"] for update in answer.json()["updates"]], answer.json()["errors"]


def statuses(updates: list[dict[str, Any]]) -> list[str]:
    return [update["status"] for update in updates]


async def status_of(client: httpx2.AsyncClient, kind: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = (await client.get(f"/v1/resources/{kind}/{name}")).json()["resource"]["status"]
    return {key: value for key, value in found.items() if key != "source"}


async def test_what_a_remaining_resource_refers_to_is_in_use(client: httpx2.AsyncClient) -> None:
    await apply(client, *ALL)
    users = {"SourceType own": "Source web refers", "Processor drop": "Source web refers"}
    lines = [f"{used}: in-use: {said} to it; change that first" for used, said in users.items()]
    assert await delete(client, key("SourceType", "own"), key("Processor", "drop")) == (["in-use"] * 2, lines)
    for kind, name, line in (("SourceType", "own", lines[0]), ("Processor", "drop", lines[1])):
        answer = await client.delete(f"/v1/resources/{kind}/{name}")
        assert (answer.status_code, answer.json()) == (409, {"errors": [line], "codes": ANY})
    assert statuses(await apply(client, *ALL)) == ["unchanged"] * len(ALL)


@pytest.mark.parametrize("documents", [ALL, ALL[::-1]])
async def test_what_is_deleted_together_is_not_in_use(
    client: httpx2.AsyncClient, documents: list[dict[str, Any]]
) -> None:
    await apply(client, *ALL)
    assert await delete(client, *documents) == (["deleted"] * len(documents), [])


async def test_what_no_longer_refers_to_a_resource_lets_it_go(client: httpx2.AsyncClient) -> None:
    await apply(client, *ALL)
    assert statuses(await apply(client, document("Source", "web", type="own"))) == ["configured"]
    assert await delete(client, key("Processor", "drop")) == (["deleted"], [])


@pytest.mark.parametrize(
    ("kind", "name"),
    [("DestinationType", "webhook"), ("ExtensionType", "file_storage"), ("Extension", "file_storage_persistent_queue")],
)
async def test_a_reserved_name_is_forbidden(client: httpx2.AsyncClient, kind: str, name: str) -> None:
    spec: dict[str, Any] = {"type": "file_storage"} if kind == "Extension" else {"parameters": []}
    line = f"{kind} {name}: forbidden: it is built in; choose another name"
    assert statuses(await apply(client, document(kind, name, **spec))) == ["forbidden"]
    answer = await client.post("/v1/apply?atomic=true", json={"resources": [document(kind, name, **spec)]})
    assert (answer.status_code, answer.json()) == (409, {"errors": [line], "codes": ANY})
    assert await delete(client, key(kind, name)) == (["forbidden"], [line])
    gone = await client.delete(f"/v1/resources/{kind}/{name}")
    assert (gone.status_code, gone.json()) == (403, {"errors": [line], "codes": ANY})


async def test_a_dry_run_stores_no_status_either(client: httpx2.AsyncClient) -> None:
    await apply(client, *ALL)
    needy = document("SourceType", "own", parameters=[{"name": "host", "type": "string", "required": True}])
    assert statuses(await apply(client, needy, query="?dryRun=true")) == ["configured"]
    assert await status_of(client, "Source", "web") == {"latest": True}


async def references(client: httpx2.AsyncClient, kind: str, name: str) -> dict[str, Any]:
    answer = await client.get(f"/v1/resources/{kind}/{name}/references")
    assert answer.status_code == 200
    return dict(answer.json())


def users(*keys: str) -> list[dict[str, str]]:
    return [dict(zip(("kind", "name"), key.split("/"), strict=True)) for key in keys]


def uses(*keys: str) -> list[dict[str, Any]]:
    return [{**user, "exists": True} for user in users(*keys)]


async def test_a_resource_shows_what_it_refers_to_and_what_refers_to_it(client: httpx2.AsyncClient) -> None:
    await apply(client, *ALL)
    assert await references(client, "source", "web") == {
        "uses": uses("Processor/drop", "SourceType/own"),
        "usedBy": users("Configuration/all"),
        "more": False,
    }
    assert await references(client, "Configuration", "all") == {
        "uses": uses("Destination/a", "Source/web"),
        "usedBy": [],
        "more": False,
    }


async def test_what_is_built_in_exists_and_is_used(client: httpx2.AsyncClient) -> None:
    await apply(client, destination("b"), destination("a"))
    found = {"uses": uses("DestinationType/webhook"), "usedBy": [], "more": False}
    assert await references(client, "Destination", "a") == found
    users_of_type = users("Destination/a", "Destination/b")
    assert await references(client, "DestinationType", "webhook") == {
        "uses": [],
        "usedBy": users_of_type,
        "more": False,
    }
    queue = await references(client, "Extension", "file_storage_persistent_queue")
    assert queue == {"uses": uses("ExtensionType/file_storage"), "usedBy": [], "more": False}


async def test_references_are_those_of_the_project(client: httpx2.AsyncClient, services: Services) -> None:
    async with connect(services, project=parts.DEFAULT) as other:
        before = await references(other, "DestinationType", "webhook")
        await apply(client, *ALL)
        assert (await other.get("/v1/resources/Source/web/references")).status_code == 404
        assert await references(other, "DestinationType", "webhook") == before


async def test_of_many_references_the_first_are_shown(
    client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "MOST_REFERENCES", 2)
    await apply(client, destination("b"), destination("a"))
    assert not (await references(client, "DestinationType", "webhook"))["more"]
    await apply(client, destination("c"))
    found = await references(client, "DestinationType", "webhook")
    assert found == {"uses": [], "usedBy": users("Destination/a", "Destination/b"), "more": True}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("Source/none", 404),
        ("Nothing/web", 404),
        ("Source/a%2Fb", 404),
        ("Source/..", 404),
        ("Source/-x", 400),
        ("Source/a'%20or%201=1--", 400),
        (f"Source/{'a' * 64}", 400),
        ("Source/%00", 400),
    ],
)
async def test_references_of_what_there_is_not(client: httpx2.AsyncClient, path: str, status: int) -> None:
    assert (await client.get(f"/v1/resources/{path}/references")).status_code == status
