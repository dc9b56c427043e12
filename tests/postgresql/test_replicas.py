"""Three replicas on one database: each repository is followed by one of them, whichever of them die or stop."""

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
