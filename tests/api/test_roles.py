"""The part that a role leaves of a request that it covers in part, and of what it shows."""

import json
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any
from unittest.mock import ANY

import pytest

import api.app
from tests.api import parts
from tests.api.callers import OTHER, OWN, Answer, ask
from tests.api.conftest import Populated, until
from tests.api.parts import destination
from tests.repositories import Repository

pytestmark = pytest.mark.anyio

Asking = Callable[..., Coroutine[Any, Any, Answer]]

NO_REPOSITORY = "There is no such repository; GET /v1/repositories lists those that are watched."
NO_RUN = "There is no such run; GET /v1/runs lists those that were recorded."
MASK = "(sensitive)"


def source_type(name: str) -> dict[str, Any]:
    return {"apiVersion": "service/v1", "kind": "SourceType", "metadata": {"name": name}, "spec": {}}


def configuration(name: str, raw: str, **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "service/v1", "kind": "Configuration", "metadata": metadata, "spec": {"raw": raw}}


@pytest.fixture
def asking(populated: Populated) -> Asking:
    """Ask as somebody, in the project `own-project` when no other is named."""
    app = api.app.build(populated.parts.services)

    async def one(
        caller: str, method: str, path: str, body: object = None, *, project: str | None = OWN, **headers: str
    ) -> Answer:
        chosen = {} if project is None else {"X-Service-Project": project}
        sent = [*populated.callers[caller].headers, *{**chosen, **headers}.items()]
        return await ask(app, method, path, headers=sent, body=b"" if body is None else json.dumps(body).encode())

    return one


@pytest.fixture
async def repositories(populated: Populated, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, str]]:
    """A watched repository of each project, `of-<project>`, and the run of each."""
    source = Repository.init(tmp_path_factory.mktemp("source"))
    source.commit()
    watched = [parts.watched(f"of-{project}", source.path, project=project) for project in (OWN, OTHER)]
    await populated.parts.repositories.start(watched)

    async def run(project: str) -> str:
        async def look() -> str | None:
            found = populated.parts.repositories.reconciler(f"of-{project}")
            return None if found is None else found.memory.last_run

        return await until(look)

    yield {project: await run(project) for project in (OWN, OTHER)}
    await populated.parts.repositories.start(())


def statuses(answer: Answer) -> list[tuple[str, str]]:
    updates = json.loads(answer.body)["updates"]
    return [(update["resource"]["metadata"]["name"], update["status"]) for update in updates]


@pytest.mark.parametrize("caller", ["user", "key of a user", "organization key of a user"])
async def test_a_user_applies_and_deletes_what_is_no_type(asking: Asking, caller: str) -> None:
    mixed = {"resources": [source_type("theirs"), destination("theirs")]}
    applied = await asking(caller, "POST", "/v1/apply", mixed)
    assert (applied.status, statuses(applied)) == (202, [("theirs", "forbidden"), ("theirs", "created")])
    assert (await asking("admin", "GET", "/v1/resources/SourceType/theirs")).status == 404
    assert statuses(await asking("admin", "POST", "/v1/apply", mixed)) == [
        ("theirs", "created"),
        ("theirs", "unchanged"),
    ]
    named = await asking(caller, "DELETE", "/v1/resources/SourceType/theirs")
    assert (named.status, json.loads(named.body)) == (
        403,
        {"errors": ["SourceType theirs: forbidden: your role does not cover it"], "codes": ANY},
    )
    deleted = await asking(caller, "POST", "/v1/delete", mixed)
    assert (deleted.status, statuses(deleted)) == (202, [("theirs", "forbidden"), ("theirs", "deleted")])
    assert statuses(await asking("admin", "POST", "/v1/delete", mixed)) == [
        ("theirs", "deleted"),
        ("theirs", "not-found"),
    ]


async def test_an_atomic_apply_with_a_type_changes_nothing_for_a_user(asking: Asking) -> None:
    mixed = {"resources": [source_type("whole"), destination("whole")]}
    assert (await asking("user", "POST", "/v1/apply?atomic=true", mixed)).status == 409
    assert (await asking("user", "GET", "/v1/resources/Destination/whole")).status == 404


async def test_a_viewer_sees_no_raw_text_wherever_a_configuration_is_shown(asking: Asking) -> None:
    for raw in ("first: {}", "second: {}"):
        texts = [configuration("one", raw, team="a"), configuration("two", raw), {**destination("plain")}]
        assert (await asking("user", "POST", "/v1/apply", {"resources": texts})).status == 202
    listed = "/v1/resources/Configuration"
    pages = (listed, f"{listed}?selector=team%3Da", f"{listed}?limit=1", f"{listed}?limit=1&after=one")
    shown = [f"{listed}/one", "/v1/Configuration/one/history", *pages]
    for caller in ("viewer", "key of a viewer", "organization key of a viewer"):
        for path in shown:
            mine, theirs = await asking(caller, "GET", path), await asking("user", "GET", path)
            assert (mine.status, theirs.status) == (200, 200)
            assert raws(json.loads(mine.body)) == {MASK}
            assert masked(json.loads(theirs.body)) == json.loads(mine.body) != json.loads(theirs.body)
            assert b"first: {}" not in mine.body
            assert b"second: {}" not in mine.body
        for text in ("raw", "collector.yaml", "collector.yaml?previous=true"):
            assert (await asking(caller, "GET", f"{listed}/one/{text}")).status == 403
        plain = "/v1/resources/Destination/plain"
        assert (await asking(caller, "GET", plain)).body == (await asking("user", "GET", plain)).body


@pytest.mark.parametrize("path", ["/v1/resources/Configuration/one", "/v1/resources/Configuration"])
async def test_what_a_viewer_holds_is_not_what_a_user_holds(asking: Asking, path: str) -> None:
    assert (await asking("user", "POST", "/v1/apply", {"resources": [configuration("one", "third: {}")]})).status == 202
    tags = {}
    for caller in ("viewer", "user"):
        answer = await asking(caller, "GET", path)
        tags[caller] = dict(answer.headers)[b"etag"].decode()
        held = await asking(caller, "GET", path, **{"If-None-Match": tags[caller]})
        assert (held.status, held.body) == (304, b"")
    assert tags["viewer"] != tags["user"]
    assert (await asking("viewer", "GET", path, **{"If-None-Match": tags["user"]})).status == 200
    assert (await asking("user", "GET", path, **{"If-None-Match": tags["viewer"]})).status == 200


async def test_another_projects_repositories_and_runs_are_in_no_list(
    asking: Asking, repositories: dict[str, str]
) -> None:
    async def seen(caller: str, **chosen: str | None) -> tuple[set[str], set[str]]:
        listed = json.loads((await asking(caller, "GET", "/v1/repositories", **chosen)).body)["repositories"]
        runs = json.loads((await asking(caller, "GET", "/v1/runs?limit=10000", **chosen)).body)["runs"]
        return {one["name"] for one in listed}, {one["project"] for one in runs}

    both = ({f"of-{OWN}", f"of-{OTHER}"}, {OWN, OTHER})
    assert await seen("viewer", project=None) == await seen("viewer") == ({f"of-{OWN}"}, {OWN})
    assert await seen("key of a neighbour", project=None) == ({f"of-{OTHER}"}, {OTHER})
    assert await seen("both", project=None) == await seen("root", project=None) == both
    assert await seen("both", project=OTHER) == ({f"of-{OTHER}"}, {OTHER})
    assert await seen("nobodys", project=None) == (set(), set())
    other = await asking("viewer", "GET", f"/v1/runs?repository=of-{OTHER}", project=None)
    unknown = await asking("viewer", "GET", "/v1/runs?repository=none", project=None)
    assert other == unknown
    assert json.loads(other.body) == {"runs": []}
    assert (await asking("viewer", "GET", f"/v1/runs/{repositories[OWN]}")).status == 200
    hidden = await asking("viewer", "GET", f"/v1/runs/{repositories[OTHER]}")
    assert (hidden.status, json.loads(hidden.body)) == (404, {"errors": [NO_RUN], "codes": ANY})
    for method, path in (("GET", ""), ("POST", "/reconcile")):
        hidden = await asking("admin", method, f"/v1/repositories/of-{OTHER}{path}", project=None)
        assert (hidden.status, json.loads(hidden.body)) == (404, {"errors": [NO_REPOSITORY], "codes": ANY})


@pytest.mark.usefixtures("repositories")
async def test_a_run_that_waits_or_runs_is_another_projects_too(asking: Asking, populated: Populated) -> None:
    first = populated.parts.repositories.reconcile(f"of-{OTHER}", actor=parts.SERVICE)
    assert first is not None
    shown = populated.parts.repositories.run(first)  # the loop had no moment yet
    assert shown is not None
    assert json.loads(shown)["phase"] == "queued"
    assert await seen_by(asking, first) == {"viewer": 404, "neighbour": 200, "root": 200}
    assert json.loads((await asking("neighbour", "GET", f"/v1/runs/{first}", project=None)).body)["run"]["id"] == first


async def seen_by(asking: Asking, run: str) -> dict[str, int]:
    callers = ("viewer", "neighbour", "root")
    return {caller: (await asking(caller, "GET", f"/v1/runs/{run}", project=None)).status for caller in callers}


def raws(answer: Any) -> set[str]:
    return {one["spec"]["raw"] for one in configurations(answer)}


def masked(answer: Any) -> Any:
    for one in configurations(answer):
        one["spec"]["raw"] = MASK
    return answer


def configurations(answer: Any) -> list[Any]:
    [(name, found)] = answer.items()
    return [found] if name == "resource" else list(found)


async def test_what_a_viewer_was_shown_of_a_raw_text_does_not_replace_it(asking: Asking) -> None:
    await asking("user", "POST", "/v1/apply", {"resources": [configuration("kept", "first: {}")]})
    shown = json.loads((await asking("viewer", "GET", "/v1/resources/Configuration/kept")).body)["resource"]
    applied = await asking("user", "POST", "/v1/apply", {"resources": [shown]})
    assert statuses(applied) == [("kept", "invalid")]
    assert json.loads(applied.body)["updates"][0]["reason"] == (
        "/spec/raw: `(sensitive)` is what the service shows a viewer instead of the text; "
        "send the text itself, or leave the resource out"
    )
    accepted = await asking("user", "POST", "/v1/apply?acceptInvalid=true", {"resources": [shown]})
    assert statuses(accepted) == [("kept", "invalid")]
    assert (await asking("user", "GET", "/v1/resources/Configuration/kept/raw")).body == b"first: {}"
