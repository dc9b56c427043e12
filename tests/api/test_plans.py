"""The effect of a merge is told over HTTP, from a repository through the worker to the answer."""

import asyncio
import dataclasses
import hashlib
import json
import os
import signal
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import httpx2
import msgspec
import pytest

from api.calls import Services
from reconciler.cli import plan as cli_plan
from reconciler.model.plan import CutText
from reconciler.model.principals import Role, Scope
from reconciler.review.kept_plans import PlanRequest
from reconciler.review.service import MOST_WAITING, Reviewing
from tests.api.conftest import Follow, connect, make_key, until
from tests.api.parts import AT, destination, watched
from tests.repositories import Repository

pytestmark = pytest.mark.anyio

MAIN, TOPIC = "refs/heads/main", "refs/heads/topic"
NOTHING = "0" * 40


LINK = "https://github.com/a/b/blob/{commit}/{path}#L{line}"


def text(*resources: dict[str, Any]) -> str:
    return "---\n".join(json.dumps(one, indent=1) + "\n" for one in resources)


def configuration(name: str, raw: str) -> dict[str, Any]:
    return {"apiVersion": "service/v1", "kind": "Configuration", "metadata": {"name": name}, "spec": {"raw": raw}}


class Proposed(NamedTuple):
    """A followed repository with a branch beside what is followed."""

    client: httpx2.AsyncClient
    follow: Follow
    source: Repository
    name: str

    def propose(self) -> str:
        """Commit what was written to the branch, and go back to what is followed."""
        commit = self.source.commit()
        self.source.git("switch", "--quiet", "main")
        return commit

    async def ask(self, **body: Any) -> httpx2.Response:
        return await self.client.post("/v1/plan", json={"repository": self.name, "head": TOPIC, **body})

    async def plan(self, **body: Any) -> dict[str, Any]:
        answer = await self.ask(**body)
        assert answer.status_code == 200, answer.text
        return dict(answer.json()["plan"])

    async def get(self, plan: str) -> dict[str, Any]:
        return dict((await self.client.get(f"/v1/plans/{plan}")).json()["plan"])

    async def apply(self, *resources: dict[str, Any]) -> None:
        assert (await self.client.post("/v1/apply", json={"resources": resources})).status_code == 202


@pytest.fixture
async def proposed(client: httpx2.AsyncClient, project: str, follow: Follow, source: Repository) -> Proposed:
    """The followed branch holds `kept`, `changed` and `gone`; the branch begins there."""
    for name in ("kept", "changed", "gone", "other"):
        source.write(f"{name}.json", text(destination(name)))
    source.commit()
    await follow(project, source, project=project, prune={"max_percent": 100}, web_url=LINK)
    source.branch("topic")
    source.switch("topic")
    return Proposed(client, follow, source, project)


def short(plan: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["status"], one["name"]) for one in plan["statuses"]]


def errors(answer: httpx2.Response) -> list[str]:
    return list(answer.json()["errors"])


async def test_a_plan_tells_what_becomes_of_each_resource(proposed: Proposed) -> None:
    source, base = proposed.source, proposed.source.head("main")
    changed = destination("changed")
    changed["spec"]["parameters"][0]["value"] = "logs.example.net"
    source.write("changed.json", text(changed))
    source.write("new.json", text(destination("new")))
    source.write("bad.json", text({**destination("bad"), "spec": {"type": 7}}))
    source.remove("gone.json")
    head = proposed.propose()
    plan = await proposed.plan()
    invalid, deleted, configured, created = plan.pop("statuses")
    assert (invalid["status"], invalid["name"]) == ("invalid", "bad")
    assert invalid["reason"].startswith("bad.json:")
    assert (deleted["status"], deleted["name"], deleted["at"]["path"]) == ("deleted", "gone", "gone.json")
    assert (created["status"], created["name"], created["at"]["path"]) == ("created", "new", "new.json")
    assert (configured["status"], configured["name"]) == ("configured", "changed")
    [field] = configured["fields"]
    assert (field["path"], field["difference"]) == ("spec.parameters[hostname].value", "changed")
    assert (field["old"], field["new"]) == ("logs.example.org", "logs.example.net")
    assert field["at"]["path"] == "changed.json"
    facts = json.dumps(["1.5", proposed.name, base, head, plan["storeVersion"]], separators=(",", ":"))
    assert plan == {
        "id": plan["id"],
        "digest": hashlib.sha256(facts.encode()).hexdigest(),
        "repository": proposed.name,
        "project": proposed.name,
        "path": "",
        "base": {"ref": MAIN, "commit": base},
        "head": {"ref": TOPIC, "commit": head},
        "mergeBase": base,
        "behind": 0,
        "ahead": 1,
        "storeVersion": plan["storeVersion"],
        "stale": False,
        "createdAt": AT,
        "refused": False,
        "counts": {"unchanged": 2, "configured": 1, "created": 1, "deleted": 1, "invalid": 1},
        "unchanged": 2,
        "untouchedFiles": 0,
        "held": 0,
        "notes": [],
        "link": LINK,
    }


async def test_a_plan_tells_what_changes_for_collectors_and_a_list_of_plans_does_not(proposed: Proposed) -> None:
    spec = {"sources": [{"type": "journald"}], "destinations": [{"type": "debug"}]}
    proposed.source.write("edge.json", text({**configuration("edge", ""), "spec": spec}))
    proposed.propose()
    plan = await proposed.plan()
    [edge] = plan["renderings"]
    assert (edge["name"], edge["at"]["path"]) == ("edge", "edge.json")
    assert "old" not in edge
    assert edge["new"].startswith("receivers:\n  journald/source0:")
    assert edge["components"]["debug/destination0-0"]["path"] == "edge.json"
    assert await proposed.get(plan["id"]) == plan
    listed = (await proposed.client.get(f"/v1/plans?repository={proposed.name}")).json()["plans"]
    assert "renderings" not in listed[0]


async def test_nothing_is_stored_and_the_plan_comes_true_when_it_is_merged(proposed: Proposed) -> None:
    proposed.source.write("new.json", text(destination("new")))
    proposed.source.remove("gone.json")
    proposed.propose()
    plan = await proposed.plan()
    assert (await proposed.client.get("/v1/resources/Destination/new")).status_code == 404
    assert (await proposed.client.get("/v1/resources/Destination/gone")).status_code == 200
    proposed.source.git("merge", "--quiet", "--no-ff", "-m", "Merge", "topic")
    answer = await proposed.client.post(f"/v1/repositories/{proposed.name}/reconcile")
    await proposed.follow.finished(answer.json()["run"])
    assert (await proposed.client.get("/v1/resources/Destination/new")).status_code == 200
    assert (await proposed.client.get("/v1/resources/Destination/gone")).status_code == 404
    assert sorted(short(plan)) == [("created", "new"), ("deleted", "gone")]


async def test_the_base_that_moved_is_merged_with_and_counted(proposed: Proposed) -> None:
    proposed.source.write("new.json", text(destination("new")))
    proposed.propose()
    merge_base = proposed.source.head("main")
    proposed.source.write("meanwhile.json", text(destination("meanwhile")))
    base = proposed.source.commit()
    await proposed.follow.finished(
        (await proposed.client.post(f"/v1/repositories/{proposed.name}/reconcile")).json()["run"]
    )
    plan = await proposed.plan()
    assert (plan["mergeBase"], plan["base"]["commit"]) == (merge_base, base)
    assert (plan["behind"], plan["ahead"], short(plan)) == (1, 1, [("created", "new")])


async def test_a_plan_may_be_asked_for_by_commits_and_against_another_base(proposed: Proposed) -> None:
    proposed.source.write("new.json", text(destination("new")))
    head, base = proposed.propose(), proposed.source.head("main")
    plan = await proposed.plan(head=head, base=base)
    assert (plan["head"]["commit"], plan["base"]["commit"], short(plan)) == (head, base, [("created", "new")])
    assert short(await proposed.plan(base=TOPIC)) == [("created", "new")]  # of what is stored, which is not the base


async def test_the_same_question_gets_the_same_plan_until_something_moves(proposed: Proposed) -> None:
    proposed.source.write("new.json", text(destination("new")))
    proposed.propose()
    first = await proposed.plan()
    assert await proposed.plan() == first
    assert await proposed.get(first["id"]) == first
    await proposed.apply(destination("by-hand"))
    assert await proposed.get(first["id"]) == {**first, "stale": True}
    second = await proposed.plan()
    assert second["id"] != first["id"]
    assert second["digest"] != first["digest"]
    assert second["storeVersion"] > first["storeVersion"]
    assert second["stale"] is False


async def test_a_plan_is_stale_once_the_base_is_elsewhere(proposed: Proposed) -> None:
    proposed.source.write("new.json", text(destination("new")))
    proposed.propose()
    plan = await proposed.plan()
    proposed.source.write("README", "nothing that is stored")
    proposed.source.commit()

    async def look() -> bool:
        return bool((await proposed.get(plan["id"]))["stale"])

    await until(look)
    assert (await proposed.plan())["stale"] is False


async def test_a_plan_is_stale_once_the_head_is_elsewhere(proposed: Proposed) -> None:
    proposed.source.write("new.json", text(destination("new")))
    proposed.propose()
    plan = await proposed.plan()
    proposed.source.switch("topic")
    proposed.source.write("newer.json", text(destination("newer")))
    proposed.propose()
    assert [status for status, _ in short(await proposed.plan())] == ["created", "created"]
    assert (await proposed.get(plan["id"]))["stale"] is True


async def test_a_plan_is_stale_once_the_settings_of_its_repository_are_others(proposed: Proposed) -> None:
    proposed.source.write("new.json", text(destination("new")))
    proposed.propose()
    plan = await proposed.plan()
    await proposed.follow(proposed.name, proposed.source, project=proposed.name, include=("kept.json",))
    assert (await proposed.get(plan["id"]))["stale"] is True
    assert (await proposed.plan())["id"] != plan["id"]


async def test_who_asks_at_the_same_time_shares_one_answer(proposed: Proposed) -> None:
    proposed.source.write("new.json", text(destination("new")))
    proposed.propose()
    plans = await asyncio.gather(*(proposed.plan() for _ in range(10)))
    assert len({plan["id"] for plan in plans}) == 1


async def test_too_many_questions_at_once_are_to_be_asked_again(proposed: Proposed) -> None:
    commits = []
    for number in range(MOST_WAITING + 2):
        proposed.source.switch("topic")
        proposed.source.write("new.json", text(destination(f"new-{number}")))
        proposed.propose()
        proposed.source.branch(f"topic-{number}", "topic")
        commits.append(f"refs/heads/topic-{number}")
    answers = await asyncio.gather(*(proposed.ask(head=head) for head in commits))
    assert sorted(answer.status_code for answer in answers) == [*[200] * (MOST_WAITING + 1), 429]
    [refused] = [answer for answer in answers if answer.status_code == 429]
    assert int(refused.headers["retry-after"]) > 0
    assert (await proposed.ask()).status_code == 200


async def test_what_is_begun_is_kept_though_whoever_asked_is_gone(proposed: Proposed) -> None:
    proposed.source.write("new.json", text(destination("new")))
    proposed.propose()
    reader, reviewing = proposed.follow.everything.reader.process_id, proposed.follow.everything.services.reviewing
    assert reader is not None
    os.kill(reader, signal.SIGSTOP)
    try:
        asked = PlanRequest(proposed.name, head=TOPIC, base=None)
        leaving = asyncio.create_task(reviewing.plan(asked))

        async def begun() -> bool:
            return any(task.get_name() == "review" for task in asyncio.all_tasks())

        await until(begun)
        leaving.cancel()
        await asyncio.wait({leaving})
        waiting = asyncio.create_task(reviewing.plan(asked))
        await asyncio.sleep(0.05)
        assert not waiting.done()
    finally:
        os.kill(reader, signal.SIGCONT)
    made = await waiting
    assert [plan.id for plan in reviewing.shelf.newest() if plan.repository == proposed.name] == [made.id]


async def test_what_conflicts_is_409_with_each_file(proposed: Proposed) -> None:
    for name in ("kept", "changed"):
        proposed.source.write(f"{name}.json", text(destination(name, labels={"from": "topic"})))
    proposed.propose()
    for name in ("kept", "changed"):
        proposed.source.write(f"{name}.json", text(destination(name, labels={"from": "main"})))
    proposed.source.commit()
    answer = await proposed.ask()
    assert answer.status_code == 409
    assert errors(answer) == [
        f"{path}:5-8: conflicts between {MAIN} and {TOPIC}; resolve it in {TOPIC}"
        for path in ("changed.json", "kept.json")
    ]


async def test_no_history_in_common_is_409(proposed: Proposed) -> None:
    proposed.source.git("switch", "--quiet", "--orphan", "topic-alone")
    proposed.source.write("new.json", text(destination("new")))
    proposed.propose()
    answer = await proposed.ask(head="refs/heads/topic-alone")
    assert (answer.status_code, errors(answer)) == (
        409,
        [f"refs/heads/topic-alone and {MAIN} have no history in common, so that they do not merge."],
    )


@pytest.mark.parametrize("head", ["refs/heads/missing", "refs/notes/commits", NOTHING])
async def test_what_is_not_there_or_may_not_be_proposed_is_404(proposed: Proposed, head: str) -> None:
    assert (await proposed.ask(head=head)).status_code == 404
    assert (await proposed.ask(base=head)).status_code == 404


@pytest.mark.parametrize("head", ["topic", "--upload-pack=x", "", "HEAD~1"])
async def test_what_is_no_name_in_full_is_400(proposed: Proposed, head: str) -> None:
    assert (await proposed.ask(head=head)).status_code == 400


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"head": TOPIC}, "/repository: "),
        ({"repository": "telemetry", "head": None}, "/head: "),
        ({"repository": 1, "head": TOPIC}, "/repository: "),
        ({"repository": "telemetry", "head": TOPIC, "base": None}, "/base: "),
        ({"repository": "telemetry", "head": TOPIC, "merge~now": True}, "/merge~0now: "),
    ],
)
async def test_a_body_of_another_shape_is_400_with_the_place(
    client: httpx2.AsyncClient, body: dict[str, Any], pointer: str
) -> None:
    answer = await client.post("/v1/plan", json=body)
    assert (answer.status_code, [one[: len(pointer)] for one in errors(answer)]) == (400, [pointer])


async def test_a_large_body_and_a_query_are_refused(client: httpx2.AsyncClient) -> None:
    body = {"repository": "telemetry", "head": TOPIC}
    assert (await client.post("/v1/plan", json={**body, "head": "x" * 9_000})).status_code == 413
    assert (await client.post("/v1/plan?apply=true", json=body)).status_code == 400


async def test_a_remote_that_cannot_be_read_is_503_with_its_sentence(proposed: Proposed) -> None:
    proposed.propose()
    moved = proposed.source.path.rename(proposed.source.path.with_name("moved"))
    answer = await proposed.ask()
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) > 0
    assert str(proposed.source.path) in errors(answer)[0]
    moved.rename(proposed.source.path)


async def test_a_proposal_without_the_followed_folder_deletes_nothing_and_says_so(
    client: httpx2.AsyncClient, project: str, follow: Follow, source: Repository
) -> None:
    source.write("prod/a.json", text(destination("a")))
    source.write("README", "beside it")
    source.commit()
    await follow(project, source, project=project, path="prod")
    source.branch("topic")
    source.switch("topic")
    source.remove("prod")
    source.commit()
    answer = await client.post("/v1/plan", json={"repository": project, "head": TOPIC})
    plan = answer.json()["plan"]
    assert (short(plan), plan["held"], plan["statuses"][0]["held"]) == ([("deleted", "a")], 1, True)
    [note] = plan["notes"]
    assert note.startswith("there is no folder prod in the commit ")


async def test_a_repository_that_was_never_read_is_planned_for(
    client: httpx2.AsyncClient, project: str, follow: Follow, source: Repository
) -> None:
    source.write("a.json", text(destination("a")))
    source.commit()
    follow.wanted[project] = watched(project, source.path, project=project, suspend=True)  # which makes no run
    await follow.everything.repositories.start(follow.wanted.values())
    source.branch("topic")
    source.switch("topic")
    source.write("b.json", text(destination("b")))
    source.commit()
    answer = await client.post("/v1/plan", json={"repository": project, "head": TOPIC})
    assert sorted(short(answer.json()["plan"])) == [("created", "a"), ("created", "b")]


async def test_a_suspended_repository_is_planned_for(proposed: Proposed) -> None:
    proposed.source.write("new.json", text(destination("new")))
    proposed.propose()
    path = f"/v1/repositories/{proposed.name}/suspend"
    assert (await proposed.client.post(path, json={"reason": "an incident"})).status_code == 200
    assert ("created", "new") in short(await proposed.plan())


class Neighbours(NamedTuple):
    """Clients of one project's viewer, of its user, and of another project."""

    viewer: httpx2.AsyncClient
    user: httpx2.AsyncClient
    stranger: httpx2.AsyncClient


@pytest.fixture
async def neighbours(services: Services, project: str) -> AsyncIterator[Neighbours]:
    other = f"{project}-other"
    await services.accounts.ensure_project(other)
    texts = [
        await make_key(services, Role.VIEWER, project=project),
        await make_key(services, Role.USER, project=project),
        await make_key(services, Role.ADMIN, project=other),
    ]
    async with (
        connect(services, key=texts[0]) as viewer,
        connect(services, key=texts[1]) as user,
        connect(services, key=texts[2]) as stranger,
    ):
        yield Neighbours(viewer, user, stranger)


async def test_a_viewer_may_ask_and_does_not_see_a_raw_text(proposed: Proposed, neighbours: Neighbours) -> None:
    proposed.source.switch("main")
    proposed.source.write("edge.json", text(configuration("edge", "receivers: one")))
    proposed.source.commit()
    await proposed.follow.finished(
        (await proposed.client.post(f"/v1/repositories/{proposed.name}/reconcile")).json()["run"]
    )
    proposed.source.git("switch", "--quiet", "-C", "topic")
    proposed.source.write("edge.json", text(configuration("edge", "receivers: two")))
    proposed.propose()
    body = {"repository": proposed.name, "head": TOPIC}

    async def same_plan() -> tuple[dict[str, Any], dict[str, Any]] | None:
        user, viewer = [
            (await one.post("/v1/plan", json=body)).json()["plan"] for one in (neighbours.user, neighbours.viewer)
        ]
        return (user, viewer) if user["id"] == viewer["id"] else None

    # The lineage of the commit is stored a moment after its run, and then the next plan is another one.
    seen, hidden = await until(same_plan)
    [field], [masked] = seen["statuses"][0]["fields"], hidden["statuses"][0]["fields"]
    assert (field["path"], field["old"], field["new"]) == ("spec.raw", "receivers: one", "receivers: two")
    assert (masked["path"], masked["old"], masked["new"]) == ("spec.raw", "(sensitive)", "(sensitive, changed)")
    got = [await one.get(f"/v1/plans/{seen['id']}") for one in (neighbours.user, neighbours.viewer)]
    assert [answer.json()["plan"] for answer in got] == [seen, hidden]


async def test_another_project_does_not_learn_that_there_is_a_plan(proposed: Proposed, neighbours: Neighbours) -> None:
    proposed.propose()
    plan = await proposed.plan()
    body = {"repository": proposed.name, "head": TOPIC}
    asked = [
        await neighbours.stranger.post("/v1/plan", json={**body, "repository": name}) for name in (proposed.name, "x")
    ]
    read = [await neighbours.stranger.get(f"/v1/plans/{one}") for one in (plan["id"], "01KAH30ZPT8Q1X2Y3Z4A5B6C7D")]
    assert {answer.status_code for answer in (*asked, *read)} == {404}
    assert asked[0].content == asked[1].content
    assert asked[0].json()["codes"] == ["repository-not-found"]
    assert read[0].content == read[1].content
    assert "ask again" in errors(read[0])[0]
    assert (await neighbours.stranger.get("/v1/plans")).json() == {"plans": []}


async def test_a_key_for_log_records_plans_nothing(proposed: Proposed, services: Services) -> None:
    key = await make_key(services, Role.ADMIN, project=proposed.name, scopes=frozenset({Scope.LOGS}))
    async with connect(services, key=key) as client:
        answer = await client.post("/v1/plan", json={"repository": proposed.name, "head": TOPIC})
        assert answer.status_code == 403
        assert (await client.get("/v1/plans")).status_code == 403


async def test_plans_are_listed_newest_first_without_statuses(proposed: Proposed) -> None:
    made = []
    for name in ("one", "two", "three"):
        proposed.source.switch("topic")
        proposed.source.write("new.json", text(destination(name)))
        proposed.propose()
        made.append(await proposed.plan())
    for plan in made:
        del plan["statuses"]
    found = (await proposed.client.get(f"/v1/plans?repository={proposed.name}&limit=2")).json()["plans"]
    assert [plan["id"] for plan in found] == [made[2]["id"], made[1]["id"]]
    assert found[0] == made[2]
    assert (await proposed.client.get("/v1/plans?repository=nothing")).json() == {"plans": []}
    assert (await proposed.client.get("/v1/plans?limit=0")).status_code == 400


async def test_a_plan_that_takes_too_long_is_503(proposed: Proposed, services: Services) -> None:
    proposed.propose()
    impatient = Reviewing(
        proposed.follow.everything.repositories,
        store=services.store,
        applier=services.applier,
        clock=services.clock,
        grace=-60.0,
    )
    async with connect(dataclasses.replace(services, reviewing=impatient), project=proposed.name) as client:
        answer = await client.post("/v1/plan", json={"repository": proposed.name, "head": TOPIC})
    assert answer.status_code == 503
    assert "retry-after" in answer.headers
    assert errors(answer) == [
        f"There was no plan of {proposed.name} within 0 seconds; the service may be busy with other work, so ask again "
        "in a moment."
    ]


async def test_the_command_line_reads_the_same_plan(proposed: Proposed) -> None:
    changed = destination("changed", description="x" * 10_000)
    proposed.source.write("changed.json", text(changed))
    proposed.source.write("bad.json", text({**destination("bad"), "spec": {"type": 7}}))
    proposed.propose()
    shown = await proposed.plan()
    plan = cli_plan.decoded({"plan": shown}, server="http://service")
    [entry] = plan.entries
    assert (plan.counts, plan.digest, plan.store_version) == (shown["counts"], shown["digest"], shown["storeVersion"])
    assert json.loads(msgspec.json.encode(entry.statuses)) == shown["statuses"]
    [field] = entry.statuses[1].fields
    assert isinstance(field.new, CutText)
    assert (plan.base.ref, plan.head.ref, plan.server) == (MAIN, TOPIC, "http://service")
