"""Three replicas on one database: each repository is followed by one of them, whichever of them die or stop."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import daemons
from tests.daemons import Daemon
from tests.postgresql import replicas
from tests.postgresql.replicas import Replica, Replicas
from tests.postgresql.servers import Database
from tests.repositories import Repository

pytestmark = [pytest.mark.providers, pytest.mark.slow]


FILES = 120  # of a commit whose run takes seconds, with 100 resources in each


class Scene:
    """Six repositories, each in a project of its own, and three replicas."""

    def __init__(self, folder: Path, database: Database) -> None:
        self.sources = {f"r{number}": Repository.init(folder / f"r{number}") for number in range(6)}
        for name, source in self.sources.items():
            source.write("a.yaml", daemons.destination(f"{name}-a"))
            source.commit()
        self.watched = [
            daemons.watched(name, source.path, project=name, interval="5s") for name, source in self.sources.items()
        ]
        self.database = database


@pytest.fixture
def scene(tmp_path: Path, database: Database) -> Scene:
    return Scene(tmp_path / "sources", database)


@pytest.fixture
def three(tmp_path: Path, scene: Scene) -> Iterator[Replicas]:
    with replicas.running(tmp_path / "replicas", database=scene.database, repositories=scene.watched) as running:
        yield running


def test_each_repository_is_followed_by_exactly_one(three: Replicas, scene: Scene) -> None:
    holders = three.settled()
    assert sorted(holders) == sorted(scene.sources)
    assert sorted(list(holders.values()).count(name) for name in replicas.NAMES) == [2, 2, 2]
    for name, source in scene.sources.items():
        source.write("b.yaml", daemons.destination(f"{name}-b"))
        commit = source.commit()
        three["one"].applied(name, commit)
        assert three["two"].resource("Destination", f"{name}-b", project=name) is not None
        found = [run for run in three["three"].runs(name) if run["commit"] == commit]
        assert len(found) == 1


def test_a_killed_holder_is_followed_by_others_within_a_minute(three: Replicas, scene: Scene) -> None:
    holders = three.settled()
    dead = holders["r0"]
    orphans = sorted(name for name, holder in holders.items() if holder == dead)
    three[dead].kill()
    began = time.monotonic()
    commits = {}
    for name in orphans:
        scene.sources[name].write("b.yaml", daemons.destination(f"{name}-b"))
        commits[name] = scene.sources[name].commit()
    asked = three.living()[0]
    for name, commit in commits.items():
        await_applied(asked, name, commit)
    print(f"taken over and applied {time.monotonic() - began:.1f} s after a kill -9")
    now = three.settled(without=dead)
    assert {name: now[name] for name in holders if name not in orphans} == {
        name: holder for name, holder in holders.items() if name not in orphans
    }
    three[dead].start()
    three.settled()
    check_histories(three, scene)


def test_a_replica_that_stops_hands_over_at_once(three: Replicas) -> None:
    holders = three.settled()
    began = time.monotonic()
    three[holders["r0"]].stop()
    three.settled(without=holders["r0"])
    print(f"handed over {time.monotonic() - began:.1f} s after a stop")
    assert time.monotonic() - began < 15.0


def test_a_stopped_holder_that_goes_on_in_the_middle_of_a_run_writes_nothing(three: Replicas, scene: Scene) -> None:
    holders = three.settled()
    stopped = three[holders["r0"]]
    source = scene.sources["r0"]
    for file in range(FILES):
        source.write(f"many/{file}.yaml", "---\n".join(daemons.destination(f"m-{file}-{one}") for one in range(100)))
    commit = source.commit()
    asked = stopped.post("/v1/repositories/r0/reconcile")
    assert asked.status == 202
    run = asked.body["run"]
    daemons.until(lambda: stopped.run(run)["commit"] == commit or None, "the run is under way")
    assert stopped.run(run)["phase"] == "running"
    every = [stopped.process.pid, *stopped.children()]
    for process in every:
        os.kill(process, signal.SIGSTOP)
    began = time.monotonic()
    other = next(one for one in three.living() if one is not stopped)
    await_applied(other, "r0", commit)
    print(f"taken over and applied {time.monotonic() - began:.1f} s after a SIGSTOP")
    assert other.repository("r0")["holder"] != stopped.name
    time.sleep(max(0.0, began + 30.0 - time.monotonic()))  # what is measured: the stop has this length
    for process in reversed(every):
        os.kill(process, signal.SIGCONT)
    three.settled()
    runs = [one for one in other.runs("r0") if one["commit"] == commit]
    assert [one["counts"].get("created") for one in runs if one["counts"].get("created")] == [100 * FILES]
    source.write("b.yaml", daemons.destination("r0-b"))
    last = source.commit()
    other.applied("r0", last)
    check_histories(three, scene)
    assert len([one for one in other.runs("r0") if one["commit"] == last]) == 1


def await_applied(asked: Daemon, name: str, commit: str) -> None:
    """Wait for a take-over: until a repository has applied a commit, which takes at most a minute."""

    def is_applied() -> bool:
        return bool(asked.repository(name)["commit"] == commit)

    daemons.until(is_applied, f"another replica applies the commit of {name}", seconds=60.0)


def check_histories(three: Replicas, scene: Scene) -> None:
    """Every version of every resource is there once, and every repository's resources are those of its head."""
    asked = three.living()[0]
    for name, source in scene.sources.items():
        asked.applied(name, source.head())
        for one in asked.resources("Destination", project=name):
            resource = one["metadata"]["name"]
            numbers = [
                version["metadata"]["version"] for version in asked.history("Destination", resource, project=name)
            ]
            assert numbers == list(range(len(numbers), 0, -1)), resource


def not_holding(three: Replicas, holders: dict[str, str], name: str) -> Replica:
    """A replica that does not follow a repository."""
    return next(one for one in three.living() if one.name != holders[name])


def test_every_replica_answers_for_every_repository(three: Replicas, scene: Scene) -> None:
    holders = three.settled()
    for name, source in scene.sources.items():
        holder, other = three[holders[name]], not_holding(three, holders, name)
        shown = other.repository(name)
        assert shown == holder.repository(name)
        assert (shown["holder"], shown["applied"]["subject"]) == (holder.name, "Change")  # which only its mirror knows
        listed = other.get("/v1/repositories").body["repositories"]
        assert [one for one in listed if one["name"] == name] == [shown]
        assert other.get("/v1/version").headers["x-replica"] == other.name
        source.write("b.yaml", daemons.destination(f"{name}-b"))
        commit = source.commit()
        run = other.reconcile(name)
        assert (run["commit"], run["actor"]) == (commit, "key:SERVICE_API_KEY")


def test_a_change_of_a_repository_is_made_by_its_holder_whoever_is_asked(three: Replicas, scene: Scene) -> None:
    holders = three.settled()
    name = "r0"
    holder, other = three[holders[name]], not_holding(three, holders, name)
    third = next(one for one in three.living() if one not in (holder, other))
    answer = other.post(f"/v1/repositories/{name}/suspend", {"reason": "a test"})
    assert (answer.status, answer.body["repository"]["state"]) == (200, "suspended")
    assert [third.repository(name)["state"], holder.repository(name)["state"]] == ["suspended"] * 2
    refused = third.post(f"/v1/repositories/{name}/reconcile")
    assert (refused.status, refused.body["codes"]) == (409, ["repository-suspended"])
    events = third.get(f"/v1/audit-events?kind=Repository&name={name}").body["events"]
    assert [one["request"] for one in events if one["action"] == "suspended"] == [answer.headers["x-request-id"]]
    resumed = third.post(f"/v1/repositories/{name}/resume", {})
    assert resumed.status == 202
    assert other.finished(resumed.body["run"])["outcome"] == "succeeded"
    source = scene.sources[name]
    for number in range(8):
        source.write(f"{number}.yaml", daemons.destination(f"{name}-{number}"))
    other.applied(name, source.commit())
    for number in range(8):
        source.remove(f"{number}.yaml")
    commit = source.commit()
    other.state_of(name, "prune-held")
    approved = other.post(f"/v1/repositories/{name}/approve", {"commit": commit})
    assert approved.status == 202
    assert third.finished(approved.body["run"])["counts"]["deleted"] == 8
    assert other.post(f"/v1/repositories/{name}/approve", {"commit": commit}).status == 409
    assert other.post("/v1/repositories/none/reconcile").status == 404


def test_without_its_holder_a_repository_is_shown_by_the_store_and_not_changed(three: Replicas) -> None:
    holders = three.settled()
    name = "r0"
    holder, other = three[holders[name]], not_holding(three, holders, name)
    shown = other.repository(name)
    holder.kill()
    again = other.repository(name)
    assert [again["commit"], again["state"]] == [shown["commit"], "ready"]
    refused = other.post(f"/v1/repositories/{name}/reconcile")
    assert (refused.status, refused.body["codes"]) == (503, ["replica-unavailable"])
    assert int(refused.headers["retry-after"]) > 0
    listed = other.get("/v1/repositories").body["repositories"]
    assert {one["name"] for one in listed} == set(holders)


def test_a_plan_is_made_and_shown_by_every_replica(three: Replicas, scene: Scene) -> None:
    holders = three.settled()
    name = "r0"
    other = not_holding(three, holders, name)
    source = scene.sources[name]
    source.git("checkout", "-q", "-b", "proposal")
    source.write("c.yaml", daemons.destination(f"{name}-c"))
    source.commit()
    source.git("checkout", "-q", "main")
    made = other.post("/v1/plan", {"repository": name, "head": "refs/heads/proposal"})
    assert made.status == 200, made
    plan = made.body["plan"]
    for one in three.living():
        assert one.get(f"/v1/plans/{plan['id']}").body["plan"] == plan
        assert [found["id"] for found in one.get("/v1/plans").body["plans"]] == [plan["id"]]
    assert other.get("/v1/plans/01KAH30ZPT8Q1X2Y3Z4A5B6C7D").status == 404
    assert other.get("/v1/runs/01KAH30ZPT8Q1X2Y3Z4A5B6C7D").status == 404
