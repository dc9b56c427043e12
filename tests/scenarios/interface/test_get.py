"""A get of the interface shows the one resource of a kind and a name as it is stored."""

import json

import pytest

from tests.daemons import Followed, until
from tests.projects import Project, Resource, configuration, labelled, resource, type_of, unrendered
from tests.repositories import ADDRESS, AUTHOR

COMPONENTS = ("Source", "Processor", "Connector", "Destination", "Extension")
ALL = (
    *(type_of("t", kind=f"{kind}Type") for kind in COMPONENTS),
    *(resource(kind, "c", type="t") for kind in COMPONENTS),
    configuration("all", "c"),
    resource("Fleet", "f"),
    resource("AgentVersion", "v", anything=[1, {"at": "all"}]),
)
"""One of each kind, which may refer to each other."""
NOT_DELIVERING = {
    "delivers": False,
    "reason": "It has no enabled source of type `otlp` and no enabled destination of type `webhook`; add them.",
}


def test_finds_a_resource_by_kind_and_name(project: Project) -> None:
    both = [labelled(resource(kind, "same"), description=kind) for kind in ("Fleet", "AgentVersion")]
    project.apply(*both, labelled(resource("Fleet", "Same"), description="in capitals"))
    assert project.get("Fleet", "same")["metadata"]["description"] == "Fleet"
    assert project.get("AgentVersion", "same")["metadata"]["description"] == "AgentVersion"
    assert project.get("Fleet", "Same")["metadata"]["description"] == "in capitals"


def test_shows_each_kind_as_apply_list_and_history_do(project: Project) -> None:
    for sent, update in zip(ALL, project.updates(*ALL), strict=True):
        kind, name = sent["kind"], sent["metadata"]["name"]
        shown = unrendered(project.get(kind, name))
        assert update == {"resource": shown, "status": "created"}
        assert shown in map(unrendered, project.daemon.resources(kind, project=project.name))
        assert [*map(unrendered, project.daemon.history(kind, name, project=project.name))] == [shown]
        assert (shown["apiVersion"], shown["kind"], shown["spec"]) == (sent["apiVersion"], kind, sent["spec"])


def test_shows_what_apply_and_delete_take(project: Project) -> None:
    project.apply(*ALL)
    until(lambda: "rendering" in project.get("Configuration", "all")["status"], "it is rendered")
    shown = [project.get(one["kind"], one["metadata"]["name"]) for one in ALL]
    assert project.updates(*shown) == [{"resource": one, "status": "unchanged"} for one in shown]
    assert project.deletion(*shown) == {
        "errors": [],
        "updates": [{"resource": one, "status": "deleted"} for one in shown],
    }


def test_says_of_each_kind_that_it_is_the_latest_and_who_applied_it(project: Project) -> None:
    for update in project.updates(*ALL):
        shown = update["resource"]
        source = {"type": "api", "actor": "key:SERVICE_API_KEY", "date": shown["metadata"]["dateModified"]}
        standing = {}
        if shown["kind"] == "Configuration":
            standing = {"ready": True, "runsOn": "collectors", "delivery": NOT_DELIVERING}
        assert shown["status"] == {"latest": True, "source": source, **standing}


def test_says_of_a_resource_of_git_where_it_stands_and_which_commit_it_is_of(
    project: Project, followed: Followed
) -> None:
    document = labelled(resource("Fleet", "one"), description="first")
    followed.source.write("old/one.json", json.dumps(document))
    first = followed.source.commit()
    followed.daemon.run_of(followed.name, first)
    source = {
        "type": "git",
        "repository": followed.name,
        "branch": "main",
        "commit": first,
        "author": f"{AUTHOR} <{ADDRESS}>",
        "path": "old/one.json",
        "line": 1,
    }
    assert _source(project) == source
    followed.source.write("old/one.json", json.dumps(resource("Fleet", "two")))
    followed.source.write("new/one.json", "\n\n" + json.dumps(document))
    assert followed.commit()["counts"] == {"created": 1, "unchanged": 1}
    assert _source(project) == {**source, "path": "new/one.json", "line": 3}
    assert project.versions("Fleet", "one") == [1]


def _source(project: Project) -> Resource:
    """Return where the Fleet `one` is from, less the date and the commit that touched it."""
    found = dict(project.get("Fleet", "one")["status"]["source"])
    assert found.pop("date")
    found.pop("changedBy", None)
    return found


@pytest.mark.parametrize("path", ["Fleet/a.b", "fleets/a.b", "FLEET/a%2Eb", "%46leet/a.b"])
def test_takes_kind_and_name_from_the_path(project: Project, path: str) -> None:
    project.apply(resource("Fleet", "a.b"))
    answer = project.ask("GET", f"/v1/resources/{path}")
    assert (answer.status, answer.body) == (200, {"resource": project.get("Fleet", "a.b")})


def test_is_not_sent_again_while_the_resource_has_not_changed(project: Project) -> None:
    project.apply(resource("Fleet", "one"))
    path = "/v1/resources/Fleet/one"
    tag = project.ask("GET", path).headers["etag"]
    project.apply(resource("Fleet", "another"))
    held = project.ask("GET", path, If_None_Match=tag)
    assert (held.status, held.content, held.headers["etag"]) == (304, b"", tag)
    project.apply(labelled(resource("Fleet", "one"), icon="x"))
    assert project.ask("GET", path, If_None_Match=tag).status == 200
