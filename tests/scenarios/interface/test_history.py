"""A history of the interface holds every version that was stored, the newest first."""

import json

import pytest

from tests.daemons import Followed
from tests.projects import MISSING, NEEDED, Project, destination, labelled, resource, type_of

ONE = resource("Fleet", "one")


def test_holds_every_version(project: Project) -> None:
    for number in range(30):
        project.apply(labelled(ONE, description=str(number)))
    found = project.daemon.history("Fleet", "one", project=project.name)
    told = [(one["metadata"]["version"], one["metadata"]["description"]) for one in found]
    assert told == [(number + 1, str(number)) for number in reversed(range(30))]
    assert len({one["metadata"]["id"] for one in found}) == 1


def test_begins_with_the_resource_as_get_shows_it_and_calls_no_other_the_latest(project: Project) -> None:
    (first,) = project.updates(ONE)
    project.apply(labelled(ONE, icon="x"))
    earlier = {**first["resource"], "status": {"source": first["resource"]["status"]["source"]}}
    answer = project.ask("GET", "/v1/Fleet/one/history")
    assert (answer.status, answer.body) == (200, {"versions": [project.get("Fleet", "one"), earlier]})


@pytest.mark.parametrize(
    ("resource", "query", "status"),
    [
        (ONE, "", "unchanged"),
        ({**ONE, "extra": 1}, "", "invalid"),
        (labelled(ONE, icon="x"), "?dryRun=true", "configured"),
    ],
)
def test_grows_by_nothing_that_is_not_stored(
    project: Project, resource: dict[str, object], query: str, status: str
) -> None:
    project.apply(ONE)
    before = project.ask("GET", "/v1/Fleet/one/history").content
    assert [one["status"] for one in project.updates(resource, query=query)] == [status]
    assert project.ask("GET", "/v1/Fleet/one/history").content == before


def test_grows_by_nothing_when_a_resource_becomes_incomplete_or_whole(project: Project) -> None:
    project.apply(type_of("own"), destination("one"))
    for definitions, expected in (((NEEDED,), {"incomplete": [MISSING]}), ((), {})):
        project.apply(type_of("own", *definitions))
        assert project.status("Destination", "one") == expected
        assert project.daemon.history("Destination", "one", project=project.name) == [project.get("Destination", "one")]
    assert project.versions("DestinationType", "own") == [3, 2, 1]


def test_outlives_the_resource_which_goes_on_from_it_with_a_new_id(project: Project) -> None:
    (created,) = project.updates(ONE)
    project.delete(ONE)
    gone = {**created["resource"], "status": {"source": created["resource"]["status"]["source"]}}
    assert project.daemon.history("Fleet", "one", project=project.name) == [gone]
    (again,) = project.updates(ONE)
    assert project.daemon.history("Fleet", "one", project=project.name) == [again["resource"], gone]
    assert (again["status"], again["resource"]["metadata"]["version"]) == ("created", 2)
    assert again["resource"]["metadata"]["id"] != gone["metadata"]["id"]


def test_says_of_each_version_which_commit_it_is_of(project: Project, followed: Followed) -> None:
    commits = []
    for description in ("first", "second"):
        followed.source.write("one.json", json.dumps(labelled(ONE, description=description)))
        commits.append(followed.commit()["commit"])
    followed.source.write("README.md", "Nothing of the resource.")
    followed.daemon.applied(followed.name, followed.source.commit())
    found = project.daemon.history("Fleet", "one", project=project.name)
    assert [one["status"]["source"]["commit"] for one in found] == commits[::-1]
    assert [one["status"].get("latest") for one in found] == [True, None]


def test_hides_secrets_in_every_version(project: Project) -> None:
    for secret in ("canary-1", "canary-2"):
        project.apply(destination("hook", "webhook", hostname="h", headers={"Authorization": secret}))
    answer = project.ask("GET", "/v1/destinations/hook/history")
    assert b"canary" not in answer.content
    values = [one["spec"]["parameters"][1]["value"] for one in answer.body["versions"]]
    assert values == [{"Authorization": "(sensitive)"}] * 2
