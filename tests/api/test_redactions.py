"""A text is taken out of a resource's history by an admin, and nobody is told what was a secret."""

import json
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any
from unittest.mock import ANY

import httpx2
import pytest

from api.calls import Services
from reconciler.model.names import Key
from reconciler.model.principals import Role
from tests import stores
from tests.api.conftest import connect, make_key
from tests.api.parts import AT, destination

pytestmark = pytest.mark.anyio

CANARY = "canary-in-a-description"
HISTORY = "/v1/Destination/siem/history"
REDACT = f"{HISTORY}/redact"


async def apply(client: httpx2.AsyncClient, *resources: dict[str, Any]) -> None:
    answer = await client.post("/v1/apply", json={"resources": list(resources)})
    assert {update["status"] for update in answer.json()["updates"]} <= {"created", "configured"}, answer.text


async def described(client: httpx2.AsyncClient, *descriptions: str) -> None:
    """A version for each description."""
    for description in descriptions:
        await apply(client, destination("siem", description=description))


async def redact(client: httpx2.AsyncClient, text: str = CANARY, query: str = "") -> tuple[int, Any]:
    answer = await client.post(f"{REDACT}{query}", json={"value": text})
    return answer.status_code, answer.json()


async def versions(client: httpx2.AsyncClient) -> list[dict[str, Any]]:
    return list((await client.get(HISTORY)).json()["versions"])


def with_header(secret: str, description: str = "") -> dict[str, Any]:
    document = destination("siem", description=description)
    document["spec"]["parameters"].append({"name": "headers", "value": {"Authorization": secret}})
    return document


def audited(services: Services, project: str) -> Sequence[tuple[Any, ...]]:
    return asked(
        services,
        "select at, actor, kind, name, version_before, version_after, detail from audit "
        "where action = 'redacted' and project = ? order by id",
        project,
    )


def asked(services: Services, sql: str, *values: object) -> Sequence[tuple[Any, ...]]:
    with stores.sql(stores.state_of(services.store)) as store:
        return store.execute(sql, *values)


def held_by(services: Services, text: str) -> list[str]:
    """The files of the store that hold a text."""
    found = stores.content(stores.state_of(services.store))
    return [name for name, content in found.items() if text.encode() in content]


async def test_older_versions_are_rewritten_and_all_else_of_them_stays(
    client: httpx2.AsyncClient, services: Services, project: str
) -> None:
    canary = f"canary-of-{project}-"
    await described(client, "fine", f"token {canary}", f"{canary} or {canary}", "mended")
    before = await versions(client)
    assert await redact(client, canary) == (200, {"versions": [2, 3], "places": 2, "erased": True})
    after = await versions(client)
    described_so = ["mended", "(redacted) or (redacted)", "token (redacted)", "fine"]
    assert [one["metadata"]["description"] for one in after] == described_so
    for old, new, description in zip(before, after, described_so, strict=True):
        assert new == {**old, "metadata": {**old["metadata"], "description": description}}
    assert held_by(services, canary) == []
    detail = "versions rewritten: 2; places: 2"
    assert audited(services, project) == [(AT, "key:SERVICE_API_KEY", "Destination", "siem", None, None, detail)]
    answer = await client.post("/v1/apply", json={"resources": [destination("siem", description="mended")]})
    assert answer.json()["updates"][0]["status"] == "unchanged"


async def test_what_stays_is_told_beforehand_by_a_dry_run(client: httpx2.AsyncClient, services: Services) -> None:
    await described(client, CANARY, "mended")
    before = await versions(client)
    revision = await services.store.revision()
    assert await redact(client, query="?dryRun=true") == (200, {"versions": [1], "places": 1})
    assert (await versions(client), await services.store.revision()) == (before, revision)


async def test_a_second_time_there_is_nothing_left(
    client: httpx2.AsyncClient, services: Services, project: str
) -> None:
    await described(client, CANARY, "fine", f"{CANARY} 2", CANARY, "mended")
    assert await redact(client) == (200, {"versions": [1, 3, 4], "places": 3, "erased": True})
    seen = await versions(client)
    assert await redact(client) == (200, {"versions": [], "places": 0, "erased": True})
    assert await versions(client) == seen
    assert [detail for *_, detail in audited(services, project)] == [
        "versions rewritten: 3; places: 3",
        "versions rewritten: 0; places: 0",
    ]


async def test_a_deleted_resource_is_redacted_in_all_its_versions(client: httpx2.AsyncClient) -> None:
    await described(client, "fine", CANARY)
    assert (await client.delete("/v1/resources/Destination/siem")).status_code == 204
    assert await redact(client) == (200, {"versions": [2], "places": 1, "erased": True})
    assert [one["metadata"]["description"] for one in await versions(client)] == ["(redacted)", "fine"]


async def test_nothing_is_rewritten_while_the_present_version_holds_the_text(
    client: httpx2.AsyncClient, services: Services, project: str
) -> None:
    await described(client, CANARY, "between", f"{CANARY} again")
    before = await versions(client)
    told = "The present version of Destination siem still holds the text; change it first, in Git or by apply."
    assert await redact(client) == (409, {"errors": [told], "codes": ANY})
    assert await redact(client, query="?dryRun=true") == (409, {"errors": [told], "codes": ANY})
    assert (await versions(client), audited(services, project)) == (before, [])


async def test_a_text_in_the_name_or_the_id_is_refused(client: httpx2.AsyncClient) -> None:
    await apply(client, destination("siem", description="siem-7", id="an-id-of-siem"))
    await described(client, "mended")
    told = {
        "errors": ["The text is a part of the name or the id of Destination siem, which stay; give a longer text."],
        "codes": ANY,
    }
    assert [await redact(client, "siem"), await redact(client, "-of-")] == [(409, told), (409, told)]
    assert await redact(client, "siem-7") == (200, {"versions": [1], "places": 1, "erased": True})


@pytest.mark.parametrize(("text", "quoted"), [(CANARY, CANARY), (f"\u202e{CANARY}", f"\\u202e{CANARY}")])
async def test_what_a_status_lists_as_missing_is_rewritten(client: httpx2.AsyncClient, text: str, quoted: str) -> None:
    definition = {"name": "level", "type": "enum", "validValues": [text]}
    own = {"apiVersion": "service/v1", "kind": "DestinationType", "metadata": {"name": "own"}}
    wrong = destination("siem")
    wrong["spec"] = {"type": "own", "parameters": [{"name": "level", "value": "x"}]}
    resources = [{**own, "spec": {"parameters": [definition]}}, wrong]
    answer = await client.post("/v1/apply?acceptInvalid=true", json={"resources": resources})
    assert answer.status_code == 202
    before = (await client.get("/v1/resources/Destination/siem")).json()["resource"]
    (line,) = before["status"]["incomplete"]
    assert quoted in line
    assert await redact(client, text) == (200, {"versions": [], "places": 1, "erased": True})
    after = (await client.get("/v1/resources/Destination/siem")).json()["resource"]
    status = {**before["status"], "incomplete": [line.replace(quoted, "(redacted)")]}
    assert after == {**before, "status": status}


async def test_what_never_existed_is_not_found(client: httpx2.AsyncClient) -> None:
    assert await redact(client) == (404, {"errors": ["There is no Destination siem."], "codes": ANY})
    answer = await client.post("/v1/Nothing/siem/history/redact", json={"value": CANARY})
    assert answer.status_code == 404
    answer = await client.post("/v1/Destination/-siem/history/redact", json={"value": CANARY})
    assert answer.status_code == 400


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({}, "/value: is required"),
        ({"value": 1234}, "/value: must be a string"),
        ({"value": "abc"}, "/value: must have 4 to 65,536 characters"),
        ({"value": "x" * 65_537}, "The body is over 20000 bytes."),
        (
            {"value": "redact"},
            "/value: must not be a part of `(redacted)` or `(sensitive)`, which the service writes itself",
        ),
        (
            {"value": "sensitive"},
            "/value: must not be a part of `(redacted)` or `(sensitive)`, which the service writes itself",
        ),
        ({"value": CANARY, "dryRun": True}, "/dryRun: unknown key; only `value` is allowed"),
    ],
)
async def test_a_body_that_names_no_text_is_refused(client: httpx2.AsyncClient, body: object, told: str) -> None:
    answer = await client.post(REDACT, json=body)
    assert (answer.status_code, answer.json()) == (413 if "over" in told else 400, {"errors": [told], "codes": ANY})


async def test_a_parameter_that_is_not_known_is_refused(client: httpx2.AsyncClient) -> None:
    assert (await redact(client, query="?dryrun=true"))[0] == 400


async def test_only_an_admin_redacts(services: Services, project: str) -> None:
    async with connect(services, key=await make_key(services, Role.USER, project=project)) as other:
        answer = await other.post("/v1/Destination/a/history/redact", json={"value": CANARY})
    assert answer.status_code == 403
    assert answer.json()["errors"][0].endswith(" may not do this; it takes the role admin.")


async def test_other_projects_keep_the_text(client: httpx2.AsyncClient, services: Services, project: str) -> None:
    await services.accounts.ensure_project(f"{project}-b")
    await described(client, CANARY, "mended")
    await client.post(
        "/v1/apply",
        json={"resources": [destination("siem", description=CANARY)]},
        headers={"X-Service-Project": f"{project}-b"},
    )
    await redact(client)
    answer = await client.get(HISTORY, headers={"X-Service-Project": f"{project}-b"})
    assert [one["metadata"]["description"] for one in answer.json()["versions"]] == [CANARY]


async def test_secrets_of_older_versions_go_and_nothing_tells_of_it(
    client: httpx2.AsyncClient, services: Services, project: str
) -> None:
    canary = f"canary-of-{project}-"
    await apply(client, with_header(f"Bearer {canary}"))
    await apply(client, with_header("another"))
    before = await versions(client)
    revision = await services.store.revision()
    assert await redact(client, canary, query="?dryRun=true") == (200, {"versions": [], "places": 0})
    told = await redact(client, canary)
    assert told == await redact(client, "a guess that is wrong") == (200, {"versions": [], "places": 0, "erased": True})
    assert (await versions(client), await services.store.revision()) == (before, revision + 2)
    assert held_by(services, canary) == []
    secrets = asked(services, "select secrets from version where project = ? order by version", project)
    assert [json.loads(one) for (one,) in secrets] == [
        {"/spec/parameters/1/value/Authorization": "Bearer (redacted)"},
        {"/spec/parameters/1/value/Authorization": "another"},
    ]


async def test_a_secret_where_it_belongs_stays_in_the_present_version(client: httpx2.AsyncClient) -> None:
    await apply(client, with_header(CANARY, description=f"has {CANARY}"))
    await apply(client, with_header(CANARY, description="mended"))
    assert await redact(client) == (200, {"versions": [1], "places": 1, "erased": True})
    answer = await client.post("/v1/apply", json={"resources": [with_header(CANARY, description="mended")]})
    assert answer.json()["updates"][0]["status"] == "unchanged"


async def test_while_somebody_reads_an_older_revision_the_answer_says_so(
    client: httpx2.AsyncClient, services: Services, project: str
) -> None:
    canary = f"canary-of-{project}-"
    await described(client, canary, "mended")
    pages = services.store.history_pages(project, Key("Destination", "siem"))
    async with aclosing(pages):
        assert await anext(pages)
        assert await redact(client, canary) == (200, {"versions": [1], "places": 1, "erased": False})
        assert stores.IS_POSTGRESQL or held_by(services, canary) != []
    assert await redact(client, canary) == (200, {"versions": [], "places": 0, "erased": True})
    assert held_by(services, canary) == []


async def test_a_damaged_version_is_named(client: httpx2.AsyncClient, services: Services, project: str) -> None:
    await described(client, CANARY, "between", "mended")
    asked(services, "update version set body = ? where project = ? and version = 2", b"{", project)
    told = "Version 2 of Destination siem is damaged in the store and cannot be read; restore a backup."
    assert await redact(client) == (409, {"errors": [told], "codes": ANY})


async def test_the_log_says_who_and_what_and_not_the_text(
    client: httpx2.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    await described(client, CANARY, "mended")
    await redact(client)
    line = "The history of Destination siem was redacted by key:SERVICE_API_KEY: versions rewritten: 1."
    assert line in caplog.messages
    assert CANARY not in caplog.text
