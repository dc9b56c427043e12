"""`send-test`: what came of one made-up record, and the exit code that says so."""

from typing import Any

import pytest

from tests.cli.conftest import Program, Service

TEST = "POST /v1/destinations/siem/delivery/test"


def outcome(**more: Any) -> dict[str, Any]:
    return {"test": {"delivered": True, "status": 200, "seconds": 0.1234, "message": "", "answer": "", **more}}


@pytest.mark.parametrize(
    ("answered", "code", "told"),
    [
        (outcome(), 0, "siem: delivered; answered 200 after 0.12 s\n"),
        (outcome(answer="ok"), 0, "siem: delivered; answered 200 after 0.12 s\n  ok\n"),
        (
            outcome(delivered=False, status=401, message="Wrong `Authorization`.", answer='{"error":\n"no"}'),
            1,
            'siem: not delivered; answered 401 after 0.12 s\nWrong `Authorization`.\n  {"error":\n  "no"}\n',
        ),
        (
            outcome(delivered=False, status=None, seconds=5, message="The connection was refused: wrong port?"),
            1,
            "siem: not delivered; no answer after 5.00 s\nThe connection was refused: wrong port?\n",
        ),
    ],
)
def test_what_came_of_it_is_told(
    program: Program, service: Service, answered: dict[str, Any], code: int, told: str
) -> None:
    service.answer(TEST, answered)
    assert program("send-test", "siem") == (code, told, "")
    assert [(request.method, request.body) for request in service.requests] == [("POST", None)]


def test_an_unknown_destination_is_one_sentence(program: Program) -> None:
    told = (
        "log records are delivered to no destination siem; `reconciler queue status` shows those there are, with "
        "--project NAME those of another project"
    )
    assert program("send-test", "siem") == (1, "", f"error: {told}\n")
