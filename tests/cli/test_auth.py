"""`reconciler auth explain`: the decision about claims, its rules, and what is no set of claims."""

import json

import pytest

from tests.cli.conftest import Program

CLAIMS = json.dumps(
    {"sub": "248289761001", "service_projects": "admin:payments,search,,user:ghost", "groups": ["service-user"]}
)
FALLBACK = "the least privileged of the projects' own roles (direct claims 6)"
OWN = "its own role in service_projects (direct claims 3)"
NO_OTHER = "No other project is opened (direct claims 4)."
FIRST_TIME = "This counts when somebody comes for the first time; afterwards admins and invitations decide."
EACH_TIME = "This counts at each sign-in, since auth.oidc.disableInvitations is true."
EXPLAIN = ("auth", "explain", "--claims", "-")


def settings(**oidc: object) -> str:
    return json.dumps({"auth": {"oidc": oidc}})


def test_each_project_is_shown_with_its_role_and_the_rule_that_made_it(alone: Program) -> None:
    alone.write("claims.json", CLAIMS)
    arguments = ("auth", "explain", "--claims", "claims.json", "--project", "payments", "--project", "search")
    assert alone(*arguments) == (
        0,
        "PROJECT    ROLE    BECAUSE\n"
        f"payments   admin   {OWN}\n"
        f"search     user    {FALLBACK}\n"
        "\n"
        "Skipped: there is no project ghost.\n"
        f"{NO_OTHER}\n"
        f"{FIRST_TIME}\n",
        "",
    )


def test_without_projects_all_that_are_named_are_taken_to_exist(alone: Program) -> None:
    code, out, err = alone(*EXPLAIN, stdin='{"service_projects": "ghost"}')
    assert (code, out.splitlines()[1]) == (0, "ghost     viewer   no other role is given (direct claims 1)")
    assert err == "every project that is named is taken to exist; --project says which do\n"


def test_an_organization_admin_needs_no_projects(alone: Program) -> None:
    because = 'service_org_admin is "true", and no other claim counts (direct claims 2)'
    given = '{"service_org_admin": "true", "service_projects": 5}'
    assert alone(*EXPLAIN, stdin=given) == (0, f"Organization admin: {because}.\n{FIRST_TIME}\n", "")


@pytest.mark.parametrize(
    ("disable", "last"),
    [
        (False, "Somebody new needs an invitation."),
        (True, f"{EACH_TIME} Whoever has something loses it, and nobody is let in."),
    ],
)
def test_claims_that_grant_nothing_are_no_error(alone: Program, *, disable: bool, last: str) -> None:
    alone.write("config.json", settings(disableInvitations=disable))
    nothing = "Nothing is granted: no claim names a project or makes an organization admin.\n"
    assert alone(*EXPLAIN, "--config", "config.json", stdin="{}") == (0, f"{nothing}{last}\n", "")


@pytest.mark.parametrize(
    ("disable", "last"), [(False, "Somebody new needs an invitation."), (True, "Nobody new is let in.")]
)
def test_claims_that_cannot_be_read_change_nothing(alone: Program, *, disable: bool, last: str) -> None:
    alone.write("config.json", settings(disableInvitations=disable))
    given = '{"groups": 5, "service_projects": "user:payments"}'
    reason = "The claim groups must be a text or a list of texts (direct claims 7)."
    assert alone(*EXPLAIN, "--config", "config.json", stdin=given) == (
        1,
        f"The claims cannot be read, and change nothing. {reason}\nWho is known keeps what they have. {last}\n",
        "",
    )


def test_names_come_from_the_settings_of_a_provider_that_need_not_be_whole(alone: Program) -> None:
    names = {"projects": "places", "groups": "https://example.com/teams", "userGroupName": "makers"}
    oidc = {"disableInvitations": True, "customClaims": names}
    alone.write("config.json", json.dumps({"auth": {"type": "oidc", "oidc": oidc}}))
    given = json.dumps({"places": "shop", "https://example.com/teams": ["Makers"], "service_projects": "admin:web"})
    assert alone(*EXPLAIN, "--config", "config.json", "--project", "shop", stdin=given) == (
        0,
        "PROJECT   ROLE   BECAUSE\n"
        "shop      user   the first of groups and roles that names a role (groups and roles 2)\n"
        "\n"
        f"{NO_OTHER}\n"
        f"{EACH_TIME} It replaces what was.\n",
        "",
    )


def test_a_mistake_in_the_settings_is_told_at_its_place(alone: Program) -> None:
    alone.write("config.json", '{"auth": {"oidc": {"customClaims": {"groups": ""}}}}')
    code, out, err = alone(*EXPLAIN, "--config", "config.json", stdin="{}")
    assert (code, out) == (1, "")
    assert err == "config.json:1:37: auth.oidc.customClaims.groups: must be a string that is not empty\n"


TOKEN = "canary-head.canary-payload.canary-signature"


@pytest.mark.parametrize("text", [TOKEN, f"{TOKEN}\n", f'"{TOKEN}"', "canary-head.canary-payload.", "a.b.c.d.e"])
def test_a_token_is_not_taken_apart(alone: Program, text: str) -> None:
    sentence = "standard input holds a token; give its payload, the JSON object between the first dot and the second"
    assert alone(*EXPLAIN, stdin=text) == (1, "", f"error: {sentence}\n")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "standard input must hold the claims as one JSON object, such as {}"),
        ("[]", "standard input must hold the claims as one JSON object, such as {}"),
        ('"canary-text"', "standard input must hold the claims as one JSON object, such as {}"),
        ("null", "standard input must hold the claims as one JSON object, such as {}"),
        ('{"a": canary-text}', "standard input:1:7: is not valid JSON: expecting value here"),
        ('{"a": 1, "a": 2}', "standard input:1:10: the key `a` is there twice; remove one"),
        (f'{{"a": "{"x" * 2**20}"}}', "standard input holds more than the 1 MiB that claims may have"),
        ("[" * 500, "standard input:1:101: is nested deeper than 100 levels; flatten it"),
    ],
    ids=lambda text: repr(text[:20]),
)
def test_what_is_no_set_of_claims_is_one_sentence(alone: Program, text: str, sentence: str) -> None:
    assert alone(*EXPLAIN, stdin=text) == (1, "", f"error: {sentence}\n")


def test_a_file_that_is_not_there_is_one_sentence(alone: Program) -> None:
    assert alone("auth", "explain", "--claims", "gone") == (1, "", "error: gone: no such file or directory\n")


def test_a_device_does_for_a_file(alone: Program) -> None:
    assert alone("auth", "explain", "--claims", "/dev/stdin", stdin="{}").code == 0
