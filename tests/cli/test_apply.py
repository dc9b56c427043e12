"""`apply` and `delete`: what is sent, and what is said about it."""

import json
from typing import Any

import pytest

from reconciler.model import routes
from tests.cli.conftest import Program, Service

BUILT_IN = "it is built in; choose another name"
MANAGED = "managed by the repository telemetry; change it there"
FLEET = "apiVersion: service/v1\nkind: Fleet\nmetadata: {name: NAME}\n"


def fleet(name: str) -> dict[str, Any]:
    return {"apiVersion": "service/v1", "kind": "Fleet", "metadata": {"name": name}}


def update(name: str, status: str, **more: str) -> dict[str, Any]:
    return {"resource": fleet(name), "status": status, **more}


def test_apply_sends_what_the_files_hold_in_their_order(program: Program, service: Service) -> None:
    program.write("b/two.yaml", FLEET.replace("NAME", "b") + "---\n" + FLEET.replace("NAME", "c"))
    program.write("b/.hidden/no.yaml", FLEET.replace("NAME", "hidden"))
    program.write("b/ignored.yaml", FLEET.replace("NAME", "ignored"))
    program.write("b/.serviceignore", "ignored.yaml\n")
    program.write("b/readme.md", "no resource\n")
    program.write("a.json", json.dumps(fleet("a")))
    service.answer("POST /v1/apply", {"updates": [update(name, "created") for name in "abc"]}, 202)
    assert program("apply", "-f", "a.json", "-f", "b") == (
        0,
        "Fleet/a created\nFleet/b created\nFleet/c created\n",
        "3 created\n",
    )
    (request,) = service.requests
    assert (request.body, request.query) == ({"resources": [fleet("a"), fleet("b"), fleet("c")]}, {})


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        (
            "ignored.yaml\n".encode("utf-16"),
            "its text is UTF-16, which PowerShell writes (byte 0xFF); save it as UTF-8",
        ),
        (None, "it is a link"),
    ],
)
def test_an_ignore_file_that_cannot_be_read_ends_the_command(
    service: Service, program: Program, rules: bytes | None, why: str
) -> None:
    program.write("b/ignored.yaml", FLEET.replace("NAME", "ignored"))
    path = program.folder / "b/.serviceignore"
    if rules is None:
        path.symlink_to(program.write("rules", "ignored.yaml\n"))
    else:
        path.write_bytes(rules)
    code, out, err = program("apply", "-f", "b")
    assert (code, out, service.requests) == (1, "", [])
    assert err.endswith(f"b/.serviceignore says which files count and cannot be read: {why}\n")


@pytest.mark.parametrize(
    ("options", "query"),
    [
        (["--dry-run"], {"dryRun": "true"}),
        (["--atomic"], {"atomic": "true"}),
        (["--accept-invalid"], {"acceptInvalid": "true"}),
        (["--dry-run", "--atomic"], {"dryRun": "true", "atomic": "true"}),
    ],
)
def test_options_go_into_the_query(
    program: Program, service: Service, options: list[str], query: dict[str, str]
) -> None:
    service.answer("POST /v1/apply", {"updates": [update("a", "created")]}, 202)
    outcome = program("apply", "-f", "-", *options, stdin=FLEET.replace("NAME", "a"))
    assert outcome.code == 0
    assert ("(dry run)" in outcome.out) is ("--dry-run" in options)
    assert service.requests[0].query == query


@pytest.mark.parametrize(
    "text",
    [
        FLEET.replace("NAME", "a"),
        json.dumps(fleet("a")),
        json.dumps({"resources": [fleet("a")]}),
        json.dumps([fleet("a")]),
    ],
)
def test_standard_input_may_be_yaml_or_json_or_a_list(program: Program, service: Service, text: str) -> None:
    service.answer("POST /v1/apply", {"updates": [update("a", "unchanged")]}, 202)
    assert program("apply", "-f", "-", stdin=text).out == "Fleet/a unchanged\n"
    assert service.requests[0].body == {"resources": [fleet("a")]}


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("created", 0),
        ("configured", 0),
        ("unchanged", 0),
        ("deleted", 0),
        ("invalid", 3),
        ("error", 3),
        ("in-use", 3),
        ("forbidden", 3),
        ("not-found", 3),
        ("deprecated", 3),
    ],
)
def test_what_is_not_stored_ends_with_3(program: Program, service: Service, status: str, code: int) -> None:
    updates = [update("a", "created"), update("b", status)]
    service.answer("POST /v1/apply", {"updates": updates}, 202)
    text = FLEET.replace("NAME", "a") + "---\n" + FLEET.replace("NAME", "b")
    assert program("apply", "-f", "-", stdin=text).code == code


def test_a_reason_stands_beneath_its_resource_with_the_file(program: Program, service: Service) -> None:
    program.write("a.yaml", "\n\n" + FLEET.replace("NAME", "a"))
    reason = "/spec/type: is missing\n/spec/x: is not a known key\x1b[0m"
    service.answer("POST /v1/apply", {"updates": [update("a", "invalid", reason=reason)]}, 202)
    assert program("apply", "-f", "a.yaml") == (
        3,
        "Fleet/a invalid (a.yaml:3)\n  /spec/type: is missing\n  /spec/x: is not a known key\\x1b[0m\n",
        "1 invalid\n",
    )


def test_a_refused_atomic_apply_says_each_reason_at_its_place(program: Program, service: Service) -> None:
    program.write("a.yaml", FLEET.replace("NAME", "a") + "---\napiVersion: service/v1\nkind: Nope\n")
    program.write("b.yaml", FLEET.replace("NAME", "b") + "---\n" + FLEET.replace("NAME", "b"))
    twice = "Fleet b: invalid: Fleet b is given more than once, also at item {}; keep one of them"
    errors = [
        "Fleet a: forbidden: managed by the repository telemetry; change it there",
        "item 1: invalid: /kind: is not a kind",
        twice.format(3),
        twice.format(2),
        "item 4: beyond what was sent",
        "Fleet c: of nobody",
    ]
    service.answer("POST /v1/apply", {"errors": errors}, 409)
    twice = "Fleet b: invalid: Fleet b is given more than once, also at {}; keep one of them"
    assert program("apply", "--atomic", "-f", "a.yaml", "-f", "b.yaml") == (
        3,
        "",
        "a.yaml:1: Fleet a: forbidden: managed by the repository telemetry; change it there\n"
        "a.yaml:5: invalid: /kind: is not a kind\n"
        f"b.yaml:1: {twice.format('b.yaml:5')}\n"
        f"b.yaml:5: {twice.format('b.yaml:1')}\n"
        "item 4: beyond what was sent\n"
        "Fleet c: of nobody\n"
        "error: nothing was stored\n",
    )


def test_a_duplicate_names_the_place_of_the_other(program: Program, service: Service) -> None:
    program.write("a.yaml", FLEET.replace("NAME", "a") + "---\n" + FLEET.replace("NAME", "a"))
    reasons = [f"Fleet a is given more than once, also at item {other}; keep one of them" for other in (1, 0)]
    updates = [update("a", "invalid", reason=reason) for reason in reasons]
    service.answer("POST /v1/apply", {"updates": updates}, 202)
    assert program("apply", "-f", "a.yaml").out == (
        "Fleet/a invalid (a.yaml:1)\n"
        "  Fleet a is given more than once, also at a.yaml:5; keep one of them\n"
        "Fleet/a invalid (a.yaml:5)\n"
        "  Fleet a is given more than once, also at a.yaml:1; keep one of them\n"
    )


def test_what_is_stored_although_something_is_missing_says_what(program: Program, service: Service) -> None:
    program.write("a.yaml", FLEET.replace("NAME", "a"))
    lines = ["/spec/parameters: `url` is required and has no default", "/spec/parameters/0/value: is not an integer"]
    stored = {**fleet("a"), "status": {"incomplete": lines}}
    service.answer("POST /v1/apply", {"updates": [{"resource": stored, "status": "configured"}]}, 202)
    assert program("apply", "--accept-invalid", "-f", "a.yaml") == (
        0,
        f"Fleet/a configured, incomplete\n  {lines[0]}\n  {lines[1]}\n",
        "1 configured\n",
    )


def test_what_is_built_in_says_so(program: Program, service: Service) -> None:
    program.write("a.yaml", FLEET.replace("NAME", "a"))
    stored = {**fleet("a"), "status": {"source": {"type": "builtin"}}}
    service.answer(
        "POST /v1/apply", {"updates": [{"resource": stored, "status": "forbidden", "notes": [BUILT_IN]}]}, 202
    )
    assert program("apply", "-f", "a.yaml") == (
        3,
        "Fleet/a forbidden (a.yaml:1): it is built in; choose another name\n",
        "1 forbidden\n",
    )


def test_what_is_forbidden_says_who_manages_it(program: Program, service: Service) -> None:
    owned = {**fleet("a"), "status": {"source": {"type": "git", "repository": "telemetry"}}}
    program.write("a.yaml", FLEET.replace("NAME", "a") + "---\n" + FLEET.replace("NAME", "b"))
    updates = [
        {"resource": owned, "status": "forbidden", "notes": ["a warning", MANAGED]},
        {**update("b", "forbidden"), "notes": ["your role does not cover it"]},
    ]
    service.answer("POST /v1/apply", {"updates": updates}, 202)
    assert program("apply", "-f", "a.yaml") == (
        3,
        f"Fleet/a forbidden (a.yaml:1): {MANAGED}\n"
        "  note: a warning\n"
        "Fleet/b forbidden (a.yaml:5): your role does not cover it\n",
        "2 forbidden\n",
    )


def test_counts_come_in_the_order_of_the_statuses(program: Program, service: Service) -> None:
    words = ["forbidden", "created", "invalid", "odd", "unchanged", "created", "configured"]
    text = "---\n".join(FLEET.replace("NAME", f"f{number}") for number in range(len(words)))
    updates = [update(f"f{number}", status) for number, status in enumerate(words)]
    service.answer("POST /v1/apply", {"updates": updates}, 202)
    assert program("apply", "-f", "-", stdin=text).err == (
        "1 unchanged, 1 configured, 2 created, 1 invalid, 1 forbidden, 1 odd\n"
    )


def test_a_refused_request_is_an_error(program: Program, service: Service) -> None:
    service.answer("POST /v1/apply", {"errors": ["the body is larger than 8388608 bytes"]}, 413)
    outcome = program("apply", "-f", "-", stdin=FLEET.replace("NAME", "a"))
    assert outcome == (1, "", "error: the body is larger than 8388608 bytes\n")


def test_nothing_is_sent_when_a_file_cannot_be_read(program: Program, service: Service) -> None:
    program.write("dir/a.yaml", FLEET.replace("NAME", "a"))
    program.write("dir/b.yaml", "a: [\n")
    outcome = program("apply", "-f", "dir")
    assert (outcome.code, outcome.out, service.requests) == (1, "", [])
    assert outcome.err.startswith("dir/b.yaml:2:1: ")
    assert outcome.err.endswith("error: nothing was sent\n")


def test_what_is_no_resource_is_left_out_and_said(program: Program, service: Service) -> None:
    other = "apiVersion: apps/v1\nkind: Deployment\n---\nplain: text\n---\n"
    service.answer("POST /v1/apply", {"updates": [update("a", "created")]}, 202)
    outcome = program("apply", "-f", "-", stdin=other + FLEET.replace("NAME", "a"))
    assert outcome == (0, "Fleet/a created\n", "2 documents skipped, of no kind that this service has\n1 created\n")
    outcome = program("apply", "-f", "-", stdin=other)
    assert (outcome.code, outcome.err.splitlines()[-1]) == (1, "error: the files have no resource")


def test_numbers_and_text_arrive_as_they_are(program: Program, service: Service) -> None:
    spec = "spec: {a: 1.0, b: 18446744073709551615, c: 'é☃', d: 1e300, e: no, f: null}\n"
    service.answer("POST /v1/apply", {"updates": []}, 202)
    program("apply", "-f", "-", stdin=FLEET.replace("NAME", "a") + spec)
    expected = {"a": 1, "b": 18446744073709551615, "c": "é☃", "d": 1e300, "e": "no", "f": None}
    assert service.requests[0].body["resources"][0]["spec"] == expected


def test_delete_sends_kinds_and_names_alone(program: Program, service: Service) -> None:
    text = FLEET.replace("NAME", "a") + "spec: {secret: hush}\n"
    service.answer("POST /v1/delete", {"updates": [update("a", "deleted")], "errors": []}, 202)
    assert program("delete", "-f", "-", stdin=text) == (0, "Fleet/a deleted\n", "1 deleted\n")
    assert service.requests[0].body == [fleet("a")]


@pytest.mark.parametrize("words", [["fleets", "a", "b", "a"], ["fleet/a", "Fleets/b"]])
@pytest.mark.parametrize("dry", [True, False])
def test_delete_by_name(program: Program, service: Service, words: list[str], *, dry: bool) -> None:
    service.answer("POST /v1/delete", {"updates": [update("a", "deleted"), update("b", "deleted")], "errors": []}, 202)
    remark = " (dry run)" if dry else ""
    assert program("delete", *words, *(["--dry-run"] if dry else [])) == (
        0,
        f"Fleet/a deleted{remark}\nFleet/b deleted{remark}\n",
        f"2 deleted{remark}\n",
    )
    (request,) = service.requests
    assert request.body == [{"kind": "Fleet", "metadata": {"name": name}} for name in "ab"]
    assert request.query == ({"dryRun": "true"} if dry else {})


def test_what_files_name_is_deleted_on_trial_too(program: Program, service: Service) -> None:
    service.answer("POST /v1/delete", {"updates": [update("a", "not-found")], "errors": []}, 202)
    outcome = program("delete", "-f", "-", "--dry-run", stdin=FLEET.replace("NAME", "a"))
    assert outcome == (3, "Fleet/a not-found (dry run) (<stdin>:1)\n", "1 not-found (dry run)\n")
    assert service.requests[0].query == {"dryRun": "true"}


@pytest.mark.parametrize(
    ("status", "notes", "line"),
    [
        ("in-use", {"notes": ["Configuration web refers to it"]}, ": Configuration web refers to it"),
        ("forbidden", {"notes": ["your role does not cover it"]}, ": your role does not cover it"),
        ("not-found", {}, ""),
    ],
)
def test_what_is_not_deleted_says_why(
    program: Program, service: Service, status: str, notes: dict[str, list[str]], line: str
) -> None:
    service.answer("POST /v1/delete", {"updates": [{**update("a", status), **notes}], "errors": []}, 202)
    assert program("delete", "fleet", "a") == (3, f"Fleet/a {status}{line}\n", f"1 {status}\n")


def test_what_is_stored_tells_its_notes(program: Program, service: Service) -> None:
    noted = {**update("a", "created"), "notes": ["one thing", "another \x1b[31mthing"]}
    service.answer("POST /v1/apply", {"updates": [noted]}, 202)
    told = "Fleet/a created\n  note: one thing\n  note: another \\x1b[31mthing\n"
    assert program("apply", "-f", "-", stdin=FLEET.replace("NAME", "a")) == (0, told, "1 created\n")


@pytest.mark.parametrize("status", [500, 400])
def test_a_delete_that_is_refused_is_an_error(program: Program, service: Service, status: int) -> None:
    service.answer("POST /v1/delete", {"errors": ["The service failed."]}, status)
    assert program("delete", "fleet", "a") == (1, "", "error: the service failed\n")


@pytest.mark.parametrize("arguments", [[], ["fleet"], ["fleet", "a", "-f", "-"]])
def test_delete_takes_either_a_name_or_files(alone: Program, arguments: list[str]) -> None:
    outcome = alone("delete", *arguments)
    assert outcome.code == 2
    assert "give either KIND and NAME, or -f with a file" in outcome.err


WHY = "It has no enabled destination of type `webhook`; add one."


def configuration(reason: str, spec: dict[str, Any]) -> dict[str, Any]:
    delivery = {"delivers": False, "reason": reason} if reason else {"delivers": True}
    status = {"delivery": delivery, "ready": True}
    return {**fleet("edge"), "kind": "Configuration", "spec": spec, "status": status}


@pytest.mark.parametrize(
    ("spec", "reason", "is_told"),
    [
        ({"sources": [{"type": "otlp:2"}]}, WHY, True),
        ({"sources": [{"name": "elsewhere"}]}, WHY, True),
        ({"destinations": [{"type": "webhook"}]}, "One line,\nwith \x1b[31m.", True),
        ({"sources": [{"type": "otlp"}]}, "", False),
        ({"raw": "", "sources": [{"type": "otlp"}]}, routes.RAW, False),
        ({"sources": [{"name": "elsewhere"}]}, routes.NEITHER, False),
    ],
)
def test_a_configuration_that_does_not_deliver_says_why_where_somebody_wants_it(
    program: Program, service: Service, *, spec: dict[str, Any], reason: str, is_told: bool
) -> None:
    sent = configuration(reason, spec)
    service.answer("POST /v1/apply", {"updates": [{"resource": sent, "status": "created"}]}, 202)
    told = reason.replace("\n", "\\n").replace("\x1b", "\\x1b")
    beneath = f"  does not deliver: {told}\n" if is_told else ""
    outcome = program("apply", "-f", "-", stdin=json.dumps(sent))
    assert outcome == (0, f"Configuration/edge created\n{beneath}", "1 created\n")


def test_a_configuration_that_delivers_by_an_earlier_version_says_so(program: Program, service: Service) -> None:
    sent = configuration("", {"sources": [{"type": "otlp"}]})
    stale = {"version": 3, "since": "2026-11-23T09:12:44.104Z", "reason": "/spec/processors/0 cannot run."}
    sent["status"]["delivery"] = {"delivers": True, "stale": stale}
    service.answer("POST /v1/apply", {"updates": [{"resource": sent, "status": "configured"}]}, 202)
    told = "  delivers by its version 3 still: /spec/processors/0 cannot run.\n"
    outcome = program("apply", "-f", "-", stdin=json.dumps(sent))
    assert outcome == (0, f"Configuration/edge configured\n{told}", "1 configured\n")


def test_what_was_not_stored_says_nothing_of_delivery(program: Program, service: Service) -> None:
    sent = configuration(WHY, {"sources": [{"type": "otlp"}]})
    service.answer("POST /v1/apply", {"updates": [{"resource": sent, "status": "forbidden"}]}, 202)
    assert "does not deliver" not in program("apply", "-f", "-", stdin=json.dumps(sent)).out
