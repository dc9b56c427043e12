"""A version of the interface is in its paths, of the product in one answer, and of resources in each of them."""

import json
from pathlib import Path
from unittest.mock import ANY

import pytest

from reconciler.model import names
from reconciler.version import __version__
from tests import daemons
from tests.daemons import Followed
from tests.projects import Project, resource

ONE = resource("Fleet", "one")


def test_is_the_prefix_of_every_path_of_resources(project: Project) -> None:
    body = json.dumps({"resources": [ONE]}).encode()
    asked = [
        ("POST", "/apply", body, 202),
        ("GET", "/resources/Fleet", None, 200),
        ("GET", "/resources/Fleet/one", None, 200),
        ("GET", "/Fleet/one/history", None, 200),
        ("GET", "/version", None, 200),
        ("POST", "/delete", json.dumps([ONE]).encode(), 202),
        ("DELETE", "/resources/Fleet/one", None, 404),
    ]
    for method, path, sent, status in asked:
        nowhere = project.ask(method, path, sent)
        assert (nowhere.status, nowhere.body) == (
            404,
            {"errors": ["There is no such path; /openapi.json lists those that there are."], "codes": ANY},
        )
        assert project.ask(method, f"/v1{path}", sent).status == status


def test_of_the_product_is_a_json_string_for_everybody(project: Project) -> None:
    answer = project.ask("GET", "/v1/version", Authorization="")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.content == json.dumps(__version__).encode()


def test_of_the_description_is_that_of_the_interface(project: Project) -> None:
    answer = project.ask("GET", "/openapi.json", Authorization="")
    assert (answer.status, answer.body["info"]["version"]) == (200, "0.0.1")


def test_is_carried_by_every_resource(project: Project, followed: Followed) -> None:
    project.apply(ONE)
    followed.source.write("two.json", json.dumps(resource("Fleet", "two")))
    followed.commit()
    for kind in names.KINDS:
        listed = project.ask("GET", f"/v1/resources/{kind.name}").body["resources"]
        assert {(one["apiVersion"], one["kind"]) for one in listed} <= {("service/v1", kind.name)}
    assert project.names("Fleet") == ["one", "two"]


@pytest.mark.parametrize("version", ["service/v2", "v1", "", 1, None])
def test_that_is_not_of_the_service_makes_a_resource_invalid(project: Project, version: object) -> None:
    told = project.apply({**ONE, "apiVersion": version})["one"]
    assert told.startswith("invalid: /apiVersion: ")
    assert project.names("Fleet") == []


def test_that_is_an_alias_is_stored_as_it_came(tmp_path: Path) -> None:
    settings = {"api": {"apiVersions": ["service/v1", "vendor/v1"]}}
    with daemons.running(tmp_path / "daemon", settings=settings) as daemon:
        project = Project(daemon, "default")
        alias = {**ONE, "apiVersion": "vendor/v1"}
        assert project.apply(alias) == {"one": "created"}
        assert project.get("Fleet", "one")["apiVersion"] == "vendor/v1"
        assert project.apply(alias) == {"one": "unchanged"}
        assert project.apply(ONE) == {"one": "configured"}


def test_of_a_resource_counts_its_stored_changes(project: Project) -> None:
    for number, document in enumerate([ONE, {**ONE, "spec": {"selector": {}}}, ONE], start=1):
        (update,) = project.updates(document)
        assert update["resource"]["metadata"]["version"] == number
    assert project.versions("Fleet", "one") == [3, 2, 1]
