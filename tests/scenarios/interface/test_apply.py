"""An apply of the interface stores what is new and what differs, each resource judged with all the others."""

import json

import pytest

from tests import daemons
from tests.daemons import Followed
from tests.projects import (
    MISSING,
    NEEDED,
    Project,
    configuration,
    destination,
    labelled,
    resource,
    told,
    type_of,
)

ONE = resource("Fleet", "one")


def test_creates_then_leaves_alone_then_updates(project: Project) -> None:
    assert project.apply(ONE) == {"one": "created"}
    assert project.apply(ONE) == {"one": "unchanged"}
    assert project.apply(labelled(ONE, icon="x")) == {"one": "configured"}
    assert project.versions("Fleet", "one") == [2, 1]


def test_resolves_references_against_the_request_and_the_store_together(project: Project) -> None:
    project.apply(type_of("stored"), destination("before", "stored"))
    both = project.apply(configuration("all", "before", "now"), destination("now", "sent"), type_of("sent"))
    assert both == {"all": "created", "now": "created", "sent": "created"}


@pytest.mark.parametrize("turned", [False, True])
def test_judges_a_user_that_comes_with_its_changed_type_and_keeps_the_stored_one(
    project: Project, turned: bool
) -> None:
    project.apply(type_of("own"), destination("one"))
    both = [type_of("own", NEEDED), labelled(destination("one"), icon="x")]
    assert project.apply(*(reversed(both) if turned else both)) == {"own": "configured", "one": f"invalid: {MISSING}"}
    assert project.versions("Destination", "one") == [1]
    assert project.status("Destination", "one") == {"incomplete": [MISSING]}


def test_judges_a_wanted_user_of_a_type_that_a_commit_changes(project: Project, followed: Followed) -> None:
    followed.source.write("own.json", json.dumps(type_of("own")))
    followed.source.write("one.json", json.dumps(destination("one")))
    followed.commit()
    followed.source.write("own.json", json.dumps(type_of("own", NEEDED)))
    run = followed.commit()
    assert {one["name"]: told(one) for one in run["statuses"]} == {
        "own": "configured",
        "one": f"invalid: one.json:1:120: {MISSING}",
    }
    assert project.versions("Destination", "one") == [1]
    assert project.status("Destination", "one") == {"incomplete": [MISSING]}
    followed.source.write("own.json", json.dumps(type_of("own")))
    assert followed.commit()["outcome"] == "succeeded"
    assert project.status("Destination", "one") == {}


@pytest.mark.parametrize("value", ["", "?acceptInvalid=false", "?acceptInvalid=0"])
def test_saves_nothing_incomplete_unless_it_is_asked_to(project: Project, value: str) -> None:
    project.apply(type_of("own", NEEDED))
    assert project.apply(destination("one"), query=value) == {"one": f"invalid: {MISSING}"}
    assert project.names("Destination") == []


@pytest.mark.parametrize("value", ["true", "1"])
def test_saves_what_is_incomplete_without_a_reason_when_it_is_asked_to(project: Project, value: str) -> None:
    project.apply(type_of("own", NEEDED), destination("stored", needed="x"))
    query = f"?acceptInvalid={value}"
    updates = project.updates(destination("one"), destination("stored"), query=query)
    assert updates == [
        {"resource": project.get("Destination", "one"), "status": "created"},
        {"resource": project.get("Destination", "stored"), "status": "configured"},
    ]
    for name in ("one", "stored"):
        assert project.status("Destination", name) == {"incomplete": [MISSING]}
    assert project.apply(destination("one"), query=query) == {"one": "unchanged"}


def test_of_everything_or_nothing_stores_when_nothing_is_refused(project: Project) -> None:
    project.apply(ONE, resource("Fleet", "two"))
    told = project.apply(ONE, labelled(resource("Fleet", "two"), icon="x"), resource("Fleet", "new"), query="?atomic=1")
    assert told == {"one": "unchanged", "two": "configured", "new": "created"}
    assert project.names("Fleet") == ["new", "one", "two"]


def test_that_is_refused_for_one_stores_the_others(project: Project) -> None:
    applied = project.apply(resource("Fleet", "-"), ONE, destination("lost", "nothing"), type_of("webhook"))
    statuses = {name: status.split(":")[0] for name, status in applied.items()}
    assert statuses == {"-": "invalid", "one": "created", "lost": "invalid", "webhook": "forbidden"}
    assert (project.names("Fleet"), project.names("Destination")) == (["one"], [])


def test_of_the_same_name_twice_names_each_others_place_and_stores_neither(project: Project) -> None:
    project.apply(labelled(ONE, icon="before"))
    updates = project.updates(ONE, resource("Fleet", "two"), labelled(ONE, icon="x"))
    said = "invalid: Fleet one is given more than once, also at item {}; keep one of them"
    assert [told(one) for one in updates] == [said.format(2), "created", said.format(0)]
    assert project.get("Fleet", "one")["metadata"]["icon"] == "before"


def test_of_what_refers_to_a_new_deprecated_one_is_invalid_since_that_is_not_created(project: Project) -> None:
    old = labelled(destination("old", "otlp"), deprecated=True)
    refused = "the Destination old is invalid and not stored yet; mend that first"
    assert project.apply(configuration("all", "old"), old) == {
        "all": f"invalid: /spec/destinations/0/name: {refused}",
        "old": "deprecated",
    }
    assert project.names("Configuration") == []


def test_lets_in_what_git_wants_and_could_not_have(project: Project, followed: Followed) -> None:
    followed.source.write("one.json", json.dumps(destination("one")))
    followed.source.write("all.json", json.dumps(configuration("all", "one")))
    assert followed.commit()["counts"] == {"invalid": 2}
    assert project.apply(type_of("own")) == {"own": "created"}
    daemons.until(lambda: project.names("Configuration") == ["all"], "both are let in")
    assert project.names("Destination") == ["one"]
    assert project.status("Configuration", "all") == {"ready": True}
    assert project.get("Destination", "one")["status"]["source"]["repository"] == followed.name
