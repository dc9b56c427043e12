"""Documents that are judged together: references, types and incomplete resources, through the API."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from tests import daemons, stores
from tests.daemons import Daemon
from tests.following import Follow
from tests.projects import (
    MISSING,
    NEEDED,
    OPTIONAL,
    Project,
    Resource,
    configuration,
    destination,
    resource,
    type_of,
)
from tests.repositories import Repository


@pytest.fixture
def project(daemon: Daemon, source: Repository, follow: Follow) -> Project:
    source.commit()
    return Project(daemon, follow(source).project)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_the_order_in_a_request_never_matters(project: Project, order: tuple[int, ...]) -> None:
    resources = [type_of("own", NEEDED), destination("one", needed="x"), configuration("all", "one")]
    assert project.apply(*(resources[index] for index in order)) == {
        "own": "created",
        "one": "created",
        "all": "created",
    }


def test_a_missing_reference_is_named(project: Project) -> None:
    told = project.apply(destination("one", "nothing"), configuration("all", "two"))
    assert told == {
        "one": "invalid: /spec/type: there is no DestinationType nothing; create it, or correct the name",
        "all": "invalid: /spec/destinations/0/name: there is no Destination two; create it, or correct the name",
    }
    assert project.names("Destination") == []


def test_what_refers_to_something_refused_is_refused_in_turn(project: Project) -> None:
    told = project.apply(type_of("own", NEEDED), destination("one"), configuration("all", "one"))
    assert told == {
        "own": "created",
        "one": f"invalid: {MISSING}",
        "all": "invalid: /spec/destinations/0/name: the Destination one is invalid and not stored yet; mend that first",
    }


def test_what_refers_to_something_refused_that_is_stored_in_an_older_version_is_stored(project: Project) -> None:
    project.apply(type_of("own", NEEDED), destination("one", needed="x"))
    told = project.apply(destination("one"), configuration("all", "one"))
    assert told == {"one": f"invalid: {MISSING}", "all": "created"}


def test_two_that_refer_to_each_other_hold_each_other_up(project: Project) -> None:
    one = resource("Processor", "one", type="custom", processors=[{"name": "two"}])
    two = resource("Processor", "two", type="custom", processors=[{"name": "one"}])
    assert project.apply(one) == {
        "one": "invalid: /spec/processors/0/name: there is no Processor two; create it, or correct the name"
    }
    assert project.apply(one, two) == {"one": "created", "two": "created"}
    assert project.delete(one) == ({"one": "in-use"}, [
        "Processor one: in-use: Processor two refers to it; change that first"
    ])  # fmt: skip
    assert project.delete(one, two) == ({"one": "deleted", "two": "deleted"}, [])


def test_a_version_in_a_reference_does_not_matter(project: Project) -> None:
    assert project.apply(type_of("own"), destination("one", "own:5")) == {"own": "created", "one": "created"}
    assert project.delete(type_of("own"))[0] == {"own": "in-use"}


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({}, MISSING),
        ({"needed": ""}, "/spec/parameters/0/value: is empty; `needed` is required and has no default"),
        ({"needed": 5}, "/spec/parameters/0/value: is not a string"),
        ({"needed": "x", "optional": "y"}, "/spec/parameters/1/value: is not an integer"),
    ],
)
def test_a_parameter_that_does_not_fit_its_type_is_invalid_and_may_be_accepted_as_incomplete(
    project: Project, parameters: dict[str, Any], reason: str
) -> None:
    project.apply(type_of("own", NEEDED, OPTIONAL))
    assert project.apply(destination("one", **parameters)) == {"one": f"invalid: {reason}"}
    assert project.apply(destination("one", **parameters), query="?acceptInvalid=true") == {"one": "created"}
    assert project.status("Destination", "one") == {"incomplete": [reason]}
    assert project.apply(destination("one", needed="z")) == {"one": "configured"}
    assert project.status("Destination", "one") == {}


UNKNOWN = "/spec/parameters/1/name: is not a parameter of the type `own`; its parameters are `needed`"


def test_a_parameter_that_its_type_does_not_know_is_kept_masked_and_told(project: Project) -> None:
    project.apply(type_of("own", NEEDED))
    sent = destination("one", needed="x", other="canary-unknown")
    for status in ("created", "unchanged"):
        [update] = project.updates(sent)
        assert update["status"] == status
        assert update["notes"] == [f"{UNKNOWN}; it is kept all the same, and masked"]
        shown = {one["name"]: one["value"] for one in update["resource"]["spec"]["parameters"]}
        assert shown == {"needed": "x", "other": "(sensitive)"}
    assert project.status("Destination", "one") == {}


def test_unknown_parameters_are_refused_where_the_settings_say_so(tmp_path: Path, source: Repository) -> None:
    """In a request, and in a commit."""
    source.write("git.yaml", json.dumps(destination("git", "otlp", compresion="gzip")))
    source.commit()
    settings = {"resources": {"unknownParameters": "refuse"}}
    with daemons.running(tmp_path, settings=settings) as daemon:
        [update] = daemon.apply(destination("api", "otlp", compresion="gzip"))
        assert (update["status"], "notes" in update) == ("invalid", False)
        run = daemons.Followed(daemon, source, name="r").head()
        assert [(one["name"], one["status"]) for one in run["statuses"]] == [("git", "invalid")]
        assert daemon.resource("Destination", "git", project="r") is None


def test_a_parameter_that_a_type_of_the_service_itself_does_not_know_is_invalid(project: Project) -> None:
    webhook = destination("one", "webhook", hostname="a.example.com", hostnam="x")
    storage = resource("Extension", "two", type="file_storage", parameters=[{"name": "max_byte", "value": 1}])
    told = project.apply(webhook, storage)
    assert told["one"].startswith("invalid: /spec/parameters/1/name: is not a parameter of the type `webhook`")
    assert told["two"].startswith("invalid: /spec/parameters/0/name: is not a parameter of the type `file_storage`")


def test_accepting_what_is_incomplete_does_not_trip_an_atomic_apply(project: Project) -> None:
    told = project.apply(type_of("own", NEEDED), destination("one"), query="?acceptInvalid=true&atomic=true")
    assert told == {"own": "created", "one": "created"}


@pytest.mark.parametrize(
    "broken",
    [
        destination("one", "nothing"),
        resource("Destination", "one", type=5),
        resource("Destination", "one", type="otlp", parameters=[{"name": "port", "value": 1}] * 2),
    ],
)
def test_only_parameters_are_accepted_as_incomplete(project: Project, broken: Resource) -> None:
    assert project.apply(broken, query="?acceptInvalid=true")["one"].startswith("invalid: ")


def test_a_configuration_that_names_or_holds_an_incomplete_component_is_not_ready(project: Project) -> None:
    inline = resource("Configuration", "inline", destinations=[{"type": "own"}])
    project.apply(
        type_of("own", NEEDED), destination("one"), configuration("named", "one"), inline, query="?acceptInvalid=true"
    )
    assert project.status("Configuration", "named") == {
        "ready": False,
        "incomplete": ["/spec/destinations/0/name: the Destination one is incomplete; complete it"],
    }
    assert project.status("Configuration", "inline") == {
        "ready": False,
        "incomplete": ["/spec/destinations/0/parameters: `needed` is required and has no default"],
    }
    project.apply(destination("one", needed="x"))
    assert project.status("Configuration", "named") == {"ready": True}
    versions = project.daemon.history("Configuration", "named", project=project.name)
    assert [version["metadata"]["version"] for version in versions] == [1]


def test_incompleteness_goes_up_through_every_component_that_names_another(project: Project) -> None:
    inner = resource("Processor", "inner", type="own", parameters=[{"name": "needed", "value": "x"}])
    outer = resource("Processor", "outer", type="custom", processors=[{"name": "inner"}])
    over = resource("Destination", "over", type="otlp", processors=[{"name": "outer"}])
    processors = type_of("own", NEEDED, kind="ProcessorType")
    project.apply(processors, inner, outer, over, configuration("all", "over"))
    assert project.status("Configuration", "all") == {"ready": True}
    project.apply(type_of("own", NEEDED, {**NEEDED, "name": "more"}, kind="ProcessorType"))
    assert project.status("Processor", "inner") == {
        "incomplete": ["/spec/parameters: `more` is required and has no default"]
    }
    assert project.status("Processor", "outer")["incomplete"] == [
        "/spec/processors/0/name: the Processor inner is incomplete; complete it"
    ]
    assert project.status("Configuration", "all")["ready"] is False
    project.apply(processors)
    for kind, name in (("Processor", "inner"), ("Processor", "outer"), ("Destination", "over")):
        assert project.status(kind, name) == {}
    assert project.status("Configuration", "all") == {"ready": True}


def test_a_type_change_is_never_refused_and_judges_its_users_again(project: Project) -> None:
    project.apply(type_of("own", OPTIONAL), destination("one", optional=5), destination("two"))
    assert project.apply(type_of("own", {**OPTIONAL, "maximum": 4})) == {"own": "configured"}
    assert project.status("Destination", "one") == {"incomplete": ["/spec/parameters/0/value: is greater than 4"]}
    assert project.status("Destination", "two") == {}
    assert project.apply(destination("one", optional=5)) == {
        "one": "invalid: /spec/parameters/0/value: is greater than 4"
    }


def test_what_makes_others_incomplete_names_them(project: Project) -> None:
    """A type, and what is named by others; the first are named, and the rest is counted."""
    names = [f"d{number:02}" for number in range(11)]
    project.apply(type_of("own", OPTIONAL), type_of("free"), destination("fine"))
    project.apply(*[destination(name, optional=5) for name in names])
    project.apply(configuration("edge", "d10"))
    changed = (type_of("own", {**OPTIONAL, "maximum": 4}), type_of("free", OPTIONAL))
    first = ", ".join(["Configuration edge", *(f"Destination {name}" for name in names[:9])])
    told = [f"makes {first} and 2 more incomplete; `status.incomplete` of each says what to complete"]
    for query in ("?dryRun=true", ""):
        own, free = project.updates(*changed, query=query)
        assert own["notes"] == told
        assert "notes" not in free
    [again] = project.updates(type_of("own", {**OPTIONAL, "maximum": 3}))
    assert "notes" not in again  # they are incomplete already


def test_a_run_names_what_becomes_incomplete(source: Repository, follow: Follow) -> None:
    source.write("own.yaml", json.dumps(type_of("own", OPTIONAL)))
    source.write("one.yaml", json.dumps(destination("one", optional=5)))
    source.commit()
    followed = follow(source)
    assert followed.head()["counts"] == {"created": 2}
    source.write("own.yaml", json.dumps(type_of("own", {**OPTIONAL, "maximum": 4})))
    statuses = {one["name"]: one for one in followed.commit()["statuses"]}
    told = "makes Destination one incomplete; `status.incomplete` of each says what to complete"
    assert statuses["own"]["notes"] == [told]
    assert statuses["one"]["status"] == "invalid"


def test_a_type_and_its_users_change_together(project: Project) -> None:
    project.apply(type_of("own"), destination("one"))
    told = project.apply(destination("one", needed="x"), type_of("own", NEEDED))
    assert told == {"one": "configured", "own": "configured"}
    assert project.status("Destination", "one") == {}


def test_a_built_in_type_is_shadowed_until_the_project_deletes_its_own(project: Project) -> None:
    project.apply(destination("one", "otlp", port=4317))
    assert project.apply(type_of("otlp", NEEDED)) == {"otlp": "created"}
    assert project.status("Destination", "one")["incomplete"] == [MISSING]
    assert project.delete(type_of("otlp"))[0] == {"otlp": "in-use"}


@pytest.mark.parametrize(
    "reserved",
    [
        type_of("webhook"),
        type_of("file_storage", kind="ExtensionType"),
        resource("Extension", "file_storage_persistent_queue", type="file_storage"),
    ],
)
def test_a_reserved_name_is_forbidden(project: Project, reserved: Resource) -> None:
    reserved["metadata"]["description"] = "mine"
    name = reserved["metadata"]["name"]
    assert project.apply(reserved) == {name: "forbidden"}
    assert project.delete(reserved) == (
        {name: "forbidden"},
        [f"{reserved['kind']} {name}: forbidden: it is built in; choose another name"],
    )


def test_what_is_built_in_is_not_deleted(project: Project) -> None:
    assert project.delete(type_of("otlp"))[0] == {"otlp": "forbidden"}
    answer = project.daemon.delete("/v1/resources/DestinationType/otlp", project=project.name)
    assert answer.status == 403


def test_a_resource_in_use_is_not_deleted_and_its_users_are_named(project: Project) -> None:
    project.apply(destination("one", "otlp"), configuration("first", "one"), configuration("second", "one"))
    assert project.delete(destination("one")) == (
        {"one": "in-use"},
        ["Destination one: in-use: Configuration first, Configuration second refer to it; change that first"],
    )
    answer = project.daemon.delete("/v1/resources/Destination/one", project=project.name)
    assert (answer.status, answer.body["errors"]) == (
        409,
        ["Destination one: in-use: Configuration first, Configuration second refer to it; change that first"],
    )
    told, errors = project.delete(configuration("first"), destination("one"), configuration("second"))
    assert (told, errors) == ({"first": "deleted", "one": "deleted", "second": "deleted"}, [])


def test_what_cannot_be_deleted_keeps_what_it_refers_to(project: Project) -> None:
    project.apply(type_of("own"), destination("one"), configuration("all", "one"))
    told, _ = project.delete(type_of("own"), destination("one"))
    assert told == {"own": "in-use", "one": "in-use"}


def test_the_extension_of_a_queue_is_in_use(project: Project) -> None:
    project.apply(
        resource("Extension", "disk", type="file_storage"),
        destination("one", "webhook", hostname="h", persistent_queue_storage="disk"),
    )
    assert project.delete(resource("Extension", "disk"))[0] == {"disk": "in-use"}


DISK = resource("Extension", "disk", type="file_storage")
MOVED = resource("Extension", "disk", type="other")
QUEUED = destination("one", "webhook", hostname="h", persistent_queue_storage="disk")
OTHER = "/spec/parameters/1/value: names an Extension of another type; name one of the type `file_storage`"


def test_a_webhook_keeps_no_queue_in_an_extension_of_another_type(project: Project) -> None:
    project.apply(type_of("other", kind="ExtensionType"), MOVED)
    assert project.apply(QUEUED) == {"one": f"invalid: {OTHER}"}
    assert project.apply(QUEUED, DISK) == {"one": "created", "disk": "configured"}
    assert project.apply(MOVED, QUEUED) == {"disk": "configured", "one": f"invalid: {OTHER}"}


def test_an_extension_of_another_type_may_be_accepted_until_there_is_a_right_one(project: Project) -> None:
    told = project.apply(type_of("other", kind="ExtensionType"), MOVED, QUEUED, query="?acceptInvalid=true")
    assert told == {"other": "created", "disk": "created", "one": "created"}
    assert project.status("Destination", "one") == {"incomplete": [OTHER]}
    project.apply(DISK)
    assert project.status("Destination", "one") == {}


def test_another_type_of_an_extension_judges_the_webhooks_that_name_it_again(project: Project) -> None:
    project.apply(type_of("other", kind="ExtensionType"), DISK, QUEUED, configuration("all", "one"))
    assert project.apply(MOVED) == {"disk": "configured"}
    assert project.status("Destination", "one") == {"incomplete": [OTHER]}
    assert project.status("Configuration", "all")["ready"] is False
    project.apply(DISK)
    assert project.status("Destination", "one") == {}
    assert project.status("Configuration", "all") == {"ready": True}


def test_what_is_judged_again_for_another_reason_still_names_an_extension_of_another_type(project: Project) -> None:
    queued = {**QUEUED, "spec": {**QUEUED["spec"], "processors": [{"type": "own"}]}}
    processors = type_of("own", kind="ProcessorType")
    project.apply(type_of("other", kind="ExtensionType"), processors, MOVED, queued, query="?acceptInvalid=true")
    project.apply(type_of("own", NEEDED, kind="ProcessorType"))
    assert project.status("Destination", "one") == {
        "incomplete": ["/spec/processors/0/parameters: `needed` is required and has no default", OTHER]
    }
    project.apply(processors)
    assert project.status("Destination", "one") == {"incomplete": [OTHER]}


def test_a_storage_stays_beneath_the_state_directory(project: Project) -> None:
    def storage(name: str) -> Resource:
        return resource("Extension", "disk", type="file_storage", parameters=[{"name": "directory", "value": name}])

    plain = "is not a plain name: letters, digits, `-`, `_` or `.`, beginning with a letter or digit"
    assert project.apply(storage("../../etc")) == {"disk": f"invalid: /spec/parameters/0/value: {plain}"}
    assert project.apply(storage("")) == {"disk": "created"}
    assert project.apply(storage("queue-1")) == {"disk": "configured"}


def test_a_type_and_an_extension_that_are_damaged_in_the_store_are_errors_of_their_users_alone(tmp_path: Path) -> None:
    with daemons.running(tmp_path / "daemon") as daemon:
        assert daemon.post("/v1/projects", {"name": "other"}).status == 201
        typed, queued = Project(daemon, "default"), Project(daemon, "other")
        typed.apply(type_of("own"), destination("one"))
        queued.apply(DISK)
        daemon.stop()
        with stores.sql(daemon.state) as store:
            store.execute("update version set body = ? where kind in ('DestinationType', 'Extension')", b"{")
        daemon.start()
        told = typed.apply(destination("two"), destination("three", "otlp"))
        damage = "the DestinationType own is damaged in the store; apply it anew, or restore a backup"
        assert told == {"two": f"error: {damage}", "three": "created"}
        assert typed.apply(type_of("own", OPTIONAL), destination("two")) == {"own": "configured", "two": "created"}
        damage = "the Extension disk is damaged in the store; apply it anew, or restore a backup"
        assert queued.apply(QUEUED, destination("three", "otlp")) == {"one": f"error: {damage}", "three": "created"}
