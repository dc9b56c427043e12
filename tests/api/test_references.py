"""References of resources: a resource in use stays, and the answer names its users."""

from typing import Any
from unittest.mock import ANY

import httpx2
import pytest

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
