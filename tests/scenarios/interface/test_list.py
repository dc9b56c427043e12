"""A list of the interface holds the resources of one kind as they are stored at one moment."""

import json
import threading

import pytest

from tests.daemons import Followed, until
from tests.projects import Project, labelled, resource, type_of

NAMES = ["B", "a", "a-b", "a.b", "b"]  # in byte order


def test_holds_the_resources_of_its_kind_alone_as_get_shows_them(project: Project) -> None:
    project.apply(*(resource("Fleet", name) for name in reversed(NAMES)), resource("AgentVersion", "a"))
    listed = project.ask("GET", "/v1/resources/Fleet")
    assert (listed.status, listed.body) == (200, {"resources": [project.get("Fleet", name) for name in NAMES]})
    assert project.names("AgentVersion") == ["a"]


def test_without_resources_is_an_empty_array(project: Project) -> None:
    assert project.ask("GET", "/v1/resources/Fleet").content == b'{"resources":[]}'


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
def test_ends_with_a_page_of_fewer_than_the_limit(project: Project, limit: int) -> None:
    project.apply(*(resource("Fleet", name) for name in NAMES))
    found: list[str] = []
    while True:
        after = found[-1] if found else ""
        page = project.ask("GET", f"/v1/resources/fleets?limit={limit}&after={after}").body["resources"]
        found += [one["metadata"]["name"] for one in page]
        if len(page) < limit:
            break
    assert found == NAMES


def test_holds_what_a_selector_matches(project: Project) -> None:
    labels = {"a": {"team": "edge"}, "b": {"team": "core"}, "c": {}}
    project.apply(*(labelled(resource("Fleet", name), labels=given) for name, given in labels.items()))
    for selector, names in {
        "team%3Dedge": ["a"],
        "team": ["a", "b"],
        "!team": ["c"],
        "team%21%3Dedge": ["b", "c"],
    }.items():
        listed = project.ask("GET", f"/v1/resources/Fleet?selector={selector}").body["resources"]
        assert [one["metadata"]["name"] for one in listed] == names


def test_is_not_sent_again_while_nothing_has_changed(project: Project) -> None:
    path = "/v1/resources/Fleet"

    def held() -> str | None:
        """The tag. Another project's repository may be read in between, and the change counter is everybody's."""
        tag = project.ask("GET", path).headers["etag"]
        answer = project.ask("GET", path, If_None_Match=tag)
        if answer.status != 304:
            return None
        assert (answer.content, answer.headers["etag"]) == (b"", tag)
        return tag

    tag = until(held, "nothing changes for a moment")
    project.apply(resource("Fleet", "one"))
    changed = project.ask("GET", path, If_None_Match=tag)
    assert (changed.status, len(changed.body["resources"])) == (200, 1)


def test_holds_a_resource_that_shadows_what_is_built_in_once(project: Project) -> None:
    project.apply(type_of("otlp"))
    listed = project.ask("GET", "/v1/resources/DestinationType").body["resources"]
    names = [one["metadata"]["name"] for one in listed]
    assert names == ["custom", "debug", "otlp", "otlphttp", "webhook"]
    assert listed[2] == project.get("DestinationType", "otlp")
    assert listed[2]["status"]["source"]["type"] == "api"
    project.delete(type_of("otlp"))
    assert project.get("DestinationType", "otlp")["status"] == {
        "latest": True,
        "runsOn": ["collectors"],
        "source": {"type": "builtin"},
    }


def test_shows_all_of_a_commit_or_none_of_it(project: Project, followed: Followed) -> None:
    names = [f"n{number:03}" for number in range(300)]  # more than the store gives at once

    def commit(description: str) -> None:
        for name in names:
            document = labelled(resource("Fleet", name), description=description)
            followed.source.write(f"{name}.json", json.dumps(document))
        assert followed.commit()["outcome"] == "succeeded"

    commit("first")
    done, seen = threading.Event(), []

    def look() -> None:
        while not done.is_set():
            listed = project.ask("GET", "/v1/resources/Fleet").body["resources"]
            seen.append((len(listed), {one["metadata"]["description"] for one in listed}))

    reader = threading.Thread(target=look)
    reader.start()
    try:
        for description in ("second", "third"):
            commit(description)
    finally:
        done.set()
        reader.join()
    assert {count for count, _ in seen} == {len(names)}
    assert {len(descriptions) for _, descriptions in seen} == {1}
    assert len({next(iter(descriptions)) for _, descriptions in seen}) > 1, "the lists were all read before a commit"
