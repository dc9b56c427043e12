"""`invitation`: the code alone on standard output, and which project is meant."""

import json
from typing import Any

import pytest
import yaml

from reconciler.cli.client import CHOOSE_HINT
from tests.auth import arrivals
from tests.cli.conftest import Program, Service
from tests.cli.test_access import AT, me, projects, rows, sent

CODE = arrivals.code(1)
PATH = "/v1/projects/payments/invitations"
ONE: dict[str, Any] = {
    "id": "01INV",
    "project": "payments",
    "role": "user",
    "email": None,
    "createdAt": AT,
    "createdBy": "user:ana",
    "expiresAt": AT,
}
OTHER = {**ONE, "id": "01ADDRESS", "role": "viewer", "email": "noa@example.com"}


def test_a_code_is_alone_on_standard_output(program: Program, service: Service) -> None:
    service.answer(f"POST {PATH}", {"invitation": {**ONE, "code": CODE}}, 201)
    outcome = program("invitation", "create", "--role", "user", "--project", "payments")
    note = (
        "01INV: whoever brings the code is user of payments, until 2026-11-21T06:12:00Z; it is shown this once, so "
        "keep it now\n"
    )
    assert outcome == (0, f"{CODE}\n", note)
    assert sent(service) == [("POST", PATH, {"role": "user"})]
    assert projects(service) == [None]


def test_an_address_is_invited_without_a_code(program: Program, service: Service) -> None:
    service.answer(f"POST {PATH}", {"invitation": OTHER}, 201)
    options = ["--role", "viewer", "--email", "noa@example.com", "--expiry", "72h"]
    outcome = program("invitation", "create", *options, SERVICE_PROJECT="payments")
    note = "01ADDRESS: whoever signs in as noa@example.com is viewer of payments, until 2026-11-21T06:12:00Z\n"
    assert outcome == (0, "", note)
    assert sent(service) == [("POST", PATH, {"role": "viewer", "email": "noa@example.com", "expiry": "72h"})]


def test_what_is_wrong_with_an_invitation_is_told(program: Program, service: Service) -> None:
    errors = ["/email: must be an e-mail address", "/expiry: must be in the future, and at most a year away"]
    service.answer(f"POST {PATH}", {"errors": errors}, 400)
    outcome = program("invitation", "create", "--role", "user", "--email", "x", "--project", "payments")
    told = "error: /email: must be an e-mail address; /expiry: must be in the future, and at most a year away\n"
    assert outcome == (1, "", told)


def test_those_that_wait_are_a_table(program: Program, service: Service) -> None:
    service.answer(f"GET {PATH}", {"invitations": [ONE, OTHER]})
    assert rows(program("invitation", "list", "--project", "payments")) == [
        ["ID", "FOR", "ROLE", "EXPIRES", "CREATED BY"],
        ["01INV", "whoever has the code", "user", "2026-11-21T06:12:00Z", "user:ana"],
        ["01ADDRESS", "noa@example.com", "viewer", "2026-11-21T06:12:00Z", "user:ana"],
    ]


def test_those_that_wait_as_json_and_yaml_are_what_the_service_says(program: Program, service: Service) -> None:
    service.answer(f"GET {PATH}", {"invitations": [ONE, OTHER]})
    arguments = ("invitation", "list", "--project", "payments", "-o")
    assert json.loads(program(*arguments, "json").out) == {"invitations": [ONE, OTHER]}
    assert list(yaml.safe_load_all(program(*arguments, "yaml").out)) == [ONE, OTHER]


def test_that_nobody_waits_is_said(program: Program, service: Service) -> None:
    service.answer(f"GET {PATH}", {"invitations": []})
    assert program("invitation", "list", "--project", "payments") == (0, "", "nobody is invited to payments\n")


def test_without_a_project_it_is_the_one_that_any_other_command_means(program: Program, service: Service) -> None:
    service.answer("GET /v1/me", me("payments"))
    service.answer(f"DELETE {PATH}/01INV", {}, 204)
    assert program("invitation", "revoke", "01INV") == (0, "01INV: revoked\n", "")
    service.answers["GET /v1/me"] = []
    service.answer("GET /v1/me", me("payments", "web"))
    assert program("invitation", "list") == (1, "", f"error: {CHOOSE_HINT}\n")


def test_what_does_not_wait_is_told_as_a_command_and_an_unknown_project_by_its_name(
    program: Program, service: Service
) -> None:
    service.answer(f"DELETE {PATH}/01X", {"errors": ["There is no such invitation."]}, 404)
    told = "error: no invitation 01X to payments waits; `reconciler invitation list` shows those that do\n"
    assert program("invitation", "revoke", "01X", "--project", "payments") == (1, "", told)
    service.refuse("DELETE /v1/projects/gone/invitations/01X", "x", status=404, code="project-not-found")
    told = "error: there is no project gone, or you have no role in it; `reconciler project list` shows yours\n"
    assert program("invitation", "revoke", "01X", "--project", "gone") == (1, "", told)


@pytest.mark.parametrize("given", [CODE, "rci_"])
def test_a_code_in_place_of_its_id_is_neither_sent_nor_repeated(program: Program, service: Service, given: str) -> None:
    told = "error: an invitation is revoked by its ID, which `reconciler invitation list` shows\n"
    assert program("invitation", "revoke", given, "--project", "payments") == (1, "", told)
    assert service.requests == []


def test_where_nobody_comes_in_by_one_the_service_s_reason_is_shown(program: Program, service: Service) -> None:
    service.answer(f"POST {PATH}", {"errors": ["Claims decide who comes in."]}, 409)
    outcome = program("invitation", "create", "--role", "user", "--project", "payments")
    assert outcome == (1, "", "error: claims decide who comes in\n")


@pytest.mark.parametrize("words", [["create"], ["create", "--role", "owner"], ["revoke"]], ids=" ".join)
def test_what_is_missing_or_no_choice_is_written_wrongly(program: Program, service: Service, words: list[str]) -> None:
    assert program("invitation", *words).code == 2
    assert service.requests == []
