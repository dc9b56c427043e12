"""A secret that goes in never comes out, whatever is done with it and whatever is wrong with it."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from api.calls import Services
from tests import stores
from tests.api.conftest import Follow, connect, explained
from tests.api.parts import destination
from tests.repositories import Repository

pytestmark = pytest.mark.anyio

CANARY = "canary-7f3a"
PATH = "/v1/resources/Destination/a"
HOST = {"name": "hostname", "value": "logs.example.org"}
HEADERS = {"name": "headers", "value": {"Authorization": CANARY, "X-Team": "${env:TEAM}"}}
MASKED = {"name": "headers", "value": {"Authorization": "(sensitive)", "X-Team": "${env:TEAM}"}}


async def _no_canary(answer: httpx2.Response) -> None:
    assert CANARY.encode() not in await answer.aread()
    assert CANARY not in str(answer.headers)


@pytest.fixture
async def watchful(services: Services, project: str) -> AsyncIterator[httpx2.AsyncClient]:
    """A client that fails for every answer with the canary in it."""
    async with connect(services, project=project) as client:
        client.event_hooks["response"].append(_no_canary)
        yield client


def holding(*parameters: object, **spec: object) -> dict[str, Any]:
    """A webhook that fits its type, if these parameters do."""
    return destination("a") | {"spec": {"type": "webhook", "parameters": [*parameters, HOST], **spec}}


def anything(kind: str) -> dict[str, Any]:
    """A type of components with two parameters that take any JSON; one is a secret."""
    free = {"type": "fraction"}
    parameters = [{"name": "secret", "options": {"sensitive": True}, **free}, {"name": "open", **free}]
    metadata = {"name": "anything"}
    return {"apiVersion": "service/v1", "kind": kind, "metadata": metadata, "spec": {"parameters": parameters}}


async def apply(client: httpx2.AsyncClient, resource: object, query: str = "") -> dict[str, Any]:
    answer = await client.post(f"/v1/apply{query}", json={"resources": [resource]})
    update: dict[str, Any] = answer.json()["updates"][0]
    return update


async def test_a_secret_is_masked_in_every_answer_and_a_reference_is_shown(watchful: httpx2.AsyncClient) -> None:
    sent = holding(HEADERS, {"name": "path", "value": f"/{CANARY}", "sensitive": True})
    expected = [MASKED, {"name": "path", "value": "(sensitive)", "sensitive": True}, HOST]
    update = await apply(watchful, sent)
    assert (update["status"], update["resource"]["spec"]["parameters"]) == ("created", expected)
    again = await apply(watchful, sent)
    assert again == {"resource": update["resource"], "status": "unchanged"}
    assert (await watchful.get(PATH)).json() == {"resource": update["resource"]}
    assert (await watchful.get("/v1/resources/destinations")).json() == {"resources": [update["resource"]]}
    assert (await watchful.get("/v1/Destination/a/history")).json() == {"versions": [update["resource"]]}
    gone = await watchful.post("/v1/delete", json=[sent, holding(HEADERS) | {"metadata": {"name": "b"}}])
    assert [one["status"] for one in gone.json()["updates"]] == ["deleted", "not-found"]
    assert gone.json()["updates"][0]["resource"] == update["resource"]
    assert gone.json()["updates"][1]["resource"]["spec"]["parameters"][0]["value"]["Authorization"] == "(sensitive)"


@pytest.mark.parametrize(
    ("value", "masked"),
    [
        (CANARY, "(sensitive)"),
        ([CANARY], "(sensitive)"),
        ({"a": [{"value": CANARY}], "b": "${file:token}"}, {"a": "(sensitive)", "b": "${file:token}"}),
        ("${env:TOKEN}", "${env:TOKEN}"),
        (f"{CANARY} ${{env:TOKEN}}", "(sensitive)"),
    ],
)
async def test_a_secret_of_any_shape_and_depth_is_masked(
    watchful: httpx2.AsyncClient, value: object, masked: object
) -> None:
    for kind in ("DestinationType", "ProcessorType"):
        assert (await apply(watchful, anything(kind)))["status"] == "created"
    nested = {"type": "anything", "parameters": [{"name": "open", "value": value, "sensitive": True}]}
    outer = {"type": "anything", "parameters": [{"name": "secret", "value": value}], "processors": [nested]}
    update = await apply(watchful, destination("a") | {"spec": outer})
    spec = update["resource"]["spec"]
    assert (update["status"], spec["parameters"][0]["value"]) == ("created", masked)
    assert spec["processors"][0]["parameters"][0]["value"] == masked
    assert (await watchful.get(PATH)).json() == {"resource": update["resource"]}


async def test_another_secret_is_a_difference_that_is_not_shown(watchful: httpx2.AsyncClient) -> None:
    first = await apply(watchful, holding(HEADERS))
    second = await apply(watchful, holding(HEADERS | {"value": {"Authorization": f"{CANARY}2", "X-Team": "x"}}))
    assert (first["status"], second["status"]) == ("created", "configured")
    assert first["resource"]["metadata"]["hash"] != second["resource"]["metadata"]["hash"]


async def test_what_is_shown_in_place_of_a_secret_stands_for_it_and_for_nothing_else(
    watchful: httpx2.AsyncClient,
) -> None:
    stored = await apply(watchful, holding(HEADERS))
    assert await apply(watchful, stored["resource"]) == {"resource": stored["resource"], "status": "unchanged"}
    elsewhere = stored["resource"] | {"metadata": {"name": "b"}}
    update = await apply(watchful, elsewhere)
    sentence = (
        "`(sensitive)` stands for a stored secret, and none is found here by a unique `id`, `name` or `displayName`; "
        "send the value itself"
    )
    assert (update["status"], update["reason"]) == (
        "invalid",
        f"/spec/parameters/0/value/Authorization: {sentence}",
    )
    listed = (await watchful.get("/v1/resources/destinations")).json()["resources"]
    assert listed == [stored["resource"]]


@pytest.mark.parametrize(
    ("resource", "reason"),
    [
        (
            holding({"name": "port", "value": CANARY, "sensitive": True}),
            "/spec/parameters/0/value: is not an integer",
        ),
        (holding({"name": "headers", "value": CANARY}), "/spec/parameters/0/value: is not an object"),
        (
            holding({"name": "headers", "value": {"A": [CANARY]}}),
            "/spec/parameters/0/value/A: is not a string",
        ),
        (holding({"name": "unknown", "value": CANARY}), "/spec/parameters/0/name: is not a parameter of"),
        (
            holding(
                processors=[
                    {"type": "custom", "parameters": [{"name": "configuration", "value": [CANARY], "sensitive": True}]}
                ]
            ),
            "/spec/processors/0/parameters/0/value: is not a string",
        ),
    ],
)
async def test_a_secret_that_does_not_fit_its_type_is_masked_refused_or_not(
    watchful: httpx2.AsyncClient, resource: dict[str, Any], reason: str
) -> None:
    refused = await apply(watchful, resource)
    assert (refused["status"], refused["reason"][: len(reason)]) == ("invalid", reason)
    accepted = await apply(watchful, resource, "?acceptInvalid=true")
    assert (accepted["status"], "reason" in accepted) == ("created", False)
    [line] = accepted["resource"]["status"]["incomplete"]
    assert line == refused["reason"]
    assert (await watchful.get(PATH)).json() == {"resource": accepted["resource"]}
    assert (await watchful.get("/v1/Destination/a/history")).status_code == 200


async def test_a_value_of_a_parameter_that_a_collectors_type_does_not_know_is_a_secret(
    watchful: httpx2.AsyncClient,
) -> None:
    unknown = {"name": "unknown", "value": CANARY}
    update = await apply(watchful, holding(processors=[{"type": "custom", "parameters": [unknown]}]))
    assert (update["status"], "incomplete" in update["resource"]["status"]) == ("created", False)
    [note] = update["notes"]
    assert note.startswith("/spec/processors/0/parameters/0/name: is not a parameter of")
    assert update["resource"]["spec"]["processors"][0]["parameters"] == [{**unknown, "value": "(sensitive)"}]
    assert (await watchful.get(PATH)).json() == {"resource": update["resource"]}
    assert (await watchful.get("/v1/Destination/a/history")).status_code == 200


async def test_every_value_for_a_type_that_is_missing_is_a_secret(watchful: httpx2.AsyncClient) -> None:
    update = await apply(watchful, holding({"name": "note", "value": CANARY}, type="missing"))
    assert (update["status"], update["reason"]) == (
        "invalid",
        "/spec/type: there is no DestinationType missing; create it, or correct the name",
    )
    assert update["resource"]["spec"]["parameters"][0] == {"name": "note", "value": "(sensitive)"}


@pytest.mark.parametrize(
    "resource",
    [
        holding(HEADERS, HEADERS),
        holding(HEADERS, unknown=1),
        holding(HEADERS) | {"kind": "Pod"},
        holding(HEADERS) | {"metadata": {"name": "-"}},
        holding(HEADERS) | {"metadata": {"name": "a", "deprecated": True}},
        holding({"name": 1, "value": CANARY}),
        holding({"value": CANARY}),
        holding({"name": "token", "sensitive": "yes", "value": CANARY}),
        holding() | {"spec": {"type": "webhook", "parameters": {"headers": CANARY}}},
        holding() | {"spec": {"type": "webhook", "parameters": CANARY}},
        holding() | {"spec": [{"parameters": [{"name": "headers", "value": CANARY}]}]},
        holding(processors=[{"type": "x", "parameters": [{"name": "x", "value": CANARY, "sensitive": True}], "y": 1}]),
        {"parameters": [HEADERS]},
    ],
)
async def test_a_secret_in_what_is_refused_is_masked_too(
    watchful: httpx2.AsyncClient, resource: dict[str, Any]
) -> None:
    for query in ("", "?dryRun=true", "?acceptInvalid=true"):
        assert (await apply(watchful, resource, query))["status"] in ("invalid", "deprecated")
    twice = await watchful.post("/v1/apply", json={"resources": [resource, resource]})
    assert {update["status"] for update in twice.json()["updates"]} <= {"invalid"}
    assert (await watchful.post("/v1/apply?atomic=true", json={"resources": [resource]})).status_code == 409
    assert (await watchful.post("/v1/delete", json=[resource])).status_code == 202
    assert (await watchful.post("/v1/delete?dryRun=true", json={"resources": [resource]})).status_code == 202


@pytest.mark.parametrize(
    "body",
    [
        f'{{"resources": ["{CANARY}"]}}',
        f'{{"resources": "{CANARY}"}}',
        f'"{CANARY}"',
        f'{{"resources": [{{"value": "{CANARY}", }}]}}',
        f'{{"resources": [{{"value": "{CANARY}',
        f'{{"resources": [], {CANARY}}}',
    ],
)
@pytest.mark.parametrize("path", ["/v1/apply", "/v1/delete"])
async def test_a_refused_body_is_not_repeated(watchful: httpx2.AsyncClient, path: str, body: str) -> None:
    assert (await watchful.post(path, content=body)).status_code == 400


async def test_a_secret_in_git_is_masked_in_resources_and_runs(
    watchful: httpx2.AsyncClient, follow: Follow, source: Repository, project: str
) -> None:
    source.write("a.json", json.dumps(holding(HEADERS)))
    source.write("b.json", json.dumps(holding(HEADERS, {"name": "x", "value": CANARY, "colour": CANARY})))
    source.write("c.json", json.dumps(holding(HEADERS, HEADERS) | {"metadata": {"name": "c"}}))
    source.commit()
    run = await follow(project, source, project=project)
    assert CANARY not in json.dumps(run)
    assert [status["status"] for status in run["statuses"]] == ["invalid", "invalid", "invalid"]
    source.write("b.json", json.dumps(holding(HEADERS) | {"metadata": {"name": "b"}}))
    source.commit()
    await follow.finished((await watchful.post(f"/v1/repositories/{project}/reconcile")).json()["run"])
    listed = (await watchful.get("/v1/resources/destinations")).json()["resources"]
    assert [one["spec"]["parameters"] for one in listed] == [[MASKED, HOST], [MASKED, HOST]]
    (await watchful.get("/v1/repositories")).raise_for_status()
    (await watchful.get(f"/v1/runs?repository={project}")).raise_for_status()


def typed(name: str, *parameters: dict[str, Any], kind: str = "DestinationType") -> dict[str, Any]:
    return {"apiVersion": "service/v1", "kind": kind, "metadata": {"name": name}, "spec": {"parameters": [*parameters]}}


def of_type(name: str, *parameters: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return destination("a", **metadata) | {"spec": {"type": name, "parameters": [*parameters]}}


@pytest.mark.parametrize(
    ("definition", "value"),
    [
        ({"type": "string"}, [CANARY]),
        ({"type": "filename"}, f"../{CANARY}"),
        ({"type": "timezone"}, CANARY),
        ({"type": "int"}, CANARY),
        ({"type": "int", "minimum": 5, "maximum": 6}, "11712321"),
        ({"type": "bool"}, CANARY),
        ({"type": "strings"}, {"k": CANARY}),
        ({"type": "metrics"}, [[CANARY]]),
        ({"type": "enum", "validValues": ["x"]}, CANARY),
        ({"type": "enums", "validValues": ["x"]}, [CANARY, "x", CANARY]),
        ({"type": "map"}, {"k": [CANARY]}),
        ({"type": "map"}, [CANARY]),
        ({"type": "mapToEnum", "validValues": ["x"]}, {"k": CANARY}),
        ({"type": "yaml"}, f"a: b: {CANARY}"),
        ({"type": "yaml"}, f"[{CANARY}"),
    ],
    ids=str,
)
async def test_why_a_secret_does_not_fit_is_told_without_it(
    watchful: httpx2.AsyncClient, definition: dict[str, Any], value: object
) -> None:
    """By its definition, and by itself; of a parameter that nobody knows, it is told that nobody does."""
    secret = {"name": "secret", "options": {"sensitive": True}, **definition}
    assert (await apply(watchful, typed("bad", secret, {**definition, "name": "open"})))["status"] == "created"
    for query in ("?dryRun=true", "?acceptInvalid=true"):
        for name in ("secret", "open"):
            parameter = {"name": name, "value": value, "sensitive": True}
            update = await apply(watchful, of_type("bad", parameter, displayName=f"{query}{name}"), query)
            shown = json.dumps(update)
            assert "11712321" not in shown
            is_accepted = "acceptInvalid" in query
            assert update["status"] in (("created", "configured") if is_accepted else ("invalid",))
            assert ("incomplete" in update["resource"]["status"]) if is_accepted else update["reason"]
    atomic = await watchful.post("/v1/apply?atomic=true", json={"resources": [of_type("bad", parameter)]})
    assert atomic.status_code == 409
    for query in ("?dryRun=true", ""):
        update = await apply(watchful, of_type("bad", {"name": "unknown", "value": value}, displayName=query), query)
        assert update["status"] == "configured"
        assert [note.partition(" of ")[0] for note in update["notes"]] == [
            "/spec/parameters/0/name: is not a parameter"
        ]
        assert "11712321" not in json.dumps(update)


SYNTAX = [
    'value: "CANARY',
    "value: 'CANARY'x",
    "value: *CANARY",
    "value: [*CANARY]",
    "value: !CANARY x",
    "value: !!int CANARY",
    "value: CANARY: x",
    "\tvalue: CANARY",
    "value: |1\nCANARY",
    "%CANARY",
    "value: @CANARY",
    "value: \x00CANARY",
    'value: "\\q CANARY"',
]


async def test_a_file_with_a_secret_that_cannot_be_read_does_not_show_it(
    watchful: httpx2.AsyncClient, follow: Follow, source: Repository, project: str
) -> None:
    for number, text in enumerate(SYNTAX):
        broken = f"apiVersion: service/v1\nkind: Destination\n{text}\n"
        source.write(f"{number}.yaml", broken.replace("CANARY", CANARY))
    source.write("b.json", '{"apiVersion": "service/v1", "value": "CANARY" "CANARY}'.replace("CANARY", CANARY))
    source.commit()
    run = await follow(project, source, project=project)
    assert [status["status"] for status in run["statuses"]] == ["invalid"] * (len(SYNTAX) + 1)
    assert CANARY not in json.dumps(run)
    (await watchful.get(f"/v1/repositories/{project}")).raise_for_status()


async def test_a_type_that_becomes_stricter_masks_what_every_reader_gets(watchful: httpx2.AsyncClient) -> None:
    """The maker of the type forgot to call it a secret; until then it is shown, so an innocent client begins."""
    watchful.event_hooks["response"].clear()
    token = {"name": "token", "value": CANARY}
    assert (await apply(watchful, typed("late", {"name": "token", "type": "string"})))["status"] == "created"
    for number in range(2):
        await apply(watchful, of_type("late", token, displayName=str(number)))
    await apply(watchful, of_type("late", token) | {"metadata": {"name": "gone"}})
    assert (await watchful.delete("/v1/resources/Destination/gone")).status_code == 204
    tag = (await watchful.get(PATH)).headers["etag"]
    watchful.event_hooks["response"].append(_no_canary)
    stricter = typed("late", {"name": "token", "type": "string", "options": {"sensitive": True}})
    assert (await apply(watchful, stricter))["status"] == "configured"
    shown = await watchful.get(PATH, headers={"If-None-Match": tag})
    assert (shown.status_code, shown.json()["resource"]["spec"]["parameters"]) == (
        200,
        [{"name": "token", "value": "(sensitive)"}],
    )
    for path in ("/v1/resources/destinations", "/v1/Destination/a/history", "/v1/Destination/gone/history"):
        [found] = (await watchful.get(path)).json().values()
        assert {one["spec"]["parameters"][0]["value"] for one in found} == {"(sensitive)"}
    assert (await apply(watchful, shown.json()["resource"]))["status"] == "unchanged"


async def test_what_git_owns_never_tells_whether_a_guess_is_right(
    watchful: httpx2.AsyncClient, follow: Follow, source: Repository, project: str
) -> None:
    source.write("a.json", json.dumps(holding(HEADERS)))
    source.commit()
    await follow(project, source, project=project)
    await explained(watchful, PATH)
    wrong = {"name": "headers", "value": {"Authorization": "wrong", "X-Team": "${env:TEAM}"}}
    answers = []
    for guess in (HEADERS, wrong):
        for query in ("", "?dryRun=true", "?acceptInvalid=true"):
            update = await apply(watchful, holding(guess), query)
            assert update["status"] == "forbidden"
            answers.append(update)
        atomic = await watchful.post("/v1/apply?atomic=true", json={"resources": [holding(guess)]})
        assert atomic.status_code == 409
        answers.append(atomic.json())
    assert answers[:4] == answers[4:]
    shown = (await watchful.get(PATH)).json()["resource"]
    assert await apply(watchful, shown) == {"resource": shown, "status": "unchanged"}
    again = await watchful.post(f"/v1/repositories/{project}/reconcile")
    run = await follow.finished(again.json()["run"])
    assert (run["outcome"], run["statuses"]) == ("succeeded", [])


async def test_no_table_of_the_store_but_one_column_holds_a_secret(
    watchful: httpx2.AsyncClient, services: Services, follow: Follow, source: Repository, project: str
) -> None:
    canary = f"{CANARY}-{project}"
    headers = {"name": "headers", "value": {"Authorization": canary}}
    source.write("a.json", json.dumps(holding(headers)))
    source.write(
        "b.json", json.dumps(holding(headers, {"name": "port", "value": canary}) | {"metadata": {"name": "b"}})
    )
    source.commit()
    await follow(project, source, project=project)
    mine = holding(headers, {"name": "path", "value": canary, "sensitive": True}) | {"metadata": {"name": "c"}}
    await apply(watchful, mine)
    await apply(watchful, mine | {"metadata": {"name": "c", "description": "edited"}})
    await watchful.delete("/v1/resources/Destination/c")
    holding_it = {
        f"{table}.{column}"
        for table, rows in stores.tables(stores.state_of(services.store)).items()
        for row in rows
        for column, value in row.items()
        if canary in str(value)
    }
    assert holding_it == {"version.secrets"}
