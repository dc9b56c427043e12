"""Repositories, runs, health and the version."""

import dataclasses
import itertools
import json
import os
import signal
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import httpx2
import pytest

from api.calls import Services
from reconciler.store.records import Changes, Record
from reconciler.version import __version__
from tests.api import parts
from tests.api.conftest import Follow, connect, until
from tests.api.parts import Parts, destination
from tests.repositories import Repository
from tests.store import rows

pytestmark = pytest.mark.anyio

NO_REPOSITORY = {
    "errors": ["There is no such repository; GET /v1/repositories lists those that are watched."],
    "codes": ANY,
}
NO_RUN = {"errors": ["There is no such run; GET /v1/runs lists those that were recorded."], "codes": ANY}


async def test_repositories_are_listed_by_name_and_fetched_one_by_one(
    client: httpx2.AsyncClient, follow: Follow, source: Repository, project: str, tmp_path: Path
) -> None:
    assert (await client.get("/v1/repositories")).json() == {"repositories": []}
    source.write("teams/a.json", json.dumps(destination("a")))
    commit = source.commit()
    run = await follow(project, source, project=project, path="teams")
    await follow(f"{project}-empty", Repository.init(tmp_path / "empty"), project=project)
    telemetry = {
        "name": project,
        "project": project,
        "url": str(source.path),
        "branch": "main",
        "follows": {"kind": "branch", "name": "main"},
        "path": "teams",
        "state": "ready",
        "message": None,
        "since": parts.AT,
        "commit": commit,
        "head": commit,
        "applied": {"commit": commit, "author": "Ada Lovelace <ada@example.com>", "subject": "Change", "date": ANY},
        "seen": None,
        "link": None,
        "commitLink": None,
        "lastRun": run["id"],
        "suspension": None,
        "drift": None,
        "held": None,
    }
    await until(lambda: shown_fact(client, project, "applied"))
    listed = (await client.get("/v1/repositories")).json()["repositories"]
    assert [repository["name"] for repository in listed] == [project, f"{project}-empty"]
    assert listed[0] == telemetry
    assert {listed[1][fact] for fact in ("commit", "head", "applied", "seen")} == {None}
    assert listed[1]["state"] != "ready"
    assert listed[1]["message"]
    assert (await client.get(f"/v1/repositories/{project}")).json() == {"repository": telemetry}
    none = await client.get("/v1/repositories/none")
    assert (none.status_code, none.json()) == (404, NO_REPOSITORY)


async def shown_fact(client: httpx2.AsyncClient, repository: str, fact: str) -> Any:
    return (await client.get(f"/v1/repositories/{repository}")).json()["repository"][fact]


async def test_a_repository_shows_the_commit_that_waits_and_its_pages_at_the_forge(
    client: httpx2.AsyncClient, follow: Follow, source: Repository, project: str
) -> None:
    source.write("a.json", json.dumps(destination("a")))
    source.commit("Send to a")
    await follow(project, source, project=project, atomic=True, web_url="https://github.com/team/telemetry")
    source.write("bad.json", json.dumps({**destination("b"), "spec": {"type": 7}}))
    refused = source.commit("Send to \x1b[31mb <script>")
    run = (await client.post(f"/v1/repositories/{project}/reconcile")).json()["run"]
    assert (await follow.finished(run))["outcome"] == "refused"
    seen = await until(lambda: shown_fact(client, project, "seen"))
    assert (seen["commit"], seen["subject"]) == (refused, "Send to \x1b[31mb <script>")
    await until(lambda: shown_fact(client, project, "applied"))
    shown = (await client.get(f"/v1/repositories/{project}")).json()["repository"]
    assert (shown["applied"]["subject"], shown["head"]) == ("Send to a", refused)
    page = "https://github.com/team/telemetry"
    assert shown["link"] == page + "/blob/{commit}/{path}#L{line}"
    assert shown["commitLink"] == page + "/commit/{commit}"


async def test_a_finished_run_tells_everything_that_is_not_unchanged(
    client: httpx2.AsyncClient, follow: Follow, source: Repository, project: str
) -> None:
    await client.post("/v1/apply", json={"resources": [destination("same")]})
    source.write("same.json", json.dumps(destination("same")))
    source.write("bad.yaml", "apiVersion: service/v1\nkind: Destination\nmetadata: {name: bad}\nspec: {type: 7}\n")
    source.write("good.json", json.dumps(destination("good")))
    commit = source.commit()
    run = await follow(project, source, project=project)
    reason = "bad.yaml:4:14: /spec/type: is not a string"
    expected = {
        "id": run["id"],
        "repository": project,
        "project": project,
        "trigger": "start",
        "actor": "system",
        "phase": "finished",
        "commit": commit,
        "outcome": "partial",
        "message": "Not stored as the head says: 1 invalid; the run names them.",
        "counts": {"unchanged": 1, "created": 1, "invalid": 1},
        "rewound": False,
        "startedAt": parts.AT,
        "finishedAt": parts.AT,
        "durationMs": 0,
    }
    statuses = [
        {"kind": "Destination", "name": "bad", "status": "invalid", "reason": reason, "path": "bad.yaml", "line": 1},
        {"kind": "Destination", "name": "good", "status": "created", "path": "good.json", "line": 1},
    ]
    assert run == {**expected, "statuses": statuses}
    assert (await client.get(f"/v1/runs?repository={project}&limit=1")).json() == {"runs": [expected]}


async def test_a_run_of_many_statuses_is_sent_in_pieces(
    client: httpx2.AsyncClient, services: Services, project: str
) -> None:
    identifier = f"0-{project}"  # below the ids of other tests, which tell the newest runs
    statuses = [rows.run_status(identifier, line) for line in range(1, 1_001)]
    record = Record(run=rows.run(identifier)._replace(project=project))
    await services.store.commit([Changes(statuses=statuses)], record=record)
    answer = await client.get(f"/v1/runs/{identifier}")
    run = answer.json()["run"]
    assert "content-length" not in answer.headers
    assert (run["id"], run["durationMs"]) == (identifier, 12)
    assert [status["line"] for status in run["statuses"]] == list(range(1, 1_001))
    head = await client.head(f"/v1/runs/{identifier}")
    assert (head.status_code, head.content) == (200, b"")


async def test_a_run_that_ends_between_two_looks_is_found(
    client: httpx2.AsyncClient, services: Services, project: str
) -> None:
    identifier = f"0-{project}"  # below the ids of other tests, which tell the newest runs

    class Late:
        """A real store that has what it is asked for only when it is asked again."""

        asked = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(services.store, name)

        async def run_pages(self, run: str) -> AsyncGenerator[list[bytes], None]:
            self.asked += 1
            if self.asked > 1:
                record = Record(run=rows.run(run)._replace(project=project))
                await services.store.commit((), record=record)
                async for page in services.store.run_pages(run):
                    yield page

    late: Any = Late()
    async with connect(dataclasses.replace(services, store=late), project=project) as waiting:
        answer = await waiting.get(f"/v1/runs/{identifier}")
    assert answer.json() == (await client.get(f"/v1/runs/{identifier}")).json()
    assert (answer.json()["run"]["phase"], answer.json()["run"]["statuses"]) == ("finished", [])


async def test_a_reconcile_answers_with_the_run_that_will_cover_it(
    client: httpx2.AsyncClient, follow: Follow, source: Repository, project: str, everything: Parts
) -> None:
    source.write("a.json", json.dumps(destination("a")))
    source.commit()
    await follow(project, source, project=project)

    async def shown(run: str) -> dict[str, Any]:
        return dict((await client.get(f"/v1/runs/{run}")).json()["run"])

    async def begun() -> str | None:
        if (await shown(first))["commit"] == commit:
            return "it"
        repository = (await client.get(f"/v1/repositories/{project}")).json()["repository"]
        return "another" if repository["head"] == commit else None

    reader = everything.reader.process_id
    assert reader is not None
    try:
        for number in itertools.count():
            os.kill(reader, signal.SIGSTOP)  # so that the run lasts for as long as it is looked at
            source.write("b.json", json.dumps(destination("b", description=f"{number}")))
            commit = source.commit()
            first = await _asked(client, project)
            if await until(begun) == "it":
                break
            # A run for a file event had begun and looked before: what was asked for comes after that one.
            os.kill(reader, signal.SIGCONT)
            await follow.finished(first)
        second = await _asked(client, project)
        assert await _asked(client, project) == second != first
        running, queued = await shown(first), await shown(second)
    finally:
        os.kill(reader, signal.SIGCONT)
    still: dict[str, Any] = {
        "outcome": None,
        "message": None,
        "counts": {},
        "rewound": False,
        "finishedAt": None,
        "durationMs": None,
    }
    who = {"repository": project, "project": project, "actor": "key:SERVICE_API_KEY", "statuses": []}
    assert queued == {
        "id": second,
        "trigger": "request",
        "phase": "queued",
        "commit": None,
        "startedAt": None,
        **who,
        **still,
    }
    # A file event may have begun the run before it was asked for; then it is the event's.
    assert running["trigger"] in ("request", "watch")
    assert running == {
        "id": first,
        "trigger": running["trigger"],
        "phase": "running",
        "commit": commit,
        "startedAt": parts.AT,
        **who,
        **still,
        "actor": running["actor"],
    }
    assert (await follow.finished(first))["counts"] == {"configured" if number else "created": 1}
    assert (await follow.finished(second))["outcome"] == "succeeded"


async def _asked(client: httpx2.AsyncClient, repository: str) -> str:
    answer = await client.post(f"/v1/repositories/{repository}/reconcile")
    assert (answer.status_code, list(answer.json())) == (202, ["run"])
    run: str = answer.json()["run"]
    return run


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/v1/repositories/none/reconcile", 404, NO_REPOSITORY),
        (
            "/v1/repositories/none/reconcile?dryRun=true",
            404,
            NO_REPOSITORY,
        ),
    ],
)
async def test_a_reconcile_of_nothing_is_refused_whatever_else_it_says(
    client: httpx2.AsyncClient, path: str, status: int, body: object
) -> None:
    answer = await client.post(path)
    assert (answer.status_code, answer.json()) == (status, body)


async def test_an_unknown_run_is_404(client: httpx2.AsyncClient) -> None:
    none = await client.get("/v1/runs/none")
    assert (none.status_code, none.json()) == (404, NO_RUN)


async def test_runs_are_listed_newest_first_without_statuses(
    client: httpx2.AsyncClient, follow: Follow, source: Repository, project: str, tmp_path: Path
) -> None:
    source.write("a.json", json.dumps(destination("a")))
    source.commit()
    one, other = f"{project}-one", f"{project}-other"
    follow.everything.clock.pass_(days=30)  # ids are in the order of time; other tests let a day or two pass
    first = (await follow(one, source, project=project))["id"]
    follow.everything.clock.pass_(seconds=1)
    second = (await client.post(f"/v1/repositories/{one}/reconcile")).json()["run"]
    await follow.finished(second)
    follow.everything.clock.pass_(seconds=1)
    third = (await follow(other, Repository.init(tmp_path / "other"), project=project))["id"]

    async def ids(query: str) -> list[str]:
        runs = (await client.get(f"/v1/runs{query}")).json()["runs"]
        assert not any("statuses" in run for run in runs)
        return [run["id"] for run in runs]

    assert (await ids(""))[:3] == [third, second, first]
    assert await ids("?limit=2&unknown=1") == [third, second]
    assert await ids(f"?repository={one}") == [second, first]
    assert await ids("?repository=none") == []


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("?limit=0", "The query parameter `limit` is not an integer from 1 to 10000."),
        ("?limit=1&limit=1", "The query parameter `limit` is given more than once."),
    ],
)
async def test_a_bad_query_of_runs_is_400(client: httpx2.AsyncClient, query: str, sentence: str) -> None:
    answer = await client.get(f"/v1/runs{query}")
    assert (answer.status_code, answer.json()) == (400, {"errors": [sentence], "codes": ANY})


@pytest.mark.parametrize(
    ("path", "body"),
    [("/v1/version", __version__), ("/livez", {"status": "live"}), ("/readyz", {"status": "ready"})],
)
async def test_health_and_version(client: httpx2.AsyncClient, path: str, body: object) -> None:
    answer = await client.get(path)
    assert (answer.status_code, json.loads(answer.content)) == (200, body)
    head = await client.head(path)
    assert (head.status_code, head.content) == (200, b"")
