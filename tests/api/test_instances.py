"""The delivery of several instances in one answer: sums, the part of each, and why somebody's part is missing."""

import contextlib
import dataclasses
import socket
import time
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import httpx2
import pytest

import api.app
from api.calls import Services
from reconciler.delivery.contract import QueueFull
from reconciler.model.principals import Role
from reconciler.replicas import tokens
from reconciler.replicas.calling import CalledPeers
from reconciler.replicas.contact import Contact
from reconciler.replicas.following import Following
from reconciler.replicas.peers import Peer
from reconciler.replicas.tokens import PeerTokens
from reconciler.server import serving
from tests.api import delivering
from tests.api.conftest import connect, make_key
from tests.api.delivering import LETTER, Kept
from tests.replicas.told import Told

pytestmark = pytest.mark.anyio

PATH = "/v1/destinations/siem/delivery"
KEY = tokens.derived_key(bytes(32))
BOTH = [{"instance": "one", "problem": None}, {"instance": "two", "problem": None}]


class Two(NamedTuple):
    """Two instances with queues of their own: `one` is asked, and `two` listens."""

    services: Services
    one: Kept
    two: Kept
    others: list[Peer]  # as `one` knows them
    second: Services

    def others_know(self, revision: int) -> None:
        """Have `two` know a newer revision."""
        assert self.second.following is not None
        self.second.following.revision = revision


@pytest.fixture
async def two(services: Services) -> AsyncIterator[Two]:
    kept = Kept(known={"siem"}), Kept(known={"siem", "checkout:hook"})
    second = dataclasses.replace(
        services,
        deliveries=kept[1],
        peer_tokens=PeerTokens(KEY, process="process-two", clock=time.time),
        following=Following(Told(), services.store, Contact(Told())),
    )
    listener = socket.create_server(("127.0.0.1", 0))
    others = [Peer("two", f"http://127.0.0.1:{listener.getsockname()[1]}", "process-two")]
    signing = PeerTokens(KEY, process="process-one", clock=time.time)
    async with (
        serving.serve([(api.app.build(second), listener)], drain_seconds=1.0),
        CalledPeers("one", signing=signing, others=lambda: others) as peers,
    ):
        yield Two(dataclasses.replace(services, deliveries=kept[0], peers=peers), *kept, others, second)


@pytest.fixture
async def client(two: Two, project: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with connect(two.services, project=project) as client:
        yield client


@contextlib.contextmanager
def silent(two: Two) -> Any:
    """`two` accepts connections and says nothing."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        two.others[0] = two.others[0]._replace(url=f"http://127.0.0.1:{listener.getsockname()[1]}")
        yield


async def test_both_are_summed_and_shown(client: httpx2.AsyncClient) -> None:
    answer = (await client.get(PATH)).json()
    delivery = answer["delivery"]
    assert answer["instances"] == BOTH
    assert delivery["rates"] == {"taken": 1.0, "delivered": 0.5}
    assert delivery["queue"]["maxBatches"] == 10_000
    assert [one["instance"] for one in delivery["instances"]] == ["one", "two"]
    assert delivery["instances"][1]["delivery"]["rates"] == delivering.SHOWN["rates"]
    assert delivery["lastFailure"]["answer"] == delivering.ANSWERED


async def test_an_answer_has_no_older_revision_than_that_of_another_instance(services: Services, two: Two) -> None:
    newer = services.store.known_revision + 5
    told = Following(Told(), services.store, Contact(Told()))
    two.others_know(newer)
    async with connect(dataclasses.replace(two.services, following=told), project="default") as client:
        assert int((await client.get("/v1/deliveries")).headers["x-revision"]) == newer


@pytest.mark.parametrize("action", ["replay", "test"])
async def test_without_contact_to_the_database_nothing_is_done_anywhere(two: Two, project: str, action: str) -> None:
    cut_off = dataclasses.replace(two.services, contact=Contact(Told(is_lost=True)))
    async with connect(cut_off, project=project) as client:
        answer = await client.post(f"{PATH}/{action}")
        assert (answer.status_code, answer.json()["codes"]) == (503, ["store-unavailable"])
        assert (await client.get(PATH)).status_code == 200
    assert (two.one.done, two.two.done) == ([], [])


async def test_a_destination_of_one_of_them_is_in_the_list(client: httpx2.AsyncClient) -> None:
    answer = (await client.get("/v1/deliveries")).json()
    found = {one["destination"]: [part["instance"] for part in one["instances"]] for one in answer["deliveries"]}
    assert found == {"checkout:hook": ["two"], "siem": ["one", "two"]}
    assert answer["unrouted"]["records"] == 80
    assert answer["instances"] == BOTH
    only = (await client.get("/v1/destinations/checkout:hook/delivery")).json()
    assert only["instances"] == BOTH


async def test_one_of_them_is_chosen(client: httpx2.AsyncClient, two: Two) -> None:
    for name in ("one", "two"):
        answer = (await client.get(f"{PATH}?instance={name}")).json()
        assert answer["delivery"]["rates"] == delivering.SHOWN["rates"]
        assert "instances" not in answer
    nobody = await client.get(f"{PATH}?instance=three")
    assert (nobody.status_code, nobody.json()["codes"]) == (404, ["not-found"])
    tested = await client.post(f"{PATH}/test?instance=two")
    assert (tested.status_code, [one[0] for one in two.two.done], two.one.done) == (200, ["test"], [])


async def test_one_that_does_not_answer_is_told(client: httpx2.AsyncClient, two: Two) -> None:
    with silent(two):
        answer = (await client.get(PATH)).json()
    assert answer["instances"][1]["problem"].startswith("The replica two did not answer in time")
    assert [one["instance"] for one in answer["delivery"]["instances"]] == ["one"]
    missing = await client.get("/v1/destinations/checkout:hook/delivery")
    assert (missing.status_code, missing.json()["codes"]) == (503, ["replica-unavailable"])


async def test_what_nobody_knows_is_404(client: httpx2.AsyncClient) -> None:
    answer = await client.get("/v1/destinations/other/delivery")
    assert (answer.status_code, answer.json()["codes"]) == (404, ["destination-not-found"])


async def test_the_hour_is_summed_from_its_end(client: httpx2.AsyncClient) -> None:
    answer = (await client.get(f"{PATH}/history")).json()
    assert answer["samples"] == [
        {**delivering.SAMPLES[0], "taken": 60, "delivered": 30, "queued": 30, "oldestSeconds": 31}
    ]


async def test_a_dead_letter_says_its_instance_and_is_handled_there(client: httpx2.AsyncClient, two: Two) -> None:
    answer = (await client.get(f"{PATH}/dead-letters?limit=4")).json()
    letters = answer["deadLetters"]
    assert {one["id"] for one in letters} <= {f"{LETTER['id']}@one", f"{LETTER['id']}@two"}
    assert len(letters) == 4
    replayed = await client.post(f"{PATH}/replay", json={"batch": f"{LETTER['id']}@two"})
    assert replayed.json() == {"replayed": {"batches": 2, "records": 30}}
    assert (two.one.done, [one[0] for one in two.two.done]) == ([], ["replay"])
    gone = {"what": "deadLetters", "batch": f"{LETTER['id']}@one"}
    assert (await client.post(f"{PATH}/discard", json=gone)).status_code == 200
    assert [one[0] for one in two.one.done] == ["discard"]
    other = await client.post(f"{PATH}/discard?instance=two", json=gone)
    assert other.json()["errors"] == ["/batch: is of another instance than two"]


async def test_all_of_them_replay_one_after_the_other(client: httpx2.AsyncClient, two: Two, project: str) -> None:
    replayed = (await client.post(f"{PATH}/replay")).json()
    assert replayed == {"replayed": {"batches": 4, "records": 60}, "instances": BOTH}
    two.one.fault = QueueFull("The disk hangs.", seconds=1)
    partly = (await client.post(f"{PATH}/replay")).json()
    assert partly["replayed"] == {"batches": 2, "records": 30}
    assert partly["instances"][0] == {"instance": "one", "problem": "The disk hangs."}
    events = (await client.get(f"/v1/audit-events?project={project}")).json()["events"]
    assert sum(one["action"] == "replayed" for one in events) == 4


async def test_a_test_is_told_of_one_that_could_not_deliver(
    client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = (await client.post(f"{PATH}/test")).json()
    assert (answer["test"]["instance"], answer["instances"]) == ("one", BOTH)
    tested = delivering.TESTED | {"delivered": False}
    monkeypatch.setattr(delivering, "TESTED", tested)
    assert (await client.post(f"{PATH}/test")).json()["test"]["delivered"] is False


@pytest.mark.parametrize("role", [Role.VIEWER, Role.USER])
async def test_permissions_are_the_callers_on_each_of_them(two: Two, project: str, role: Role) -> None:
    async with connect(two.services, key=await make_key(two.services, role, project=project)) as client:
        answer = await client.get(PATH)
        assert (answer.status_code, delivering.ANSWERED in answer.text) == (200, False)
        assert (await client.post(f"{PATH}/replay?instance=two")).status_code == 403
    assert two.two.done == []


async def test_on_one_machine_there_is_none_to_choose(services: Services, project: str) -> None:
    alone = dataclasses.replace(services, deliveries=Kept(known={"siem"}))
    async with connect(alone, project=project) as client:
        assert (await client.get(PATH)).json().keys() == {"delivery"}
        assert (await client.get(f"{PATH}?instance=one")).status_code == 404
