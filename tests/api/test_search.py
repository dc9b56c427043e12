"""The search over resources of all kinds: which are found, in which order and pages, and what is said of each."""

import asyncio
import json
from typing import Any

import httpx2
import pytest

from api import search
from api.calls import Services
from reconciler.model import conditions
from reconciler.model.names import EVERYTHING, Key
from reconciler.store.records import Changes, HeadStatusRow, Record
from tests.api import parts
from tests.api.conftest import Follow, connect
from tests.api.parts import destination
from tests.api.test_references import ALL, document
from tests.repositories import Repository

pytestmark = pytest.mark.anyio


STATES = "damaged, stale, incomplete, not-rendered, drifted, idle, ready"


async def apply(client: httpx2.AsyncClient, *resources: object, query: str = "") -> None:
    answer = await client.post(f"/v1/apply{query}", json={"resources": resources})
    assert {update["status"] for update in answer.json()["updates"]} <= {"created", "configured"}


async def found(client: httpx2.AsyncClient, **query: str) -> list[dict[str, Any]]:
    answer = await client.get("/v1/resources", params=query)
    assert answer.status_code == 200, answer.json()
    assert answer.json()["next"] is None
    return list(answer.json()["resources"])


async def keys(client: httpx2.AsyncClient, **query: str) -> list[str]:
    return [f"{one['kind']}/{one['name']}" for one in await found(client, **query)]


async def test_a_row_tells_what_a_list_of_all_kinds_needs(
    client: httpx2.AsyncClient, follow: Follow, source: Repository, project: str
) -> None:
    source.write("a.json", json.dumps(destination("from-git", labels={"team": "edge"})))
    commit = source.commit()
    await follow(project, source, project=project)
    await apply(client, destination("from-api"))
    nothing = {"repository": None, "path": None, "line": None, "commit": None}
    common = {"kind": "Destination", "version": 1, "dateModified": parts.AT, "state": "ready", "reason": None}
    git = {"type": "git", "repository": project, "path": "a.json", "line": 1, "commit": commit}
    assert await found(client) == [
        {**common, "name": "from-api", "labels": {}, "owner": "api", "source": {"type": "api", **nothing}},
        {**common, "name": "from-git", "labels": {"team": "edge"}, "owner": project, "source": git},
    ]
    assert await keys(client, owner=project) == ["Destination/from-git"]
    assert await keys(client, owner="api") == ["Destination/from-api"]
    assert await keys(client, label="team=edge") == ["Destination/from-git"]
    assert await keys(client, label="!team", q="from") == ["Destination/from-api"]


async def test_kinds_and_names_are_in_order_and_found_by_a_part_of_the_name(client: httpx2.AsyncClient) -> None:
    await apply(client, *ALL, destination("Web-Logs"))
    everything = [
        "Configuration/all",
        "Destination/Web-Logs",
        "Destination/a",
        "Processor/drop",
        "Source/web",
        "SourceType/own",
    ]
    assert await keys(client) == everything
    assert await keys(client, q="wEB") == ["Destination/Web-Logs", "Source/web"]
    assert await keys(client, q="web", kind="sources") == ["Source/web"]
    assert await keys(client, q="webb") == []
    assert await keys(client, unknown="x", q="") == everything


async def test_pages_are_the_whole_without_gap_or_repetition(client: httpx2.AsyncClient) -> None:
    await apply(client, *ALL, destination("b"), destination("c"))
    everything = await keys(client)
    for limit in range(1, len(everything) + 1):
        shown: list[str] = []
        after: str | None = ""
        while after is not None:
            query = {"limit": str(limit)} | ({"after": after} if after else {})
            answer = (await client.get("/v1/resources", params=query)).json()
            page, after = [f"{one['kind']}/{one['name']}" for one in answer["resources"]], answer["next"]
            assert len(page) == limit or after is None
            assert after in (None, page[-1])
            shown += page
        assert shown == everything
    assert await keys(client, after="Destination/b") == everything[3:]
    assert await keys(client, after="Destination/b", kind="Configuration") == []
    assert await keys(client, after="Destination/b", kind="Destination") == ["Destination/c"]
    assert await keys(client, after="Zzz/a") == []


async def test_what_is_built_in_is_found_by_its_owner_alone(client: httpx2.AsyncClient) -> None:
    await apply(client, *ALL)
    built_in = await found(client, owner="builtin", q="file_storage")
    assert [one["name"] for one in built_in] == ["file_storage_persistent_queue", "file_storage"]
    row = {"version": 1, "dateModified": None, "state": "ready", "owner": "builtin"}
    assert [{name: one[name] for name in row} for one in built_in] == [row, row]
    assert await keys(client, owner="builtin", q="own") == []
    assert await keys(client, owner="nobody") == []


def configuration(name: str, *, source: str = "web") -> dict[str, Any]:
    return document("Configuration", name, sources=[{"name": source}], destinations=[{"name": "a"}])


async def test_states_are_told_with_their_reasons(client: httpx2.AsyncClient) -> None:
    needy = document("SourceType", "needy", parameters=[{"name": "host", "type": "string", "required": True}])
    needing = document("Source", "needing", type="needy")
    await apply(client, *ALL, needy)
    await apply(client, needing, configuration("waits", source="needing"), query="?acceptInvalid=true")
    states = {f"{one['kind']}/{one['name']}": (one["state"], one["reason"]) for one in await found(client)}
    incomplete = [key for key, (state, _) in states.items() if state == "incomplete"]
    assert incomplete == ["Configuration/waits", "Source/needing"]
    assert states["Source/needing"][1] == "/spec/parameters: `host` is required and has no default"
    assert states["Destination/a"] == ("ready", None)
    await apply(client, document("Configuration", "idles", runsOn="service", destinations=[{"name": "a"}]))
    [idle] = await found(client, status="idle")
    assert (idle["name"], idle["state"], idle["reason"][-1]) == ("idles", "idle", ".")
    assert await keys(client, status="incomplete") == incomplete
    assert set(await keys(client, status="ready")) == {key for key, (state, _) in states.items() if state == "ready"}


STALE = {"delivers": True, "stale": {"version": 1, "since": parts.AT, "reason": "It is incomplete."}}


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ({}, ["ready"]),
        ({"delivery": {"delivers": True}}, ["ready"]),
        ({"delivery": STALE, "incomplete": ["one", "two"]}, ["stale", "incomplete"]),
        ({"rendering": {"fault": {"reason": "No."}}, "runsOn": "collectors"}, ["not-rendered"]),
        ({"drift": {"repository": "telemetry", "path": "a.yaml", "line": 1}}, ["drifted"]),
        ({"delivery": {"delivers": False, "reason": "No."}, "runsOn": "service"}, ["idle"]),
        ({"delivery": {"delivers": False, "reason": "No."}}, ["idle"]),
        ({"delivery": {"delivers": False, "reason": "No."}, "runsOn": "collectors"}, ["ready"]),
    ],
)
async def test_of_several_states_the_first_is_shown_and_each_is_found(
    client: httpx2.AsyncClient, services: Services, project: str, status: dict[str, Any], shown: list[str]
) -> None:
    await apply(client, destination("a"))
    told = json.dumps({"latest": True, **status}, sort_keys=True, separators=(",", ":")).encode()
    row = HeadStatusRow(project, "Destination", "a", 0, told)
    await services.store.commit([Changes(head_statuses=[row])], record=Record())
    [one] = await found(client)
    assert one["state"] == shown[0]
    assert one["owner"] == ("telemetry" if "drift" in status else "api")
    for state in conditions.State:
        assert [one["state"] for one in await found(client, status=state)] == [state] * (state in shown)


async def test_a_search_sees_its_own_project_alone(client: httpx2.AsyncClient, services: Services) -> None:
    await apply(client, destination("hidden-from-others"))
    async with connect(services, project=parts.DEFAULT) as other:
        assert await keys(other, q="hidden") == []
    async with connect(services, project="none") as nowhere:
        assert (await nowhere.get("/v1/resources?q=hidden")).status_code == 404


async def test_rows_hold_no_spec(client: httpx2.AsyncClient) -> None:
    raw = document("Configuration", "raw", raw="receivers: canary-text")
    await apply(client, raw)
    answer = await client.get("/v1/resources?q=raw")
    assert "canary-text" not in answer.text
    assert [one["name"] for one in answer.json()["resources"]] == ["raw"]


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("kind=Pod", "`kind` is not a kind; the kinds are listed in /openapi.json."),
        ("kind=", "`kind` is not a kind; the kinds are listed in /openapi.json."),
        ("status=fine", f"`status` is not one of {STATES}, or several with commas between."),
        ("status=ready,fine", f"`status` is not one of {STATES}, or several with commas between."),
        ("label=a%3D%3D%3Db", "`label` is not a label selector: at character 4, `,` or the end is expected."),
        ("limit=0", "`limit` is not an integer from 1 to 1000."),
        ("limit=1001", "`limit` is not an integer from 1 to 1000."),
        ("q=a&q=b", "`q` is given more than once."),
        *(
            (f"after={after}", "`after` is not a kind and a name with `/` between, as `next` of an answer.")
            for after in ("", "a", "Source", "Source/", "/a", "Source/a/b", "Source/%00", "S%C3%B6urce/a", "..%2Fa")
        ),
    ],
)
async def test_a_bad_parameter_is_named(client: httpx2.AsyncClient, query: str, sentence: str) -> None:
    answer = await client.get(f"/v1/resources?{query}")
    assert (answer.status_code, answer.json()["codes"]) == (400, ["invalid-request"])
    assert answer.json()["errors"] == [f"The query parameter {sentence}"]


@pytest.mark.parametrize(
    "text", ["'; drop table resource; --", "%", "_", "*", "\x00", "a" * 5_000, "ß", "\u202e", "[", "\\"]
)
async def test_hostile_text_is_a_text_that_no_name_holds(client: httpx2.AsyncClient, text: str) -> None:
    await apply(client, destination("a"))
    assert await keys(client, q=text) == []
    assert await keys(client, owner=text) == []


def test_a_damaged_resource_breaks_no_search() -> None:
    damaged = {"kind": "Destination", "metadata": {"name": "x", "version": 3}, "status": {"error": "It is damaged."}}
    wanted = search.Wanted("", None, EVERYTHING, None, None, Key("", ""))
    row = wanted.row(json.dumps(damaged).encode())
    assert row is not None
    assert (row.state, row.reason, row.owner, row.source, row.version) == ("damaged", "It is damaged.", None, None, 3)


async def test_a_search_that_finds_nothing_leaves_the_loop_to_others(client: httpx2.AsyncClient) -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    await apply(client, *(destination(f"d{number}") for number in range(50)))
    task = asyncio.create_task(others())
    assert await keys(client, q="none") == []
    task.cancel()
    assert turns > 1


async def test_head_answers_without_a_body(client: httpx2.AsyncClient) -> None:
    answer = await client.head("/v1/resources")
    assert (answer.status_code, answer.content) == (200, b"")


async def test_an_answer_has_a_bounded_number_of_rows(client: httpx2.AsyncClient) -> None:
    await apply(client, *(destination(f"d{number:03}") for number in range(60)))
    await apply(client, *(destination(f"e{number:03}") for number in range(60)))
    answer = (await client.get("/v1/resources")).json()
    assert (len(answer["resources"]), answer["next"]) == (search.PAGE, "Destination/e039")
