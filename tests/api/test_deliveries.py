"""Looking after deliveries: what the doors take, answer and log, and who sees what an endpoint said."""

import dataclasses
from collections.abc import AsyncIterator
from unittest.mock import ANY

import httpx2
import pytest

from api.calls import Services
from reconciler.delivery.queue.contract import QueueFault
from reconciler.model.principals import Role
from tests.api import delivering
from tests.api.conftest import connect, make_key
from tests.api.delivering import Kept

pytestmark = pytest.mark.anyio

PATH = "/v1/destinations/siem/delivery"
UNKNOWN = {"errors": ["There is no such destination that log records are delivered to."], "codes": ANY}
NAME_RULE = (
    "The name in the path must be 1 to 63 letters, digits, `-`, `_` or `.`, and begin and end with a letter or digit; "
    "that of a webhook in place is `configuration:id`."
)
ACTIONS = ("replay", "discard", "test")
VIEWS = ("", "/history", "/dead-letters")


@pytest.fixture
def kept() -> Kept:
    return Kept(known={"siem", "checkout:hook"})


@pytest.fixture
def served(services: Services, kept: Kept) -> Services:
    return dataclasses.replace(services, deliveries=kept)


@pytest.fixture
async def client(served: Services, project: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with connect(served, project=project) as client:
        yield client


@pytest.mark.parametrize("name", ["siem", "checkout:hook"])
async def test_a_destination_is_shown_by_its_name(client: httpx2.AsyncClient, project: str, name: str) -> None:
    answer = await client.get(f"/v1/destinations/{name}/delivery")
    failure = {**delivering.FAILURE, "answer": delivering.ANSWERED}
    shown = {**delivering.SHOWN, "destination": name, "lastFailure": failure, "configurations": [f"of-{project}"]}
    assert (answer.status_code, answer.json()) == (200, {"delivery": shown})


@pytest.mark.parametrize(("role", "sees"), [(Role.VIEWER, False), (Role.USER, False), (Role.ADMIN, True)])
async def test_what_an_endpoint_answered_is_for_admins(served: Services, project: str, role: Role, sees: bool) -> None:
    async with connect(served, key=await make_key(served, role, project=project)) as client:
        one, every = await client.get(PATH), await client.get("/v1/deliveries")
    assert (delivering.ANSWERED in one.text, delivering.ANSWERED in every.text) == (sees, sees)


async def test_the_deliveries_of_a_project_are_listed(client: httpx2.AsyncClient) -> None:
    answer = (await client.get("/v1/deliveries")).json()
    assert [one["destination"] for one in answer["deliveries"]] == ["checkout:hook", "siem"]
    assert answer["unrouted"] == {"records": 40, "last": "2026-11-21T06:12:00.123Z"}


async def test_the_last_hour_is_shown(client: httpx2.AsyncClient) -> None:
    answer = await client.get(f"{PATH}/history")
    assert (answer.status_code, answer.json()) == (200, {"interval": 60, "samples": delivering.SAMPLES})


@pytest.mark.parametrize(("query", "letters"), [("", 20), ("?limit=1", 1), ("?limit=100", 100)])
async def test_dead_letters_are_listed(client: httpx2.AsyncClient, query: str, letters: int) -> None:
    answer = await client.get(f"{PATH}/dead-letters{query}")
    assert (answer.status_code, answer.json()) == (200, {"deadLetters": [delivering.LETTER] * letters})


@pytest.mark.parametrize("limit", ["0", "101", "-1", "1e1", ""])
async def test_at_most_a_hundred_are(client: httpx2.AsyncClient, limit: str) -> None:
    answer = await client.get(f"{PATH}/dead-letters?limit={limit}")
    assert answer.json()["errors"] == ["The query parameter `limit` is not an integer from 1 to 100."]


@pytest.mark.parametrize("role", [Role.VIEWER, Role.USER])
async def test_what_records_hold_is_for_admins(served: Services, project: str, role: Role) -> None:
    async with connect(served, key=await make_key(served, role, project=project)) as client:
        assert (await client.get(f"{PATH}/dead-letters")).status_code == 403


async def test_one_dead_letter_is_replayed_or_discarded_and_audited(
    client: httpx2.AsyncClient, kept: Kept, project: str
) -> None:
    batch = str(delivering.LETTER["id"])
    await client.post(f"{PATH}/replay", json={"batch": batch})
    await client.post(f"{PATH}/discard", json={"what": "deadLetters", "batch": batch})
    assert kept.done == [("replay", project, "siem", batch), ("discard", project, "siem", False, True, batch)]
    found = (await client.get("/v1/audit-events?kind=Destination&name=siem")).json()["events"]
    assert [one["detail"] for one in found] == [
        {"batches": 3, "records": 40, "what": "deadLetters", "batch": batch},
        {"batches": 2, "records": 30, "batch": batch},
    ]


@pytest.mark.parametrize("action", ["replay", "discard"])
@pytest.mark.parametrize(
    "batch", ["", "1", "memory-", "memory-" + "9" * 5000, "../../queue-1", "memory-1\n", "memory-" + chr(0x661)]
)
async def test_what_is_no_id_of_a_dead_letter_is_400(
    client: httpx2.AsyncClient, kept: Kept, action: str, batch: str
) -> None:
    body = {"batch": batch} if action == "replay" else {"batch": batch, "what": "deadLetters"}
    answer = await client.post(f"{PATH}/{action}", json=body)
    assert (answer.status_code, answer.json()["errors"], kept.done) == (
        400,
        ["/batch: must be the `id` of a dead letter"],
        [],
    )


async def test_dead_letters_are_replayed(client: httpx2.AsyncClient, kept: Kept, project: str) -> None:
    answer = await client.post(f"{PATH}/replay")
    assert (answer.status_code, answer.json()) == (200, {"replayed": {"batches": 2, "records": 30}})
    assert kept.done == [("replay", project, "siem")]


@pytest.mark.parametrize(
    ("what", "meant"), [("queue", (True, False)), ("deadLetters", (False, True)), ("all", (True, True))]
)
async def test_what_is_named_is_discarded(
    client: httpx2.AsyncClient, kept: Kept, project: str, what: str, meant: tuple[bool, bool]
) -> None:
    answer = await client.post(f"{PATH}/discard", json={"what": what})
    assert (answer.status_code, answer.json()) == (200, {"discarded": {"batches": 3, "records": 40}})
    assert kept.done == [("discard", project, "siem", *meant)]


@pytest.mark.usefixtures("kept")
async def test_what_is_replayed_and_discarded_is_audited(client: httpx2.AsyncClient, project: str) -> None:
    answers = [await client.post(f"{PATH}/replay"), await client.post(f"{PATH}/discard", json={"what": "queue"})]
    found = (await client.get("/v1/audit-events?kind=Destination&name=siem")).json()["events"]
    told = [(one["action"], one["detail"], one["project"], one["request"]) for one in found]
    replayed, discarded = (answer.headers["x-request-id"] for answer in answers)
    assert told == [
        ("discarded", {"batches": 3, "records": 40, "what": "queue"}, project, discarded),
        ("replayed", {"batches": 2, "records": 30}, project, replayed),
    ]


async def test_what_was_done_before_a_queue_failed_is_audited(client: httpx2.AsyncClient, kept: Kept) -> None:
    kept.fault = QueueFault("The disk takes nothing.")
    assert (await client.post(f"{PATH}/replay")).status_code == 500
    [event] = (await client.get("/v1/audit-events?action=replayed")).json()["events"]
    assert (event["name"], event["detail"]) == ("siem", {"batches": 2, "records": 30})


async def test_what_changed_nothing_is_not_audited(client: httpx2.AsyncClient, kept: Kept) -> None:
    kept.handled = (0, 0)
    answer = await client.post(f"{PATH}/replay")
    assert answer.json() == {"replayed": {"batches": 0, "records": 0}}
    assert (await client.get("/v1/audit-events?action=replayed")).json() == {"events": []}


async def test_a_test_tells_what_came_of_it(client: httpx2.AsyncClient, kept: Kept, project: str) -> None:
    answer = await client.post(f"{PATH}/test")
    assert (answer.status_code, answer.json()) == (200, {"test": delivering.TESTED})
    assert kept.done == [("test", project, "siem")]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "The body must be an object."),
        (b"{}", "/what: is required"),
        (b'{"what": "some"}', "/what: must be one of queue, deadLetters, all"),
        (b'{"what": 1}', "/what: must be a string"),
        (b'{"what": "all", "why": "x"}', "/why: unknown key; only `what` and `batch` are allowed"),
        (b'{"what": "all", "batch": "memory-1"}', "/batch: is allowed only if `what` is deadLetters"),
        (b"[]", "The body must be an object."),
    ],
)
async def test_a_discard_says_what(client: httpx2.AsyncClient, kept: Kept, body: bytes, sentence: str) -> None:
    answer = await client.post(f"{PATH}/discard", content=body)
    assert (answer.status_code, answer.json(), kept.done) == (400, {"errors": [sentence], "codes": ANY}, [])


@pytest.mark.parametrize("action", ["replay", "test"])
async def test_the_others_take_no_body(client: httpx2.AsyncClient, kept: Kept, action: str) -> None:
    answer = await client.post(f"{PATH}/{action}", json={"what": "all"})
    assert (answer.status_code, kept.done) == (400, [])


@pytest.mark.parametrize("action", [*VIEWS, *ACTIONS])
async def test_an_unknown_destination_is_404(client: httpx2.AsyncClient, action: str) -> None:
    path = "/v1/destinations/nobody/delivery"
    body = {"what": "all"} if action == "discard" else None
    answer = await (client.get(f"{path}{action}") if action in VIEWS else client.post(f"{path}/{action}", json=body))
    assert (answer.status_code, answer.json()) == (404, UNKNOWN)


@pytest.mark.parametrize("name", ["-", "a" * 64, "a:", ":a", "a:b:c", "a%20b", "a%0ab"])
@pytest.mark.parametrize("action", [*VIEWS, *ACTIONS])
async def test_a_name_that_nothing_can_have_is_400(client: httpx2.AsyncClient, name: str, action: str) -> None:
    path = f"/v1/destinations/{name}/delivery"
    body = {"what": "all"} if action == "discard" else None
    answer = await (client.get(f"{path}{action}") if action in VIEWS else client.post(f"{path}/{action}", json=body))
    assert (answer.status_code, answer.json()) == (400, {"errors": [NAME_RULE], "codes": ANY})


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("role", [Role.VIEWER, Role.USER])
async def test_only_admins_do_anything(served: Services, kept: Kept, project: str, action: str, role: Role) -> None:
    async with connect(served, key=await make_key(served, role, project=project)) as client:
        answer = await client.post(f"{PATH}/{action}", json={"what": "all"})
    assert (answer.status_code, kept.done) == (403, [])
