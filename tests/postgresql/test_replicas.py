"""Three replicas on one database: each repository is followed by one of them, whichever of them die or stop."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import daemons
from tests.postgresql import replicas
from tests.postgresql.replicas import Replicas
from tests.postgresql.servers import Database
from tests.repositories import Repository

pytestmark = [pytest.mark.providers, pytest.mark.slow]


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
        daemons.until(
            lambda name=name, commit=commit: asked.repository(name)["commit"] == commit or None,
            f"{name} is followed by another replica",
            seconds=60.0,
        )
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
    for file in range(40):
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
    daemons.until(
        lambda: other.repository("r0")["commit"] == commit or None, "another replica applies it", seconds=60.0
    )
    print(f"taken over and applied {time.monotonic() - began:.1f} s after a SIGSTOP")
    assert other.repository("r0")["holder"] != stopped.name
    time.sleep(max(0.0, began + 30.0 - time.monotonic()))  # what is measured: the stop has this length
    for process in reversed(every):
        os.kill(process, signal.SIGCONT)
    three.settled()
    runs = [one for one in other.runs("r0") if one["commit"] == commit]
    assert [one["counts"].get("created") for one in runs if one["counts"].get("created")] == [4_000]
    source.write("b.yaml", daemons.destination("r0-b"))
    last = source.commit()
    other.applied("r0", last)
    check_histories(three, scene)
    assert len([one for one in other.runs("r0") if one["commit"] == last]) == 1


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
