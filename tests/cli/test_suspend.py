"""`suspend` and `resume`: what is asked for, what is said, and how other commands tell of it."""

from typing import Any

import pytest

from tests.cli.conftest import Program, Service
from tests.cli.test_status import RUN, repository

SUSPEND = "POST /v1/repositories/telemetry/suspend"
RESUME = "POST /v1/repositories/telemetry/resume"
MESSAGE = (
    "Suspended by key:ada until 2026-11-21T08:12:00.123Z (the edge drops logs): nothing is looked at, and admins may "
    "change what it owns; `reconciler resume telemetry` ends it."
)


def suspended(until: str | None = "2026-11-21T08:12:00.123Z", drift: int = 0, **more: Any) -> dict[str, Any]:
    suspension = {
        "reason": "the edge drops logs",
        "actor": "key:ada",
        "since": "2026-11-21T06:12:00.123Z",
        "until": until,
    }
    return repository(state="suspended", message=MESSAGE, suspension=suspension, drift=drift, **more)


@pytest.mark.parametrize(
    ("options", "more", "until"),
    [
        ([], {}, None),
        (["--for", "2h"], {"expiry": "2h"}, "2026-11-21T08:12:00.123Z"),
        (["--until", "2026-11-21T08:00:00Z"], {"expiry": "2026-11-21T08:00:00Z"}, "2026-11-21T08:00:00.000Z"),
    ],
)
def test_suspending_sends_reason_and_expiry_and_says_until_when(
    program: Program, service: Service, options: list[str], more: dict[str, str], until: str | None
) -> None:
    service.answer(SUSPEND, {"repository": suspended(until)})
    end = {None: "somebody resumes it", "2026-11-21T08:12:00.123Z": "2026-11-21T08:12:00Z"}.get(
        until, "2026-11-21T08:00:00Z"
    )
    outcome = program("suspend", "telemetry", "--reason", "the edge drops logs", *options)
    assert outcome == (0, f"telemetry: suspended until {end}\n", "")
    assert [request.body for request in service.requests] == [{"reason": "the edge drops logs", **more}]


def test_what_the_service_refuses_is_told_as_it_says_it(program: Program, service: Service) -> None:
    service.answer(SUSPEND, {"errors": ["Only an admin suspends and resumes repositories."]}, 403)
    service.answer(RESUME, {"errors": ["telemetry is suspended by its setting `suspend: true`; set it to false."]}, 409)
    sentence = "error: only an admin suspends and resumes repositories\n"
    assert program("suspend", "telemetry", "--reason", "x") == (1, "", sentence)
    sentence = "error: telemetry is suspended by its setting `suspend: true`; set it to false\n"
    assert program("resume", "telemetry") == (1, "", sentence)


def test_a_command_that_lacks_a_reason_is_written_wrongly(program: Program, service: Service) -> None:
    outcome = program("suspend", "telemetry")
    assert (outcome.code, outcome.err.splitlines()[-1]) == (2, "error: missing option '--reason'")
    assert service.requests == []


@pytest.mark.parametrize("command", [["suspend", "x", "--reason", "y"], ["resume", "x"]])
def test_an_unknown_repository_is_one_sentence(program: Program, service: Service, command: list[str]) -> None:
    for verb in ("suspend", "resume"):
        service.answer(f"POST /v1/repositories/x/{verb}", {"errors": ["There is no such repository."]}, 404)
    assert program(*command) == (1, "", "error: there is no repository x; `reconciler status` shows those there are\n")


def test_resuming_prints_the_run_or_waits_for_it(program: Program, service: Service) -> None:
    service.answer(RESUME, {"run": "01RUN"}, 202)
    service.answer("GET /v1/runs/01RUN", {"run": {"phase": "running"}})
    run = {**RUN, "outcome": "succeeded", "message": None, "counts": {"configured": 1}, "statuses": []}
    service.answer("GET /v1/runs/01RUN", {"run": run})
    assert program("resume", "telemetry") == (0, "telemetry: run 01RUN\n", "")
    told = "telemetry: succeeded at cccccccccccc; 1 configured\n"
    assert program("resume", "telemetry", "--wait") == (0, told, "")


def test_status_tells_who_suspended_it_until_when_and_what_drifted(program: Program, service: Service) -> None:
    service.answer("GET /v1/repositories", {"repositories": [suspended(drift=2)]})
    assert program("status").out.splitlines()[2:] == [
        "",
        f"telemetry: {MESSAGE}",
        "",
        "telemetry: 2 resources differ from the head; `reconciler resume telemetry` overwrites them",
    ]


def test_reconciling_all_leaves_the_suspended_ones_alone(program: Program, service: Service) -> None:
    service.answer("GET /v1/repositories", {"repositories": [suspended(), repository(name="other")]})
    service.answer("POST /v1/repositories/other/reconcile", {"run": "01B"}, 202)
    assert program("reconcile") == (0, "other: run 01B\n", f"telemetry: not polled. {MESSAGE}\n")


def test_reconciling_a_suspended_one_says_why_not(program: Program, service: Service) -> None:
    sentence = f"There is no run of telemetry while it is suspended. {MESSAGE}"
    service.answer("POST /v1/repositories/telemetry/reconcile", {"errors": [sentence]}, 409)
    told = "error: there is no run" + sentence.removeprefix("There is no run").removesuffix(".")
    assert program("reconcile", "telemetry", "--wait") == (1, "", f"{told}\n")
