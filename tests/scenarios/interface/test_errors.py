"""An error of the interface has the status that is listed for its endpoint, and says in sentences what is wrong."""

import json
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import ANY

import pytest
import yaml

from reconciler.model import names
from tests import daemons
from tests.projects import Project, resource
from tests.scenarios.interface.conftest import World

ROOT = Path(__file__).parents[3]
APPLY, DELETE = "POST /v1/apply", "POST /v1/delete"
LIST, GET = "GET /v1/resources/{kind}", "GET /v1/resources/{kind}/{name}"
REMOVE, HISTORY = "DELETE /v1/resources/{kind}/{name}", "GET /v1/{kind}/{name}/history"
VERSION = "GET /v1/version"

LISTED = {
    APPLY: {202, 400, 401, 403, 404, 409, 500},
    DELETE: {202, 400, 401, 404, 500},
    LIST: {200, 401, 500},
    GET: {200, 401, 500},
    REMOVE: {204, 401, 404, 500},
    HISTORY: {200, 400, 401, 404, 500},
    VERSION: {200},
}
"""Of the resource endpoints and the version, every status that the interface lists."""

ADDED = {DELETE: {403}, LIST: {400, 404}, GET: {400, 404}, REMOVE: {400, 403, 409}}
"""Statuses beside the listed ones, which would not be honest; 413, 415 and 429 are not counted here."""

NO_ROLES_YET = {(APPLY, 403), (DELETE, 403)}
"""There is one key, and it is an admin's; a caller who may not apply or delete at all comes with roles."""

FAILURES = {(endpoint, 500) for endpoint in LISTED if endpoint != VERSION}
"""A failure cannot be asked for: tests/api/test_failures.py brings it about behind the same application."""

NAMING = "must be 1 to 63 letters, digits, `-`, `_` or `.`, and begin and end with a letter or digit"
BAD_NAME = f"The name in the path {NAMING}."
NO_KIND = "There is no such kind; the kinds are listed in /openapi.json."
NO_PROJECT = "There is no such project."
NO_KEY = (
    "Say who asks: a key as `Authorization: Bearer <key>` or `X-Service-Api-Key: <key>`, or a name and a password as "
    "`Authorization: Basic`."
)
BROKEN = {**resource("Fleet", "new"), "extra": 1}
EXTRA = "/extra: is not a known field; the fields here are `apiVersion`, `kind`, `metadata`, `spec`, `status`"


class Case(NamedTuple):
    """A request, and the whole answer; `path` instead of the endpoint's own where it has parameters."""

    endpoint: str
    status: int
    path: str
    errors: tuple[str, ...] = ()
    body: Any = None
    headers: dict[str, str] = {}  # noqa: RUF012 - a NamedTuple has no other defaults, and nobody writes into it

    @property
    def method(self) -> str:
        return self.endpoint.partition(" ")[0]


ELSEWHERE = {"X_Service_Project": "no-such-project"}
STRANGER = {"Authorization": ""}
CASES = (
    Case(APPLY, 202, "/v1/apply", body={"resources": []}),
    Case(APPLY, 202, "/v1/apply", body={"resources": [BROKEN]}),
    Case(APPLY, 400, "/v1/apply", ("/resources: is required",), body={}),
    Case(
        APPLY,
        400,
        "/v1/apply?acceptInvalid=yes",
        ("The query parameter `acceptInvalid` is not one of `true`, `false`, `1` and `0`.",),
        body={"resources": []},
    ),
    Case(
        APPLY,
        400,
        "/v1/apply?dryrun=true",
        ("The query parameter `dryrun` is not known here: there are `acceptInvalid`, `atomic`, `dryRun`, `strict`.",),
        body={"resources": []},
    ),
    Case(APPLY, 404, "/v1/apply", (NO_PROJECT,), body={"resources": []}, headers=ELSEWHERE),
    Case(
        APPLY,
        409,
        "/v1/apply?atomic=true",
        (f"Fleet new: invalid: {EXTRA}",),
        body={"resources": [BROKEN, resource("Fleet", "good")]},
    ),
    Case(DELETE, 202, "/v1/delete", body=[]),
    Case(DELETE, 202, "/v1/delete", body=[{"kind": "Pod"}]),
    Case(DELETE, 400, "/v1/delete", ("The body must be an array of resources.",), body="Fleet"),
    Case(DELETE, 404, "/v1/delete", (NO_PROJECT,), body=[], headers=ELSEWHERE),
    Case(LIST, 200, "/v1/resources/fleets"),
    Case(LIST, 200, "/v1/resources/fleets?unknown=1"),
    Case(
        LIST,
        400,
        "/v1/resources/fleets?limit=0",
        ("The query parameter `limit` is not an integer from 1 to 10000.",),
    ),
    Case(
        LIST,
        400,
        "/v1/resources/fleets?limit=1&limit=1",
        ("The query parameter `limit` is given more than once.",),
    ),
    Case(LIST, 404, "/v1/resources/Pod", (NO_KIND,)),
    Case(LIST, 404, "/v1/resources/Notification", (NO_KIND,)),
    Case(LIST, 404, "/v1/resources/fleets", (NO_PROJECT,), headers=ELSEWHERE),
    Case(GET, 200, "/v1/resources/Fleet/plain"),
    Case(GET, 400, "/v1/resources/Fleet/-x", (BAD_NAME,)),
    Case(GET, 404, "/v1/resources/Fleet/nobody", ("There is no Fleet nobody.",)),
    Case(GET, 404, "/v1/resources/Pod/plain", (NO_KIND,)),
    Case(GET, 404, "/v1/resources/Fleet/plain", (NO_PROJECT,), headers=ELSEWHERE),
    Case(REMOVE, 400, "/v1/resources/Fleet/-x", (BAD_NAME,)),
    Case(
        REMOVE,
        400,
        "/v1/resources/Fleet/plain?dryRun=true",
        ("The query parameter `dryRun` is not known here: there are none.",),
    ),
    Case(
        REMOVE,
        403,
        "/v1/resources/Fleet/owned",
        ("Fleet owned: forbidden: managed by the repository world; change it there",),
    ),
    Case(
        REMOVE,
        403,
        "/v1/resources/DestinationType/webhook",
        ("DestinationType webhook: forbidden: it is built in; choose another name",),
    ),
    Case(REMOVE, 404, "/v1/resources/Fleet/nobody", ("There is no Fleet nobody.",)),
    Case(REMOVE, 404, "/v1/resources/Pod/plain", (NO_KIND,)),
    Case(REMOVE, 404, "/v1/resources/Fleet/plain", (NO_PROJECT,), headers=ELSEWHERE),
    Case(
        REMOVE,
        409,
        "/v1/resources/Destination/used",
        ("Destination used: in-use: Configuration all refers to it; change that first",),
    ),
    Case(HISTORY, 200, "/v1/Fleet/plain/history"),
    Case(HISTORY, 400, "/v1/Fleet/-x/history", (BAD_NAME,)),
    Case(HISTORY, 404, "/v1/Fleet/nobody/history", ("There is no Fleet nobody.",)),
    Case(HISTORY, 404, "/v1/Pod/plain/history", (NO_KIND,)),
    Case(HISTORY, 404, "/v1/Fleet/plain/history", (NO_PROJECT,), headers=ELSEWHERE),
    Case(VERSION, 200, "/v1/version"),
    Case(VERSION, 200, "/v1/version", headers=STRANGER),
    *(
        Case(endpoint, 401, path, (NO_KEY,), body={} if endpoint.startswith("POST") else None, headers=STRANGER)
        for endpoint, path in {
            APPLY: "/v1/apply?dryrun=true",
            DELETE: "/v1/delete",
            LIST: "/v1/resources/Pod",
            GET: "/v1/resources/Fleet/plain",
            REMOVE: "/v1/resources/Fleet/plain",
            HISTORY: "/v1/Fleet/-x/history",
        }.items()
    ),
)
MEMBERS = {
    APPLY: {"updates"},
    DELETE: {"errors", "updates"},
    LIST: {"resources"},
    GET: {"resource"},
    HISTORY: {"versions"},
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.endpoint} {case.status} {case.path}")
def test_is_told_as_documented(world: World, case: Case) -> None:
    before = world.stored()
    body = None if case.body is None else json.dumps(case.body).encode()
    answer = world.project.ask(case.method, case.path, body, **case.headers)
    assert (answer.status, answer.headers["content-type"]) == (case.status, "application/json")
    if case.errors:
        assert answer.body == {"errors": list(case.errors), "codes": ANY}
    elif case.endpoint == VERSION:
        assert isinstance(answer.body, str)
    else:
        assert answer.body.keys() == MEMBERS[case.endpoint]
    assert world.stored() == before


def test_is_none_when_a_delete_by_name_succeeds(project: Project) -> None:
    project.apply(resource("Fleet", "one"))
    answer = project.ask("DELETE", "/v1/resources/Fleet/one")
    assert (answer.status, answer.content) == (204, b"")
    assert project.names("Fleet") == []


def test_has_a_case_for_every_status_that_is_listed() -> None:
    seen = {(case.endpoint, case.status) for case in CASES} | {(REMOVE, 204)} | FAILURES | NO_ROLES_YET
    listed = {(endpoint, status) for table in (LISTED, ADDED) for endpoint, found in table.items() for status in found}
    assert seen == listed


def test_is_in_the_contract_with_its_status() -> None:
    contract = yaml.safe_load((ROOT / "api/openapi.yaml").read_text(encoding="utf-8"))
    for endpoint, statuses in LISTED.items():
        method, path = endpoint.split(" ")
        answered = {int(code) for code in contract["paths"][path][method.lower()]["responses"] if code.isdigit()}
        assert answered >= statuses | ADDED.get(endpoint, set()), endpoint


def test_follows_from_the_credential_first_then_the_project_and_the_query_before_the_body(project: Project) -> None:
    broken, path = b"{", "/v1/apply?dryrun=true"
    assert project.ask("POST", path, broken, Authorization="Bearer wrong").status == 401
    assert project.ask("POST", path, broken, X_Service_Project="none").status == 404
    unknown = project.ask("POST", path, broken)
    assert (unknown.status, unknown.body["errors"]) == (
        400,
        ["The query parameter `dryrun` is not known here: there are `acceptInvalid`, `atomic`, `dryRun`, `strict`."],
    )
    malformed = project.ask("POST", "/v1/apply", broken)
    assert (malformed.status, malformed.body["errors"][0].split(" ")[0]) == (400, "body:1:2:")


def test_of_one_resource_is_no_error_of_the_request(project: Project) -> None:
    sent: list[Any] = [{"kind": "Pod"}, {"kind": "Fleet", "metadata": {"name": "-"}}, resource("Fleet", "good")]
    answer = project.ask("POST", "/v1/apply", json.dumps({"resources": sent}).encode())
    assert answer.status == 202
    assert [one["status"] for one in answer.body["updates"]] == ["invalid", "invalid", "created"]
    assert names.wrong_name("-") == NAMING


@pytest.mark.parametrize(("coding", "status"), [("gzip", 415), ("br, identity", 415), ("identity", 202)])
def test_of_a_coded_body_is_415(project: Project, coding: str, status: int) -> None:
    answer = project.ask("POST", "/v1/apply", b'{"resources":[]}', Content_Encoding=coding)
    assert answer.status == status
    if status == 415:
        assert answer.body == {"errors": ["The body is compressed; send it without a Content-Encoding."], "codes": ANY}


def test_of_too_much_is_413_from_the_configured_number_on(tmp_path: Path) -> None:
    api = {"maxResources": 2, "maxBodyBytes": 1024}
    with daemons.running(tmp_path / "daemon", settings={"api": api}) as daemon:
        project = Project(daemon, "default")
        fleets = [resource("Fleet", name) for name in "abc"]
        for path, body in (("/v1/apply", {"resources": fleets}), ("/v1/delete", fleets)):
            answer = project.ask("POST", path, json.dumps(body).encode())
            assert (answer.status, answer.body) == (
                413,
                {"errors": ["The body holds 3 resources, over the limit of 2."], "codes": ANY},
            )
            long = project.ask("POST", path, json.dumps(body).encode() + b" " * 1024)
            assert (long.status, long.body) == (
                413,
                {"errors": ["The body is over 1024 bytes; send the resources in several requests."], "codes": ANY},
            )
        assert project.apply(*fleets[:2]) == {"a": "created", "b": "created"}
