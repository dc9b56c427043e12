"""Reading the audit: who did what, when and from where, to whom it is shown, in pages and as lines."""

import dataclasses
import json
from typing import Any, NamedTuple

import httpx2
import pytest

import api.app
from api.calls import Services
from reconciler.model.notification_types import NotificationType
from reconciler.model.principals import Role
from reconciler.notifications.models import Cause, Domain, Finding, Observation
from reconciler.server.schedules import AuditUpkeep
from reconciler.store.audit import RedactedEvents
from tests import stores
from tests.api import parts
from tests.api.callers import OTHER, OWN, UNKNOWN, ask
from tests.api.conftest import Follow, Populated, connect, make_key
from tests.api.parts import AT, destination
from tests.repositories import Repository

pytestmark = pytest.mark.anyio

HERE = "127.0.0.1"  # as the client in memory says it


async def apply(client: httpx2.AsyncClient, *names: str, **spec: Any) -> str:
    """Store destinations; the request's id."""
    body = {"resources": [destination(name) | ({"spec": spec} if spec else {}) for name in names]}
    answer = await client.post("/v1/apply", json=body)
    assert answer.status_code == 202, answer.text
    return answer.headers["x-request-id"]


async def events(client: httpx2.AsyncClient, query: str = "") -> list[dict[str, Any]]:
    answer = await client.get(f"/v1/audit-events?{query}")
    assert answer.status_code == 200, answer.text
    return list(answer.json()["events"])


async def test_a_change_is_told_with_who_when_where_and_by_which_request(
    client: httpx2.AsyncClient, project: str
) -> None:
    first = await apply(client, "a")
    second = await apply(client, "a", type="otlp")
    deletion = await client.delete("/v1/resources/Destination/a")
    found = await events(client, "kind=Destination")
    common = {
        "at": AT,
        "kind": "Destination",
        "name": "a",
        "actor": "key:SERVICE_API_KEY",
        "project": project,
        "address": HERE,
    }
    told = [{name: value for name, value in one.items() if name != "id"} for one in found]
    assert told == [
        common | {"action": "deleted", "request": deletion.headers["x-request-id"], "versionBefore": 2},
        common | {"action": "configured", "request": second, "versionBefore": 1, "versionAfter": 2},
        common | {"action": "created", "request": first, "versionAfter": 1},
    ]


async def test_the_documents_before_and_after_are_as_the_history_shows_them(client: httpx2.AsyncClient) -> None:
    await apply(client, "a")
    await apply(client, "a", type="otlp")
    newest, oldest = (await client.get("/v1/Destination/a/history")).json()["versions"]
    (second, first) = await events(client, "kind=Destination&documents=true")
    assert (first.get("before"), first["after"]) == (None, oldest)
    assert (second["before"], second["after"]) == (oldest, newest)
    assert "after" not in (await events(client, "kind=Destination"))[0]


async def test_it_is_read_in_pages(client: httpx2.AsyncClient) -> None:
    for name in "abcde":
        await apply(client, name, f"{name}2")
    whole = await events(client)
    pages: list[dict[str, Any]] = []
    after = ""
    while page := await events(client, f"limit=3{after}"):
        pages += page
        after = f"&after={page[-1]['id']}"
    assert pages == whole
    names = [one["name"] for one in whole if one["kind"] == "Destination"]
    assert names == [name for letter in "edcba" for name in (f"{letter}2", letter)]


FILTERS = {
    "kind=Project": {"created Project"},
    "name=a": {"created Destination a"},
    "name=a&kind=Project": set[str](),
    "name=b&after=0-1": set[str](),
    "action=created&kind=Destination": {"created Destination a", "created Destination b"},
    "actor=key:SERVICE_API_KEY": {"created Destination a", "created Destination b"},
    "actor=key:SERVICE_API_KEY&name=b": {"created Destination b"},
    "kind=Destination&since=2026-11-21T06:12:00.123Z": {"created Destination a", "created Destination b"},
    "kind=Destination&since=2026-11-21T06:12:00.124Z": set[str](),
    "kind=Destination&until=2026-11-21T06:12:00.123Z": set[str](),
    "name=a&until=2026-11-21T06:12:01Z": {"created Destination a"},
    "name=a&until=2026-11-21T06:12:00Z": set[str](),
    "kind=destinations&action=created": {"created Destination a", "created Destination b"},
    "kind=Nope": set[str](),
    "kind=Destination&name=gone": set[str](),
    "actor=user:gone": set[str](),
    "actor=key:01M7Z5EW4Q8Z2S0T9V1X3Y5A7C": set[str](),
    "kind=Session": set[str](),
    "kind=Destination&since=2026-11-21T06:12:00Z&until=2026-11-21T06:12:00Z": set[str](),
}


@pytest.mark.parametrize("query", FILTERS)
async def test_filters_take_what_they_name(client: httpx2.AsyncClient, project: str, query: str) -> None:
    await apply(client, "a")
    await apply(client, "b")
    found = {f"{one['action']} {one['kind']} {one['name']}" for one in await events(client, query)}
    assert {each.replace(f" {project}", "") for each in found} == FILTERS[query]


@pytest.mark.parametrize(
    "query",
    [
        "since=yesterday",
        "until=2026-11-21T06:12:00",
        "after=1",
        "limit=0",
        "limit=1001",
        "documents=yes",
        "since=2026-13-01T00:00:00Z",
        "since=2026-11-22T00:00:00Z&until=2026-11-21T00:00:00Z",
    ],
)
async def test_what_cannot_be_understood_is_refused(client: httpx2.AsyncClient, query: str) -> None:
    answer = await client.get(f"/v1/audit-events?{query}")
    assert (answer.status_code, len(answer.json()["errors"])) == (400, 1)


async def test_a_key_is_found_by_what_it_is_called(client: httpx2.AsyncClient) -> None:
    created = await client.post("/v1/api-keys", json={"name": "collector", "role": "viewer"})
    key = created.json()["apiKey"]["id"]
    await client.delete(f"/v1/api-keys/{key}")
    for name in ("collector", key):
        found = await events(client, f"kind=Key&name={name}")
        assert [(one["action"], one["name"], one["detail"]["name"]) for one in found] == [
            ("deleted", key, "collector"),
            ("created", key, "collector"),
        ]
    assert await events(client, "kind=Key&name=collectors") == []


async def test_an_admin_of_a_project_reads_its_events_and_no_others(services: Services, project: str) -> None:
    async with connect(services, project=project) as root:
        await apply(root, "a")
    admin = await make_key(services, Role.ADMIN, project=project)
    async with connect(services, key=admin) as client:
        found = await events(client)
        assert {one["project"] for one in found} == {project}
        assert await events(client, f"project={project}") == found
        for query, status in (("project=", 404), ("project=default", 404), ("project=none-of-this", 404)):
            assert (await client.get(f"/v1/audit-events?{query}")).status_code == status, query
    await make_key(services, Role.VIEWER, project=None)
    async with connect(services) as client:
        assert {"", project} <= {one.get("project", "") for one in await events(client, "limit=1000")}
        assert {one.get("project", "") for one in await events(client, "project=")} == {""}
        assert await events(client, "project=none-of-this") == []
    for role in (Role.USER, Role.VIEWER):
        key = await make_key(services, role, project=project)
        async with connect(services, key=key) as client:
            answer = await client.get("/v1/audit-events")
            assert (answer.status_code, answer.json()["errors"][0].endswith("it takes the role admin.")) == (403, True)


class Asked(NamedTuple):
    """A caller who asks for events. `refused`: whose admins read of it that it was; None: nobody does."""

    caller: str
    header: str | None
    project: str
    status: int
    refused: str | None = None


ASKED = (
    Asked("both", None, OTHER, 200),
    Asked("both", None, OWN, 403, OWN),  # a viewer of it
    Asked("both", None, parts.DEFAULT, 404, parts.DEFAULT),
    Asked("both", None, UNKNOWN, 404),
    Asked("both", None, "", 404),
    Asked("both", OTHER, OWN, 404, OWN),
    Asked("both", OTHER, UNKNOWN, 404),
    Asked("organization key of a viewer", None, OWN, 403, OWN),
    Asked("root", None, OWN, 200),
    Asked("root", None, "", 200),
    Asked("root", None, UNKNOWN, 200),
    Asked("root", OWN, OWN, 200),
    Asked("root", OWN, OTHER, 404, OTHER),
    Asked("root", OWN, "", 404),
)


@pytest.mark.parametrize("asked", ASKED, ids=lambda asked: f"{asked.caller}-{asked.header}-{asked.project}")
async def test_a_project_that_is_asked_for_is_judged_and_never_just_empty(populated: Populated, asked: Asked) -> None:
    services = populated.parts.services
    services.refusals.taken(services.clock())
    headers = populated.callers[asked.caller].headers
    headers += () if asked.header is None else (("X-Service-Project", asked.header),)
    app = api.app.build(services)
    answer = await ask(app, "GET", f"/v1/audit-events?project={asked.project}", headers=headers)
    assert answer.status == asked.status, answer.body
    told = [one.project for one in services.refusals.taken(services.clock())]
    assert told == ([] if asked.refused is None else [asked.refused])


async def test_a_run_or_a_notification_of_another_project_that_is_asked_for_is_a_refused_attempt(
    services: Services, client: httpx2.AsyncClient, follow: Follow, source: Repository, project: str
) -> None:
    await apply(client, "a", type="syslog")
    source.commit()
    await follow(f"r-{project}", source, project=project)
    [run] = (await client.get(f"/v1/runs?repository=r-{project}&limit=1")).json()["runs"]
    causes = [
        Cause(NotificationType.LOGS_UNROUTED, "hidden", project),
        Cause(NotificationType.DISK_LOW, f"hidden of {project}"),
    ]
    await services.board.take(Observation(Domain.DELIVERY, tuple(map(Finding, causes))))
    pages = [one async for one in services.board.pages(sees=causes.__contains__, user=None)]
    told = [json.loads(one)["metadata"]["id"] for page in pages for one in page]
    await client.post("/v1/projects", json={"name": f"beside-{project}"})
    viewer = await make_key(services, Role.VIEWER, project=f"beside-{project}")
    services.refusals.taken(services.clock())
    async with connect(services, key=viewer) as stranger:
        for path in (f"/v1/runs/{run['id']}", *[f"/v1/api/notifications/{one}" for one in told]):
            assert (await stranger.get(path)).status_code == 404
        for path in ("/v1/runs/none", "/v1/api/notifications/none"):
            assert (await stranger.get(path)).status_code == 404
    found = sorted(
        (json.loads(one.detail or "")["path"], one.project) for one in services.refusals.taken(services.clock())
    )
    assert found == [
        ("/v1/api/notifications/{id}", ""),
        ("/v1/api/notifications/{id}", project),
        ("/v1/runs/{id}", project),
    ]
    await services.board.take(Observation(Domain.DELIVERY, ()))


async def test_changes_of_access_say_where_they_came_from(services: Services) -> None:
    async with connect(services) as client:
        answer = await client.post("/v1/projects", json={"name": "from-somewhere"})
        assert answer.status_code == 201
        (event,) = await events(client, "name=from-somewhere")
    assert (event["address"], event["request"]) == (HERE, answer.headers["x-request-id"])


async def test_what_is_done_with_a_repository_says_where_it_came_from(
    client: httpx2.AsyncClient, follow: Follow, source: Repository, project: str
) -> None:
    source.write("a.json", json.dumps(destination("of-git")))
    source.commit()
    run = await follow(f"of-{project}", source, project=project)
    await client.post(f"/v1/repositories/of-{project}/suspend", json={"reason": "an incident"})
    await client.post(f"/v1/repositories/of-{project}/resume")
    found = await events(client, f"name=of-{project}")
    assert [(one["action"], one["actor"], one.get("address")) for one in found] == [
        ("resumed", "key:SERVICE_API_KEY", HERE),
        ("suspended", "key:SERVICE_API_KEY", HERE),
        ("created", "settings", None),
    ]
    (stored,) = await events(client, "name=of-git")
    assert (stored["run"], stored["actor"], stored.get("address"), stored.get("request")) == (
        run["id"],
        f"git:of-{project}",
        None,
        None,
    )


async def test_what_the_settings_change_of_a_repository_is_told(
    client: httpx2.AsyncClient, follow: Follow, source: Repository, project: str
) -> None:
    source.write("a.json", json.dumps(destination("a")))
    source.commit()
    name = f"told-{project}"
    await follow(name, source, project=project)
    first = follow.wanted[name]
    for wanted in (
        [first],
        [first.model_copy(update={"interval": 77.0, "atomic": True})],
        [],
    ):
        await follow.everything.repositories.start(wanted)
    found = await events(client, f"name={name}")
    assert [(one["action"], one["actor"], one.get("detail")) for one in found] == [
        ("deleted", "settings", None),
        ("configured", "settings", None),
        ("created", "settings", None),
    ]


async def test_a_redaction_leaves_a_chain_that_says_so(
    client: httpx2.AsyncClient, services: Services, follow: Follow, source: Repository, project: str
) -> None:
    secret = "canary-in-a-reason"
    await apply(client, "a", type="otlp")
    await apply(client, "a", type="syslog")
    source.commit()
    await follow(f"r-{project}", source, project=project)
    await client.post(f"/v1/repositories/r-{project}/suspend", json={"reason": secret})
    assert (await events(client, f"name=r-{project}"))[0]["detail"] == {"reason": secret}
    answer = await client.post("/v1/Destination/a/history/redact", json={"value": secret})
    assert answer.status_code == 200, answer.text
    assert secret not in (await client.get("/v1/audit-events")).text
    (redacted,) = await events(client, "name=a&action=redacted")
    assert stores.verify(stores.state_of(services.store)).redacted[-1] == RedactedEvents(1, f"event {redacted['id']}")
    await client.post(f"/v1/repositories/r-{project}/resume")


async def test_refused_attempts_are_counted_and_written_together(services: Services, project: str) -> None:
    services.refusals.taken(services.clock())
    viewer = await make_key(services, Role.VIEWER, project=project)
    async with connect(services, key=viewer) as client:
        for _ in range(3):
            assert (await client.post("/v1/apply", json={"resources": []})).status_code == 403
        assert (await client.get("/v1/projects/default/members")).status_code == 404
        assert (await client.get("/v1/runs", headers={"X-Service-Project": "default"})).status_code == 404
        assert (await client.get("/v1/projects/none-of-this")).status_code == 404
    async with connect(services, key="canary-wrong") as client:
        assert (await client.get("/v1/me")).status_code == 401
        assert (await client.get("/v1/nothing/of/this")).status_code == 401
        assert (await client.get(f"/v1/projects/{project}/members/somebody")).status_code == 401
        assert (await client.get("/v1/projects/none-of-this")).status_code == 401
        assert (await client.post("/hooks/nothing", json={})).status_code == 404
    async with connect(dataclasses.replace(services, in_flight={"key:SERVICE_API_KEY": 1_000})) as client:
        assert (await client.get(f"/v1/projects/{project}")).status_code == 429
    await AuditUpkeep(services.store, services.refusals, retention=60.0, clock=services.clock).minute()
    async with connect(services) as client:
        found = await events(client, "action=refused")
    assert {one["address"] for one in found} == {HERE}
    told = [(one["name"], one["actor"].partition(":")[0], one.get("project", ""), one["detail"]) for one in found]
    assert told == [
        ("429", "key", "", {"path": "/v1/projects/{name}", "times": 1}),
        ("404", "unknown", "", {"path": "/hooks/{repository}", "times": 1}),
        ("404", "key", "default", {"path": "/v1/runs", "times": 1}),
        ("404", "key", "default", {"path": "/v1/projects/{name}/members", "times": 1}),
        ("403", "key", project, {"path": "/v1/apply", "times": 3}),
        ("401", "unknown", "", {"path": "/v1/projects/{name}/members/{user}", "times": 1}),
        ("401", "unknown", "", {"path": "/v1/projects/{name}", "times": 1}),
        ("401", "unknown", "", {"path": "/v1/me", "times": 1}),
        ("401", "unknown", "", {"times": 1}),
    ]


async def test_the_chain_fits_whatever_was_done(services: Services, client: httpx2.AsyncClient) -> None:
    await apply(client, "a")
    verified = stores.verify(stores.state_of(services.store))
    assert verified.head == (await services.store.audit_ends())[1]
    assert verified.events > 0
