"""The identity of a command: a key or a person, from options, variables, files and the terminal."""

import base64
import subprocess
from pathlib import Path

import pytest

from api import auth
from reconciler.cli import options as cli_options
from tests.cli import terminals
from tests.cli.conftest import PROGRAM, TIME_LIMIT, Outcome, Program, Service
from tests.cli.test_redact import echo

PASSWORD = "canary-password-of-ana"
KEY = "k" * 32
FLEETS = "GET /v1/resources/Fleet"


@pytest.fixture
def anyone(tmp_path: Path, service: Service) -> Program:
    """The program before a server, without a credential; `secret` holds a password."""
    service.answer(FLEETS, {"resources": []})
    program = Program(tmp_path, {"SERVICE_SERVER": service.url})
    program.write("secret", f"{PASSWORD}\n")
    return program


def basic(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


@pytest.mark.parametrize(
    ("options", "environment", "shown"),
    [
        ([], {}, None),
        ([], {"SERVICE_API_KEY": ""}, None),
        ([], {"SERVICE_API_KEY": KEY}, f"Bearer {KEY}"),
        ([], {"SERVICE_USER": "ana"}, basic("ana", PASSWORD)),
        (["--user", "bob"], {"SERVICE_USER": "ana"}, basic("bob", PASSWORD)),
        (["--user", "ana"], {"SERVICE_API_KEY": KEY}, basic("ana", PASSWORD)),
        (["--api-key", KEY], {"SERVICE_USER": "ana"}, f"Bearer {KEY}"),
        (["--api-key", KEY], {"SERVICE_USER": "ana", "SERVICE_API_KEY": "l" * 32}, f"Bearer {KEY}"),
    ],
)
def test_an_option_goes_before_what_is_set(
    anyone: Program,
    service: Service,
    options: list[str],
    environment: dict[str, str],
    shown: str | None,
) -> None:
    assert anyone("get", "fleets", *options, SERVICE_PASSWORD_FILE="secret", **environment).code == 0
    assert [request.headers.get("authorization") for request in service.requests] == [shown]


@pytest.mark.parametrize(
    ("options", "environment"),
    [(["--user", "ana", "--api-key", KEY], {}), ([], {"SERVICE_USER": "ana", "SERVICE_API_KEY": KEY})],
)
def test_a_key_and_a_person_at_once_is_written_wrongly(
    anyone: Program, service: Service, options: list[str], environment: dict[str, str]
) -> None:
    outcome = anyone("get", "fleets", *options, **environment)
    assert outcome.code == 2
    assert outcome.err.splitlines()[-1] == f"error: {cli_options.TWO}"
    assert service.requests == []


@pytest.mark.parametrize("content", [PASSWORD, f"{PASSWORD}\n", f"{PASSWORD}\r\n"])
@pytest.mark.parametrize("stdin", [True, False], ids=["standard input", "file"])
def test_a_password_comes_from_a_file(anyone: Program, service: Service, content: str, *, stdin: bool) -> None:
    anyone.write("secret", content)
    assert anyone(
        "get", "fleets", "--user", "ana", stdin=content, SERVICE_PASSWORD_FILE="-" if stdin else "secret"
    ) == (
        0,
        "",
        "no fleets found\n",
    )
    assert service.requests[0].headers["authorization"] == basic("ana", PASSWORD)


@pytest.mark.parametrize(
    ("user", "file", "said"),
    [
        ("ana", "", "there is no terminal to ask for the password of ana; name a file that holds it with {}"),
        ("ana", "nowhere", "nowhere: no such file or directory"),
        ("ana", "large", "large holds more than the 1,024 bytes that a password may have"),
        ("ana", "bytes", "bytes is not UTF-8 text"),
        ("a:b", "secret", "the user's name holds characters that no user's name has (--user or SERVICE_USER)"),
        ("josé", "secret", "the user's name holds characters that no user's name has (--user or SERVICE_USER)"),
    ],
)
def test_what_is_no_name_or_password_is_not_sent(
    anyone: Program, service: Service, user: str, file: str, said: str
) -> None:
    anyone.write("large", "x" * 1_027)
    (anyone.folder / "bytes").write_bytes(b"\xff\xfe")
    outcome = anyone("get", "fleets", "--user", user, SERVICE_PASSWORD_FILE=file)
    assert outcome == (1, "", f"error: {said.format('SERVICE_PASSWORD_FILE')}\n")
    assert service.requests == []


def test_on_a_terminal_the_password_is_asked_for_and_not_shown(anyone: Program, service: Service) -> None:
    ended, said = typed(anyone, ["get", "fleets", "--user", "ana"], [("Password of ana: ", PASSWORD)])
    assert (ended, PASSWORD in said) == (0, False)
    assert [request.headers["authorization"] for request in service.requests] == [basic("ana", PASSWORD)]


def typed(program: Program, words: list[str], answers: list[tuple[str, str]]) -> tuple[int, str]:
    """A command on a terminal, each question answered; how it ended, and all that the terminal showed."""
    with terminals.terminal() as terminal:
        echo(terminal.descriptor)
        streams = terminal.descriptor
        ran = subprocess.Popen(
            [str(PROGRAM), *words],
            stdin=streams,
            stdout=streams,
            stderr=streams,
            cwd=program.folder,
            env=program.variables({}),
            start_new_session=True,
        )
        for question, answer in answers:
            # The space comes when the terminal shows nothing any more that is typed.
            terminal.until(lambda text, question=question: question in text, seconds=TIME_LIMIT)  # type: ignore[misc]
            terminal.type(f"{answer}\n")
        return ran.wait(TIME_LIMIT), terminal.close()


NOBODY = "the service needs credentials; set SERVICE_API_KEY, or name yourself with --user or SERVICE_USER"
WRONG_KEY = (
    "the service does not accept the API key: it never existed, was revoked or has expired; give the right one with "
    "SERVICE_API_KEY or --api-key"
)
WITH_KEY, AS_ANA = {"SERVICE_API_KEY": KEY}, {"SERVICE_USER": "ana", "SERVICE_PASSWORD_FILE": "secret"}
WRONG_PASSWORD = "the service does not accept the name or the password (--user, SERVICE_USER, SERVICE_PASSWORD_FILE)"


@pytest.mark.parametrize(
    ("environment", "code", "answer", "said"),
    [
        ({}, "no-credential", "Anything.", NOBODY),
        (WITH_KEY, "unknown-key", "Anything.", WRONG_KEY),
        (AS_ANA, "wrong-password", "Anything.", WRONG_PASSWORD),
        ({}, "", "", NOBODY),
        (WITH_KEY, "", "", WRONG_KEY),
        (AS_ANA, "", "", WRONG_PASSWORD),
        (
            AS_ANA,
            "passwords-disabled",
            auth.NO_PASSWORDS.format("https://here.example"),
            "passwords open nothing here: people sign in with a browser, at https://here.example. Programs send a key",
        ),
        (
            {},
            "key-required",
            auth.ASK_FOR_A_KEY.format("https://here.example"),
            "say who asks: a key as `Authorization: Bearer <key>` or `X-Service-Api-Key: <key>`. People sign in with a "
            "browser, at https://here.example; set SERVICE_API_KEY to a key of yours",
        ),
        (WITH_KEY, "", "An expiry of \x1b[31m.", r"an expiry of \x1b[31m"),
        (WITH_KEY, "", "x" * 900, "x" * 500),
    ],
)
def test_a_401_says_what_the_service_says_in_words_of_commands(
    tmp_path: Path, service: Service, *, environment: dict[str, str], code: str, answer: str, said: str
) -> None:
    service.answer(FLEETS, {"errors": [answer], "codes": [code] if code else []} if answer else {}, 401)
    program = Program(tmp_path, {"SERVICE_SERVER": service.url, **environment})
    program.write("secret", PASSWORD)
    assert program("get", "fleets") == (1, "", f"error: {said}\n")


def refused(
    program: Program, service: Service, status: int, sentence: str, code: str = "", **environment: str
) -> Outcome:
    service.refuse(FLEETS, sentence, status=status, code=code)
    return program("get", "fleets", **environment)


def test_a_403_says_who_one_is_and_what_it_takes(program: Program, service: Service) -> None:
    outcome = refused(program, service, 403, "user:ana may not do this; it takes the role admin.")
    assert outcome == (1, "", "error: user:ana may not do this; it takes the role admin\n")


def test_a_project_out_of_reach_is_told_by_its_name(program: Program, service: Service) -> None:
    outcome = refused(program, service, 404, "x", "project-not-found", SERVICE_PROJECT="web")
    told = "error: there is no project web, or you have no role in it; `reconciler project list` shows yours\n"
    assert outcome == (1, "", told)


def test_whoever_has_several_projects_chooses_one(program: Program, service: Service) -> None:
    outcome = refused(program, service, 404, "x", "project-required")
    told = "error: choose a project with --project or SERVICE_PROJECT; `reconciler project list` shows yours\n"
    assert outcome == (1, "", told)
    assert program("get", "fleet", "x") == (1, "", "error: /v1/resources/Fleet/x is not here\n")


def test_a_429_says_how_long_to_wait(program: Program, service: Service) -> None:
    service.retry_after = "30"
    outcome = refused(program, service, 429, "Too many attempts to sign in failed; wait.")
    assert outcome == (1, "", "error: too many attempts to sign in failed; wait (30 s)\n")
