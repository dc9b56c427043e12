"""The YAML that a Collector runs is served, or the reason why there is none."""

from typing import Any
from unittest.mock import ANY

import httpx2
import pytest

from api.calls import Services
from tests import stores

pytestmark = pytest.mark.anyio

PATH = "/v1/resources/Configuration/web/collector.yaml"
WEB: dict[str, Any] = {"sources": [{"type": "otlp"}], "destinations": [{"type": "debug"}]}


def resource(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "service/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


async def apply(client: httpx2.AsyncClient, *resources: dict[str, Any], query: str = "") -> None:
    answer = await client.post(f"/v1/apply{query}", json={"resources": resources})
    assert {one["status"] for one in answer.json()["updates"]} <= {"created", "configured"}


def missing(why: str, name: str = "web") -> dict[str, Any]:
    return {"errors": [f"There is no collector.yaml of the Configuration {name}: {why}."], "codes": ["not-rendered"]}


async def test_it_is_the_rendering_with_its_hash(client: httpx2.AsyncClient, services: Services, project: str) -> None:
    await apply(client, resource("Configuration", "web", **WEB))
    early = await client.get(PATH)
    assert (early.status_code, early.json()) == (404, missing("it is not rendered yet; try again in a moment"))
    assert not await services.applier.render(project)
    answer = await client.get(PATH)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/yaml; charset=utf-8")
    assert "otlp/source0" in answer.text
    shown = (await client.get("/v1/resources/Configuration/web")).json()["resource"]["status"]
    assert answer.headers["etag"] == f'"{shown["rendering"]["hash"]}"'
    held = await client.get(PATH, headers={"If-None-Match": answer.headers["etag"]})
    assert (held.status_code, held.content) == (304, b"")
    head = await client.head(PATH)
    assert (head.status_code, head.headers["etag"]) == (200, answer.headers["etag"])


BEFORE = f"{PATH}?previous=true"


def no_other(why: str = "no other one is kept", name: str = "web") -> dict[str, Any]:
    sentence = f"There is no earlier collector.yaml of the Configuration {name}: {why}."
    return {"errors": [sentence], "codes": ["not-rendered"]}


async def test_the_one_before_is_served_with_its_hash(
    client: httpx2.AsyncClient, services: Services, project: str
) -> None:
    await apply(client, resource("Configuration", "web", **WEB))
    assert ((await client.get(BEFORE)).status_code, (await client.get(BEFORE)).json()) == (404, no_other())
    await services.applier.render(project)
    assert ((await client.get(BEFORE)).status_code, (await client.get(BEFORE)).json()) == (404, no_other())
    first = await client.get(PATH)
    await apply(client, resource("Configuration", "web", **{**WEB, "destinations": [{"type": "otlp"}]}))
    assert (await client.get(BEFORE)).status_code == 404  # until the new one is in force
    await services.applier.render(project)
    answer = await client.get(BEFORE)
    assert (answer.status_code, answer.content) == (200, first.content)
    assert (answer.headers["content-type"], answer.headers["etag"]) == (
        "text/yaml; charset=utf-8",
        first.headers["etag"],
    )
    held = await client.get(BEFORE, headers={"If-None-Match": answer.headers["etag"]})
    assert (held.status_code, held.content) == (304, b"")
    now = await client.get(f"{PATH}?previous=false")
    assert (now.status_code, now.content) == (200, (await client.get(PATH)).content)
    assert now.content != first.content
    wrong = await client.get(f"{PATH}?previous=maybe")
    assert (wrong.status_code, wrong.json()["errors"]) == (
        400,
        ["The query parameter `previous` is not one of `true`, `false`, `1` and `0`."],
    )
    await apply(client, resource("Configuration", "web", raw="receivers: {}"))
    why = "the text is its own, and its history has the earlier ones"
    assert ((await client.get(BEFORE)).status_code, (await client.get(BEFORE)).json()) == (404, no_other(why))
    await services.applier.render(project)
    assert (await client.get(BEFORE)).json() == no_other(why)
    await apply(client, resource("Configuration", "web", **WEB))
    await services.applier.render(project)
    assert (await client.get(BEFORE)).json() == no_other()


async def test_one_that_is_deleted_leaves_none_to_the_next_of_its_name(
    client: httpx2.AsyncClient, services: Services, project: str
) -> None:
    for destination in ("debug", "otlp"):
        await apply(client, resource("Configuration", "web", **{**WEB, "destinations": [{"type": destination}]}))
        await services.applier.render(project)
    assert (await client.get(BEFORE)).status_code == 200
    assert (await client.delete("/v1/resources/Configuration/web")).status_code == 204
    assert (await client.get(BEFORE)).json()["codes"] == ["resource-not-found"]
    await apply(client, resource("Configuration", "web", **WEB))
    await services.applier.render(project)
    assert ((await client.get(BEFORE)).status_code, (await client.get(BEFORE)).json()) == (404, no_other())


async def test_raw_text_is_served_as_it_is(client: httpx2.AsyncClient) -> None:
    raw = "receivers:\n  otlp: {}\n"
    await apply(client, resource("Configuration", "web", raw=raw))
    answer = await client.get(PATH)
    assert (answer.status_code, answer.text, answer.headers["content-type"]) == (200, raw, "text/yaml; charset=utf-8")
    as_raw = await client.get("/v1/resources/Configuration/web/raw")
    assert answer.headers["etag"] == as_raw.headers["etag"]


async def test_the_last_good_one_is_served_while_the_next_fails(
    client: httpx2.AsyncClient, services: Services, project: str
) -> None:
    good = resource("SourceType", "own", logs={"receivers": "- filelog: {}"})
    bad = resource("SourceType", "own", logs={"receivers": "- filelog: {{ .nothing }}"})
    web = resource("Configuration", "web", **{**WEB, "sources": [{"type": "own"}]})
    await apply(client, bad, web)
    await services.applier.render(project)
    why = "Source 0 (in place): in `logs.receivers` of the type `own`, line 1: the parameter `nothing` has no value"
    answer = await client.get(PATH)
    assert (answer.status_code, answer.json()) == (404, missing(why))
    await apply(client, good)
    await services.applier.render(project)
    first = await client.get(PATH)
    await apply(client, bad)
    await services.applier.render(project)
    again = await client.get(PATH)
    assert (again.status_code, again.content) == (200, first.content)
    shown = (await client.get("/v1/resources/Configuration/web")).json()["resource"]["status"]
    assert (shown["ready"], shown["rendering"]["fault"]["reason"]) == (False, why)


async def test_what_has_none_says_why(client: httpx2.AsyncClient, services: Services, project: str) -> None:
    hook = resource("Destination", "hook", type="webhook", parameters=[{"name": "hostname", "value": "a.example"}])
    delivers = {"sources": [{"type": "otlp"}], "destinations": [{"name": "hook"}]}
    await apply(client, hook, resource("Configuration", "web", **delivers))
    queue = resource("Extension", "queue", type="file_storage", parameters=[{"name": "max_bytes", "value": "much"}])
    part = resource("Configuration", "part", **WEB, extensions=[{"name": "queue"}])
    await apply(client, queue, part, query="?acceptInvalid=true")
    await services.applier.render(project)
    answer = await client.get(PATH)
    assert (answer.status_code, answer.json()) == (404, missing("it runs in the service"))
    answer = await client.get(PATH.replace("web", "part"))
    assert (answer.status_code, answer.json()) == (404, missing("it is incomplete, as its status says", "part"))


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("Configuration/none", "There is no Configuration none."),
        ("SourceType/otlp", "Only a Configuration has a text for Collectors, and SourceType is another kind."),
        ("Pod/x", "There is no such kind; the kinds are listed in /openapi.json."),
    ],
)
async def test_what_is_no_configuration_is_not_found(client: httpx2.AsyncClient, path: str, sentence: str) -> None:
    answer = await client.get(f"/v1/resources/{path}/collector.yaml")
    assert (answer.status_code, answer.json()) == (404, {"errors": [sentence], "codes": ANY})


async def test_a_redaction_takes_it_out_of_force_until_it_is_made_anew(
    client: httpx2.AsyncClient, services: Services, project: str
) -> None:
    await apply(client, resource("Configuration", "web", **WEB, contentType="canary-text"))
    await services.applier.render(project)
    await apply(client, resource("Configuration", "web", **WEB))
    await services.applier.render(project)
    before = await client.get(PATH)
    answer = await client.post("/v1/Configuration/web/history/redact", json={"value": "canary-text"})
    assert (answer.status_code, answer.json()["versions"]) == (200, [1])
    assert (await client.get(PATH)).status_code == 404
    await services.applier.render(project)
    assert (await client.get(PATH)).content == before.content


async def test_a_redaction_leaves_the_text_in_no_rendering_and_in_no_file(
    client: httpx2.AsyncClient, services: Services, project: str
) -> None:
    canary = "canary-of-a-path"

    def reading(path: str) -> dict[str, Any]:
        given = [{"name": "include", "value": [path]}]
        return resource("Source", "logs", type="filelog", parameters=given)

    web = resource("Configuration", "web", **{**WEB, "sources": [{"name": "logs"}]})
    await apply(client, reading(canary), web)
    await services.applier.render(project)
    await apply(client, reading("/var/log/a"))
    await services.applier.render(project)
    assert canary in (await client.get(BEFORE)).text
    answer = await client.post("/v1/Source/logs/history/redact", json={"value": canary})
    assert (answer.status_code, answer.json()["erased"]) == (200, True)
    assert (await client.get(BEFORE)).status_code == 404
    await services.applier.render(project)
    assert canary not in (await client.get(PATH)).text
    assert ((await client.get(BEFORE)).status_code, (await client.get(BEFORE)).json()) == (404, no_other())
    files = stores.content(stores.state_of(services.store))
    assert [name for name, content in files.items() if canary.encode() in content] == []
