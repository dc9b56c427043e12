"""`get` and `history`: what they ask, and how they show it."""

import json
from typing import Any

import pytest
import yaml

from tests import hostile_text
from tests.cli.conftest import Outcome, Program, Service


def destination(name: str, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "service/v1",
        "kind": "Destination",
        "metadata": {"name": name, "id": "01H", "version": 2, "dateModified": "2026-11-21T06:12:00.123Z"},
        "spec": {"type": "webhook"},
        "status": {
            "source": {"type": "git", "repository": "telemetry", "commit": "c" * 40, "path": "a.yaml", "line": 3}
        },
        **more,
    }


def test_a_table_shows_every_resource_in_whole(program: Program, service: Service) -> None:
    long = "a-name-that-is-longer-than-a-terminal-is-wide-" + "x" * 17
    answer = {"resources": [destination("web"), destination(long, status={"incomplete": [{"x": 1}]})]}
    service.answer("GET /v1/resources/Destination", answer)
    assert program("get", "destinations").out == (
        "NAME" + " " * 62 + "TYPE      VERSION   STATUS       MODIFIED               SOURCE\n"
        "web" + " " * 63 + "webhook   2         -            2026-11-21T06:12:00Z   git telemetry\n"
        f"{long}   webhook   2         incomplete   2026-11-21T06:12:00Z   -\n"
    )
    (request,) = service.requests
    assert (request.headers["authorization"], request.query) == (f"Bearer {'k' * 32}", {"limit": "1000"})


def test_a_wide_table_says_where_a_resource_is_from(program: Program, service: Service) -> None:
    labels = {"name": "web", "labels": {"env": "prod", "a": "b"}, "displayName": "The web"}
    by_hand = destination("hand", status={"source": {"type": "api", "actor": "key:K"}}, metadata={"name": "hand"})
    two = [destination("web", metadata=labels), by_hand]
    service.answer("GET /v1/resources/Destination", {"resources": two})
    assert program("get", "Destination", "-o", "wide") == (
        0,
        "NAME   TYPE      STATUS   SOURCE          OWNER       COMMIT         FILE       DISPLAY NAME   LABELS\n"
        "web    webhook   -        git telemetry   telemetry   cccccccccccc   a.yaml:3   The web        a=b,env=prod\n"
        "hand   webhook   -        api key:K       api         -              -          -              -\n",
        "",
    )


def test_the_file_of_what_drifted_is_the_one_in_which_its_repository_holds_it(
    program: Program, service: Service
) -> None:
    drift = {"repository": "telemetry", "path": "edge/a.yaml", "line": 7}
    status = {"source": {"type": "api", "actor": "key:K"}, "drift": drift}
    service.answer("GET /v1/resources/Destination", {"resources": [destination("a", status=status)]})
    header, row = program("get", "destinations", "-o", "wide").out.splitlines()
    assert row[header.index("FILE") : header.index("ID")].strip() == "edge/a.yaml:7"


def test_the_commit_that_is_shown_is_the_one_that_changed_the_file(program: Program, service: Service) -> None:
    head = {"type": "git", "repository": "telemetry", "commit": "c" * 40, "author": "Ada <ada@example.org>"}
    changed_by = {"commit": "d" * 40, "author": "Bo <bo@example.org>", "date": "2026-11-21T06:12:00.000Z"}
    known = destination("known", status={"source": head | {"changedBy": changed_by}})
    answer = {"resources": [known, destination("not-yet", status={"source": head})]}
    service.answer("GET /v1/resources/Destination", answer)
    service.answer("GET /v1/Destination/known/history", {"versions": answer["resources"]})
    told = ["dddddddddddd   Bo <bo@example.org>", "cccccccccccc   Ada <ada@example.org>"]
    for words in (["get", "destinations", "-o", "wide"], ["history", "Destination", "known"]):
        lines = program(*words).out.splitlines()[1:]
        assert [wanted in line for wanted, line in zip(told, lines, strict=True)] == [True, True]


def test_a_column_that_is_empty_for_the_kind_is_not_shown(program: Program, service: Service) -> None:
    fleet = {"kind": "Fleet", "metadata": {"name": "a", "version": 1}, "status": {"ready": False}}
    service.answer("GET /v1/resources/Fleet", {"resources": [fleet]})
    assert program("get", "fleets").out == "NAME   VERSION   STATUS\na      1         not-ready\n"


def test_whether_configurations_deliver_is_a_column(program: Program, service: Service) -> None:
    says = {"yes": {"delivery": {"delivers": True}}, "no": {"delivery": {"delivers": False, "reason": "x"}}, "none": {}}
    found = [{"kind": "Configuration", "metadata": {"name": name}, "status": said} for name, said in says.items()]
    service.answer("GET /v1/resources/Configuration", {"resources": found})
    told = "NAME   STATUS   DELIVERS\nyes    -        yes\nno     -        no\nnone   -        -\n"
    assert program("get", "configurations").out == told


@pytest.mark.parametrize("words", [["Destination", "b", "a", "b"], ["destinations/b", "Destination/a"]])
def test_several_resources_may_be_named(program: Program, service: Service, words: list[str]) -> None:
    for name in "ab":
        service.answer(f"GET /v1/resources/Destination/{name}", {"resource": destination(name)})
    assert program("get", *words, "-o", "name") == (0, "Destination/b\nDestination/a\n", "")
    assert json.loads(program("get", *words, "-o", "json").out) == {"resources": [destination("b"), destination("a")]}


def test_each_kind_has_a_table(program: Program, service: Service) -> None:
    service.answer("GET /v1/resources/Fleet/a", {"resource": {"kind": "Fleet", "metadata": {"name": "a"}}})
    service.answer("GET /v1/resources/Source/b", {"resource": {"kind": "Source", "metadata": {"name": "b"}}})
    assert program("get", "fleet/a", "source/b").out == "NAME   STATUS\na      -\n\nNAME   STATUS\nb      -\n"


def test_what_is_there_is_shown_beside_what_is_not(program: Program, service: Service) -> None:
    service.answer("GET /v1/resources/Fleet/a", {"resource": {"kind": "Fleet", "metadata": {"name": "a"}}})
    service.answer("GET /v1/resources/Fleet/b", {"errors": ["There is no Fleet b."]}, 404)
    assert program("get", "fleet", "b", "a", "-o", "name") == (1, "Fleet/a\n", "error: there is no Fleet b\n")


def test_the_two_ways_to_name_resources_do_not_mix(alone: Program) -> None:
    outcome = alone("get", "fleet/a", "b")
    assert outcome.code == 2
    assert outcome.err.endswith("error: write either KIND NAME... or KIND/NAME..., not both\n")


def test_yaml_and_json_are_what_apply_takes(program: Program, service: Service) -> None:
    two = [destination("a"), destination("b", metadata={"name": "no", "displayName": "1e3"})]
    service.answer("GET /v1/resources/Destination", {"resources": two})
    service.answer("GET /v1/resources/Destination/a", {"resource": two[0]})
    assert list(yaml.safe_load_all(program("get", "destination", "-o", "yaml").out)) == two
    assert json.loads(program("get", "destination", "-o", "json").out) == {"resources": two}
    assert json.loads(program("get", "destination", "a", "-o", "json").out) == two[0]
    assert yaml.safe_load(program("get", "destination", "a", "-o", "yaml").out) == two[0]
    assert program("get", "destination", "-o", "name").out == "Destination/a\nDestination/no\n"


def test_a_long_list_comes_in_pages(program: Program, service: Service) -> None:
    first = [destination(f"d{number:04}") for number in range(1000)]
    service.answer("GET /v1/resources/Destination", {"resources": first})
    service.answer("GET /v1/resources/Destination", {"resources": [destination("last")]})
    outcome = program("get", "destinations", "-o", "name")
    assert len(outcome.out.splitlines()) == 1001
    assert [request.query for request in service.requests] == [
        {"limit": "1000"},
        {"limit": "1000", "after": "d0999"},
    ]


def test_a_selector_holds_for_every_page(program: Program, service: Service) -> None:
    service.answer("GET /v1/resources/Fleet", {"resources": [destination(f"d{number:04}") for number in range(1000)]})
    service.answer("GET /v1/resources/Fleet", {"resources": []})
    for option in ("-l", "--selector"):
        assert program("get", "fleets", option, "team in (a, b)", "-o", "name").code == 0
    asked = {"limit": "1000", "selector": "team in (a, b)"}
    assert [request.query for request in service.requests] == [asked, {**asked, "after": "d0999"}, asked]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["fleets", "-l", "a in b"], "--selector is not a label selector: at character 3, `,` or the end is expected"),
        (["fleets", "x", "-l", "a"], "give either names or --selector"),
        (["fleet/x", "-l", "a"], "give either names or --selector"),
    ],
)
def test_a_selector_that_cannot_be_asked_for_is_misuse(alone: Program, words: list[str], sentence: str) -> None:
    outcome = alone("get", *words)
    assert (outcome.code, outcome.out, outcome.err.splitlines()[-1]) == (2, "", f"error: {sentence}")


def test_what_is_built_in_says_so(program: Program, service: Service) -> None:
    metadata = {"name": "otlp", "id": "builtin.SourceType.otlp", "version": 1, "displayName": "OTLP"}
    status = {"latest": True, "source": {"type": "builtin"}}
    built_in = {"kind": "SourceType", "metadata": metadata, "spec": {"version": "1.0.0"}, "status": status}
    own = destination("own", kind="SourceType", spec={})
    service.answer("GET /v1/resources/SourceType", {"resources": [built_in, own]})
    service.answer("GET /v1/SourceType/otlp/history", {"versions": [built_in]})
    assert program("get", "source-types").out == (
        "NAME   VERSION   STATUS   MODIFIED               SOURCE\n"
        "otlp   1         -        -                      builtin\n"
        "own    2         -        2026-11-21T06:12:00Z   git telemetry\n"
    )
    header, first, _ = program("get", "source-types", "-o", "wide").out.splitlines()
    assert first[header.index("SOURCE") : header.index("COMMIT")].split() == ["builtin", "builtin"]
    assert program("history", "source-type", "otlp").out.splitlines()[1].split() == ["1", "-", "-", "builtin", "-", "-"]


def test_an_empty_list_is_said_where_no_program_reads_it(program: Program, service: Service) -> None:
    service.answer("GET /v1/resources/Fleet", {"resources": []})
    assert program("get", "fleets") == (0, "", "no fleets found\n")
    assert json.loads(program("get", "fleets", "-o", "json").out) == {"resources": []}


def test_the_help_says_what_becomes_of_secrets_when_it_is_applied_again(alone: Program) -> None:
    words = " ".join(alone("get", "--help").out.split())
    assert "can be edited and applied again: `(sensitive)` keeps the stored secret." in words


def test_what_is_missing_is_one_sentence(program: Program, service: Service) -> None:
    service.answer("GET /v1/resources/Fleet/x", {"errors": ["There is no Fleet x."]}, 404)
    assert program("get", "fleet", "x") == (1, "", "error: there is no Fleet x\n")


def test_names_are_one_part_of_the_path(program: Program, service: Service) -> None:
    program("get", "fleet", "a/../b?c")
    assert service.requests[0].path == "/v1/resources/Fleet/a%2F..%2Fb%3Fc"
    assert program("get", "fleet", "..").err == "error: a kind or a name must not be empty, `.` or `..`\n"


@pytest.mark.parametrize("form", ["table", "wide", "yaml", "json", "name"])
def test_no_value_can_act_on_the_terminal(program: Program, service: Service, form: str) -> None:
    evil = "\x1b]0;x\x07\x9b31m\u202e\r\x7f"
    metadata = {"name": evil, "displayName": evil, "labels": {evil: evil}, "version": evil}
    resource = {"kind": evil, "metadata": metadata, "spec": {"type": evil}, "status": {"source": {"type": evil}}}
    service.answer("GET /v1/resources/Destination", {"resources": [resource]})
    outcome = program("get", "destinations", "-o", form)
    assert outcome.code == 0
    assert hostile_text.unseen(outcome.out) == []
    if form == "json":
        assert json.loads(outcome.out) == {"resources": [resource]}
    if form == "yaml":
        assert yaml.safe_load(outcome.out) == resource


def test_history_shows_the_newest_version_first(program: Program, service: Service) -> None:
    old = destination("web", metadata={"name": "web", "version": 1, "hash": "a" * 64})
    service.answer("GET /v1/Destination/web/history", {"versions": [destination("web"), old]})
    lines = program("history", "destination", "web").out.splitlines()
    assert [line.split()[0] for line in lines] == ["VERSION", "2", "1"]
    assert "aaaaaaaaaaaa   git telemetry   cccccccccccc" in lines[2]
    assert json.loads(program("history", "destination", "web", "-o", "json").out)["versions"][1] == old
    assert len(list(yaml.safe_load_all(program("history", "destination", "web", "-o", "yaml").out))) == 2
    assert program("history", "destination/web").out.splitlines() == lines


@pytest.mark.parametrize("words", [["destination"], ["destination/a", "destination/b"]])
def test_history_is_of_one_resource(alone: Program, words: list[str]) -> None:
    outcome = alone("history", *words)
    assert outcome.code == 2
    assert outcome.err.endswith("error: give KIND and NAME, or KIND/NAME\n")


def stream(*events: tuple[str, str]) -> bytes:
    """A stream of events, and the comment that says that it is open."""
    told = (
        f'id: e-{number}\nevent: {event}\ndata: {{"key":"{key}"}}\n\n' for number, (event, key) in enumerate(events)
    )
    return "".join(["retry: 2000\nid: e-0\n\n", *told, ":\nid: e-9\n\n"]).encode()


def lines(outcome: Outcome) -> list[str]:
    """The output, without the headers of tables."""
    return [line.partition(" ")[0] for line in outcome.out.splitlines() if not line.startswith("NAME")]


def test_what_changes_is_shown_until_the_stream_can_not_be_opened_again(program: Program, service: Service) -> None:
    service.answer("GET /v1/events", stream(*[("resource", f"Destination/{name}") for name in ("web", "new", "web")]))
    service.answer("GET /v1/events", stream(("resource", "Destination/old"), ("run", "R"), ("resource", "Source/x")))
    service.refuse("GET /v1/events", "No more.", status=503, code="unavailable")
    service.answer("GET /v1/resources/Destination", {"resources": [destination("web"), destination("old")]})
    service.answer("GET /v1/resources/Destination/web", {"resource": destination("web")})  # as it is known
    service.answer("GET /v1/resources/Destination/web", {"resource": destination("web", status={"ready": False})})
    service.answer("GET /v1/resources/Destination/new", {"resource": destination("new")})
    outcome = program("get", "destinations", "-w")
    assert lines(outcome) == ["web", "old", "new", "web"]
    assert (outcome.code, outcome.err) == (1, "Destination/old is gone\nerror: no more\n")
    asked = [request.headers.get("last-event-id") for request in service.requests if request.path == "/v1/events"]
    assert asked == [None, "e-9", "e-9"]


def test_names_that_are_watched_and_a_reset_are_read_as_such(program: Program, service: Service) -> None:
    service.answer(
        "GET /v1/events", stream(("resource", "Destination/other"), ("reset", ""), ("resource", "Destination"))
    )
    service.refuse("GET /v1/events", "No more.", status=503, code="unavailable")
    for number in range(3):
        status = {"ready": number == 0}
        service.answer("GET /v1/resources/Destination/web", {"resource": destination("web", status=status)})
    outcome = program("get", "destination/web", "-w", "-o", "json")
    assert [json.loads(one)["status"] for one in outcome.out.replace("}\n{", "}\n\0{").split("\0")] == [
        {"ready": True},
        {"ready": False},
    ]
    assert [request.path for request in service.requests].count("/v1/resources/Destination/web") == 3


def test_of_those_that_change_a_selector_shows_those_that_fit(program: Program, service: Service) -> None:
    edge, core = ({"name": name, "labels": {"team": name}} for name in ("edge", "core"))
    service.answer("GET /v1/events", stream(("resource", "Destination/edge"), ("resource", "Destination/core")))
    service.refuse("GET /v1/events", "No more.", status=503, code="unavailable")
    service.answer("GET /v1/resources/Destination", {"resources": []})
    for metadata in (edge, core):
        path = f"GET /v1/resources/Destination/{metadata['name']}"
        service.answer(path, {"resource": destination("x", metadata=metadata)})
    assert lines(program("get", "destinations", "-w", "-l", "team=edge")) == ["edge"]
