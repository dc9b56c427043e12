"""Resources are listed, fetched, deleted by name and shown with their history."""

import asyncio
import json
from collections.abc import Iterable
from typing import Any
from unittest.mock import ANY

import httpx2
import pytest
from starlette.types import Message

import api.app
from api.calls import Services
from tests.api import parts
from tests.api.conftest import connect
from tests.api.parts import destination

pytestmark = pytest.mark.anyio


async def stored(client: httpx2.AsyncClient, name: str, **metadata: Any) -> dict[str, Any]:
    answer = await client.post("/v1/apply", json={"resources": [destination(name, **metadata)]})
    resource: dict[str, Any] = answer.json()["updates"][0]["resource"]
    return resource


async def test_get_answers_with_the_stored_resource(client: httpx2.AsyncClient) -> None:
    resource = await stored(client, "audit-log")
    answer = await client.get("/v1/resources/Destination/audit-log")
    assert (answer.status_code, answer.json()) == (200, {"resource": resource})
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("kind", ["Destination", "destination", "DESTINATIONS", "destinations"])
async def test_a_kind_in_a_path_may_be_in_any_case_and_number(client: httpx2.AsyncClient, kind: str) -> None:
    resource = await stored(client, "audit-log")
    assert (await client.get(f"/v1/resources/{kind}/audit-log")).json() == {"resource": resource}
    assert (await client.get(f"/v1/resources/{kind}")).json() == {"resources": [resource]}
    assert (await client.get(f"/v1/{kind}/audit-log/history")).json() == {"versions": [resource]}


NAME_RULE = "must be 1 to 63 letters, digits, `-`, `_` or `.`, and begin and end with a letter or digit"
NO_KIND = "There is no such kind; the kinds are listed in /openapi.json."
LIMIT = "The query parameter `limit` is not an integer from 1 to 10000."


@pytest.mark.parametrize(
    ("method", "path", "status", "sentence"),
    [
        ("GET", "/v1/resources/Destination/none", 404, "There is no Destination none."),
        ("GET", "/v1/resources/Pod/none", 404, NO_KIND),
        ("GET", "/v1/resources/Notification/none", 404, NO_KIND),
        ("GET", "/v1/resources/Destination/-x", 400, f"The name in the path {NAME_RULE}."),
        ("GET", "/v1/resources/Destination/x%0A", 400, f"The name in the path {NAME_RULE}."),
        ("GET", "/v1/resources/Pod", 404, NO_KIND),
        ("GET", "/v1/resources/Destination?limit=0", 400, LIMIT),
        ("GET", "/v1/resources/Destination?limit=10001", 400, LIMIT),
        ("GET", "/v1/resources/Destination?limit=+1", 400, LIMIT),
        ("GET", "/v1/resources/Destination?limit=%D9%A1", 400, LIMIT),
        ("GET", "/v1/resources/Destination?limit=", 400, LIMIT),
        ("GET", "/v1/resources/Destination?after=-x", 400, f"The query parameter `after` {NAME_RULE}."),
        (
            "GET",
            "/v1/resources/Destination?after=a&after=b",
            400,
            "The query parameter `after` is given more than once.",
        ),
        ("DELETE", "/v1/resources/Destination/none", 404, "There is no Destination none."),
        ("DELETE", "/v1/resources/Pod/none", 404, NO_KIND),
        ("DELETE", "/v1/resources/Destination/-x", 400, f"The name in the path {NAME_RULE}."),
        (
            "DELETE",
            "/v1/resources/Destination/x?dryRun=true",
            400,
            "The query parameter `dryRun` is not known here: there are none.",
        ),
        ("GET", "/v1/Destination/none/history", 404, "There is no Destination none."),
        ("GET", "/v1/Pod/none/history", 404, NO_KIND),
        ("GET", "/v1/Destination/-x/history", 400, f"The name in the path {NAME_RULE}."),
        ("GET", "/v1/nothing", 404, "There is no such path; /openapi.json lists those that there are."),
        ("GET", "/v1/resources/", 404, "There is no such path; /openapi.json lists those that there are."),
    ],
)
async def test_what_cannot_be_answered_says_why(
    client: httpx2.AsyncClient, method: str, path: str, status: int, sentence: str
) -> None:
    answer = await client.request(method, path)
    assert (answer.status_code, answer.json()) == (status, {"errors": [sentence], "codes": ANY})


async def test_a_list_without_resources_is_an_empty_array(client: httpx2.AsyncClient) -> None:
    answer = await client.get("/v1/resources/Source")
    assert (answer.status_code, answer.content) == (200, b'{"resources":[]}')


async def test_a_list_is_in_byte_order_and_pages_by_the_last_name(client: httpx2.AsyncClient) -> None:
    for name in ("b", "a", "B", "a.b", "a-b"):
        await stored(client, name)

    async def names(query: str) -> list[str]:
        resources = (await client.get(f"/v1/resources/destinations{query}")).json()["resources"]
        return [resource["metadata"]["name"] for resource in resources]

    assert await names("") == ["B", "a", "a-b", "a.b", "b"]
    assert await names("?limit=2") == ["B", "a"]
    assert await names("?limit=2&after=a") == ["a-b", "a.b"]
    assert await names("?after=b") == []
    assert await names("?after=&unknown=1") == ["B", "a", "a-b", "a.b", "b"]


async def fill(client: httpx2.AsyncClient, names: Iterable[str]) -> None:
    """Store a small resource of each name."""
    resources = [{"apiVersion": "service/v1", "kind": "AgentVersion", "metadata": {"name": name}} for name in names]
    for start in range(0, len(resources), parts.MAX_RESOURCES):
        answer = await client.post("/v1/apply", json={"resources": resources[start : start + parts.MAX_RESOURCES]})
        assert {update["status"] for update in answer.json()["updates"]} == {"created"}


MANY = [f"n{number:04}" for number in range(450)]  # a list is read from the store 200 at a time


async def test_a_list_of_many_pages_is_one_document(client: httpx2.AsyncClient) -> None:
    await fill(client, MANY)
    resources = (await client.get("/v1/resources/agent-versions")).json()["resources"]
    assert [resource["metadata"]["name"] for resource in resources] == MANY


async def test_a_list_shows_one_state_of_the_store_whatever_is_written_meanwhile(
    client: httpx2.AsyncClient, services: Services, project: str
) -> None:
    await fill(client, MANY)
    sent: list[bytes] = []

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            sent.append(message["body"])
        if len(sent) == 1:
            await client.delete("/v1/resources/AgentVersion/n0449")
            await fill(client, ["n0448x"])

    headers = [(b"x-service-api-key", parts.KEY.encode()), (b"x-service-project", project.encode())]
    path = "/v1/resources/AgentVersion"
    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": headers}
    await api.app.build(services)(scope, _connected, send)
    resources = json.loads(b"".join(sent))["resources"]
    assert [resource["metadata"]["name"] for resource in resources] == MANY
    now = (await client.get(path)).json()["resources"]
    assert [resource["metadata"]["name"] for resource in now][-2:] == ["n0448", "n0448x"]


async def _connected() -> Message:
    await asyncio.sleep(3600)
    raise AssertionError


async def test_pages_under_writes_neither_repeat_nor_leave_out_what_stays(client: httpx2.AsyncClient) -> None:
    stays = [f"n{number}" for number in range(10, 30)]
    await fill(client, stays)
    seen: list[str] = []
    page = ["-"]
    while page:
        answer = await client.get(f"/v1/resources/AgentVersion?limit=3&after={seen[-1] if seen else ''}")
        page = [resource["metadata"]["name"] for resource in answer.json()["resources"]]
        seen += page
        if page and page[-1] in stays:
            await fill(client, [f"{page[-1]}-new", f"a{len(seen)}"])  # just behind the page, and far before it
        elif page:
            await client.delete(f"/v1/resources/AgentVersion/{page[-1]}")  # the next page begins after what is gone
    assert [name for name in seen if name in stays] == stays
    assert len(seen) == len(set(seen)) > len(stays)


async def test_delete_answers_204_and_leaves_the_history(client: httpx2.AsyncClient) -> None:
    resource = await stored(client, "audit-log")
    answer = await client.delete("/v1/resources/Destination/audit-log")
    assert (answer.status_code, answer.content) == (204, b"")
    assert "content-length" not in answer.headers
    assert (await client.get("/v1/resources/Destination/audit-log")).status_code == 404
    history = (await client.get("/v1/Destination/audit-log/history")).json()["versions"]
    assert [version["metadata"] for version in history] == [resource["metadata"]]


async def test_history_is_newest_first_and_only_the_newest_version_is_the_latest(client: httpx2.AsyncClient) -> None:
    async def versions() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await client.get("/v1/Destination/audit-log/history")).json()["versions"]
        return found

    first = await stored(client, "audit-log")
    second = await stored(client, "audit-log", displayName="Audit")
    source = {"source": first["status"]["source"]}
    assert await versions() == [second, first | {"status": source}]
    await client.delete("/v1/resources/Destination/audit-log")
    assert await versions() == [second | {"status": source}, first | {"status": source}]
    third = await stored(client, "audit-log")
    assert await versions() == [third, second | {"status": source}, first | {"status": source}]
    assert third["metadata"]["version"] == 3


async def test_a_resource_named_like_a_literal_path_can_be_fetched(client: httpx2.AsyncClient) -> None:
    resource = await stored(client, "history")
    assert (await client.get("/v1/resources/Destination/history")).json() == {"resource": resource}


@pytest.mark.parametrize("path", ["/v1/resources/Destination/audit-log", "/v1/resources/Destination?limit=5"])
async def test_a_client_that_holds_the_answer_gets_304_until_it_changes(client: httpx2.AsyncClient, path: str) -> None:
    await stored(client, "audit-log")
    etag = (await client.get(path)).headers["etag"]
    held = await client.get(path, headers={"If-None-Match": f'"other", W/{etag}'})
    assert (held.status_code, held.content, held.headers["etag"]) == (304, b"", etag)
    await stored(client, "audit-log", displayName="Audit")
    changed = await client.get(path, headers={"If-None-Match": etag})
    assert changed.status_code == 200
    assert changed.headers["etag"] != etag


async def test_lists_that_differ_in_their_query_have_different_tags(client: httpx2.AsyncClient) -> None:
    queries = ("", "?limit=1", "?after=a", "?limit=1&after=a")
    tags = {(await client.get(f"/v1/resources/{kind}{query}")).headers["etag"] for query in queries for kind in KINDS}
    assert len(tags) == len(queries) * len(KINDS)


KINDS = ("Source", "Destination")


async def test_a_project_has_its_own_resources(client: httpx2.AsyncClient, services: Services) -> None:
    resource = await stored(client, "audit-log")
    path = "/v1/resources/Destination/audit-log"
    assert (await client.get(path)).json() == {"resource": resource}
    other = {"X-Service-Project": parts.DEFAULT}
    assert (await client.get(path, headers=other)).status_code == 404
    assert (await client.get("/v1/Destination/audit-log/history", headers=other)).status_code == 404
    assert (await client.delete(path, headers=other)).status_code == 404
    async with connect(services) as without_header:
        assert (await without_header.get(path)).status_code == 404
        listed = (await without_header.get("/v1/resources/Destination")).json()["resources"]
        assert "audit-log" not in [one["metadata"]["name"] for one in listed]  # others may have stored something there


async def test_what_is_shown_can_be_applied_again_and_changes_nothing(client: httpx2.AsyncClient) -> None:
    await stored(client, "a", labels={"team": "a"}, annotations={"x": 1})
    await stored(client, "b", id="mine", deprecated=False, description="é\u2028", icon="i.svg")
    await client.post("/v1/apply", json={"resources": [{"apiVersion": "service/v1", "kind": "Fleet", **FLEET}]})
    shown = [one for kind in ("destinations", "fleets") for one in await listed(client, kind)]
    updates = (await client.post("/v1/apply", json={"resources": shown})).json()["updates"]
    assert updates == [{"resource": resource, "status": "unchanged"} for resource in shown]


async def test_what_is_shown_can_be_applied_elsewhere_and_is_the_same(
    client: httpx2.AsyncClient, services: Services, project: str
) -> None:
    await stored(client, "a", id="mine", labels={"team": "a"})
    (shown,) = await listed(client, "destinations")
    await services.accounts.ensure_project(f"{project}-copy")
    async with connect(services, project=f"{project}-copy") as elsewhere:
        (update,) = (await elsewhere.post("/v1/apply", json={"resources": [shown]})).json()["updates"]
    assert (update["status"], update["resource"]["metadata"]["id"]) == ("created", "mine")
    assert update["resource"]["metadata"]["hash"] == shown["metadata"]["hash"]


FLEET = {"metadata": {"name": "edge"}, "spec": {"selector": {"matchLabels": {"team": "a"}}}}


async def listed(client: httpx2.AsyncClient, kind: str) -> list[dict[str, Any]]:
    resources: list[dict[str, Any]] = (await client.get(f"/v1/resources/{kind}")).json()["resources"]
    return resources


UNKNOWN_PROJECT = {"errors": ["There is no such project."], "codes": ANY}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/resources/Destination", None),
        ("GET", "/v1/resources/Destination/x", None),
        ("DELETE", "/v1/resources/Destination/x", None),
        ("GET", "/v1/Destination/x/history", None),
        ("POST", "/v1/apply", {"resources": []}),
        ("POST", "/v1/delete", []),
    ],
)
async def test_an_unknown_project_is_404(client: httpx2.AsyncClient, method: str, path: str, body: object) -> None:
    content = None if body is None else json.dumps(body)
    answer = await client.request(method, path, content=content, headers={"X-Service-Project": "third"})
    assert (answer.status_code, answer.json()) == (404, UNKNOWN_PROJECT)
    twice = httpx2.Headers([("X-Service-Project", "default"), ("X-Service-Project", "third")])
    answer = await client.request(method, path, content=content, headers=twice)
    assert (answer.status_code, answer.json()) == (
        400,
        {"errors": ["The header X-Service-Project is given more than once."], "codes": ANY},
    )


@pytest.mark.parametrize(
    "path", ["/v1/resources/Destination/audit-log", "/v1/resources/Destination", "/v1/Destination/audit-log/history"]
)
async def test_head_answers_as_get_without_a_body(client: httpx2.AsyncClient, path: str) -> None:
    await stored(client, "audit-log")
    get, head = await client.get(path), await client.head(path)
    ids = {"x-request-id"}
    assert head.status_code == get.status_code == 200
    assert {n: v for n, v in head.headers.items() if n not in ids} == {
        n: v for n, v in get.headers.items() if n not in ids
    }
    assert head.content == b""


PATH = "/v1/resources/Destination/audit-log"


async def tag(client: httpx2.AsyncClient) -> str:
    return str((await client.get(PATH)).headers["etag"])


async def test_the_etag_of_a_resource_is_its_version_and_a_digest_of_all_that_is_shown(
    client: httpx2.AsyncClient,
) -> None:
    await stored(client, "audit-log")
    first = await tag(client)
    await stored(client, "audit-log", description="another")
    second = await tag(client)
    assert [each.strip('"').split("-")[0] for each in (first, second)] == ["1", "2"]
    other = f'"2-{first.strip(chr(34)).split("-")[1]}"'
    held = [(await client.get(PATH, headers={"If-None-Match": each})).status_code for each in (first, other, second)]
    assert held == [200, 200, 304]


@pytest.mark.parametrize(
    "named",
    ['"2"', "{hash}", "{etag}", '"2-of-another-digest"', "*", '"1", "2"', 'W/"2","2"'],
)
async def test_what_if_match_names_is_deleted(client: httpx2.AsyncClient, named: str) -> None:
    await stored(client, "audit-log")
    resource = await stored(client, "audit-log", description="another")
    header = named.format(hash=f'"{resource["metadata"]["hash"]}"', etag=await tag(client))
    assert (await client.delete(PATH, headers={"If-Match": header})).status_code == 204
    assert (await client.get(PATH)).status_code == 404


@pytest.mark.parametrize("named", ['"1"', '"3"', 'W/"2"', '"1-{digest}"', '""', f'"{"0" * 64}"', '"02"'])
async def test_another_version_than_if_match_names_is_kept(client: httpx2.AsyncClient, named: str) -> None:
    await stored(client, "audit-log")
    await stored(client, "audit-log", description="another")
    header = named.format(digest=(await tag(client)).strip('"').split("-")[1])
    answer = await client.delete(PATH, headers={"If-Match": header})
    told = (
        "Destination audit-log: the present version is 2, which `If-Match` does not name; get the resource, and decide "
        "again"
    )
    assert (answer.status_code, answer.json()) == (412, {"errors": [told], "codes": ANY})
    assert (await client.get(PATH)).status_code == 200


async def test_a_condition_that_is_none_is_refused_and_what_is_not_there_is_missing(client: httpx2.AsyncClient) -> None:
    await stored(client, "audit-log")
    answer = await client.delete(PATH, headers={"If-Match": "2"})
    told = '`If-Match` takes `*`, or versions, hashes or ETags, each in quotes, such as "3".'
    assert (answer.status_code, answer.json()) == (400, {"errors": [told], "codes": ANY})
    missing = await client.delete("/v1/resources/Destination/none", headers={"If-Match": '"1"'})
    assert missing.status_code == 404
