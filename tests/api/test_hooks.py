"""Deliveries of forges: who may hint at a repository, what everybody else learns, and what the log says."""

import asyncio
import dataclasses
import hmac
import itertools
import json
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest

import api.app
from api import repositories
from api.calls import Services
from reconciler.git import hooks
from reconciler.git.hooks import HookMemory, SignatureCheck
from reconciler.model.principals import LOCAL
from reconciler.reconcile.loop import Loop
from reconciler.reconcile.runs import Run, Trigger
from tests import forges
from tests.api import callers, parts
from tests.api.conftest import Follow, connect, until
from tests.forges import BODY, SECRET, SIGNING_TOKEN, Delivery
from tests.repositories import Repository

pytestmark = pytest.mark.anyio

REFUSED = (
    404,
    b'{"errors":["There is no such hook, or this delivery is not signed with its secret; '
    b'the service\'s log says which."],"codes":["not-found"]}',
)
ACCEPTED = (202, b"")
NOW = int(parts.START.timestamp())
SIXTEEN_MIB = 16 * 1024 * 1024
_numbers = itertools.count(1)


class Hinted:
    """The watched repositories, which count the hints."""

    def __init__(self, services: Services) -> None:
        self.real = services.repositories
        self.hints: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    async def hint(self, name: str) -> None:
        self.hints.append(name)
        await self.real.hint(name)


class Scene:
    """A repository with a hook, one without, and the application with nothing remembered."""

    def __init__(self, services: Services, *, name: str, without: str, secret: Path) -> None:
        self.name, self.without, self.secret = name, without, secret
        self.hinted = Hinted(services)
        self.services = dataclasses.replace(
            services, repositories=cast("Any", self.hinted), hooks=HookMemory(), max_body_bytes=SIXTEEN_MIB
        )
        self.app = api.app.build(self.services)

    async def full(self, delivery: Delivery, *, to: str | None = None, method: str = "POST") -> callers.Answer:
        """The answer, its headers included."""
        path = f"/hooks/{self.name if to is None else to}"
        answer = await callers.ask(self.app, method, path, headers=[*delivery.headers.items()], body=delivery.body)
        await asyncio.sleep(0)  # what is logged behind an answer
        return answer

    async def post(self, delivery: Delivery, *, to: str | None = None) -> tuple[int, bytes]:
        """The answer."""
        answer = await self.full(delivery, to=to)
        return answer.status, answer.body


@pytest.fixture
async def scene(follow: Follow, services: Services, tmp_path: Path) -> Scene:
    number = next(_numbers)
    secret = tmp_path / "secret"
    secret.write_bytes(SECRET + b"\n")
    source = Repository.init(tmp_path / "source")
    source.commit()
    name, without = f"hooked-{number}", f"plain-{number}"
    await follow(name, source, project=parts.DEFAULT, hook={"secret_file": secret})
    await follow(without, source, project=parts.DEFAULT)
    return Scene(services, name=name, without=without, secret=secret)


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Return what was said of deliveries since the last call."""

    def lines() -> list[str]:
        found = [record.getMessage() for record in caplog.records if record.name == repositories.__name__]
        caplog.clear()
        return found

    caplog.set_level(logging.WARNING)
    return lines


@pytest.mark.parametrize("forge", forges.every(NOW))
async def test_a_delivery_of_each_forge_is_a_hint_once(scene: Scene, forge: str) -> None:
    secret, make = forges.every(NOW)[forge]
    scene.secret.write_bytes(secret)
    assert [await scene.post(make(identity)) for identity in ("1", "1", "2")] == [ACCEPTED] * 3
    assert scene.hinted.hints == [scene.name] * 2


async def test_a_body_that_came_before_is_no_hint_under_another_id(scene: Scene) -> None:
    for number in range(20):
        assert await scene.post(forges.github().but(x_github_delivery=str(number))) == ACCEPTED
    assert scene.hinted.hints == [scene.name]


async def test_a_hint_makes_a_repository_look_at_once_that_waits_for_a_day(
    follow: Follow, everything: parts.Parts, services: Services, tmp_path: Path
) -> None:
    name, secret, source = f"late-{next(_numbers)}", tmp_path / "secret", tmp_path / "source"
    secret.write_bytes(SECRET)
    run = await follow(name, Repository(source), project=parts.DEFAULT, hook={"secret_file": secret})
    assert (run["outcome"], run["trigger"]) == ("failed", "start")  # there is no repository yet
    everything.clock.pass_(seconds=1)
    made = Repository.init(source)
    made.write("a.json", json.dumps(parts.destination("a")))
    commit = made.commit()
    scene = Scene(services, name=name, without="", secret=secret)
    assert await scene.post(forges.github()) == ACCEPTED

    async def newest() -> dict[str, Any] | None:
        found = await follow.run_of(name)
        return found if found["commit"] == commit else None

    run = await until(newest)
    assert (run["trigger"], run["actor"], run["outcome"]) == ("hook", "system", "succeeded")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """The runs that anything asks for from now on, as the repository's loop gives them."""
    found: list[Run] = []
    ask = Loop.ask

    def recorded(loop: Loop, trigger: Trigger, *, actor: str) -> Run:
        found.append(ask(loop, trigger, actor=actor))
        return found[-1]

    monkeypatch.setattr(Loop, "ask", recorded)
    return found


async def test_many_hints_become_one_look_more(scene: Scene, everything: parts.Parts, asked: list[Run]) -> None:
    await until(partial(_rests, everything, asked))
    asked.clear()
    for number in range(100):
        assert await scene.post(forges.github(identity=str(number))) == ACCEPTED
    assert {run.trigger for run in asked} <= {"hook", "watch"}
    assert len({run.id for run in asked}) < len(asked)
    assert len(scene.hinted.hints) == 100


async def test_a_suspended_repository_is_left_alone(
    scene: Scene, everything: parts.Parts, services: Services, asked: list[Run]
) -> None:
    async with connect(services) as client:
        answer = await client.post(f"/v1/repositories/{scene.name}/suspend", json={"reason": "an incident"})
        assert answer.status_code == 200
    await until(partial(_rests, everything, asked))
    asked.clear()
    assert await scene.post(forges.github()) == ACCEPTED
    assert asked == []


async def _rests(everything: parts.Parts, asked: list[Run]) -> bool:
    return all(everything.repositories.run(run.id) is None for run in asked)


async def test_a_ping_is_answered_and_looks_at_nothing(scene: Scene) -> None:
    assert await scene.post(forges.github(event="ping")) == ACCEPTED
    assert await scene.post(forges.github(b"another secret, also", event="ping")) == REFUSED
    assert scene.hinted.hints == []


def _refused() -> dict[str, Delivery]:
    other = b"canary-another-secret"
    return {
        "no signature": Delivery(BODY, {}),
        "another secret": forges.github(other),
        "the key that stands for none": forges.github(repositories.NO_KEY),
        "no key": forges.github(b""),
        "a body of one more byte": Delivery(BODY + b" ", forges.github().headers),
        "SHA-1 alone": forges.github().but(x_hub_signature_256=None),
        "another token": forges.gitlab(other),
        "a signing token of another secret": forges.gitlab_signed(at=NOW),
        "a key of the API": Delivery(BODY, {"Authorization": f"Bearer {parts.KEY}"}),
        "the secret in the wrong header": Delivery(BODY, {"Authorization": f"Bearer {SECRET.decode()}"}),
    }


async def test_nobody_else_learns_which_repositories_there_are(scene: Scene) -> None:
    names = (scene.name, scene.without, "unknown", "%2e")
    answers = {await scene.full(delivery, to=to) for delivery in _refused().values() for to in names}
    answers |= {await scene.full(forges.github(), to=to) for to in (scene.without, "unknown")}
    (answer,) = answers
    assert (answer.status, answer.body) == REFUSED
    assert scene.hinted.hints == []


async def test_the_same_work_is_done_for_every_repository(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def recording(place: Any, name: str) -> None:
        real = getattr(place, name)

        def call(*arguments: Any, **named: Any) -> Any:
            # Other threads open files as well, for the repositories.
            if place is not os or threading.current_thread().name.startswith("hook-secret"):
                done.append(name)
            return real(*arguments, **named)

        monkeypatch.setattr(place, name, call)

    recording(os, "open")
    recording(os, "fstat")
    recording(SignatureCheck, "update")
    recording(hmac, "compare_digest")
    work = {}
    for to in (scene.name, scene.without, "unknown"):
        for what in ("no signature", "another secret"):
            done.clear()
            path = f"/hooks/{to}"
            delivery = _refused()[what]
            await callers.ask(scene.app, "POST", path, headers=[*delivery.headers.items()], body=delivery.body)
            work[to, what] = tuple(done)
    assert set(work.values()) == {("open", "fstat", "update", *["compare_digest"] * 5)}


async def test_a_file_that_is_no_secret_refuses_everybody_alike_and_the_log_names_it(
    scene: Scene, logged: Callable[[], list[str]]
) -> None:
    scene.secret.unlink()
    assert await scene.post(forges.github(b"")) == REFUSED
    assert await scene.post(forges.github()) == REFUSED
    assert logged() == [
        f"A delivery from 192.0.2.1 to /hooks/{scene.name} was refused: {scene.secret} does not exist; "
        "write the webhook's secret into it."
    ]
    scene.secret.write_bytes(SECRET)
    assert await scene.post(forges.github()) == ACCEPTED


async def test_a_disk_that_hangs_stops_nobody(
    scene: Scene, logged: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging, real = threading.Event(), hooks.read_secret

    def read(path: Path) -> bytes:
        hanging.wait(10)
        return real(path)

    monkeypatch.setattr(hooks, "read_secret", read)
    monkeypatch.setattr(repositories, "READ_SECONDS", 0.05)
    try:
        names = [scene.name, scene.without, "unknown"] * 5
        assert await asyncio.gather(*(scene.post(forges.github(), to=name) for name in names)) == [REFUSED] * 15
        slow = f"{scene.secret} was not read within 0.05 seconds; look whether its disk hangs."
        assert any(slow in line for line in logged())
    finally:
        hanging.set()
    monkeypatch.setattr(repositories, "READ_SECONDS", 5.0)
    assert await scene.post(forges.github()) == ACCEPTED


async def test_a_new_secret_counts_from_the_next_delivery_on(scene: Scene) -> None:
    other = b"canary-a-new-secret"
    assert await scene.post(forges.gitea(identity="1")) == ACCEPTED
    scene.secret.write_bytes(other)
    assert await scene.post(forges.gitea(identity="2")) == REFUSED
    assert await scene.post(forges.gitea(other, identity="2")) == ACCEPTED


@pytest.mark.parametrize(
    ("delivery", "why"),
    [
        (Delivery(BODY, {}), "it has no signature; give the webhook the secret in `hook.secretFile`."),
        (
            forges.gitea(b"canary-another-secret"),
            "its signature is not made with the secret in `hook.secretFile`; give both sides the same one.",
        ),
        (
            forges.gitlab_signed(at=NOW - 301),
            "it was signed more than 5 minutes from now; set the clocks right.",
        ),
    ],
)
async def test_the_log_tells_the_operator_what_is_wrong(
    scene: Scene, logged: Callable[[], list[str]], delivery: Delivery, why: str
) -> None:
    if "webhook-id" in delivery.headers:
        scene.secret.write_bytes(SIGNING_TOKEN)
    assert await scene.post(delivery) == REFUSED
    assert logged() == [f"A delivery from 192.0.2.1 to /hooks/{scene.name} was refused: {why}"]


async def test_the_log_tells_of_no_hook_and_of_no_repository(scene: Scene, logged: Callable[[], list[str]]) -> None:
    said = "A delivery from 192.0.2.1 to /hooks/{} was refused: {}."
    assert await scene.post(forges.github(), to=scene.without) == REFUSED
    assert await scene.post(forges.github(), to="x" * 1_000) == REFUSED
    assert logged() == [
        said.format(scene.without, "`hook.secretFile` of this repository is not set"),
        said.format("x" * 63, "no repository of this name is watched"),
    ]


async def test_a_flood_fills_neither_the_log_nor_the_memory(scene: Scene, logged: Callable[[], list[str]]) -> None:
    for number in range(300):
        assert await scene.post(forges.github(b"canary-another-secret", identity=str(number))) == REFUSED
        assert await scene.post(forges.github(identity=str(number)), to=f"unknown-{number}") == REFUSED
    assert len(logged()) == 2
    assert len(scene.services.hooks.deliveries) == 0
    assert len(scene.services.hooks.refusals) == 2
    assert await scene.post(forges.github()) == ACCEPTED


TOO_LARGE = (413, b'{"errors":["The body is over 1048576 bytes."],"codes":["too-large"]}')


async def test_a_body_may_have_a_mebibyte_and_not_a_byte_more(scene: Scene) -> None:
    largest = b"x" * repositories.MAX_BYTES
    assert await scene.post(forges.github(body=largest)) == ACCEPTED
    for to in (scene.name, scene.without, "unknown"):
        assert await scene.post(forges.github(body=largest + b"x"), to=to) == TOO_LARGE
        assert await scene.post(Delivery(largest + b"x", {}), to=to) == TOO_LARGE


async def test_a_body_without_a_length_is_taken_up_to_the_limit_and_nothing_of_it_is_kept(scene: Scene) -> None:
    taken = []

    async def body() -> AsyncIterator[bytes]:
        for number in range(100):
            taken.append(number)
            yield b"x" * 65_536

    transport = httpx2.ASGITransport(app=scene.app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://service") as client:
        answer = await client.post(f"/hooks/{scene.name}", content=body())
    assert (answer.status_code, answer.content) == TOO_LARGE
    assert len(taken) == 17


async def test_only_a_post_is_a_delivery(scene: Scene) -> None:
    for method in ("GET", "HEAD", "PUT", "DELETE", "OPTIONS"):
        answers = {await scene.full(forges.github(), to=to, method=method) for to in (scene.name, "unknown")}
        (answer,) = answers
        assert answer.status == 405
        assert (b"allow", b"POST") in answer.headers
    assert scene.hinted.hints == []


@pytest.mark.parametrize("path", ["/hooks", "/hooks/", "/hooks/a/b", "/hooks//", "/Hooks/a", "//hooks/a"])
async def test_nothing_else_beneath_hooks_is_public(services: Services, path: str) -> None:
    app = api.app.build(services)
    answer = await callers.ask(app, "POST", path, headers=[*forges.github().headers.items()], body=BODY)
    assert answer.status == 401


async def test_what_a_signature_proves_nothing_else_of_a_request_takes_away(scene: Scene) -> None:
    for headers in (
        {"Cookie": "session=1", "Content-Type": "text/plain"},
        {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"},
        {"Authorization": "Bearer not-a-key"},
        {"Authorization": "Basic nonsense"},
        {"X-Service-Project": "nowhere"},
    ):
        assert await scene.post(Delivery(BODY, {**forges.github().headers, **headers})) == ACCEPTED
        assert await scene.post(Delivery(BODY, headers)) == REFUSED


async def test_where_nobody_is_asked_who_they_are_the_host_must_be_ours_all_the_same(scene: Scene) -> None:
    scene.app = api.app.build(
        dataclasses.replace(scene.services, anybody=LOCAL, web_url="https://reconciler.example.org")
    )
    hosts: Sequence[tuple[str, int]] = [
        ("reconciler.example.org", 202),
        ("127.0.0.1:3001", 202),
        ("evil.example", 403),
    ]
    for host, status in hosts:
        for to in (scene.name, "unknown"):
            found = (await scene.full(forges.github().but(host=host), to=to)).status
            assert found == (404 if (status, to) == (202, "unknown") else status)


async def test_a_query_is_refused_before_anything_else(scene: Scene) -> None:
    answers = {await scene.full(forges.github(), to=f"{to}?token={SECRET.decode()}") for to in (scene.name, "unknown")}
    (answer,) = answers
    assert answer.status == 400
    assert SECRET not in answer.body


async def test_other_requests_are_answered_during_a_flood(scene: Scene, services: Services) -> None:
    flood = [asyncio.create_task(scene.post(Delivery(b"x" * repositories.MAX_BYTES, {}))) for _ in range(50)]
    async with connect(services) as client:
        assert (await client.get("/v1/version")).status_code == 200
    assert await asyncio.gather(*flood) == [REFUSED] * 50
