"""Suspending and resuming: what a body may say, who may, when it ends by itself, and what a user may do meanwhile."""

import asyncio
import json
from typing import Any
from unittest.mock import ANY

import httpx2
import pytest

from api import repositories
from api.calls import Services
from reconciler.model.principals import Role
from reconciler.store.contract import StoreFault
from tests.api import parts
from tests.api.conftest import Follow, connect, make_key, until
from tests.api.parts import destination
from tests.api.test_nouns import NO_REPOSITORY
from tests.repositories import Repository

pytestmark = pytest.mark.anyio

REASON = "the edge drops logs"
WHY = f"/reason: must be one line of 1 to {repositories.LONGEST_REASON} characters that begins with no space"
WHEN = "/expiry: must be a duration such as 30m or 2h, or an instant with a zone such as 2026-11-21T08:00:00Z"
AHEAD = "/expiry: must be in the future, and at most a year away"


@pytest.fixture
async def repository(follow: Follow, source: Repository, project: str) -> str:
    """A watched repository that owns the Destination `a`; it polls all the time."""
    source.write("a.json", json.dumps(destination("a")))
    source.commit()
    run = await follow(project, source, project=project, interval=0.01)
    assert run["counts"] == {"created": 1}
    return f"/v1/repositories/{project}"


async def shown(client: httpx2.AsyncClient, path: str) -> dict[str, Any]:
    return dict((await client.get(path)).json()["repository"])


@pytest.mark.parametrize(
    ("body", "errors"),
    [
        (b"", ["The body must be an object."]),
        (b"[]", ["The body must be an object."]),
        (b'{"reason": "x"', ["body:1:15: is not valid JSON: expecting ',' delimiter here"]),
        (b'{"reason": "x", "reason": "y"}', ["body:1:17: the key `reason` is there twice; remove one"]),
        (b"{}", ["/reason: is required"]),
        (
            b'{"reason": 7, "expiry": 7, "a/b": 1}',
            ["/a~1b: unknown key; only `reason` and `expiry` are allowed", "/reason: must be a string", WHEN],
        ),
        (b'{"reason": ""}', [WHY]),
        (b'{"reason": " x"}', [WHY]),
        (b'{"reason": "two\\nlines"}', [WHY]),
        (b'{"reason": "one line\\n"}', [WHY]),
        (b'{"reason": "two\\u2028lines"}', [WHY]),
        (b'{"reason": "%b"}' % (b"x" * 501), [WHY]),
        (b'{"reason": "x", "expiry": null}', [WHEN]),
        (b'{"reason": "x", "expiry": "2d"}', [WHEN]),
        (b'{"reason": "x", "expiry": "0s"}', [WHEN]),
        (b'{"reason": "x", "expiry": "8785h"}', ["/expiry: must be in the future, and at most a year away"]),
        (b'{"reason": "x", "expiry": "2026-11-21T08:00:00"}', [WHEN]),
        (b'{"reason": "x", "expiry": "2026-11-31T08:00:00Z"}', [WHEN]),
        (b'{"reason": "x", "expiry": "2026-11-21T08:00:00+25:00"}', [WHEN]),
        (b'{"reason": "x", "expiry": "%b"}' % parts.AT.encode(), [AHEAD]),
        (b'{"reason": "x", "expiry": "9999-12-31T23:59:59-23:59"}', [AHEAD]),
        (b'{"reason": "x", "expiry": "0001-01-01T00:00:00+23:59"}', [AHEAD]),
    ],
)
async def test_a_body_that_is_not_as_documented_is_400_with_every_problem(
    client: httpx2.AsyncClient, repository: str, body: bytes, errors: list[str]
) -> None:
    answer = await client.post(f"{repository}/suspend", content=body)
    assert (answer.status_code, answer.json()) == (400, {"errors": errors, "codes": ANY})
    assert (await shown(client, repository))["state"] == "ready"


@pytest.mark.parametrize(
    ("expiry", "until"),
    [
        ("250ms", "2026-11-21T06:12:00.373Z"),
        ("2h", "2026-11-21T08:12:00.123Z"),
        ("8784h", "2027-11-22T06:12:00.123Z"),
        ("2026-11-21T07:12:00.1239Z", "2026-11-21T07:12:00.123Z"),
        ("2026-11-21T08:12:00+01:00", "2026-11-21T07:12:00.000Z"),
    ],
)
async def test_an_expiry_is_a_duration_or_an_instant(
    client: httpx2.AsyncClient, repository: str, expiry: str, until: str
) -> None:
    answer = await client.post(f"{repository}/suspend", json={"reason": "x" * 500, "expiry": expiry})
    suspension = {"reason": "x" * 500, "actor": "key:SERVICE_API_KEY", "since": parts.AT, "until": until}
    assert (answer.status_code, answer.json()["repository"]["suspension"]) == (200, suspension)


@pytest.mark.parametrize("body", [b"", b"{}"])
async def test_a_resume_takes_no_body_or_an_empty_object(
    client: httpx2.AsyncClient, repository: str, body: bytes
) -> None:
    answer = await client.post(f"{repository}/resume", content=body)
    assert (answer.status_code, list(answer.json())) == (202, ["run"])


@pytest.mark.parametrize(
    ("body", "errors"),
    [
        (b'{"reason": "x", "b": 1}', ["/reason: unknown key; there are none", "/b: unknown key; there are none"]),
        (b"null", ["The body must be an object."]),
    ],
)
async def test_a_resume_with_more_is_400(
    client: httpx2.AsyncClient, repository: str, body: bytes, errors: list[str]
) -> None:
    answer = await client.post(f"{repository}/resume", content=body)
    assert (answer.status_code, answer.json()) == (400, {"errors": errors, "codes": ANY})


@pytest.mark.parametrize("verb", ["suspend", "resume"])
async def test_a_body_over_the_limit_is_413(client: httpx2.AsyncClient, repository: str, verb: str) -> None:
    answer = await client.post(f"{repository}/{verb}", content=b" " * 8_193)
    sentence = "The body is over 8192 bytes."
    assert (answer.status_code, answer.json()) == (413, {"errors": [sentence], "codes": ANY})


@pytest.mark.parametrize("verb", ["suspend", "resume"])
async def test_an_unknown_repository_is_404_and_a_parameter_400(
    client: httpx2.AsyncClient, repository: str, verb: str
) -> None:
    body = {"reason": REASON} if verb == "suspend" else {}
    answer = await client.post(f"/v1/repositories/none/{verb}", json=body)
    assert (answer.status_code, answer.json()) == (404, NO_REPOSITORY)
    answer = await client.post(f"{repository}/{verb}?dryRun=true", json=body)
    sentence = "The query parameter `dryRun` is not known here: there are none."
    assert (answer.status_code, answer.json()) == (400, {"errors": [sentence], "codes": ANY})


@pytest.mark.parametrize("role", [Role.USER, Role.VIEWER])
@pytest.mark.parametrize("verb", ["suspend", "resume"])
async def test_only_an_admin_may(services: Services, project: str, repository: str, verb: str, role: Role) -> None:
    async with connect(services, key=await make_key(services, role, project=project)) as other:
        answer = await other.post(f"{repository}/{verb}", json={"reason": REASON} if verb == "suspend" else {})
    assert answer.status_code == 403
    assert answer.json()["errors"][0].endswith(" may not do this; it takes the role admin.")
    async with connect(services) as admin:
        assert (await shown(admin, repository))["state"] == "ready"


async def test_a_user_may_not_write_what_a_suspended_repository_owns(
    client: httpx2.AsyncClient, services: Services, repository: str, project: str
) -> None:
    await client.post(f"{repository}/suspend", json={"reason": REASON})
    body = {"resources": [destination("a", displayName="Mine")]}
    async with connect(services, key=await make_key(services, Role.USER, project=project)) as other:
        (update,) = (await other.post("/v1/apply", json=body)).json()["updates"]
        answer = await other.delete("/v1/resources/Destination/a")
    assert update["status"] == "forbidden"
    sentence = f"Destination a: forbidden: managed by the repository {project}; change it there"
    assert (answer.status_code, answer.json()) == (403, {"errors": [sentence], "codes": ANY})


async def test_a_dry_run_says_what_an_admin_could_do_and_stores_nothing(
    client: httpx2.AsyncClient, repository: str
) -> None:
    await client.post(f"{repository}/suspend", json={"reason": REASON})
    body = {"resources": [destination("a", displayName="Mine")]}
    (update,) = (await client.post("/v1/apply?dryRun=true", json=body)).json()["updates"]
    (gone,) = (await client.post("/v1/delete?dryRun=true", json=body["resources"])).json()["updates"]
    assert (update["status"], gone["status"]) == ("configured", "deleted")
    assert update["resource"]["status"]["drift"]["path"] == "a.json"
    assert (await shown(client, repository))["drift"] == 0


async def test_it_ends_by_itself_at_its_expiry_and_not_before(
    client: httpx2.AsyncClient, repository: str, follow: Follow, project: str
) -> None:
    await client.post(f"{repository}/suspend", json={"reason": REASON, "expiry": "2h"})
    body = {"resources": [destination("a", displayName="Mine")]}
    await client.post("/v1/apply", json=body)
    clock = follow.everything.clock
    clock.pass_(hours=1, minutes=59, seconds=59, milliseconds=999)
    await asyncio.sleep(0.1)  # several polls
    answer = await client.post(f"{repository}/reconcile")
    assert (answer.status_code, (await shown(client, repository))["state"]) == (409, "suspended")
    clock.pass_(milliseconds=1)

    async def resumed() -> list[dict[str, Any]]:
        runs = (await client.get(f"/v1/runs?repository={project}")).json()["runs"]
        return [run for run in runs if run["phase"] == "finished" and run["counts"] == {"configured": 1}]

    [run] = await until(resumed)
    found = await shown(client, repository)
    assert (found["state"], found["suspension"]) == ("ready", None)
    assert run["actor"] == "system"
    # Another run may begin a moment before, and find that the time is over.
    assert run["trigger"] in {"resume", "poll", "watch"}


async def test_from_its_expiry_on_nobody_may_write_even_when_it_is_not_noticed_yet(
    client: httpx2.AsyncClient, follow: Follow, source: Repository, project: str
) -> None:
    source.write("a.json", json.dumps(destination("a")))
    source.commit()
    await follow(project, source, project=project)  # polls once a day, and time stands still for its timer
    await client.post(f"/v1/repositories/{project}/suspend", json={"reason": REASON, "expiry": "2h"})
    follow.everything.clock.pass_(hours=2)
    body = {"resources": [destination("a", displayName="Mine")]}
    (update,) = (await client.post("/v1/apply", json=body)).json()["updates"]
    assert update["status"] == "forbidden"


async def test_what_cannot_be_stored_has_not_happened_and_the_repository_goes_on(
    client: httpx2.AsyncClient,
    repository: str,
    source: Repository,
    follow: Follow,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def note(_: object, **__: object) -> None:
        raise StoreFault("The store could not be written (disk full); nothing was changed.")

    with monkeypatch.context() as broken:
        broken.setattr(follow.everything.services.applier, "store_record", note)
        answer = await client.post(f"{repository}/suspend", json={"reason": REASON})
    assert answer.status_code == 503
    source.write("b.json", json.dumps(destination("b")))
    commit = source.commit()

    async def read() -> bool:
        return bool((await shown(client, repository))["commit"] == commit)

    assert await until(read)
    found = await shown(client, repository)
    assert (found["state"], found["suspension"]) == ("ready", None)
