"""A delete of the interface removes what is named, unless something else needs it."""

import json
from typing import Any, NamedTuple

import pytest

from tests import daemons
from tests.daemons import Followed
from tests.projects import Project, Resource, destination, labelled, resource, type_of
from tests.scenarios.interface.conftest import OWNED, World

PLAIN = resource("Fleet", "plain")


def test_answers_each_resource_with_a_status_and_each_that_stays_with_a_line(
    project: Project, followed: Followed
) -> None:
    followed.source.write("owned.json", json.dumps(OWNED))
    followed.commit()
    used = destination("used", "otlp")
    users = [resource("Configuration", name, destinations=[{"name": "used"}]) for name in ("b", "a")]
    project.apply(PLAIN, used, *users)
    before = {name: project.get(kind, name) for kind, name in (("Fleet", "plain"), ("Destination", "used"))}
    nobody, unknown = resource("Fleet", "nobody"), {"kind": "fleet", "metadata": {"name": "-"}}
    answer = project.deletion(PLAIN, nobody, unknown, used, OWNED)
    reason = answer["updates"][2].pop("reason")
    used_by = "Configuration a, Configuration b refer to it; change that first"
    managed_by = f"managed by the repository {followed.name}; change it there"
    assert answer == {
        "errors": [
            f"item 2: invalid: {reason}".replace("\n", "; "),
            f"Destination used: in-use: {used_by}",
            f"Fleet owned: forbidden: {managed_by}",
        ],
        "updates": [
            {"resource": before["plain"], "status": "deleted"},
            {"resource": nobody, "status": "not-found"},
            {"resource": unknown, "status": "invalid"},
            {"resource": before["used"], "status": "in-use", "notes": [used_by]},
            {"resource": project.get("Fleet", "owned"), "status": "forbidden", "notes": [managed_by]},
        ],
    }
    assert [line.split(": ")[0] for line in reason.split("\n")] == ["/kind", "/metadata/name"]
    assert (project.names("Fleet"), project.names("Destination")) == (["owned"], ["used"])


@pytest.mark.parametrize(
    "rest",
    [
        {},
        {"apiVersion": "another/v9", "spec": [1], "status": "gone", "extra": None},
        {"metadata": {"name": "plain", "id": "other", "labels": 7, "colour": "red", "deprecated": True}},
    ],
)
def test_looks_at_kind_and_name_alone(project: Project, rest: Resource) -> None:
    (created,) = project.updates(PLAIN)
    named = {"kind": "Fleet", "metadata": {"name": "plain"}, **rest}
    assert project.deletion(named) == {
        "errors": [],
        "updates": [{"resource": created["resource"], "status": "deleted"}],
    }


def test_that_is_refused_for_one_removes_the_others(world: World, project: Project) -> None:
    project.apply(PLAIN)
    assert world.project.delete(destination("used", "otlp"))[0] == {"used": "in-use"}
    told, errors = project.delete(type_of("otlp"), PLAIN)
    assert told == {"otlp": "forbidden", "plain": "deleted"}
    assert errors == ["DestinationType otlp: forbidden: it is built in; choose another name"]


# What is in use


class Use(NamedTuple):
    """A reference between two resources, and its place; `more` has to be there as well."""

    user: Resource
    used: Resource
    place: str
    more: tuple[Resource, ...] = ()

    def __str__(self) -> str:
        return f"{self.user['kind']}{self.place} to {self.used['kind']}"


COMPONENTS = ("Source", "Processor", "Connector", "Destination", "Extension")


def component(kind: str, name: str, **spec: Any) -> Resource:
    return resource(kind, name, **{"type": "shared", **spec})


def shared(*kinds: str) -> tuple[Resource, ...]:
    """The types that `component` means."""
    return tuple(type_of("shared", kind=f"{kind}Type") for kind in sorted(set(kinds)))


def uses() -> list[Use]:
    found = []
    processor, processor_type = component("Processor", "used"), type_of("used", kind="ProcessorType")
    for kind in COMPONENTS:
        own = type_of("used", kind=f"{kind}Type")
        listed = f"{kind.lower()}s"
        one, both = shared(kind), shared(kind, "Processor")
        found += [
            Use(resource(kind, "user", type="used"), own, "/type"),
            Use(component(kind, "user", processors=[{"name": "used"}]), processor, "/processors/name", both),
            Use(
                component(kind, "user", processors=[{"type": "used"}]), processor_type, "/processors/type", shared(kind)
            ),
            Use(
                resource("Configuration", "user", **{listed: [{"name": "used"}]}),
                component(kind, "used"),
                f"/{listed}/name",
                one,
            ),
            Use(resource("Configuration", "user", **{listed: [{"type": "used"}]}), own, f"/{listed}/type"),
        ]
    inline = {"type": "shared", "processors": [{"name": "used"}, {"type": "used", "id": "x"}]}
    nested = resource("Configuration", "user", sources=[inline])
    more = (*shared("Source", "Processor"), processor)
    return [
        *found,
        Use(nested, processor_type, "/sources/processors/type", more),
        Use(nested, processor, "/sources/processors/name", (*more[:-1], processor_type)),
        Use(
            resource("Configuration", "user", destinations=[webhook_with("used")]),
            resource("Extension", "used", type="file_storage"),
            "/destinations/parameters",
        ),
    ]


def webhook_with(storage: str) -> dict[str, Any]:
    parameters = {"hostname": "h", "persistent_queue_storage": storage}
    return {"type": "webhook", "parameters": [{"name": name, "value": value} for name, value in parameters.items()]}


@pytest.mark.parametrize("use", uses(), ids=str)
def test_keeps_what_something_refers_to_unless_both_go(project: Project, use: Use) -> None:
    applied = project.updates(use.user, use.used, *use.more)
    assert {one["status"] for one in applied} == {"created"}
    who = f"{use.user['kind']} user"
    line = f"{use.used['kind']} used: in-use: {who} refers to it; change that first"
    assert project.delete(use.used) == ({"used": "in-use"}, [line])
    assert project.delete(use.used, use.user) == ({"used": "deleted", "user": "deleted"}, [])


@pytest.mark.parametrize("turned", [False, True])
def test_of_both_succeeds_in_any_order(project: Project, turned: bool) -> None:
    both = [type_of("own"), destination("one")]
    project.apply(*both)
    told, errors = project.delete(*(reversed(both) if turned else both))
    assert (sorted(told.items()), errors) == ([("one", "deleted"), ("own", "deleted")], [])


def test_lets_go_what_nothing_refers_to_any_more(project: Project) -> None:
    project.apply(type_of("own"), destination("one"))
    assert project.delete(type_of("own"))[0] == {"own": "in-use"}
    project.apply(destination("one", "otlp"))
    assert project.delete(type_of("own")) == ({"own": "deleted"}, [])


def test_of_a_commit_keeps_what_something_refers_to_until_nothing_does(project: Project, followed: Followed) -> None:
    followed.source.write("own.json", json.dumps(type_of("own")))
    followed.source.write("owned.json", json.dumps(OWNED))
    followed.commit()
    project.apply(destination("one"))
    followed.source.remove("own.json")
    run = followed.commit()
    assert [(one["name"], one["status"]) for one in run["statuses"]] == [("own", "in-use")]
    assert project.names("DestinationType") == ["own"]
    assert project.delete(destination("one")) == ({"one": "deleted"}, [])
    daemons.until(lambda: project.names("DestinationType") == [], "what was in use is gone")
    assert project.names("Fleet") == ["owned"]


def test_of_a_commit_takes_what_refers_to_each_other_together(project: Project, followed: Followed) -> None:
    # As many stay as go, so that the deletions are not held.
    for one in (type_of("own"), destination("one"), OWNED, resource("Fleet", "stays")):
        followed.source.write(f"{one['metadata']['name']}.json", json.dumps(one))
    followed.commit()
    for name in ("own", "one"):
        followed.source.remove(f"{name}.json")
    assert followed.commit()["counts"] == {"deleted": 2}
    assert (project.names("DestinationType"), project.names("Destination")) == ([], [])


def test_of_what_needs_another_spelling_of_its_kind_says_which(project: Project) -> None:
    project.apply(PLAIN)
    told = project.deletion({"kind": "fleets", "metadata": {"name": "plain"}})
    assert told["errors"] == ["item 0: invalid: /kind: is not a kind; write `Fleet`"]
    assert project.names("Fleet") == ["plain"]


def test_writes_no_version(project: Project) -> None:
    project.apply(PLAIN)
    project.apply(labelled(PLAIN, icon="x"))
    versions = project.versions("Fleet", "plain")
    project.delete(PLAIN)
    assert project.versions("Fleet", "plain") == versions == [2, 1]
    assert project.apply(PLAIN) == {"plain": "created"}
    assert project.versions("Fleet", "plain") == [3, 2, 1]
