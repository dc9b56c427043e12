"""Hooks, settings and metrics of three replicas: whichever is asked, told or reloaded, each thing happens once."""

import time
from pathlib import Path

import pytest

from tests import daemons, forges
from tests.daemons import Daemon
from tests.ops.scraping import scrape
from tests.postgresql import replicas
from tests.postgresql.replicas import NAMES
from tests.postgresql.servers import Database
from tests.repositories import Repository
from tests.scenarios.remote_cases.remote import Upstream, secret_file
from tests.servers import gitd

pytestmark = [pytest.mark.providers, pytest.mark.slow]

BEATS_SECONDS = 15.0  # in which every replica has heard of the others three times


def test_a_hook_reaches_the_holder_whoever_gets_it(tmp_path: Path, database: Database) -> None:
    secret = secret_file(tmp_path / "secret", forges.SECRET)
    upstream = Upstream(tmp_path)
    with gitd.serving(upstream.served, log=tmp_path / "log") as server:
        hook = {"secretFile": str(secret)}
        watched = {"name": "remote", "url": server.url(), "branch": "main", "interval": "24h", "hook": hook}
        with replicas.running(tmp_path / "replicas", database=database, repositories=[watched]) as three:
            three["one"].applied("remote", upstream.source.head())
            for number, name in enumerate(NAMES):
                commit = upstream.push(f"c{number}")
                delivery = forges.gitea(identity=str(number))
                began = time.monotonic()
                asked = three[name].ask("POST", "/hooks/remote", delivery.body, delivery.headers)
                assert asked.status == 202
                run = three["one"].run_of("remote", commit)
                print(f"applied {time.monotonic() - began:.2f} s after a hook at {name}")
                assert run["trigger"] == "hook"


def deleted(asked: Daemon, name: str) -> int:
    """How often a repository was released."""
    events = asked.get(f"/v1/audit-events?kind=Repository&name={name}").body["events"]
    return [one["action"] for one in events].count("deleted")


def test_a_repository_is_released_once_when_all_have_the_same_settings(tmp_path: Path, database: Database) -> None:
    watched = []
    for name in ("r0", "r1", "r2"):
        source = Repository.init(tmp_path / name)
        source.write("a.yaml", daemons.destination(f"{name}-a"))
        source.commit()
        watched.append(daemons.watched(name, source.path))
    with replicas.running(tmp_path / "replicas", database=database, repositories=watched) as three:
        holders = three.settled()
        for name in NAMES:
            assert three[name].delete("/v1/resources/Destination/r2-a").status == 403  # a repository owns it
            assert deleted(three["one"], "r2") == 0
            three[name].configure(watched[:2])
            assert three[name].reload().startswith("Reloaded")
            if name != NAMES[-1] and holders["r2"] != name:
                assert three[holders["r2"]].repository("r2")["holder"] in NAMES

        def is_released() -> bool:
            return deleted(three["two"], "r2") == 1

        daemons.until(is_released, "the repository is released", seconds=BEATS_SECONDS)
        assert three["one"].get("/v1/repositories/r2").status == 404
        assert three["three"].delete("/v1/resources/Destination/r2-a").status == 204
        # What comes back is followed again.
        for name in NAMES:
            three[name].configure(watched)
            three[name].reload()
        three.settled()

        def is_back() -> bool:
            return three["one"].resource("Destination", "r2-a") is not None

        daemons.until(is_back, "the repository is applied again")
        assert deleted(three["two"], "r2") == 1


def test_a_repository_moves_to_another_project_when_all_have_the_same_settings(
    tmp_path: Path, database: Database
) -> None:
    source = Repository.init(tmp_path / "source")
    source.write("a.yaml", daemons.destination("a"))
    commit = source.commit()
    with replicas.running(
        tmp_path / "replicas", database=database, repositories=[daemons.watched("only", source.path)]
    ) as three:
        three["one"].applied("only", commit)
        for name in NAMES:
            three[name].configure([daemons.watched("only", source.path, project="other")])
            assert three[name].reload().startswith("Reloaded")

        def has_moved() -> bool:
            return three["two"].resource("Destination", "a", project="other") is not None

        daemons.until(has_moved, "the resource is in the other project", seconds=2 * BEATS_SECONDS)
        assert three["three"].delete("/v1/resources/Destination/a", project="default").status == 204
        assert three["three"].delete("/v1/resources/Destination/a", project="other").status == 403


def test_the_state_of_a_repository_is_measured_once(tmp_path: Path, database: Database) -> None:
    source = Repository.init(tmp_path / "source")
    source.write("a.yaml", daemons.destination("a"))
    commit = source.commit()
    watched = [daemons.watched("only", source.path)]
    with replicas.running(tmp_path / "replicas", database=database, repositories=watched) as three:
        for one in three.every.values():
            one.applied("only", commit)
        holder = three["one"].repository("only")["holder"]
        for name, one in three.every.items():
            found = scrape(one).values("reconciler_repository_state", repository="only")
            assert len(found) == (name == holder)
