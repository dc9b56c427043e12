"""The interface is tested on a daemon: one for a module, a project with a repository of its own for each test."""

import json
from dataclasses import dataclass

import pytest

from tests.daemons import Daemon, Followed, until
from tests.following import Follow, daemon, follow, source
from tests.projects import Project, Resource, configuration, destination, labelled, resource, type_of
from tests.repositories import Repository

__all__ = ["daemon", "follow", "source"]


@pytest.fixture
def followed(source: Repository, follow: Follow) -> Followed:
    """The repository of the project, which holds nothing yet."""
    source.commit()
    return follow(source)


@pytest.fixture
def project(daemon: Daemon, followed: Followed) -> Project:
    return Project(daemon, followed.project)


OWNED = labelled(resource("Fleet", "owned"), description="as Git says")
OWNED_TYPE = type_of("owned-type")
OWNED_DESTINATION = destination("owned", "otlp")
HELD = (
    resource("Fleet", "plain"),
    destination("user", "owned-type"),
    destination("used", "otlp"),
    destination("old", "otlp"),
    configuration("all", "used", "old"),
)
OLD = labelled(destination("old", "otlp"), deprecated=True)


@dataclass(frozen=True, slots=True)
class World:
    """A project that holds a bit of everything, for tests that change nothing in it.

    A repository owns the Fleet `owned`, the Destination `owned` and the DestinationType `owned-type`, which the
    Destination `user` has. The Configuration `all` names the Destinations `used` and `old`; `old` is deprecated.
    Nothing refers to the Fleet `plain`.
    """

    project: Project
    repository: str

    def stored(self) -> list[Resource]:
        """All of it."""
        kinds = ("Fleet", "DestinationType", "Destination", "Configuration")
        return [one for kind in kinds for one in self.project.daemon.resources(kind, project=self.project.name)]


@pytest.fixture(scope="module")
def world(daemon: Daemon, tmp_path_factory: pytest.TempPathFactory) -> World:
    source = Repository.init(tmp_path_factory.mktemp("world"))
    for one in (OWNED, OWNED_TYPE, OWNED_DESTINATION):
        source.write(f"{one['kind']}.json", json.dumps(one))
    commit = source.commit()
    followed = Followed(daemon, source, name="world")
    daemon.run_of(followed.name, commit)
    project = Project(daemon, followed.project)
    assert set(project.apply(*HELD).values()) == {"created"}
    assert project.apply(OLD) == {"old": "configured"}
    until(lambda: "rendering" in project.get("Configuration", "all")["status"], "it is rendered")
    for one in (OWNED, OWNED_TYPE, OWNED_DESTINATION):
        until(lambda one=one: is_explained(project, one), "it says who changed it")  # type: ignore[misc]
    return World(project, followed.name)


def is_explained(project: Project, one: Resource) -> bool:
    """Return True once a resource of Git says which commit changed it, which comes a moment after a read."""
    return "changedBy" in project.get(one["kind"], one["metadata"]["name"])["status"]["source"]
