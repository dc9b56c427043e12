"""`queue status`, `replay` and `discard`: what each asks for, and what it says."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Program, Service

AT = "2026-11-21T06:12:00.123Z"
SHOW_WHY = "`reconciler get configurations -o yaml` shows why one does not deliver"
LATER = "2026-11-21T06:13:00.123Z"
SIEM = "/v1/destinations/siem/delivery"
REFUSED = "The destination siem (https://siem.example.org:443) refused the connection: a wrong port; check `port`."
UNKNOWN = (
    "error: log records are delivered to no destination siem; `reconciler queue status` shows those there are, with "
    "--project NAME those of another project\n"
)


def delivery(name: str = "siem", **more: Any) -> dict[str, Any]:
    """A delivery as the service shows it, that has nothing to do."""
    return {
        "destination": name,
        "state": "idle",
        "message": "",
        "since": AT,
        "queue": {
            **{"kind": "disk", "batches": 0, "records": 0, "bytes": 0, "diskBytes": 0, "load": 0.0, "oldest": None},
            **{"maxBatches": 5000, "maxBytes": 1 << 30, "inFlight": 0, "waiting": 0},
            **{"quarantined": 0, "lost": 0, "refused": False},
        },
        "deadLetters": {"batches": 0, "records": 0, "bytes": 0, "oldest": None},
        "counts": dict.fromkeys(("taken", "delivered", "retried", "dead", "dropped", "discarded", "expired"), 0),
        "lastSuccess": None,
        "lastFailure": None,
        "window": None,
        "configurations": ["edge"],
        **more,
    }


def down(**failure: Any) -> dict[str, Any]:
    """One that does not get through."""
    queue = {**delivery()["queue"], "batches": 120, "records": 12_345, "bytes": 2_345_678, "oldest": AT}
    return delivery(
        state="down",
        message="siem.example.org does not answer; one request every 30 s tries whether it does again.",
        queue=queue,
        deadLetters={"batches": 2, "records": 20, "bytes": 4000, "oldest": AT},
        lastSuccess=AT,
        lastFailure={"at": LATER, "status": None, "cause": REFUSED, **failure},
    )


def sent(service: Service) -> list[tuple[str, str, Any]]:
    return [(request.method, request.path, request.body) for request in service.requests]


def test_each_delivery_is_a_row_and_trouble_stands_beneath(program: Program, service: Service) -> None:
    calm = delivery("archive", state="sending", lastSuccess=LATER, lastFailure={"at": AT, "cause": "It was slow."})
    service.answer("GET /v1/deliveries", {"deliveries": [calm, down()]})
    assert program("queue", "status") == (
        0,
        "DESTINATION   STATE     RECORDS   SIZE      OLDEST                 DEAD LETTERS   LAST FAILURE\n"
        "archive       sending   0         0 bytes   -                      -              2026-11-21T06:12:00Z\n"
        "siem          down      12345     2.2 MiB   2026-11-21T06:12:00Z   2              2026-11-21T06:13:00Z\n"
        "\n"
        "siem: siem.example.org does not answer; one request every 30 s tries whether it does again.\n"
        f"{REFUSED}\n",
        "",
    )


def test_what_has_nothing_to_tell_goes_and_wide_counts_the_batches(program: Program, service: Service) -> None:
    service.answer("GET /v1/deliveries", {"deliveries": [delivery()]})
    assert program("queue", "status").out == (
        "DESTINATION   STATE   RECORDS   SIZE\nsiem          idle    0         0 bytes\n"
    )
    assert program("queue", "status", "-o", "wide").out == (
        "DESTINATION   STATE   BATCHES   RECORDS   SIZE\nsiem          idle    0         0         0 bytes\n"
    )


def test_one_destination_is_asked_for_by_its_name(program: Program, service: Service) -> None:
    service.answer("GET /v1/destinations/edge%3A01H/delivery", {"delivery": delivery("edge:01H")})
    outcome = program("queue", "status", "edge:01H")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines()[1].split()[:2] == ["edge:01H", "idle"]


def test_what_the_endpoint_said_is_set_in_and_bounded(program: Program, service: Service) -> None:
    answer = "\n".join(f"line {number}" for number in range(9))
    service.answer(f"GET {SIEM}", {"delivery": down(answer=answer)})
    told = program("queue", "status", "siem").out.splitlines()
    assert told[-6:] == [
        REFUSED,
        *(f"  line {number}" for number in range(5)),
    ]


def test_json_and_yaml_are_what_the_service_says(program: Program, service: Service) -> None:
    found = [delivery("archive"), down()]
    whole = {"deliveries": found, "unrouted": {"records": 3, "last": AT}}
    service.answer("GET /v1/deliveries", whole)
    service.answer(f"GET {SIEM}", {"delivery": found[1]})
    assert json.loads(program("queue", "status", "-o", "json").out) == whole
    assert list(yaml.safe_load_all(program("queue", "status", "-o", "yaml").out)) == found
    assert json.loads(program("queue", "status", "siem", "-o", "json").out) == found[1]
    assert yaml.safe_load(program("queue", "status", "siem", "-o", "yaml").out) == found[1]


@pytest.mark.parametrize(
    ("records", "note"),
    [
        (0, ""),
        (1, f"1 record was taken by no Configuration; {SHOW_WHY}\n"),
        (12, f"12 records were taken by no Configuration; {SHOW_WHY}\n"),
    ],
)
def test_records_that_nothing_takes_are_told(program: Program, service: Service, records: int, note: str) -> None:
    unrouted = {"records": records, "last": AT if records else None}
    service.answer("GET /v1/deliveries", {"deliveries": [delivery()], "unrouted": unrouted})
    outcome = program("queue", "status")
    assert (outcome.code, outcome.err) == (0, note)


QUARANTINED = """siem: damaged files that were put aside: 2. They are in the folder `quarantine` of its queue, beneath \
`queues` in the service's `stateDir`; what can be read of them is sent as ever"""
LOST = "siem: batches that could not be read since the start of the service, and are lost with their records: 1"
DROPPED = """siem: records that were dropped since the start of the service (`on_full`), as its queue was full or the \
disk took nothing: 12,345"""


@pytest.mark.parametrize(
    ("queue", "dropped", "beneath"),
    [
        ({"quarantined": 2, "lost": 1}, 0, [QUARANTINED, LOST]),
        ({"lost": 1}, 0, [LOST]),
        ({}, 12_345, [DROPPED]),
    ],
)
@pytest.mark.parametrize("form", ["table", "wide"])
def test_records_that_are_lost_and_files_that_were_put_aside_are_told(
    program: Program, service: Service, *, form: str, queue: dict[str, int], dropped: int, beneath: list[str]
) -> None:
    one = delivery()
    found = {**one, "queue": {**one["queue"], **queue}, "counts": {**one["counts"], "dropped": dropped}}
    service.answer("GET /v1/deliveries", {"deliveries": [found]})
    assert program("queue", "status", "-o", form).out.splitlines()[2:] == ["", *beneath]


LEAVING = "Nothing is delivered to it any more; what is queued is still sent."
UNWANTED = "siem: no Configuration delivers to it any more\n"


@pytest.mark.parametrize(
    ("state", "message", "shown", "beneath"),
    [
        ("idle", LEAVING, "unused", f"siem: {LEAVING}\n"),
        ("sending", LEAVING, "unused", f"siem: {LEAVING}\n"),
        ("sending", "", "unused", UNWANTED),
        ("down", "It is down.", "down", f"siem: It is down.\n{UNWANTED}"),
        ("orphaned", "A queue is left.", "orphaned", "siem: A queue is left.\n"),
    ],
)
def test_a_destination_that_no_configuration_sends_to_is_marked(
    program: Program, service: Service, *, state: str, message: str, shown: str, beneath: str
) -> None:
    left = delivery(state=state, message=message, configurations=[])
    service.answer("GET /v1/deliveries", {"deliveries": [left]})
    _, row, *told = program("queue", "status").out.splitlines(keepends=True)
    assert (row.split()[1], "".join(told)) == (shown, f"\n{beneath}")


@pytest.mark.parametrize(("hours", "form"), [(23, "%H:%M"), (47, "%Y-%m-%d %H:%M")])
def test_a_closed_window_says_when_it_opens(program: Program, service: Service, hours: int, form: str) -> None:
    opens = datetime.now(UTC) + timedelta(hours=hours)
    window = {"open": False, "until": None, "next": opens.strftime("%Y-%m-%dT%H:%M:00.000Z")}
    service.answer(f"GET {SIEM}", {"delivery": delivery(state="closed", message="Outside.", window=window)})
    told = program("queue", "status", "siem").out.splitlines()
    assert told[-2:] == ["siem: Outside.", f"siem: its window is closed until {opens.strftime(form)} UTC"]


def test_no_delivery_says_so(program: Program, service: Service) -> None:
    service.answer("GET /v1/deliveries", {"deliveries": []})
    note = "the project has no destination that log records are delivered to, and no queue is left of one\n"
    assert program("queue", "status") == (0, "", note)
    assert program("queue", "status", "-o", "json") == (0, '{\n  "deliveries": []\n}\n', note)


@pytest.mark.parametrize(
    "arguments", [["status", "siem"], ["replay", "siem"], ["discard", "siem", "--all", "--yes"]], ids=" ".join
)
def test_an_unknown_destination_is_one_sentence(program: Program, arguments: list[str]) -> None:
    assert program("queue", *arguments) == (1, "", UNKNOWN)


def test_an_unknown_destination_of_a_project_names_that(program: Program) -> None:
    told = UNKNOWN.replace("siem;", "siem of the project acme;")
    assert program("queue", "status", "siem", "--project", "acme") == (1, "", told)


@pytest.mark.parametrize(
    ("replayed", "told"),
    [
        ({"batches": 1, "records": 3}, "1 dead letter (3 records) queued again"),
        ({"batches": 2, "records": 1}, "2 dead letters (1 record) queued again"),
    ],
)
def test_replaying_says_how_much(program: Program, service: Service, replayed: dict[str, int], told: str) -> None:
    service.answer(f"POST {SIEM}/replay", {"replayed": replayed})
    assert program("queue", "replay", "siem") == (0, f"siem: {told}\n", "")
    assert sent(service) == [("POST", f"{SIEM}/replay", None)]


def test_replaying_nothing_says_why(program: Program, service: Service) -> None:
    service.answer(f"POST {SIEM}/replay", {"replayed": {"batches": 0, "records": 0}})
    told = "nothing is queued again: there are no dead letters, or no room in the queue"
    assert program("queue", "replay", "siem") == (0, f"siem: {told}\n", "")


@pytest.mark.parametrize(("option", "what"), [("--queued", "queue"), ("--dead", "deadLetters"), ("--all", "all")])
def test_discarding_says_what_and_how_much(program: Program, service: Service, option: str, what: str) -> None:
    service.answer(f"POST {SIEM}/discard", {"discarded": {"batches": 2, "records": 3}})
    assert program("queue", "discard", "siem", option, "--yes") == (0, "siem: 2 batches (3 records) discarded\n", "")
    assert sent(service) == [("POST", f"{SIEM}/discard", {"what": what})]


def test_discarding_wants_to_know_what(program: Program, service: Service) -> None:
    outcome = program("queue", "discard", "siem", "--yes")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.endswith("error: give --queued, --dead or --all\n")
    assert sent(service) == []


def test_nothing_is_discarded_where_nobody_can_answer(program: Program, service: Service) -> None:
    service.answer(f"GET {SIEM}", {"delivery": down()})
    told = (1, "", "error: there is no terminal for an answer; give --yes\n")
    assert program("queue", "discard", "siem", "--all") == told
    assert [method for method, _, _ in sent(service)] == ["GET"]


@pytest.mark.parametrize(
    ("option", "question"),
    [
        ("--queued", b"Discard 12345 records in the queue of siem, for good? [y/N]"),
        ("--dead", b"Discard 20 records among the dead letters of siem, for good? [y/N]"),
        ("--all", b"Discard 12345 records in the queue and 20 records among the dead letters of siem, for good? [y/N]"),
    ],
)
@pytest.mark.parametrize("answer", [b"y\n", b"n\n", b"\n"])
def test_somebody_is_asked_first(
    program: Program, service: Service, answer: bytes, option: str, question: bytes
) -> None:
    service.answer(f"GET {SIEM}", {"delivery": down()})
    service.answer(f"POST {SIEM}/discard", {"discarded": {"batches": 1, "records": 1}})
    ran = program.answered(answer, "queue", "discard", "siem", option)
    assert question in ran.stderr
    is_yes = answer == b"y\n"
    assert (ran.returncode, ran.stdout) == ((0, b"siem: 1 batch (1 record) discarded\n") if is_yes else (130, b""))
    assert [method for method, _, _ in sent(service)] == (["GET", "POST"] if is_yes else ["GET"])


def test_a_refusal_is_told_as_the_service_says_it(program: Program, service: Service) -> None:
    service.answer(f"POST {SIEM}/replay", {"errors": ["Your role does not allow that."]}, 403)
    assert program("queue", "replay", "siem") == (1, "", "error: your role does not allow that\n")


def test_several_instances_are_rows_of_their_own_and_a_missing_one_is_told(program: Program, service: Service) -> None:
    parts = [{"instance": "one", "delivery": delivery()}, {"instance": "two", "delivery": down()}]
    asked = [
        *({"instance": name, "problem": None} for name in ("one", "two")),
        {"instance": "three", "problem": "It does not answer."},
    ]
    whole = {"deliveries": [{**down(), "instances": parts}], "instances": asked}
    service.answer("GET /v1/deliveries", whole)
    outcome = program("queue", "status")
    assert [line.split()[:3] for line in outcome.out.splitlines()[:3]] == [
        ["DESTINATION", "INSTANCE", "STATE"],
        ["siem", "one", "idle"],
        ["siem", "two", "down"],
    ]
    assert f"\nsiem on two: {REFUSED}\n" in outcome.out
    assert (outcome.code, outcome.err) == (0, "three is missing: It does not answer.\n")
    assert json.loads(program("queue", "status", "-o", "json").out) == whole


@pytest.mark.parametrize(("problem", "code"), [(None, 0), ("It does not answer.", 1)])
def test_an_action_tells_which_instance_did_nothing(
    program: Program, service: Service, problem: str | None, code: int
) -> None:
    asked = [{"instance": "one", "problem": None}, {"instance": "two", "problem": problem}]
    told = f"error: two is missing: {problem}\n" if problem else ""
    done = {"batches": 1, "records": 10}
    test = {"delivered": True, "status": 200, "seconds": 0.02, "message": "", "answer": "", "instance": "one"}
    service.answer(f"POST {SIEM}/replay", {"replayed": done, "instances": asked})
    service.answer(f"POST {SIEM}/discard", {"discarded": done, "instances": asked})
    service.answer(f"POST {SIEM}/test", {"test": test, "instances": asked})
    assert program("queue", "replay", "siem") == (code, "siem: 1 dead letter (10 records) queued again\n", told)
    discarded = program("queue", "discard", "siem", "--dead", "--yes")
    assert discarded == (code, "siem: 1 batch (10 records) discarded\n", told)
    tested = program("send-test", "siem")
    assert (tested.code, tested.err) == (code, told)
    assert tested.out.startswith("siem on each replica: delivered; answered 200")
