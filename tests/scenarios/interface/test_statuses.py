"""A status of the interface says of one resource what became of it, and nothing more."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import daemons, stores
from tests.daemons import Daemon, Followed
from tests.projects import (
    MISSING,
    NEEDED,
    Project,
    Resource,
    configuration,
    destination,
    labelled,
    resource,
    told,
    type_of,
)
from tests.scenarios.interface.conftest import OLD, OWNED, World, is_explained

PLAIN, NEW, NOBODY = resource("Fleet", "plain"), resource("Fleet", "new"), resource("Fleet", "nobody")


class Seen(NamedTuple):
    """A request about one resource, the status that it gets, and whether what is stored is shown."""

    status: str
    verb: str
    sent: Resource
    stored: bool
    reason: str | None = None
    notes: tuple[str, ...] = ()


MANAGED = "managed by the repository {}; change it there"
EXTRA = "/extra: is not a known field; the fields here are `apiVersion`, `kind`, `metadata`, `spec`, `status`"
USED = "Configuration all refers to it; change that first"
DEPRECATED = "a new resource cannot be deprecated from the start"
SEEN = (
    Seen("unchanged", "apply", PLAIN, stored=True),
    Seen("not-found", "delete", NOBODY, stored=False),
    Seen("invalid", "apply", {**PLAIN, "extra": 1}, stored=False, reason=EXTRA),
    Seen("in-use", "delete", destination("used", "otlp"), stored=True, notes=(USED,)),
    Seen("forbidden", "apply", labelled(OWNED, description="mine"), stored=True, notes=(MANAGED,)),
    Seen("forbidden", "delete", OWNED, stored=True, notes=(MANAGED,)),
    Seen("deprecated", "apply", labelled(NEW, deprecated=True), stored=False, notes=(DEPRECATED,)),
)


@pytest.mark.parametrize("seen", SEEN, ids=lambda seen: f"{seen.verb} {seen.status}")
def test_that_changes_nothing_has_the_stored_resource_or_what_was_sent(world: World, seen: Seen) -> None:
    kind, name = seen.sent["kind"], seen.sent["metadata"]["name"]
    shown = world.project.get(kind, name) if seen.stored else seen.sent
    expected: dict[str, Any] = {"resource": shown, "status": seen.status}
    if seen.reason is not None:
        expected["reason"] = seen.reason
    if seen.notes:
        expected["notes"] = [note.format(world.repository) for note in seen.notes]
    assert updates(world.project, seen) == [expected]


def updates(project: Project, seen: Seen) -> list[dict[str, Any]]:
    if seen.verb == "apply":
        return project.updates(seen.sent)
    return list(project.deletion(seen.sent)["updates"])


def test_that_changes_something_has_the_resource_after_the_change(project: Project) -> None:
    assert project.updates(NEW) == [{"resource": project.get("Fleet", "new"), "status": "created"}]
    assert project.updates(labelled(NEW, icon="x")) == [
        {"resource": project.get("Fleet", "new"), "status": "configured"}
    ]
    last = project.get("Fleet", "new")
    assert project.deletion(NEW)["updates"] == [{"resource": last, "status": "deleted"}]


@pytest.fixture
def damaged(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon whose store lost a type that the Destination `one` has."""
    with daemons.running(tmp_path / "daemon") as daemon:
        Project(daemon, "default").apply(type_of("own"), destination("one"))
        daemon.stop()
        with stores.sql(daemon.state) as store:
            store.execute("update version set body = ? where kind = 'DestinationType'", b"{")
        yield daemon.start()


def test_that_is_an_error_has_a_reason(damaged: Daemon) -> None:
    project = Project(damaged, "default")
    changed, new = labelled(destination("one"), icon="x"), destination("two")
    reason = "the DestinationType own is damaged in the store; apply it anew, or restore a backup"
    assert project.updates(changed, new) == [
        {"resource": project.get("Destination", "one"), "status": "error", "reason": reason},
        {"resource": new, "status": "error", "reason": reason},
    ]


def test_has_the_resource_with_what_the_same_request_makes_of_its_status(project: Project, followed: Followed) -> None:
    owned, config = destination("owned"), configuration("all", "one", "owned")
    project.apply(type_of("own"), destination("one"))
    followed.source.write("owned.json", json.dumps(owned))
    followed.commit()
    daemons.until(lambda: is_explained(project, owned), "it says who changed it")
    project.apply(config)
    daemons.until(lambda: "rendering" in project.get("Configuration", "all")["status"], "it is rendered")
    misfit = [type_of("own", NEEDED), destination("owned", needed="x"), config]
    for request, statuses, ready in (
        (misfit, ["configured", "forbidden", "unchanged"], False),
        ([config, owned, destination("one"), type_of("own")], [*["unchanged"] * 3, "configured"], True),
    ):
        trial = project.updates(*request, query="?dryRun=true")
        found = project.updates(*request)
        assert [one["status"] for one in found] == statuses
        assert [one["resource"] for one in found] == [
            project.get(one["kind"], one["metadata"]["name"]) for one in request
        ]
        kept = [one["resource"]["status"] for one in found if one["status"] != "configured"]
        assert [one["resource"]["status"] for one in trial if one["status"] != "configured"] == kept
        assert project.status("Configuration", "all")["ready"] is ready


def test_is_an_outcome_and_not_kept_in_the_resource(project: Project) -> None:
    project.apply(NEW)
    project.apply(labelled(NEW, icon="x"))
    assert project.apply(labelled(NEW, icon="x")) == {"new": "unchanged"}
    assert project.get("Fleet", "new")["status"].keys() == {"latest", "source"}


DOCUMENTS = (
    PLAIN,
    {**resource("Fleet", "broken"), "spec": {"selector": 5}, "extra": 1},
    destination("misfit", needed=5, other="x"),
    destination("bare"),
    destination("lost", "nothing"),
    configuration("refers", "bare", "nobody"),
    type_of("own", NEEDED),
    resource("Destination", "whole", type="own", parameters=[{"name": "needed", "value": "x"}]),
)


def test_is_the_same_from_git_and_through_the_interface(project: Project, followed: Followed) -> None:
    dry = {name(one): told(one) for one in project.updates(*DOCUMENTS, query="?dryRun=true")}
    for one in DOCUMENTS:
        followed.source.write(f"{one['metadata']['name']}.json", json.dumps(one))
    run = followed.commit()
    assert {one["name"]: _without_place(told(one)) for one in run["statuses"]} == dry
    assert run["counts"] == {"created": 3, "invalid": 5}
    assert dry["bare"] == f"invalid: {MISSING}"


def name(update: dict[str, Any]) -> str:
    return str(update["resource"]["metadata"]["name"])


def _without_place(text: str) -> str:
    """The same without the file, line and column before each violation."""
    return re.sub(r"(^|: |\n)[a-z]+\.json:\d+:\d+: ", r"\1", text)


def test_stands_in_the_order_of_the_request(project: Project) -> None:
    names = ["b", "a", "C", "a-b", "c"]
    found = project.updates(*(resource("Fleet", one) for one in names))
    assert [name(one) for one in found] == names


def test_stands_in_the_order_of_path_and_position_in_a_commit(followed: Followed) -> None:
    fleet = "apiVersion: service/v1\nkind: Fleet\nmetadata: {{name: {}}}\n"
    files = {"a/x.yaml": ["f"], "a.yaml": ["e", "d"], "B.yaml": ["z"], "b.yaml": ["a", "c", "b"]}
    for path, names in files.items():
        followed.write(path, *(fleet.format(one) for one in names))
    run = followed.commit()
    assert [(one["path"], one["line"], one["name"]) for one in run["statuses"]] == [
        ("B.yaml", 1, "z"),
        ("a.yaml", 1, "e"),
        ("a.yaml", 5, "d"),
        ("a/x.yaml", 1, "f"),
        ("b.yaml", 1, "a"),
        ("b.yaml", 5, "c"),
        ("b.yaml", 9, "b"),
    ]


def test_of_a_deprecated_resource_tells_that_git_stored_it_once(followed: Followed) -> None:
    followed.source.write("old.json", json.dumps(OLD))
    assert followed.commit()["counts"] == {"deprecated": 1}
    stored = followed.destination("old")
    assert stored is not None
    assert stored["metadata"]["version"] == 1
    followed.source.write("old.json", json.dumps(labelled(OLD, icon="x")))
    assert followed.commit()["counts"] == {"configured": 1}
