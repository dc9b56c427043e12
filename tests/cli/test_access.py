"""`whoami`, `project`, `member`, `user` and `key`: what each asks for, and what it says."""

import json
from typing import Any

import pytest
import yaml

from reconciler.cli import access, client
from reconciler.cli.client import CHOOSE_HINT
from tests.cli.conftest import Outcome, Program, Service
from tests.cli.test_signing_in import typed

AT = "2026-11-21T06:12:00.123Z"
NEW = "canary-new-password"
OLD = "canary-old-password"
ROLE = {"name": "payments", "role": "user"}
ANA = {
    "name": "ana",
    "displayName": "Ana Ruiz",
    "organizationAdmin": False,
    "createdAt": AT,
    "hasPassword": True,
    "projects": [ROLE, {"name": "web", "role": "viewer"}],
}
ROOT = {**ANA, "name": "root", "displayName": "", "organizationAdmin": True, "hasPassword": False, "projects": []}
KEY = {
    "id": "01KEY",
    "name": "pipeline",
    "prefix": "rck_mfrggzdfmztw",
    "project": "payments",
    "personal": False,
    "role": "user",
    "scopes": ["logs", "resources"],
    "createdAt": AT,
    "createdBy": "user:ana",
    "expiresAt": AT,
    "lastUsedAt": None,
}
TEXT = "rck_mfrggzdfmztw_" + "A" * 43


def me(*projects: str, **more: Any) -> dict[str, Any]:
    roles = [{"name": name, "role": "admin"} for name in projects]
    return {"me": {"name": "user:ana", "organizationAdmin": False, "scopes": ["resources"], "projects": roles, **more}}


def sent(service: Service) -> list[tuple[str, str, Any]]:
    return [(request.method, request.path, request.body) for request in service.requests]


def projects(service: Service) -> list[str | None]:
    """The project that the header of each request named."""
    return [request.headers.get("x-service-project") for request in service.requests]


def rows(outcome: Outcome) -> list[list[str]]:
    """The cells of a table."""
    return [[cell.strip() for cell in line.split("   ") if cell.strip()] for line in outcome.out.splitlines()]


def test_whoami_shows_name_and_roles(program: Program, service: Service) -> None:
    service.answer("GET /v1/me", me("default", "web"))
    assert program("whoami", SERVICE_PROJECT="gone") == (
        0,
        "NAME       ORGANIZATION ADMIN   SCOPES\n"
        "user:ana   -                    resources\n"
        "\n"
        "PROJECT   ROLE\n"
        "default   admin\n"
        "web       admin\n",
        "",
    )
    assert projects(service) == [None]


def test_whoami_of_an_organization_s_key_without_projects(program: Program, service: Service) -> None:
    service.answer("GET /v1/me", me(name="key:01KEY", organizationAdmin=True, scopes=["logs", "metrics"]))
    assert rows(program("whoami"))[1:] == [["key:01KEY", "yes", "logs, metrics"]]


LISTS = {
    "project": ("projects", "/v1/projects", [{"name": "payments", "createdAt": AT}]),
    "member": ("members", "/v1/projects/payments/members", [{"user": "ana", "role": "user"}]),
    "user": ("users", "/v1/users", [ANA, ROOT]),
    "key": ("apiKeys", "/v1/api-keys", [KEY, {**KEY, "project": None, "personal": True, "expiresAt": None}]),
}


@pytest.mark.parametrize("group", LISTS)
def test_a_list_as_json_and_yaml_is_what_the_service_says(program: Program, service: Service, group: str) -> None:
    key, path, found = LISTS[group]
    service.answer(f"GET {path}", {key: found})
    assert json.loads(program(group, "list", "--project", "payments", "-o", "json").out) == {key: found}
    assert list(yaml.safe_load_all(program(group, "list", "--project", "payments", "-o", "yaml").out)) == found


@pytest.mark.parametrize(
    ("group", "table"),
    [
        ("project", [["NAME", "CREATED"], ["payments", "2026-11-21T06:12:00Z"]]),
        ("member", [["USER", "ROLE"], ["ana", "user"]]),
        (
            "user",
            [
                ["NAME", "DISPLAY NAME", "ORGANIZATION ADMIN", "PASSWORD", "CREATED", "PROJECTS"],
                ["ana", "Ana Ruiz", "-", "yes", "2026-11-21T06:12:00Z", "payments:user, web:viewer"],
                ["root", "-", "yes", "-", "2026-11-21T06:12:00Z", "-"],
            ],
        ),
        (
            "key",
            [
                ["ID", "NAME", "PREFIX", "PROJECT", "PERSONAL", "ROLE", "SCOPES", "EXPIRES", "LAST USED", "CREATED BY"],
                [
                    *("01KEY", "pipeline", "rck_mfrggzdfmztw", "payments", "-", "user", "logs, resources"),
                    *("2026-11-21T06:12:00Z", "-", "user:ana"),
                ],
                ["01KEY", "pipeline", "rck_mfrggzdfmztw", "-", "yes", "user", "logs, resources", "-", "-", "user:ana"],
            ],
        ),
    ],
)
def test_a_list_is_a_table(program: Program, service: Service, group: str, table: list[list[str]]) -> None:
    key, path, found = LISTS[group]
    service.answer(f"GET {path}", {key: found})
    assert rows(program(group, "list", "--project", "payments")) == table
    # Keys are listed by project; of all else the project is in the path, or there is none.
    assert projects(service) == ["payments" if group == "key" else None]


@pytest.mark.parametrize(
    ("group", "note"),
    [
        ("project", "you have a role in no project"),
        ("member", "payments has no members"),
        ("user", "there are no users"),
        ("key", "there are no keys that you may manage"),
    ],
)
def test_an_empty_list_says_so(program: Program, service: Service, group: str, note: str) -> None:
    key, path, _ = LISTS[group]
    service.answer(f"GET {path}", {key: []})
    assert program(group, "list", "--project", "payments") == (0, "", f"{note}\n")
    assert program(group, "list", "--project", "payments", "-o", "json").out == json.dumps({key: []}, indent=2) + "\n"


def test_a_project_is_created(program: Program, service: Service) -> None:
    service.answer("POST /v1/projects", {"project": {"name": "payments", "createdAt": AT}}, 201)
    assert program("project", "create", "payments") == (0, "payments: created\n", "")
    assert sent(service) == [("POST", "/v1/projects", {"name": "payments"})]


MEMBER = "/v1/projects/payments/members/ana"


def test_a_role_is_given_and_taken_in_the_project_of_the_session(program: Program, service: Service) -> None:
    service.answer(f"PUT {MEMBER}", {"member": {"user": "ana", "role": "viewer"}})
    service.answer(f"DELETE {MEMBER}", {}, 204)
    given = program("member", "set", "ana", "--role", "viewer", SERVICE_PROJECT="payments")
    assert given == (0, "ana: viewer of payments\n", "")
    taken = program("member", "remove", "ana", "--project", "payments")
    assert taken == (0, "ana: no member of payments any more\n", "")
    assert sent(service) == [("PUT", MEMBER, {"role": "viewer"}), ("DELETE", MEMBER, None)]
    assert projects(service) == [None, None]


@pytest.mark.parametrize(("within", "meant"), [(["a", "default"], "default"), (["a"], "a")])
def test_without_a_project_the_one_is_meant_that_a_request_would_mean(
    program: Program, service: Service, within: list[str], meant: str
) -> None:
    service.answer("GET /v1/me", me(*within))
    service.answer(f"GET /v1/projects/{meant}/members", {"members": []})
    assert program("member", "list") == (0, "", f"{meant} has no members\n")


@pytest.mark.parametrize("within", [[], ["a", "b"]])
def test_without_a_project_and_with_several_one_has_to_be_chosen(
    program: Program, service: Service, within: list[str]
) -> None:
    service.answer("GET /v1/me", me(*within))
    for words in (["list"], ["set", "ana", "--role", "user"], ["remove", "ana"]):
        assert program("member", *words) == (1, "", f"error: {CHOOSE_HINT}\n")


def test_a_project_in_a_path_is_told_by_its_name_when_there_is_none(program: Program, service: Service) -> None:
    for method, path in (("GET", ""), ("PUT", "/ana"), ("DELETE", "/ana")):
        service.refuse(f"{method} /v1/projects/web/members{path}", "x", status=404, code="project-not-found")
    for words in (["list"], ["set", "ana", "--role", "user"], ["remove", "ana"]):
        outcome = program("member", *words, "--project", "web")
        assert outcome == (1, "", f"error: {client.NO_PROJECT.format('web')}\n")


def test_other_refusals_of_members_are_told_as_the_service_says_them(program: Program, service: Service) -> None:
    service.answer(f"PUT {MEMBER}", {"errors": ["There is no user ana."]}, 404)
    outcome = program("member", "set", "ana", "--role", "user", "--project", "payments")
    assert outcome == (1, "", "error: there is no user ana\n")


@pytest.mark.parametrize(
    ("options", "body"),
    [
        ([], {}),
        (["--display-name", "Ana Ruiz"], {"displayName": "Ana Ruiz"}),
        (["--organization-admin", "--display-name", ""], {"displayName": "", "organizationAdmin": True}),
    ],
)
@pytest.mark.parametrize("stdin", [True, False], ids=["standard input", "file"])
def test_a_person_is_created_with_a_password_from_a_file(
    program: Program, service: Service, options: list[str], body: dict[str, Any], *, stdin: bool
) -> None:
    program.write("new", f"{NEW}\n")
    service.answer("POST /v1/users", {"user": ANA}, 201)
    outcome = program("user", "create", "ana", *options, "--password-file", "-" if stdin else "new", stdin=f"{NEW}\n")
    assert outcome == (0, "ana: created\n", "")
    assert sent(service) == [("POST", "/v1/users", {"name": "ana", "password": NEW, **body})]


CREATE, SET, OWN = ["user", "create", "ana"], ["user", "password", "ana"], ["user", "password"]


@pytest.mark.parametrize("words", [CREATE, SET, OWN], ids=" ".join)
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], access.NOBODY),
        (["--password-file", "nowhere"], "nowhere: no such file or directory"),
        (["--password-file", "short"], "a password has at least 12 characters"),
        (["--password-file", "large"], "large holds more than the 1,024 bytes that a password may have"),
    ],
)
def test_what_cannot_be_a_password_is_not_sent(
    program: Program, service: Service, words: list[str], options: list[str], said: str
) -> None:
    program.write("short", "eleven char\n")
    program.write("large", "x" * 1_027)
    program.write("old", OLD)
    outcome = program(*words, *options, "--user", "ana", SERVICE_PASSWORD_FILE="old")
    assert outcome == (1, "", f"error: {said}\n")
    assert service.requests == []


def test_one_s_own_password_is_changed_with_that_which_one_signs_in_with(program: Program, service: Service) -> None:
    program.write("old", OLD)
    service.answer("PUT /v1/me/password", {}, 204)
    outcome = program(
        "user", "password", "--user", "ana", "--password-file", "-", stdin=NEW, SERVICE_PASSWORD_FILE="old"
    )
    assert outcome == (0, "ana: the password is changed\n", "")
    assert sent(service) == [("PUT", "/v1/me/password", {"password": OLD, "newPassword": NEW})]


def test_a_key_has_no_password_of_its_own(program: Program, service: Service) -> None:
    outcome = program("user", "password", "--password-file", "-", stdin=NEW)
    assert outcome == (1, "", f"error: {access.ANONYMOUS}\n")
    assert service.requests == []


def test_an_admin_sets_the_password_of_somebody_else(program: Program, service: Service) -> None:
    service.answer("PATCH /v1/users/ana", {"user": ANA})
    outcome = program("user", "password", "ana", "--password-file", "-", stdin=NEW)
    assert outcome == (0, "ana: the password is changed\n", "")
    assert sent(service) == [("PATCH", "/v1/users/ana", {"password": NEW})]


def test_on_a_terminal_a_new_password_is_asked_for_twice_and_not_shown(program: Program, service: Service) -> None:
    service.answer("PUT /v1/me/password", {}, 204)
    asked = [("Password of ana: ", OLD), ("New password of ana: ", NEW), ("Once more: ", NEW)]
    ended, said = typed(program, ["user", "password", "--user", "ana"], asked)
    assert (ended, OLD in said, NEW in said) == (0, False, False)
    assert sent(service) == [("PUT", "/v1/me/password", {"password": OLD, "newPassword": NEW})]


@pytest.mark.parametrize(
    ("options", "body"),
    [
        (["--display-name", "Ana"], {"displayName": "Ana"}),
        (["--organization-admin"], {"organizationAdmin": True}),
        (["--no-organization-admin", "--display-name", ""], {"organizationAdmin": False, "displayName": ""}),
    ],
)
def test_what_the_options_name_of_a_person_is_changed(
    program: Program, service: Service, options: list[str], body: dict[str, Any]
) -> None:
    service.answer("PATCH /v1/users/ana", {"user": ANA})
    assert program("user", "change", "ana", *options) == (0, "ana: changed\n", "")
    assert sent(service) == [("PATCH", "/v1/users/ana", body)]


def test_a_change_of_nothing_is_written_wrongly(program: Program, service: Service) -> None:
    outcome = program("user", "change", "ana")
    told = "error: give --display-name, --organization-admin or --no-organization-admin"
    assert (outcome.code, outcome.err.splitlines()[-1]) == (2, told)
    assert service.requests == []


def test_a_person_is_deleted(program: Program, service: Service) -> None:
    service.answer("DELETE /v1/users/ana", {}, 204)
    service.answer("GET /v1/api-keys", {"apiKeys": []})
    assert program("user", "delete", "ana") == (0, "ana: deleted\n", "")
    mistaken = program("user", "remove", "ana")
    assert (mistaken.code, mistaken.err.splitlines()[-1]) == (
        2,
        "error: no such command 'remove'",
    )


@pytest.mark.parametrize(
    ("options", "body"),
    [
        (["--role", "user"], {"role": "user"}),
        (["--role", "viewer", "--scope", "logs", "--scope", "logs"], {"role": "viewer", "scopes": ["logs"]}),
        (["--role", "admin", "--expiry", "720h"], {"role": "admin", "expiry": "720h"}),
        (["--role", "admin", "--organization"], {"role": "admin", "project": None}),
        (["--role", "user", "--personal"], {"role": "user", "personal": True}),
        (
            ["--role", "user", "--personal", "--organization"],
            {"role": "user", "project": None, "personal": True},
        ),
    ],
)
def test_a_key_is_alone_on_standard_output(
    program: Program, service: Service, options: list[str], body: dict[str, Any]
) -> None:
    project, is_personal = body.get("project", "payments"), body.get("personal", False)
    made = {**KEY, "project": project, "personal": is_personal, "key": TEXT}
    service.answer("POST /v1/api-keys", {"apiKey": made}, 201)
    whose = "a key of the organization" if project is None else "a key of the project payments"
    if is_personal:
        whose = f"your own key in {'every project of yours' if project is None else 'the project payments'}"
    outcome = program("key", "create", "pipeline", *options, "--project", "payments")
    note = f"01KEY: {whose}; it is shown this once, so keep it now\n"
    assert outcome == (0, f"{TEXT}\n", note)
    assert sent(service) == [("POST", "/v1/api-keys", {"name": "pipeline", **body})]
    assert projects(service) == ["payments"]


def test_what_is_wrong_with_a_key_is_told(program: Program, service: Service) -> None:
    errors = ["/name: is required", "/expiry: must be in the future, and at most a year away"]
    service.answer("POST /v1/api-keys", {"errors": errors}, 400)
    outcome = program("key", "create", "", "--role", "user", "--expiry", "9000h")
    assert outcome == (1, "", "error: /name: is required; /expiry: must be in the future, and at most a year away\n")


def test_a_key_is_revoked_whatever_project_is_chosen(program: Program, service: Service) -> None:
    service.answer("DELETE /v1/api-keys/01KEY", {}, 204)
    assert program("key", "revoke", "01KEY", SERVICE_PROJECT="web") == (0, "01KEY: revoked\n", "")
    assert projects(service) == [None]
    told = "error: there is no key 01X that you may manage; `reconciler key list` shows those there are\n"
    assert program("key", "revoke", "01X") == (1, "", told)


@pytest.mark.parametrize("given", ["rck_mfrggzdfmztw", "rck_mfrggzdfmztw_the-secret-of-a-key"])
def test_a_key_in_place_of_its_id_is_neither_sent_nor_repeated(program: Program, service: Service, given: str) -> None:
    told = "error: a key is revoked by its ID, which `reconciler key list` shows beside its prefix\n"
    assert program("key", "revoke", given) == (1, "", told)
    assert service.requests == []


@pytest.mark.parametrize(
    "words",
    [
        ["member", "set", "ana"],
        ["member", "set", "ana", "--role", "owner"],
        ["key", "create", "pipeline"],
        ["key", "create", "pipeline", "--role", "user", "--scope", "all"],
        ["user", "create"],
    ],
    ids=" ".join,
)
def test_what_is_missing_or_no_choice_is_written_wrongly(program: Program, service: Service, words: list[str]) -> None:
    assert program(*words).code == 2
    assert service.requests == []


@pytest.mark.parametrize("words", [["user", "list"], ["project", "create", "x"], ["key", "list"], ["whoami"]])
def test_who_may_not_is_told_what_it_takes(program: Program, service: Service, words: list[str]) -> None:
    sentence = "user:ana may not do this; it takes an organization admin."
    for request in ("GET /v1/users", "POST /v1/projects", "GET /v1/api-keys", "GET /v1/me"):
        service.answer(request, {"errors": [sentence]}, 403)
    assert program(*words) == (1, "", "error: user:ana may not do this; it takes an organization admin\n")


def test_no_password_is_in_a_request_s_path_or_query(program: Program, service: Service) -> None:
    service.answer("PATCH /v1/users/ana", {"user": ANA})
    program("user", "password", "ana", "--password-file", "-", stdin=NEW)
    (request,) = service.requests
    assert NEW not in request.path + str(request.query) + str(request.headers)
