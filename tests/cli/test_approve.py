"""`approve`: what is held is shown and released."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.cli.conftest import Program, Service

HEAD = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
APPROVE = "POST /v1/repositories/telemetry/approve"
SHOWN = "telemetry at 4b825dc642cb: 4 resources to delete\n  Fleet/a\n  Fleet/b\n  and 2 more\n"


def held(**more: Any) -> dict[str, Any]:
    resources = [{"kind": "Fleet", "name": name} for name in "ab"]
    return {"commit": HEAD, "count": 4, "approvable": True, "resources": resources, **more}


def repository(what: Mapping[str, Any] | None, **more: Any) -> dict[str, Any]:
    return {
        "name": "telemetry",
        "project": "default",
        "state": "prune-held",
        "message": "Four would go.",
        "commit": HEAD,
        "head": HEAD,
        "lastRun": None,
        "held": what,
        **more,
    }


@pytest.fixture
def holding(service: Service) -> Service:
    """A service that holds four deletions."""
    service.answer("GET /v1/repositories/telemetry", {"repository": repository(held())})
    service.answer(APPROVE, {"run": "01RUN"}, 202)
    return service


def approved(service: Service) -> list[Any]:
    return [request.body for request in service.requests if request.method == "POST"]


def test_what_is_held_is_shown_and_approved(program: Program, holding: Service) -> None:
    assert program("approve", "telemetry", "--yes") == (0, SHOWN + "telemetry: run 01RUN\n", "")
    assert approved(holding) == [{"commit": HEAD}]


@pytest.mark.parametrize("commit", [HEAD, HEAD[:12]])
def test_a_commit_that_is_named_is_approved_without_asking(program: Program, holding: Service, commit: str) -> None:
    assert program("approve", "telemetry", commit) == (0, "telemetry: run 01RUN\n", "")
    assert approved(holding) == [{"commit": HEAD}]


@pytest.mark.parametrize("commit", ["4b825d", "abc1234"])
def test_what_does_not_name_the_held_commit_is_for_the_service_to_judge(
    program: Program, holding: Service, commit: str
) -> None:
    program("approve", "telemetry", commit)
    assert approved(holding) == [{"commit": commit}]


def test_what_another_commit_holds_is_for_the_service_to_say(program: Program, service: Service) -> None:
    commit = "f" * 40
    service.answer("GET /v1/repositories/telemetry", {"repository": repository(held())})
    service.answer(APPROVE, {"errors": ["telemetry holds nothing there."]}, 409)
    assert program("approve", "telemetry", commit) == (1, "", "error: telemetry holds nothing there\n")
    assert approved(service) == [{"commit": commit}]


def test_nothing_is_approved_where_nobody_can_answer(program: Program, holding: Service) -> None:
    told = "error: there is no terminal for an answer; name the COMMIT that is meant, or give --yes\n"
    assert program("approve", "telemetry") == (1, SHOWN, told)
    assert approved(holding) == []


@pytest.mark.parametrize(("answer", "bodies"), [(b"y\n", [{"commit": HEAD}]), (b"n\n", []), (b"\n", [])])
def test_somebody_is_asked_first(program: Program, holding: Service, answer: bytes, bodies: list[Any]) -> None:
    ran = program.answered(answer, "approve", "telemetry")
    assert ran.stdout.decode().startswith(SHOWN)
    assert b"Approve this? [y/N]" in ran.stderr
    assert (ran.returncode, approved(holding)) == (0 if bodies else 130, bodies)


def test_a_head_that_is_held_as_a_whole_says_so(program: Program, service: Service) -> None:
    whole = repository(held(count=0, resources=[]), state="unrelated-root")
    service.answer("GET /v1/repositories/telemetry", {"repository": whole})
    service.answer(APPROVE, {"run": "01RUN"}, 202)
    told = "telemetry at 4b825dc642cb is held as a whole; nothing of it is deleted\n"
    assert program("approve", "telemetry", "--yes") == (0, f"{told}telemetry: run 01RUN\n", "")


@pytest.mark.parametrize(
    ("shown", "sentence"),
    [
        (repository(None, state="ready"), "telemetry holds nothing, so there is nothing to approve; it is ready"),
        (
            repository(held(approvable=False), message="a.yaml:1:1: is not YAML. Until then nothing is deleted."),
            "what telemetry holds cannot be approved; mend the file: "
            "a.yaml:1:1: is not YAML. Until then nothing is deleted",
        ),
    ],
)
def test_what_cannot_be_approved_says_why(
    program: Program, service: Service, shown: dict[str, Any], sentence: str
) -> None:
    service.answer("GET /v1/repositories/telemetry", {"repository": shown})
    for commit in ([], [HEAD]):
        assert program("approve", "telemetry", *commit) == (1, "", f"error: {sentence}\n")
    assert approved(service) == []


def test_waiting_prints_the_run(program: Program, holding: Service) -> None:
    run = {
        "id": "01RUN",
        "phase": "finished",
        "outcome": "partial",
        "commit": HEAD,
        "counts": {"deleted": 1},
        "statuses": [{"kind": "Fleet", "name": "a", "status": "deleted", "path": "a.yaml", "line": 1}],
    }
    holding.answer("GET /v1/runs/01RUN", {"run": {"phase": "queued"}})
    holding.answer("GET /v1/runs/01RUN", {"run": run})
    assert program("approve", "telemetry", HEAD, "--wait") == (
        3,
        "STATUS    KIND    NAME   WHERE\n"
        "deleted   Fleet   a      a.yaml:1\n"
        "\n"
        "telemetry: partial at 4b825dc642cb; 1 deleted\n",
        "",
    )


def test_an_unknown_repository_is_one_sentence(program: Program) -> None:
    sentence = "error: there is no repository x; `reconciler status` shows those there are\n"
    assert program("approve", "x") == (1, "", sentence)


@pytest.mark.parametrize(
    ("what", "line"),
    [
        (held(), "\ntelemetry: 4 deletions held; `reconciler approve telemetry` shows and releases it\n"),
        (
            held(count=0, resources=[]),
            "\ntelemetry: nothing of the head is applied; `reconciler approve telemetry` shows and releases it\n",
        ),
        (held(approvable=False), ""),
        (None, ""),
    ],
)
def test_status_names_the_command(program: Program, service: Service, what: dict[str, Any] | None, line: str) -> None:
    service.answer("GET /v1/repositories", {"repositories": [repository(what)]})
    code, out, err = program("status")
    assert (code, out.partition("\n\n")[2], err) == (0, "telemetry: Four would go.\n" + line, "")
