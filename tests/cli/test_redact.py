"""`history redact`: the text comes from a file or a terminal, and what is said tells what to do besides."""

import subprocess
import termios
from pathlib import Path

import pytest

from reconciler.cli import resources
from tests.cli import terminals
from tests.cli.conftest import PROGRAM, TIME_LIMIT, Program, Service

REDACT = "POST /v1/Destination/siem/history/redact"
HISTORY = "GET /v1/Destination/siem/history"
SECRET = "canary-in-a-file"
DONE = {"versions": [2, 5], "places": 3, "erased": True}
SAID = "Destination/siem: versions 2, 5 rewritten, 3 places\n"


def bodies(service: Service) -> list[object]:
    return [request.body for request in service.requests]


@pytest.mark.parametrize("words", [["destinations", "siem"], ["Destination/siem"]])
def test_versions_and_next_steps_are_told(program: Program, service: Service, words: list[str]) -> None:
    service.answer(REDACT, DONE)
    program.write("secret", SECRET)
    outcome = program("history", "redact", *words, "--value-file", "secret")
    assert outcome == (0, f"{SAID}{resources.NEXT}\n", "")
    assert bodies(service) == [{"value": SECRET}]
    assert dict(service.requests[0].query) == {}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (f"{SECRET}\n", SECRET),
        (f"{SECRET}\r\n", SECRET),
        (f"{SECRET}\n\n", f"{SECRET}\n"),
        ("two\nlines\n", "two\nlines"),
        ("größer\x1b[0m", "größer\x1b[0m"),
    ],
)
@pytest.mark.parametrize("stdin", [True, False], ids=["standard input", "file"])
def test_one_end_of_line_is_not_part_of_the_text(
    program: Program, service: Service, content: str, text: str, *, stdin: bool
) -> None:
    service.answer(REDACT, DONE)
    (program.folder / "secret").write_bytes(content.encode())
    given = {"stdin": content} if stdin else {}
    outcome = program("history", "redact", "Destination/siem", "--value-file", "-" if stdin else "secret", **given)
    assert outcome.code == 0, outcome
    assert bodies(service) == [{"value": text}]


def test_a_dry_run_says_what_would_be(program: Program, service: Service) -> None:
    service.answer(REDACT, {"versions": [2], "places": 1})
    outcome = program("history", "redact", "Destination/siem", "--value-file", "-", "--dry-run", stdin=SECRET)
    assert outcome == (0, "Destination/siem: version 2 would be rewritten, 1 place\n", "")
    assert dict(service.requests[0].query) == {"dryRun": "true"}


def test_traces_that_are_left_are_told(program: Program, service: Service) -> None:
    service.answer(REDACT, {"versions": [], "places": 1, "erased": False})
    outcome = program("history", "redact", "Destination/siem", "--value-file", "-", stdin=SECRET)
    first = "Destination/siem: no version shows the text; 1 place elsewhere rewritten\n"
    assert outcome == (0, f"{first}{resources.NOT_ERASED}\n{resources.NEXT}\n", "")


@pytest.mark.parametrize(
    ("status", "errors", "said"),
    [
        (
            409,
            ["The present version of Destination siem still holds the text; change it first, in Git or by apply."],
            "the present version of Destination siem still holds the text; change it first, in Git or by apply",
        ),
        (404, ["There is no Destination siem."], "Destination siem has no history"),
        (400, ["/value: must have 4 to 65,536 characters"], "/value: must have 4 to 65,536 characters"),
        (403, ["Only an admin redacts a history."], "only an admin redacts a history"),
    ],
)
def test_what_the_service_refuses_is_told(
    program: Program, service: Service, status: int, errors: list[str], said: str
) -> None:
    service.answer(REDACT, {"errors": errors}, status)
    outcome = program("history", "redact", "Destination/siem", "--value-file", "-", stdin=SECRET)
    assert outcome == (1, "", f"error: {said}\n")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfe", "standard input is not UTF-8 text"),
        (b"x" * 262_147, "standard input holds more than the 65,536 characters that a text may have"),
    ],
)
def test_what_is_no_text_is_not_sent(program: Program, service: Service, content: bytes, said: str) -> None:
    outcome = program("history", "redact", "Destination/siem", "--value-file", "-", stdin=content)
    assert outcome == (1, "", f"error: {said}\n")
    assert service.requests == []


def test_without_a_terminal_a_file_must_be_named(program: Program, service: Service) -> None:
    outcome = program("history", "redact", "Destination/siem", stdin=SECRET)
    told = "there is no terminal to ask for the text; name a file that holds it with --value-file, or -"
    assert outcome == (1, "", f"error: {told}\n")
    outcome = program("history", "redact", "Destination/siem", "--value-file", "nowhere")
    assert outcome == (1, "", "error: nowhere: no such file or directory\n")
    assert service.requests == []


def echo(descriptor: int) -> None:
    """Have a terminal show what is typed, line by line, as it does for people."""
    attributes = termios.tcgetattr(descriptor)
    attributes[3] |= termios.ECHO | termios.ICANON
    termios.tcsetattr(descriptor, termios.TCSANOW, attributes)


def test_on_a_terminal_the_text_is_asked_for_and_not_shown(program: Program, service: Service) -> None:
    service.answer(REDACT, DONE)
    with terminals.terminal() as terminal:
        echo(terminal.descriptor)
        ran = subprocess.Popen(
            [str(PROGRAM), "history", "redact", "Destination/siem"],
            stdin=terminal.descriptor,
            stdout=terminal.descriptor,
            stderr=terminal.descriptor,
            cwd=program.folder,
            env=program.variables({}),
            start_new_session=True,
        )
        # The space comes when the terminal shows nothing any more that is typed.
        terminal.until(lambda text: f"{resources.ASKED}: " in text, seconds=TIME_LIMIT)
        terminal.type(f"{SECRET}\n")
        assert ran.wait(TIME_LIMIT) == 0
        said = terminal.close()
    assert bodies(service) == [{"value": SECRET}]
    assert SECRET not in said
    assert SAID.strip() in said


def test_a_resource_is_listed_as_ever(program: Program, service: Service) -> None:
    service.answer(HISTORY, {"versions": [{"metadata": {"version": 1}}]})
    assert program("history", "Destination/siem", "-o", "json").code == 0
    assert program("history", "Destination", "siem").code == 0
    assert program("history", "--help").out.startswith("Usage: reconciler history [OPTIONS] KIND [NAME]\n")
    assert program("history", "redact", "-h").out.startswith("Usage: reconciler history redact [OPTIONS] KIND [NAME]\n")


def test_the_page_that_is_pointed_to_exists() -> None:
    assert "docs/redacting.md" in resources.NEXT
    assert (Path(__file__).parents[2] / "docs" / "redacting.md").is_file()
