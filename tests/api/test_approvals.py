"""A held change of a repository is shown, and released by an admin who names the commit."""

import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any
from unittest.mock import ANY

import httpx2
import pytest

from api.calls import Services
from reconciler.model.principals import Role
from reconciler.reconcile import interventions
from reconciler.store.contract import Moved
from reconciler.store.records import AuditRow, Record
from tests import stores
from tests.api.conftest import Follow, connect, make_key, until
from tests.api.parts import AT, SERVICE, Parts, destination
from tests.repositories import Repository

pytestmark = pytest.mark.anyio

NAMES = [f"n{number}" for number in range(8)]
OTHER = "f" * 40


class Held:
    """A repository of eight resources, and what one does with it."""

    def __init__(self, client: httpx2.AsyncClient, follow: Follow, source: Repository, *, name: str) -> None:
        self.client, self.follow, self.source, self.name = client, follow, source, name

    async def begin(self, **settings: Any) -> None:
        for name in NAMES:
            self.write(name)
        self.source.commit()
        await self.follow(self.name, self.source, project=self.name, **settings)

    def write(self, name: str) -> None:
        self.source.write(f"{name}.json", json.dumps(destination(name)))

    async def remove(self, *names: str) -> dict[str, Any]:
        """Commit without these, and wait for the run."""
        for name in names:
            self.source.remove(f"{name}.json")
        return await self.commit()

    async def commit(self) -> dict[str, Any]:
        """Commit what was written; the run that changed the most by it, be it the file event's or the one asked for."""
        commit = self.source.commit()
        await self.reconcile()
        found = (await self.client.get(f"/v1/runs?repository={self.name}")).json()["runs"]
        return max((run for run in found if run["commit"] == commit), key=lambda run: changed(run["counts"]))

    async def reconcile(self) -> None:
        """Ask for a run, and wait until it shows."""
        answer = await self.client.post(f"/v1/repositories/{self.name}/reconcile")
        run = await self.follow.finished(answer.json()["run"])

        async def seen() -> bool:
            return bool((await self.shown())["head"] == run["commit"])

        await until(seen)

    async def shown(self) -> dict[str, Any]:
        found: dict[str, Any] = (await self.client.get(f"/v1/repositories/{self.name}")).json()["repository"]
        return found

    async def names(self) -> list[str]:
        found = (await self.client.get("/v1/resources/Destination")).json()["resources"]
        return [one["metadata"]["name"] for one in found]

    async def ask(self, body: object) -> httpx2.Response:
        return await self.client.post(f"/v1/repositories/{self.name}/approve", json=body)

    def intervention(self) -> AuditRow:
        watched = self.follow.wanted[self.name]
        return interventions.intervention(watched, actor=SERVICE.name, at=AT, request="a request")

    @contextlib.asynccontextmanager
    async def approved_asleep(self) -> AsyncIterator[None]:
        """Approve the held change, and no run looks at it before the context ends."""
        parts = self.follow.everything
        await parts.repositories.stop()
        store, applier = parts.services.store, parts.services.applier
        await interventions.approve(self.intervention(), commit=self.source.head(), store=store, applier=applier)
        yield
        await parts.repositories.start(self.follow.wanted.values())

    async def approve(self, commit: str | None = None) -> dict[str, Any]:
        answer = await self.ask({"commit": commit or self.source.head()})
        assert (answer.status_code, list(answer.json())) == (202, ["run"])
        return await self.follow.finished(answer.json()["run"])


@pytest.fixture
def held(client: httpx2.AsyncClient, follow: Follow, source: Repository, project: str) -> Held:
    return Held(client, follow, source, name=project)


def changed(counts: dict[str, int]) -> int:
    return sum(number for status, number in counts.items() if status != "unchanged")


def named(*names: str) -> list[dict[str, str]]:
    return [{"kind": "Destination", "name": name} for name in names]


def audited(services: Services, name: str) -> Sequence[tuple[Any, ...]]:
    with stores.sql(stores.state_of(services.store)) as store:
        return store.execute(
            "select at, actor, action, kind, version_before, version_after, run, detail from audit "
            "where kind = 'Repository' and action = 'approved' and name = ?",
            name,
        )


async def test_what_is_held_is_shown_and_goes_when_it_is_approved(held: Held, services: Services) -> None:
    await held.begin()
    assert (await held.shown())["held"] is None
    run = await held.remove("n3", "n0", "n7", "n5")
    assert (run["outcome"], run["counts"]) == ("partial", {})
    head = held.source.head()
    shown = await held.shown()
    resources = named("n0", "n3", "n5", "n7")
    assert shown["held"] == {"commit": head, "count": 4, "approvable": True, "resources": resources}
    assert (shown["state"], shown["message"]) == ("prune-held", run["message"])
    run = await held.approve()
    assert (run["trigger"], run["actor"]) == ("request", "key:SERVICE_API_KEY")
    assert (run["outcome"], run["counts"], run["message"]) == ("succeeded", {"deleted": 4}, None)
    shown = await held.shown()
    assert (shown["state"], shown["held"]) == ("ready", None)
    assert await held.names() == ["n1", "n2", "n4", "n6"]
    who = "key:SERVICE_API_KEY"
    detail = f"4 held at {head}"
    assert audited(services, held.name) == [(AT, who, "approved", "Repository", None, None, None, detail)]


async def test_an_approval_covers_later_heads_that_delete_no_more(held: Held) -> None:
    await held.begin()
    await held.remove("n0", "n1", "n2", "n3")
    async with held.approved_asleep():
        held.source.write("bad.yaml", "a: [")  # what cannot be read holds whatever is approved
        held.source.commit()
    await held.reconcile()
    assert ((await held.shown())["state"], await held.names()) == ("prune-held", NAMES)
    held.write("n0")
    held.source.remove("bad.yaml")
    assert (await held.commit())["counts"]["deleted"] == 3
    assert await held.names() == ["n0", "n4", "n5", "n6", "n7"]


async def test_an_approval_covers_no_head_that_deletes_more(held: Held) -> None:
    await held.begin()
    await held.remove("n0", "n1", "n2", "n3")
    async with held.approved_asleep():
        held.source.remove("n4.json")
        held.source.commit()
    await held.reconcile()
    shown = await held.shown()
    assert (shown["held"]["commit"], shown["held"]["count"]) == (held.source.head(), 5)
    assert await held.names() == NAMES
    assert (await held.approve())["counts"] == {"deleted": 5}


async def test_an_approval_ends_with_the_first_head_that_holds_nothing(held: Held) -> None:
    await held.begin()
    gone = ("n0", "n1", "n2", "n3")
    await held.remove(*gone)
    await held.approve()
    for name in gone:
        held.write(name)
    await held.commit()
    assert (await held.remove(*gone))["counts"] == {}
    assert (await held.shown())["held"]["count"] == 4


async def test_what_is_approved_does_not_count_for_the_budget(held: Held) -> None:
    await held.begin()
    await held.remove("n0", "n1", "n2", "n3")
    await held.approve()
    assert (await held.remove("n4", "n5"))["counts"] == {"deleted": 2}
    run = await held.remove("n7", "n6")
    assert (await held.shown())["state"] == "empty"
    assert run["counts"] == {}


async def test_the_budget_is_for_any_24_hours(held: Held, everything: Parts) -> None:
    await held.begin(interval=0.05)
    await held.remove("n0", "n1")
    assert await held.names() == NAMES[2:]
    everything.clock.pass_(hours=23)
    run = await held.remove("n2", "n3")
    assert run["message"] == (
        "Nothing is deleted: 2 of 8 resources would go, after 2 within 24 hours, more than 25 percent "
        "(Destination n2, Destination n3); restore them, or release this with `reconciler approve`."
    )
    assert (await held.shown())["held"]["count"] == 2

    async def runs() -> list[str]:
        found = (await held.client.get(f"/v1/runs?repository={held.name}")).json()["runs"]
        return [one["id"] for one in found]

    before = await runs()
    everything.clock.pass_(minutes=59)
    for _ in range(2):  # looks that find it held still, which tell nothing new
        await held.reconcile()
    assert len(await runs()) == len(before) + 2  # those that were asked for
    everything.clock.pass_(minutes=2)

    async def gone() -> bool:
        return bool((await held.shown())["state"] == "ready")

    await until(gone)  # by itself, at a poll
    [newest, *_] = (await held.client.get(f"/v1/runs?repository={held.name}")).json()["runs"]
    assert (newest["trigger"], newest["counts"]) == ("poll", {"deleted": 2})
    assert await held.names() == NAMES[4:]


async def test_what_a_label_keeps_is_told_and_is_no_hold(held: Held) -> None:
    held.source.write("kept.json", json.dumps(destination("kept", labels={"service/prune": "disabled"})))
    await held.begin()
    run = await held.remove("kept", "n0")
    note = "Kept by the label `service/prune`, though the head does not hold it: Destination kept."
    assert (run["outcome"], run["counts"], run["message"]) == ("succeeded", {"deleted": 1}, note)
    shown = await held.shown()
    assert (shown["state"], shown["message"], shown["held"]) == ("ready", note, None)
    held.write("n0")
    assert (await held.commit())["message"] == note  # as long as it is so
    held.source.write("kept.json", json.dumps(destination("kept")))
    run = await held.commit()
    assert (run["counts"]["configured"], run["message"]) == (1, None)
    assert (await held.remove("kept"))["counts"] == {"deleted": 1}


async def test_nothing_is_approved_where_nothing_is_held(held: Held) -> None:
    await held.begin()
    nothing = await held.ask({"commit": held.source.head()})
    sentence = f"{held.name} holds nothing, so there is nothing to approve."
    assert (nothing.status_code, nothing.json()) == (409, {"errors": [sentence], "codes": ANY})
    before = held.source.head()
    await held.remove("n0", "n1", "n2", "n3")
    elsewhere = await held.ask({"commit": before})
    sentence = (
        f"{held.name} holds nothing at the commit {before[:12]}; what it holds, it holds at its head "
        f"{held.source.head()}."
    )
    assert (elsewhere.status_code, elsewhere.json()) == (409, {"errors": [sentence], "codes": ANY})
    assert await held.names() == NAMES


async def test_what_a_suspended_repository_holds_is_approved_after_it(held: Held) -> None:
    await held.begin()
    await held.remove("n0", "n1", "n2", "n3")
    await held.client.post(f"/v1/repositories/{held.name}/suspend", json={"reason": "a bad night"})
    refused = await held.ask({"commit": held.source.head()})
    assert refused.status_code == 409
    assert refused.json()["errors"][0].startswith(f"There is no run of {held.name} while it is suspended. ")
    assert (await held.shown())["held"]["count"] == 4
    resumed = await held.client.post(f"/v1/repositories/{held.name}/resume")
    await held.follow.finished(resumed.json()["run"])
    await held.approve()
    assert await held.names() == NAMES[4:]


async def test_a_file_is_mended_and_not_approved(held: Held) -> None:
    await held.begin()
    held.source.write("bad.yaml", "a: [")
    await held.remove("n0")
    shown = await held.shown()
    head = held.source.head()
    assert shown["held"] == {"commit": head, "count": 1, "approvable": False, "resources": named("n0")}
    refused = await held.ask({"commit": head})
    sentence = f"What {held.name} holds because of a file cannot be approved; mend the file: {shown['message']}"
    assert (refused.status_code, refused.json()) == (409, {"errors": [sentence], "codes": ANY})
    assert "bad.yaml:" in sentence


@pytest.mark.parametrize(
    ("body", "status", "lines"),
    [
        (b"", 400, ["The body must be an object."]),
        (b"\xff", 400, ["body:1:1: is not UTF-8 text (byte 0xFF); save it as UTF-8"]),
        (b"[" * 1_000, 400, ["body:1:103: is nested deeper than 102 levels; flatten it"]),
        (b"[]", 400, ["The body must be an object."]),
        (b"{}", 400, ["/commit: is required"]),
        (b'{"commit": 7}', 400, ["/commit: must be a string"]),
        (
            b'{"commit": "4b825dc", "a/b": 1}',
            400,
            [
                "/a~1b: unknown key; only `commit` is allowed",
                "/commit: must be a commit's full id, 40 hexadecimal digits",
            ],
        ),
        (b" " * 8_193, 413, ["The body is over 8192 bytes."]),
    ],
)
async def test_a_malformed_approval_is_refused(held: Held, body: bytes, status: int, lines: list[str]) -> None:
    await held.begin()
    answer = await held.client.post(f"/v1/repositories/{held.name}/approve", content=body)
    assert (answer.status_code, answer.json()) == (status, {"errors": lines, "codes": ANY})


async def test_an_approval_of_nothing_is_404_and_takes_no_parameters(held: Held, client: httpx2.AsyncClient) -> None:
    await held.begin()
    body = {"commit": OTHER}
    assert (await client.post("/v1/repositories/none/approve", json=body)).status_code == 404
    assert (await client.post(f"/v1/repositories/{held.name}/approve?dryRun=true", json=body)).status_code == 400


async def test_an_approval_that_is_overtaken_changes_nothing(held: Held, services: Services) -> None:
    await held.begin()
    await held.remove("n0", "n1", "n2", "n3")

    class Overtaken:
        """In place of the applier: something else is stored before."""

        async def store_record(self, record: Record, **options: Any) -> None:
            raise Moved(f"Something else is held by now than for {record}, {options}.")

    applier: Any = Overtaken()
    head, by = held.source.head(), held.intervention()
    with pytest.raises(Moved):
        await interventions.approve(by, commit=head, store=services.store, applier=applier)
    assert audited(services, held.name) == []


@pytest.mark.parametrize("role", [Role.USER, Role.VIEWER])
async def test_only_an_admin_approves(held: Held, services: Services, project: str, role: Role) -> None:
    await held.begin()

    async def body() -> AsyncIterator[bytes]:
        raise AssertionError("the body of somebody who may not is not read")
        yield b""

    async with connect(services, key=await make_key(services, role, project=project)) as other:
        answer = await other.post(f"/v1/repositories/{held.name}/approve", content=body())
    assert answer.status_code == 403
    assert answer.json()["errors"][0].endswith(" may not do this; it takes the role admin.")


async def test_what_is_held_is_known_after_a_restart(held: Held, everything: Parts) -> None:
    await held.begin()
    await held.remove("n0", "n1", "n2", "n3")
    shown = await held.shown()
    await everything.repositories.stop()
    await everything.repositories.start(held.follow.wanted.values())
    # Its last run is the one of the greatest id, and all of these are of one moment. Facts of commits are read anew.
    same = {name: shown[name] for name in ("lastRun", "applied", "seen")}
    assert {**await held.shown(), **same} == shown
    await held.approve()  # the run that the start made may be the one that deletes
    assert await held.names() == NAMES[4:]
