"""Versions, runs and dry runs are told field by field, without secrets."""

import json
from typing import Any

import httpx2
import pytest

from api.calls import Services
from reconciler.model.principals import Role
from tests import stores
from tests.api.conftest import Follow, connect, make_key, until
from tests.api.parts import destination
from tests.repositories import Repository

pytestmark = pytest.mark.anyio

PATH = "/v1/Destination/a/history"
OLD, NEW = "canary-old", "canary-new"
HIDDEN = {"difference": "changed", "old": "(sensitive)", "new": "(sensitive, changed)", "sensitive": True}
TOKEN = "spec.parameters[headers].value.Authorization"
PORT = "spec.parameters[port].value"


def holding(port: int, token: str, *, name: str = "a", **metadata: Any) -> dict[str, Any]:
    parameters = [
        {"name": "hostname", "value": "logs.example.org"},
        {"name": "port", "value": port},
        {"name": "headers", "value": {"Authorization": token}},
    ]
    return destination(name, **metadata) | {"spec": {"type": "webhook", "parameters": parameters}}


async def apply(client: httpx2.AsyncClient, *resources: dict[str, Any], query: str = "") -> list[dict[str, Any]]:
    answer = await client.post(f"/v1/apply{query}", json={"resources": resources})
    assert (answer.status_code, "canary" in answer.text) == (202, False)
    updates: list[dict[str, Any]] = answer.json()["updates"]
    return updates


async def changes(client: httpx2.AsyncClient, path: str) -> dict[str, Any]:
    answer = await client.get(path)
    assert (answer.status_code, "canary" in answer.text) == (200, False), answer.text
    found: dict[str, Any] = answer.json()
    return found


def changed(port: int, new: int) -> dict[str, Any]:
    return {"path": PORT, "difference": "changed", "old": port, "new": new}


async def test_one_version_is_shown_as_its_history_shows_it(client: httpx2.AsyncClient) -> None:
    await apply(client, holding(443, OLD))
    await apply(client, holding(8443, OLD))
    versions = (await client.get(PATH)).json()["versions"]
    for number in (1, 2):
        assert (await client.get(f"{PATH}/{number}")).json() == {"version": versions[-number]}


async def test_versions_differ_in_fields_and_a_secret_says_that_it_changed(client: httpx2.AsyncClient) -> None:
    for port, token in ((443, OLD), (8443, OLD), (8443, NEW)):
        await apply(client, holding(port, token))
    assert await changes(client, f"{PATH}/2/changes") == {"from": 1, "version": 2, "fields": [changed(443, 8443)]}
    hidden = {"path": TOKEN} | HIDDEN
    assert await changes(client, f"{PATH}/3/changes") == {"from": 2, "version": 3, "fields": [hidden]}
    both = await changes(client, f"{PATH}/3/changes?from=1")
    assert both == {"from": 1, "version": 3, "fields": [changed(443, 8443), hidden]}
    back = await changes(client, f"{PATH}/1/changes?from=2")
    assert back == {"from": 2, "version": 1, "fields": [changed(8443, 443)]}
    first = await changes(client, f"{PATH}/1/changes")
    assert (first["from"], {one["path"]: one["new"] for one in first["fields"]}) == (
        None,
        {
            "spec.type": "webhook",
            "spec.parameters[hostname].value": "logs.example.org",
            PORT: 443,
            TOKEN: "(sensitive)",
        },
    )


async def test_versions_outlive_the_resource(client: httpx2.AsyncClient) -> None:
    await apply(client, holding(443, OLD))
    await apply(client, holding(8443, OLD))
    assert (await client.delete("/v1/resources/Destination/a")).status_code == 204
    assert (await changes(client, f"{PATH}/2/changes"))["fields"] == [changed(443, 8443)]


async def test_a_built_in_resource_is_one_version(client: httpx2.AsyncClient) -> None:
    path = "/v1/DestinationType/webhook/history"
    shown = (await client.get(path)).json()["versions"]
    assert (await client.get(f"{path}/1")).json() == {"version": shown[0]}


@pytest.mark.parametrize(
    ("path", "status", "sentence"),
    [
        ("3", 404, "There is no version 3 of Destination a."),
        ("2/changes", 404, "There is no version 2 of Destination a."),
        ("1/changes?from=7", 404, "There is no version 7 of Destination a."),
        ("0", 400, "The version in the path is not a number from 1 on."),
        ("two/changes", 400, "The version in the path is not a number from 1 on."),
        ("1/changes?from=0", 400, "The query parameter `from` is not an integer from 1 to 999999999999999999."),
    ],
)
async def test_what_is_no_version_is_refused(client: httpx2.AsyncClient, path: str, status: int, sentence: str) -> None:
    await apply(client, holding(443, OLD))
    answer = await client.get(f"{PATH}/{path}")
    assert (answer.status_code, answer.json()["errors"]) == (status, [sentence])


async def test_a_viewer_sees_that_a_raw_text_changed_and_not_to_what(services: Services, project: str) -> None:
    raw = {"apiVersion": "service/v1", "kind": "Configuration", "metadata": {"name": "c"}}
    viewer = await make_key(services, Role.VIEWER, project=project)
    async with connect(services, project=project) as client, connect(services, key=viewer, project=project) as other:
        for text in ("one", "two"):
            await apply(client, raw | {"spec": {"raw": text}})
        path = "/v1/Configuration/c/history/2"
        assert (await other.get(path)).json()["version"]["spec"] == {"raw": "(sensitive)"}
        assert (await changes(other, f"{path}/changes"))["fields"] == [{"path": "spec.raw"} | HIDDEN]
        shown = {"path": "spec.raw", "difference": "changed", "old": "one", "new": "two"}
        assert (await changes(client, f"{path}/changes"))["fields"] == [shown]


async def test_a_dry_run_tells_fields_and_not_whether_a_secret_is_guessed(client: httpx2.AsyncClient) -> None:
    await apply(client, holding(443, OLD))
    dry = "?dryRun=true"
    [kept] = await apply(client, holding(443, "(sensitive)", displayName="A"), query=dry)
    named = {"path": "metadata.displayName", "difference": "added", "new": "A"}
    assert (kept["status"], kept["fields"]) == ("configured", [named])
    hidden = {"path": TOKEN} | HIDDEN
    for guess in (OLD, NEW):
        [guessed] = await apply(client, holding(443, guess), query=dry)
        assert (guessed["status"], guessed["fields"]) == ("configured", [hidden])
    unchanged, created = await apply(client, holding(443, "(sensitive)"), destination("b"), query=dry)
    assert (unchanged["status"], "fields" in unchanged) == ("unchanged", False)
    assert [(one["path"], one["new"]) for one in created["fields"]] == [
        ("spec.parameters[hostname].value", "logs.example.org"),
        ("spec.type", "webhook"),
    ]
    [stored] = await apply(client, holding(8443, OLD))
    assert "fields" not in stored


async def test_a_type_that_comes_along_does_not_make_a_dry_run_tell_a_secret(client: httpx2.AsyncClient) -> None:
    def kind(*, is_secret: bool) -> dict[str, Any]:
        parameter = {"name": "token", "type": "string", "options": {"sensitive": is_secret}}
        spec = {"parameters": [parameter]}
        return {"apiVersion": "service/v1", "kind": "SourceType", "metadata": {"name": "t"}, "spec": spec}

    def source(token: str) -> dict[str, Any]:
        spec = {"type": "t", "parameters": [{"name": "token", "value": token}]}
        return {"apiVersion": "service/v1", "kind": "Source", "metadata": {"name": "s"}, "spec": spec}

    await apply(client, kind(is_secret=True), source(OLD))
    for guess in (OLD, NEW):
        body = {"resources": [kind(is_secret=False), source(guess)]}
        answer = (await client.post("/v1/apply?dryRun=true", json=body)).json()["updates"]
        assert answer[1]["fields"] == [{"path": "spec.parameters[token].value"} | HIDDEN]


async def test_a_refused_resource_shows_no_stored_secret_that_a_type_would_make_public(
    client: httpx2.AsyncClient,
) -> None:
    def kind(*, is_secret: bool) -> dict[str, Any]:
        spec = {"parameters": [{"name": "token", "type": "string", "options": {"sensitive": is_secret}}]}
        return {"apiVersion": "service/v1", "kind": "SourceType", "metadata": {"name": "t"}, "spec": spec}

    def source(token: str, **more: Any) -> dict[str, Any]:
        spec = {"type": "t", "parameters": [{"name": "token", "value": token}], **more}
        return {"apiVersion": "service/v1", "kind": "Source", "metadata": {"name": "s"}, "spec": spec}

    await apply(client, kind(is_secret=True), source(OLD))
    bad = source("(sensitive)", processors=[{"name": "missing"}])
    [refused] = await apply(client, bad, query="?dryRun=true")
    paths = [one["path"] for one in refused["fields"]]
    assert (refused["status"], paths) == ("invalid", ["spec.processors"])
    _, public = await apply(client, kind(is_secret=False), bad, query="?dryRun=true")
    assert (public["status"], "fields" in public) == ("invalid", False)


async def test_a_run_tells_the_fields_that_it_changed(
    client: httpx2.AsyncClient, project: str, follow: Follow, source: Repository
) -> None:
    for name in ("changed", "gone"):
        source.write(f"{name}.json", json.dumps(destination(name)))
    source.commit()
    await follow(project, source, project=project, prune={"max_percent": 100})
    source.write("changed.json", json.dumps(destination("changed", displayName="Other")))
    source.write("new.json", json.dumps(destination("new")))
    source.remove("gone.json")
    source.commit()
    await client.post(f"/v1/repositories/{project}/reconcile")

    async def ended() -> str | None:
        listed = (await client.get("/v1/runs")).json()["runs"]
        return next((one["id"] for one in listed if "deleted" in one["counts"]), None)

    run = await until(ended)
    found = await changes(client, f"/v1/runs/{run}/changes")
    told = {
        (one["status"], one["name"]): [(each["path"], each["difference"]) for each in one["fields"]]
        for one in found["changes"]
    }
    content = ["spec.parameters[hostname].value", "spec.type"]
    assert (told, found["more"]) == (
        {
            ("configured", "changed"): [("metadata.displayName", "added")],
            ("created", "new"): [(path, "added") for path in content],
            ("deleted", "gone"): [(path, "removed") for path in content],
        },
        False,
    )


async def test_an_unknown_run_has_no_changes(client: httpx2.AsyncClient) -> None:
    answer = await client.get("/v1/runs/01KAH30ZPT8Q1X2Y3Z4A5B6C7D/changes")
    assert answer.status_code == 404


async def test_a_plan_of_what_is_followed_tells_where_the_store_differs(
    client: httpx2.AsyncClient, project: str, follow: Follow, source: Repository
) -> None:
    source.write("a.json", json.dumps(holding(443, "${env:TOKEN}")))
    source.commit()
    await follow(project, source, project=project)

    async def plan() -> dict[str, Any]:
        answer = await client.post("/v1/plan", json={"repository": project})
        assert answer.status_code == 200, answer.text
        return dict(answer.json()["plan"])

    assert (await plan())["statuses"] == []
    suspended = await client.post(f"/v1/repositories/{project}/suspend", json={"reason": "an incident"})
    assert suspended.status_code == 200
    [update] = await apply(client, holding(8443, "${env:TOKEN}"))
    assert update["status"] == "configured"
    [drifted] = (await plan())["statuses"]
    assert (drifted["status"], drifted["name"]) == ("configured", "a")
    assert [{**one, "at": None} for one in drifted["fields"]] == [changed(8443, 443) | {"at": None}]
    source.write("b.json", json.dumps(destination("b")))
    source.commit()
    assert [(one["status"], one["name"]) for one in (await plan())["statuses"]] == [
        ("configured", "a"),
        ("created", "b"),
    ]


async def test_of_many_fields_the_first_are_shown_and_the_rest_is_counted(client: httpx2.AsyncClient) -> None:
    one = {"first": "x"}
    many = one | {f"label-{number:03}": "x" for number in range(250)}
    await apply(client, destination("a", labels=one))
    [dry] = await apply(client, destination("a", labels=many), query="?dryRun=true")
    assert (dry["status"], len(dry["fields"]), dry["fieldsLeftOut"]) == ("configured", 200, 50)
    await apply(client, destination("a", labels=many))
    found = await changes(client, f"{PATH}/2/changes")
    assert (found["fields"], found["fieldsLeftOut"]) == (dry["fields"], 50)


async def test_a_damaged_version_is_told_and_compared_with_nothing(
    client: httpx2.AsyncClient, services: Services, project: str
) -> None:
    await apply(client, holding(443, OLD))
    await apply(client, holding(8443, OLD))
    damage = "update version set body = ? where project = ? and name = 'a' and version = 1"
    with stores.sql(stores.state_of(services.store)) as store:
        store.execute(damage, b"{", project)
    for path in ("1", "1/changes", "2/changes"):
        answer = await client.get(f"{PATH}/{path}")
        assert (answer.status_code, answer.json()["codes"]) == (500, ["resource-damaged"])
