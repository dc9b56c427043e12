"""`status` and `reconcile`: repositories and runs."""

import json
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Program, Service

RUN: dict[str, Any] = {
    "id": "01RUN",
    "repository": "telemetry",
    "phase": "finished",
    "outcome": "partial",
    "commit": "c" * 40,
    "finishedAt": "2026-11-21T06:12:00.123Z",
    "counts": {"invalid": 1, "created": 3, "unchanged": 0},
    "message": "One is not stored.",
    "statuses": [
        {"kind": "Fleet", "name": "a", "status": "created", "path": "a.yaml", "line": 1},
        {"kind": "Fleet", "name": "b", "status": "invalid", "path": "b.yaml", "line": 4, "reason": "b.yaml:4:1: no\nx"},
    ],
}


def repository(**more: Any) -> dict[str, Any]:
    return {
        "name": "telemetry",
        "project": "default",
        "follows": {"kind": "branch", "name": "main"},
        "state": "ready",
        "message": None,
        "commit": "c" * 40,
        "head": "d" * 40,
        "lastRun": None,
        **more,
    }


def test_status_tells_of_a_look_that_failed_and_could_not_be_written_down(program: Program, service: Service) -> None:
    fine = {**RUN, "outcome": "succeeded", "message": None, "counts": {"created": 3}}
    full = "The store could not be written (database or disk is full): look at the disk's space."
    noted = "Component a takes over from b."
    service.answer(
        "GET /v1/repositories",
        {
            "repositories": [
                repository(lastRun=fine, message=full),
                repository(name="other", lastRun={**fine, "message": noted}, message=noted),
            ]
        },
    )
    code, told, _ = program("status")
    assert (code, told.partition("\n\n")[2]) == (0, f"telemetry: {full}\n")


@pytest.mark.parametrize("last", [RUN, "01RUN"])
def test_status_shows_each_repository_and_its_last_run(program: Program, service: Service, last: object) -> None:
    other = repository(name="other", state="prune-held", message="2 files cannot be read", commit=None, head=None)
    other["follows"] = {"kind": "tag", "name": "v1"}
    service.answer("GET /v1/repositories", {"repositories": [repository(lastRun=last), other]})
    service.answer("GET /v1/runs/01RUN", {"run": RUN})
    assert program("status") == (
        0,
        "REPOSITORY   FOLLOWS   STATE        COMMIT         HEAD           LAST RUN               OUTCOME   COUNTS\n"
        "telemetry    main      ready        cccccccccccc   dddddddddddd   2026-11-21T06:12:00Z   partial   "
        "3 created, 1 invalid\n"
        "other        tag v1    prune-held   -              -              -                      -         -\n"
        "\ntelemetry: partial at cccccccccccc; 3 created, 1 invalid; One is not stored.\n"
        "STATUS    KIND    NAME   WHERE\n"
        "invalid   Fleet   b      b.yaml:4\n"
        "b.yaml:4:1: no\n"
        "b.yaml:4: x\n"
        "\nother: 2 files cannot be read\n",
        "",
    )


def test_status_leaves_out_what_says_nothing_and_wide_does_not(program: Program, service: Service) -> None:
    last = {**RUN, "outcome": "succeeded", "message": None, "counts": {"unchanged": 12}}
    service.answer("GET /v1/repositories", {"repositories": [repository(lastRun=last, head="c" * 40)]})
    assert program("status").out == (
        "REPOSITORY   FOLLOWS   STATE   COMMIT         LAST RUN               OUTCOME     COUNTS\n"
        "telemetry    main      ready   cccccccccccc   2026-11-21T06:12:00Z   succeeded   12 unchanged\n"
    )
    wide = program("status", "-o", "wide").out.splitlines()
    assert [line.split()[1] for line in wide] == ["PROJECT", "default"]


def test_status_tells_repositories_of_several_projects_apart(program: Program, service: Service) -> None:
    both = [repository(), repository(name="shop", project="web")]
    service.answer("GET /v1/repositories", {"repositories": both})
    assert [line.split()[1] for line in program("status").out.splitlines()] == ["PROJECT", "default", "web"]


def test_the_overview_shows_twenty_and_says_where_the_rest_is(program: Program, service: Service) -> None:
    bad = [
        {
            "kind": "Fleet",
            "name": f"f{number:02}",
            "status": "invalid",
            "path": "f.yaml",
            "line": number,
            "reason": "no",
        }
        for number in range(1, 24)
    ]
    run = {**RUN, "statuses": [*RUN["statuses"][:1], *bad], "message": None}
    service.answer("GET /v1/repositories", {"repositories": [repository(lastRun="01RUN")]})
    service.answer("GET /v1/runs/01RUN", {"run": run})
    lines = program("status").out.splitlines()
    assert lines[3] == "telemetry: partial at cccccccccccc; 3 created, 1 invalid"
    assert [line.split() for line in lines[5:25]] == [
        ["invalid", "Fleet", f"f{number:02}", f"f.yaml:{number}"] for number in range(1, 21)
    ]
    assert lines[25:] == [
        *(f"f.yaml:{number}: no" for number in range(1, 21)),
        "and 3 more; reconciler runs 01RUN",
    ]


def test_what_holds_the_run_and_the_repository_is_said_once(program: Program, service: Service) -> None:
    held = {**RUN, "statuses": [], "counts": {}, "message": "2 files cannot be read."}
    one = repository(state="prune-held", message="2 files cannot be read.", lastRun=held)
    service.answer("GET /v1/repositories", {"repositories": [one]})
    assert program("status").out.splitlines()[2:] == [
        "",
        "telemetry: partial at cccccccccccc; 2 files cannot be read.",
    ]


def test_a_run_that_succeeded_needs_no_words(program: Program, service: Service) -> None:
    last = {**RUN, "outcome": "succeeded", "message": None}
    service.answer("GET /v1/repositories", {"repositories": [repository(lastRun=last)]})
    assert len(program("status").out.splitlines()) == 2


def test_json_and_yaml_hold_the_last_run_itself(program: Program, service: Service) -> None:
    service.answer("GET /v1/repositories", {"repositories": [repository(lastRun="01RUN"), repository(name="other")]})
    service.answer("GET /v1/runs/01RUN", {"run": RUN})
    expected = [repository(lastRun=RUN), repository(name="other")]
    assert json.loads(program("status", "-o", "json").out) == {"repositories": expected}
    assert list(yaml.safe_load_all(program("status", "-o", "yaml").out)) == expected


def test_a_project_has_its_own_repositories(program: Program, service: Service) -> None:
    both = [repository(), repository(name="shop", project="web")]
    service.answer("GET /v1/repositories", {"repositories": both})
    service.refuse("GET /v1/resources/Fleet", "x", status=404, code="project-not-found")
    service.answer("POST /v1/repositories/shop/reconcile", {"run": "01B"}, 202)
    assert json.loads(program("status", "-o", "json", "--project", "web").out) == {"repositories": both[1:]}
    assert program("reconcile", "--project", "web") == (0, "shop: run 01B\n", "")
    assert json.loads(program("status", "-o", "json", "--project", "").out) == {"repositories": both}
    sentence = "there is no project nope, or you have no role in it; `reconciler project list` shows yours"
    for command in ("status", "reconcile"):
        assert program(command, "--project", "nope") == (1, "", f"error: {sentence}\n")


def test_a_project_without_a_repository_is_no_error(program: Program, service: Service) -> None:
    service.answer("GET /v1/repositories", {"repositories": [repository()]})
    service.answer("GET /v1/resources/Fleet", {"resources": []})
    none = "the service follows no repository for the project bare"
    assert program("status", "--project", "bare") == (0, "", f"{none}\n")
    assert program("reconcile", "--project", "bare") == (1, "", f"error: {none}\n")


def test_status_without_repositories_says_what_to_do(program: Program, service: Service) -> None:
    service.answer("GET /v1/repositories", {"repositories": []})
    assert program("status") == (
        0,
        "",
        "the service follows no repository in a project of yours; one is named under `repositories` in its settings\n",
    )
    assert json.loads(program("status", "-o", "json").out) == {"repositories": []}


def test_reconcile_asks_for_one_or_for_all(program: Program, service: Service) -> None:
    service.answer("GET /v1/repositories", {"repositories": [repository(), repository(name="other")]})
    service.answer("POST /v1/repositories/telemetry/reconcile", {"run": "01A"}, 202)
    service.answer("POST /v1/repositories/other/reconcile", {"run": "01B"}, 202)
    assert program("reconcile", "other") == (0, "other: run 01B\n", "")
    assert program("reconcile") == (0, "telemetry: run 01A\nother: run 01B\n", "")


@pytest.mark.parametrize(
    ("outcome", "code"), [("succeeded", 0), ("superseded", 0), ("partial", 3), ("refused", 3), ("failed", 1)]
)
def test_waiting_tells_how_it_went(program: Program, service: Service, outcome: str, code: int) -> None:
    service.answer("POST /v1/repositories/telemetry/reconcile", {"run": "01RUN"}, 202)
    service.answer("GET /v1/runs/01RUN", {"run": {"phase": "queued"}})
    service.answer("GET /v1/runs/01RUN", {"run": {"phase": "running"}})
    service.answer("GET /v1/runs/01RUN", {"run": {**RUN, "outcome": outcome}})
    assert program("reconcile", "telemetry", "--wait") == (
        code,
        "STATUS    KIND    NAME   WHERE\n"
        "created   Fleet   a      a.yaml:1\n"
        "invalid   Fleet   b      b.yaml:4\n"
        "\n"
        "b.yaml:4:1: no\n"
        "b.yaml:4: x\n"
        "\n"
        f"telemetry: {outcome} at cccccccccccc; 3 created, 1 invalid; One is not stored.\n",
        "",
    )


def test_waiting_for_a_run_that_could_not_be_written_down_says_where_to_look(
    program: Program, service: Service
) -> None:
    service.answer("POST /v1/repositories/telemetry/reconcile", {"run": "01RUN"}, 202)
    service.answer("GET /v1/runs/01RUN", {"run": {"phase": "running"}})
    service.answer("GET /v1/runs/01RUN", {"errors": ["There is no such run."]}, 404)
    assert program("reconcile", "telemetry", "--wait") == (
        1,
        "",
        "error: run 01RUN left no record: it could not be written, or the service was restarted; "
        "`reconciler status` says more\n",
    )


def test_waiting_has_a_limit(program: Program, service: Service) -> None:
    service.answer("POST /v1/repositories/telemetry/reconcile", {"run": "01RUN"}, 202)
    service.answer("GET /v1/runs/01RUN", {"run": {"phase": "running"}})
    assert program("reconcile", "telemetry", "--wait", "--timeout", "0.2") == (
        1,
        "",
        "error: run 01RUN is not finished yet; --timeout waits longer, and it goes on without anyone waiting\n",
    )


def test_an_unknown_repository_is_one_sentence(program: Program, service: Service) -> None:
    service.answer("POST /v1/repositories/x/reconcile", {"errors": ["there is no such repository"]}, 404)
    sentence = "error: there is no repository x; `reconciler status` shows those there are\n"
    assert program("reconcile", "x") == (1, "", sentence)
