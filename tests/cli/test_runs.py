"""`runs`: the list, and one run with every status and reason."""

import json
from typing import Any

import pytest
import yaml

from tests import hostile_text
from tests.cli.conftest import Program, Service

STATUSES = [
    {"kind": "Fleet", "name": "a", "status": "created", "path": "a.yaml", "line": 1},
    {"kind": "Fleet", "name": "b", "status": "invalid", "path": "b.yaml", "line": 4, "reason": "b.yaml:5:1: no\n/x: y"},
    {"kind": None, "name": None, "status": "invalid", "path": "c.yaml", "line": 2, "reason": "c.yaml:2:1: not YAML"},
    {"kind": "Fleet", "name": "d", "status": "error", "reason": "the disk is full"},
]
WHOLE = (
    "STATUS    KIND    NAME   WHERE\n"
    "created   Fleet   a      a.yaml:1\n"
    "invalid   Fleet   b      b.yaml:4\n"
    "invalid   -       -      c.yaml:2\n"
    "error     Fleet   d      -\n"
    "\n"
    "b.yaml:5:1: no\n"
    "b.yaml:4: /x: y\n"
    "c.yaml:2:1: not YAML\n"
    "Fleet/d: the disk is full\n"
    "\n"
    "telemetry: partial at cccccccccccc; 1 created, 2 invalid, 1 error; Mend it.\n"
)


def run(**more: Any) -> dict[str, Any]:
    return {
        "id": "01RUN",
        "repository": "telemetry",
        "project": "default",
        "phase": "finished",
        "outcome": "partial",
        "commit": "c" * 40,
        "counts": {"error": 1, "invalid": 2, "created": 1},
        "message": "Mend it.",
        "finishedAt": "2026-11-21T06:12:00.123Z",
        **more,
    }


def test_the_list_shows_the_latest_runs(program: Program, service: Service) -> None:
    service.answer("GET /v1/runs", {"runs": [run(), run(id="01OLD", outcome="failed", commit=None, counts={})]})
    assert program("runs") == (
        0,
        "ID      REPOSITORY   OUTCOME   COMMIT         COUNTS                          FINISHED\n"
        "01RUN   telemetry    partial   cccccccccccc   1 created, 2 invalid, 1 error   2026-11-21T06:12:00Z\n"
        "01OLD   telemetry    failed    -              -                               2026-11-21T06:12:00Z\n",
        "",
    )
    assert service.requests[0].query == {"limit": "100"}


def test_a_run_shows_its_statuses_then_every_reason_then_the_message(program: Program, service: Service) -> None:
    service.answer("GET /v1/runs/01RUN", {"run": run(statuses=STATUSES)})
    assert program("runs", "01RUN") == (0, WHOLE, "")


def test_the_last_run_of_a_repository_is_found_by_its_name(program: Program, service: Service) -> None:
    service.answer("GET /v1/repositories/telemetry", {"repository": {"name": "telemetry", "lastRun": "01RUN"}})
    service.answer("GET /v1/runs/01RUN", {"run": run(statuses=STATUSES)})
    assert program("runs", "--last", "telemetry") == (0, WHOLE, "")


def test_json_and_yaml_are_what_the_service_says(program: Program, service: Service) -> None:
    whole = run(statuses=STATUSES)
    service.answer("GET /v1/runs", {"runs": [run(), run()]})
    service.answer("GET /v1/runs/01RUN", {"run": whole})
    assert json.loads(program("runs", "-o", "json").out) == {"runs": [run(), run()]}
    assert list(yaml.safe_load_all(program("runs", "-o", "yaml").out)) == [run(), run()]
    assert json.loads(program("runs", "01RUN", "-o", "json").out) == whole
    assert yaml.safe_load(program("runs", "01RUN", "-o", "yaml").out) == whole


def test_a_run_that_goes_on_says_so(program: Program, service: Service) -> None:
    service.answer("GET /v1/runs/01RUN", {"run": run(phase="running", outcome=None, counts={}, message=None)})
    assert program("runs", "01RUN").out == "telemetry: running at cccccccccccc\n"


def test_a_project_has_its_own_runs(program: Program, service: Service) -> None:
    service.answer("GET /v1/runs", {"runs": [run(), run(id="01WEB", project="web")]})
    service.refuse("GET /v1/resources/Fleet", "x", status=404, code="project-not-found")
    outcome = program("runs", "--project", "web", "-o", "json")
    assert json.loads(outcome.out) == {"runs": [run(id="01WEB", project="web")]}
    sentence = "there is no project nope, or you have no role in it; `reconciler project list` shows yours"
    assert program("runs", "--project", "nope") == (1, "", f"error: {sentence}\n")


def test_no_runs_are_said_where_no_program_reads_it(program: Program, service: Service) -> None:
    service.answer("GET /v1/runs", {"runs": []})
    assert program("runs") == (0, "", "no runs found\n")
    assert program("runs", "-o", "json").out == '{\n  "runs": []\n}\n'


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["01NO"], "there is no run 01NO; `reconciler runs` lists them"),
        (
            ["--last", "nope"],
            "there is no repository nope; `reconciler status` shows those there are, and `reconciler runs` also lists "
            "runs of those that left the settings",
        ),
        (["--last", "new"], "new has had no run yet; `reconciler reconcile new` asks for one"),
    ],
)
def test_what_is_missing_is_one_sentence(
    program: Program, service: Service, arguments: list[str], sentence: str
) -> None:
    service.answer("GET /v1/repositories/new", {"repository": {"name": "new", "lastRun": None}})
    assert program("runs", *arguments) == (1, "", f"error: {sentence}\n")


def test_a_run_is_named_in_one_way(alone: Program) -> None:
    outcome = alone("runs", "01RUN", "--last", "telemetry")
    assert outcome.code == 2
    assert outcome.err.endswith("error: give either an ID or --last, not both\n")


def test_no_status_can_act_on_the_terminal(program: Program, service: Service) -> None:
    evil = "\x1b]0;x\x07\n\r"
    status = {"kind": evil, "name": evil, "status": evil, "path": evil, "line": 1, "reason": evil}
    service.answer("GET /v1/runs/01RUN", {"run": run(statuses=[status], message=evil, outcome=evil, repository=evil)})
    shown = program("runs", "01RUN").out
    assert hostile_text.unseen(shown) == []


def test_a_line_of_a_reason_ends_where_the_service_ended_it(program: Program, service: Service) -> None:
    status = {
        "kind": "Fleet",
        "name": "b",
        "status": "invalid",
        "path": "b.yaml",
        "line": 4,
        "reason": "a\u2028b\x85c\nd",
    }
    service.answer("GET /v1/runs/01RUN", {"run": run(statuses=[status])})
    lines = program("runs", "01RUN").out.split("\n")
    assert [line for line in lines if line.startswith("b.yaml:4: ")] == ["b.yaml:4: a\\u2028b\\x85c", "b.yaml:4: d"]
