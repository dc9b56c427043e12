"""Every answer has a revision, and a request that sends one back never gets an older state."""

import asyncio
from typing import Any

import httpx2
import pytest

from api.calls import Services
from tests.api.conftest import connect
from tests.api.parts import Parts, destination

pytestmark = pytest.mark.anyio

UNKNOWN = 10**15


def revision(answer: httpx2.Response) -> int:
    return int(answer.headers["x-revision"])


async def apply(client: httpx2.AsyncClient, *resources: dict[str, Any]) -> httpx2.Response:
    answer = await client.post("/v1/apply", json={"resources": [*resources]})
    assert answer.status_code == 202
    return answer


async def test_a_write_has_the_revision_of_its_commit_and_a_read_no_older_one(
    client: httpx2.AsyncClient, services: Services
) -> None:
    before = revision(await client.get("/v1/version"))
    written = revision(await apply(client, destination("one")))
    assert (written, written > before) == (await services.store.revision(), True)
    assert revision(await client.get("/v1/resources/Destination/one")) == written
    assert revision(await apply(client, destination("one"))) == written  # unchanged


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/livez", 200),
        ("GET", "/readyz", 200),
        ("GET", "/v1/resources/Destination/none", 404),
        ("GET", "/v1/nothing", 404),
        ("POST", "/v1/apply", 400),
        ("PUT", "/v1/apply", 405),
        ("GET", "/v1/resources/Destination", 200),
        ("GET", "/sign-in", 200),
    ],
)
async def test_every_answer_has_one(services: Services, method: str, path: str, status: int) -> None:
    async with connect(services, project="default") as client:
        answer = await client.request(method, path)
    assert (answer.status_code, revision(answer)) == (status, services.store.known_revision)


async def test_a_refusal_has_one_too(services: Services) -> None:
    async with connect(services, key="rck_wrong") as client:
        answer = await client.get("/v1/resources/Destination")
    assert (answer.status_code, revision(answer)) == (401, services.store.known_revision)


async def test_a_known_revision_changes_nothing(client: httpx2.AsyncClient) -> None:
    written = revision(await apply(client, destination("one")))
    for known in (0, written):
        answer = await client.get("/v1/resources/Destination/one", headers={"X-Revision": str(known)})
        assert answer.status_code == 200


async def test_an_unknown_revision_may_be_known_later(client: httpx2.AsyncClient) -> None:
    answer = await client.get("/v1/resources/Destination", headers={"X-Revision": str(UNKNOWN)})
    assert (answer.status_code, answer.json()["codes"]) == (503, ["revision-unknown"])
    assert int(answer.headers["retry-after"]) == 1


@pytest.mark.parametrize("value", ["", "-1", "one", "1.0", "0x1", "1" * 19, "1,2"])
async def test_what_is_no_number_is_refused(client: httpx2.AsyncClient, value: str) -> None:
    answer = await client.get("/v1/resources/Destination", headers={"X-Revision": value})
    assert (answer.status_code, answer.json()["codes"]) == (400, ["invalid-request"])


async def test_one_that_is_said_twice_is_refused(client: httpx2.AsyncClient) -> None:
    twice = [("X-Revision", "0"), ("X-Revision", "0")]
    assert (await client.get("/v1/resources/Destination", headers=twice)).status_code == 400


async def test_a_stranger_learns_nothing_by_it(services: Services) -> None:
    async with connect(services, key="") as client:
        answer = await client.get("/v1/resources/Destination", headers={"X-Revision": str(UNKNOWN)})
    assert answer.status_code == 401


async def test_a_reader_beside_writers_never_sees_a_state_after_its_revision(everything: Parts, project: str) -> None:
    """The version that a commit stored is known with its revision; a read of it has that revision at least."""
    revisions: dict[int, int] = {}
    seen: list[tuple[int, int]] = []
    is_over = False

    async with connect(everything.services, project=project) as client:

        async def write() -> None:
            for number in range(25):
                answer = await apply(client, destination("one", additionalInfo={"message": str(number)}))
                revisions[number + 1] = revision(answer)

        async def read() -> None:
            while not is_over:
                answer = await client.get("/v1/resources/Destination/one")
                if answer.status_code == 200:
                    seen.append((answer.json()["resource"]["metadata"]["version"], revision(answer)))
                await asyncio.sleep(0)

        reading = asyncio.create_task(read())
        await write()
        is_over = True
        await reading
    assert seen
    assert all(at >= revisions[version] for version, at in seen)
