"""Through the interface, what is built in is there for every project, and lists hold what a selector leaves."""

from collections.abc import Iterable
from typing import Any
from unittest.mock import ANY

import httpx2
import pytest

from api.calls import Services
from reconciler.model import builtins, components, routes
from reconciler.model.names import Key
from reconciler.model.values import Value
from tests.api import parts
from tests.api.conftest import connect

pytestmark = pytest.mark.anyio

BUILT_IN: dict[str, Value] = {"latest": True, "source": {"type": "builtin"}}
KINDS = sorted({key.kind for key in builtins.built_in()})
SOURCE_TYPES = [key.name for key in builtins.built_in() if key.kind == "SourceType"]


async def apply(client: httpx2.AsyncClient, *resources: Any) -> list[str]:
    """The status of each."""
    answer = await client.post("/v1/apply", json={"resources": resources})
    return [update["status"] for update in answer.json()["updates"]]


def fleet(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "service/v1", "kind": "Fleet", "metadata": {"name": name, "labels": labels}}


async def listed(client: httpx2.AsyncClient, kind: str, **query: str) -> list[Any]:
    answer = await client.get(f"/v1/resources/{kind}", params=query)
    assert answer.status_code == 200
    found: list[Any] = answer.json()["resources"]
    return found


async def names(client: httpx2.AsyncClient, kind: str, **query: str) -> list[str]:
    return [resource["metadata"]["name"] for resource in await listed(client, kind, **query)]


@pytest.mark.parametrize("key", builtins.built_in(), ids="-".join)
async def test_what_is_built_in_is_fetched_listed_and_has_a_history(client: httpx2.AsyncClient, key: Key) -> None:
    answer = await client.get(f"/v1/resources/{key.kind}/{key.name}")
    resource = answer.json()["resource"]
    runs_on: dict[str, Value] = {"runsOn": [*routes.type_runs_on(key)]} if key.kind in components.TYPES else {}
    assert (answer.status_code, resource["status"]) == (200, BUILT_IN | runs_on)
    assert resource["spec"] == builtins.built_in()[key]["spec"]
    assert [one for one in await listed(client, key.kind) if one["metadata"]["name"] == key.name] == [resource]
    assert (await client.get(f"/v1/{key.kind}/{key.name}/history")).json() == {"versions": [resource]}
    held = {"If-None-Match": answer.headers["etag"]}
    assert (await client.get(f"/v1/resources/{key.kind}/{key.name}", headers=held)).status_code == 304


async def test_what_is_built_in_is_the_same_in_every_project(
    client: httpx2.AsyncClient, services: Services, project: str
) -> None:
    found = [await listed(client, kind) for kind in KINDS]
    assert sum(map(len, found)) == len(builtins.built_in())
    async with connect(services, project=parts.DEFAULT) as elsewhere:
        assert [await listed(elsewhere, kind) for kind in KINDS] == found
    async with connect(services, project=f"{project}-none") as nowhere:
        assert (await nowhere.get("/v1/resources/SourceType/otlp")).status_code == 404


@pytest.mark.parametrize("path", ["/v1/resources/{}/none", "/v1/{}/none/history"])
@pytest.mark.parametrize("kind", KINDS)
async def test_other_names_of_these_kinds_are_404(client: httpx2.AsyncClient, kind: str, path: str) -> None:
    answer = await client.get(path.format(kind))
    assert (answer.status_code, answer.json()) == (404, {"errors": [f"There is no {kind} none."], "codes": ANY})


def own_type(**spec: Value) -> dict[str, Any]:
    metadata = {"name": "otlp", "labels": {"team": "edge"}}
    return {"apiVersion": "service/v1", "kind": "SourceType", "metadata": metadata, "spec": {"version": "2", **spec}}


async def test_a_resource_of_the_project_shadows_what_is_built_in_until_it_is_deleted(
    client: httpx2.AsyncClient,
) -> None:
    path, history = "/v1/resources/SourceType/otlp", "/v1/SourceType/otlp/history"
    etag = (await client.get("/v1/resources/SourceType")).headers["etag"]
    built_in = (await client.get(path)).json()["resource"]
    assert await apply(client, own_type()) == ["created"]
    own = (await client.get(path)).json()["resource"]
    assert (own["spec"], own["metadata"]["version"], own["status"]["source"]["type"]) == ({"version": "2"}, 1, "api")
    assert own in await listed(client, "source-types")
    assert built_in not in await listed(client, "source-types")
    assert await names(client, "source-types") == SOURCE_TYPES
    assert (await client.get(history)).json() == {"versions": [own]}
    changed = await client.get("/v1/resources/SourceType", headers={"If-None-Match": etag})
    assert changed.status_code == 200
    assert (await client.delete(path)).status_code == 204
    assert (await client.get(path)).json() == {"resource": built_in}
    assert (await client.get(history)).json() == {
        "versions": [built_in, own | {"status": {"source": own["status"]["source"]}}]
    }


async def test_a_copy_of_what_is_built_in_has_its_hash(client: httpx2.AsyncClient) -> None:
    shown = (await client.get("/v1/resources/SourceType/file")).json()["resource"]
    document = {name: shown[name] for name in ("apiVersion", "kind", "spec")}
    await apply(client, {**document, "metadata": {"name": "file"}})
    copy = (await client.get("/v1/resources/SourceType/file")).json()["resource"]
    assert copy["metadata"]["hash"] == shown["metadata"]["hash"]
    assert copy["status"]["source"]["type"] == "api"


async def test_pages_go_through_both(client: httpx2.AsyncClient) -> None:
    types = [own_type() | {"metadata": {"name": name, "labels": {"x": name}}} for name in ("A", "d", "file", "z")]
    await apply(client, *types)
    expected = sorted(["A", "d", "z", *SOURCE_TYPES])
    for limit in range(1, 13):
        seen: list[str] = []
        page = ["-"] * limit
        while len(page) == limit:
            page = await names(client, "SourceType", limit=str(limit), after=seen[-1] if seen else "")
            seen += page
        assert seen == expected
    assert await names(client, "SourceType", selector="!x") == [name for name in SOURCE_TYPES if name != "file"]
    assert await names(client, "SourceType", selector="x!=d", after="A") == [*SOURCE_TYPES, "z"]


FLEETS = [
    fleet("a", team="edge", env="prod"),
    fleet("b", team="edge", env="test"),
    fleet("c", team="core"),
    fleet("d"),
]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("", ["a", "b", "c", "d"]),
        ("team=edge", ["a", "b"]),
        ("team==edge,env=prod", ["a"]),
        ("team!=edge", ["c", "d"]),
        ("env in (prod, test)", ["a", "b"]),
        ("env notin (prod)", ["b", "c", "d"]),
        ("env", ["a", "b"]),
        ("!env", ["c", "d"]),
        ("team=none", []),
    ],
)
async def test_a_list_holds_what_a_selector_matches(
    client: httpx2.AsyncClient, selector: str, expected: list[str]
) -> None:
    await apply(client, *FLEETS)
    found = await listed(client, "fleets", selector=selector)
    whole = {resource["metadata"]["name"]: resource for resource in await listed(client, "fleets")}
    assert found == [whole[name] for name in expected]


async def test_limit_and_after_count_what_matches(client: httpx2.AsyncClient) -> None:
    await apply(client, *(fleet(f"f{number:02}", odd=str(number % 2)) for number in range(40)))
    odd = [f"f{number:02}" for number in range(1, 40, 2)]
    assert await names(client, "fleets", selector="odd=1", limit="7") == odd[:7]
    assert await names(client, "fleets", selector="odd=1", limit="7", after=odd[6]) == odd[7:14]
    assert await names(client, "fleets", selector="odd=1", limit="7", after=odd[13]) == odd[14:]  # fewer: the end
    assert await names(client, "fleets", selector="odd=1", after="f36") == ["f37", "f39"]


async def test_lists_of_two_selectors_or_projects_have_different_tags(
    client: httpx2.AsyncClient, services: Services
) -> None:
    async def tag(one: httpx2.AsyncClient, selector: str) -> str:
        answer = await one.get("/v1/resources/fleets", params={"selector": selector})
        return str(answer.headers["etag"])

    tags = [await tag(client, selector) for selector in ("", "a", "!a", "a=1", "a in (1,2)")]
    async with connect(services) as elsewhere:
        tags.append(await tag(elsewhere, ""))
    assert len(set(tags)) == len(tags)
    assert await tag(client, "a in (1,2)") == tags[4]
    held = {"If-None-Match": tags[4]}
    answer = await client.get("/v1/resources/fleets", params={"selector": "a in (1,2)"}, headers=held)
    assert answer.status_code == 304


BAD = "The query parameter `selector` is not a label selector:"
TWICE = "The query parameter `{}` is given more than once."


@pytest.mark.parametrize(
    ("query", "sentences"),
    [
        ("selector=a+in+b", [f"{BAD} at character 3, `,` or the end is expected."]),
        (
            "selector=a%3Db%2C",
            [f"{BAD} at character 5, one of `team=edge`, `env in (a, b)`, `team` or `!team` is expected."],
        ),
        ("selector=" + "a" * 5000, [f"{BAD} it is over 4,096 characters long."]),
        ("selector=a&selector=a", [TWICE.format("selector")]),
        ("limit=1&limit=1", [TWICE.format("limit")]),
        (
            "limit=0&selector=%3D&after=a&after=a",
            [
                TWICE.format("after"),
                "The query parameter `limit` is not an integer from 1 to 10000.",
                f"{BAD} at character 1, one of `team=edge`, `env in (a, b)`, `team` or `!team` is expected.",
            ],
        ),
    ],
)
async def test_a_bad_query_is_400_with_every_problem(
    client: httpx2.AsyncClient, query: str, sentences: list[str]
) -> None:
    answer = await client.get(f"/v1/resources/SourceType?{query}")
    assert (answer.status_code, answer.json()) == (400, {"errors": sentences, "codes": ANY})


def shown(*paths: str) -> Iterable[str]:
    return [f"/v1/{path}" for path in paths]


@pytest.mark.parametrize("path", shown("resources/SourceType", "resources/SourceType/otlp", "SourceType/otlp/history"))
async def test_unknown_parameters_and_what_is_accepted_do_not_matter(client: httpx2.AsyncClient, path: str) -> None:
    plain = await client.get(path)
    headers = {"Accept": "text/html", "Content-Type": "text/plain"}
    other = await client.get(f"{path}?dryrun=true&x=1&x=2", headers=headers)
    assert (other.status_code, other.content) == (plain.status_code, plain.content) == (200, plain.content)
    assert other.headers["content-type"] == "application/json"


@pytest.mark.parametrize("path", shown("resources/SourceType", "resources/SourceType/otlp"))
async def test_whoever_holds_any_answer_gets_304(client: httpx2.AsyncClient, path: str) -> None:
    assert (await client.get(path, headers={"If-None-Match": "*"})).status_code == 304


async def test_head_answers_as_get_for_what_is_built_in(client: httpx2.AsyncClient) -> None:
    for path in shown("resources/SourceType", "resources/SourceType/otlp", "SourceType/otlp/history"):
        get, head = await client.get(path), await client.head(path)
        assert (head.status_code, head.content, head.headers.get("etag")) == (200, b"", get.headers.get("etag"))
