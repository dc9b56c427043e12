"""Webhooks: what the values of one may hold, and where each violation is."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model import type_checks, webhooks
from reconciler.model.values import Value, pointer_text
from reconciler.model.webhooks import PATH_CHARACTERS
from tests.model.lookups import look_up

BLOCKED = "is a header of the connection, which the service sets itself; leave it out"
MEDIA_TYPE = "must be a media type such as `application/json` or `text/plain; charset=utf-8`"
CONTROL = "must not hold line ends, NUL or other control characters"
SPACE = "must not begin or end with white space"


INTERVALS = {"initial": webhooks.INITIAL, "max": webhooks.LONGEST, "elapsed": webhooks.ELAPSED}


def parameters(**values: Value) -> list[Value]:
    return [{"name": name, "value": value} for name, value in values.items()]


def told(**values: Value) -> list[str]:
    found = tuple(webhooks.broken_rules(parameters(**values), at=("spec", "parameters")))
    assert all(violation.of_parameter for violation in found)
    return [f"{pointer_text(violation.pointer)}: {violation.message}" for violation in found]


def of_header(name: str, value: Value = "x") -> list[str]:
    found = told(headers={name: value})
    return [
        line.removeprefix(f"/spec/parameters/0/value/{name.replace('~', '~0').replace('/', '~1')}: ") for line in found
    ]


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"hostname": "siem.example.com", "path": "/v1/logs?a=b%20c&d", "content_type": "application/json"},
        {"hostname": "127.0.0.1", "path": ""},
        {"hostname": "[::1]", "path": "/"},
        {"hostname": "${env:HOST}", "path": "${file:path}", "content_type": "${env:TYPE}"},
        {"hostname": "${env:HOST}.example.com", "path": "/a/${env:B}", "content_type": "text/${env:TYPE}"},
        {"hostname": "(sensitive)", "path": "(sensitive)", "content_type": "(sensitive)"},
        {"hostname": "", "path": "", "content_type": "", "headers": {}},
        {"hostname": 5, "path": None, "content_type": ["x"], "headers": "x", "other": "\0"},
        {"headers": {"Authorization": "Bearer ${env:TOKEN}", "X-A": "", "X-B": "a\tb ü", "Host": "h", "X_C.d!": "1"}},
        {"headers": {"Authorization": "${file:token}", "X-A": "(sensitive)", "X-B": 5}},
        {"content_type": 'multipart/x; boundary="a b\\"c"; charset=utf-8'},
        {"content_type": "application/vnd.a+json;v=1"},
    ],
)
def test_these_are_fine(values: dict[str, Value]) -> None:
    assert told(**values) == []


@pytest.mark.parametrize(
    "name",
    ["Connection", "keep-alive", "Proxy-Authenticate", "PROXY-AUTHORIZATION", "Proxy-Connection", "TE", "trailer",
     "Transfer-Encoding", "Upgrade"],
)  # fmt: skip
def test_a_header_of_the_connection_is_refused(name: str) -> None:
    assert of_header(name) == [BLOCKED]


def test_the_length_of_the_body_is_not_the_users_to_say() -> None:
    assert of_header("Content-length") == ["is the length of the body, which the service counts itself; leave it out"]


@pytest.mark.parametrize("name", ["", " ", "X A", "X:A", ":authority", "X\r\nY", "X\0", "Ä", "(x)", "a/b", "X,Y", '"'])
def test_the_name_of_a_header_is_a_token(name: str) -> None:
    [found] = webhooks.broken_rules(parameters(headers={name: "secret"}), at=())
    assert (found.pointer, found.message, found.at_key) == ((0, "value", name), webhooks.TOKEN_RULE, True)


@pytest.mark.parametrize("character", ["\r", "\n", "\0", "\x01", "\x0b", "\x1b", "\x1f", "\x7f", "\x85", "\x9f"])
def test_a_header_holds_no_control_character(character: str) -> None:
    for value in (f"a{character}b", f"Bearer ${{env:A}}{character}b", f"${{env:A{character}}}"):
        assert of_header("X-A", value) == [CONTROL]


@pytest.mark.parametrize("value", [" a", "a ", "\ta", "a\t", " ", "\u00a0a", " ${env:A}", "${env:A} "])
def test_no_white_space_surrounds_the_value_of_a_header(value: str) -> None:
    assert of_header("X-A", value) == [SPACE]


def test_a_header_stands_once_however_it_is_written() -> None:
    assert told(headers={"X-A": "1", "x-b": "2", "x-a": "3", "X-a": "4"}) == [
        f"/spec/parameters/0/value/{name}: {webhooks.TWICE}" for name in ("x-a", "X-a")
    ]


def test_headers_are_bounded_one_by_one_and_together() -> None:
    assert told(headers={"X-A": "x" * 8189}) == []
    assert told(headers={"X-A": "ü" * 4095}) == [
        "/spec/parameters/0/value/X-A: is longer than 8192 bytes, its name included"
    ]
    assert told(headers={f"X-{number}": "" for number in range(64)}) == []
    assert told(headers={f"X-{number}": "" for number in range(65)}) == [
        "/spec/parameters/0/value: has more than 64 headers"
    ]
    many: dict[str, Value] = {f"X-{number}": "x" * 8189 for number in range(4)}
    assert told(headers=many) == []
    assert told(headers={**many, "A": ""}) == ["/spec/parameters/0/value: is longer than 32768 bytes in all"]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("hostname", "127.1", webhooks.NUMERIC),
        ("hostname", "http://a.example", webhooks.HOST_RULE),
        ("hostname", "${env:A}/b", webhooks.HOST_RULE),
        ("hostname", "169.254.169.254", f"{webhooks.METADATA}; the service never connects there"),
        ("hostname", "[::ffff:a9fe:a9fe]", f"{webhooks.METADATA}; the service never connects there"),
        ("hostname", "0.0.0.0", f"{webhooks.THIS_NETWORK}; the service never connects there"),  # noqa: S104
        ("hostname", "fe80::1", f"{webhooks.LINK_LOCAL}; the service never connects there"),
        *(("path", f"/a{character}b", PATH_CHARACTERS) for character in " \t\r\n\0\x1f\x7f\x85\u00a0\u2028\\#"),
        ("path", "/" + "x" * 4096, "is longer than 4096 characters"),
        *(("content_type", text, MEDIA_TYPE) for text in (
            "json", "application/", "/json", "a/b/c", "a /b", "a/b; c", "a/b;c=d\r\nX-Evil: 1", "a/b\n", "a/b ", " a/b",
            "a/b, c/d", 'a/b; c="d', "ä/b", "a/" + "b" * 8191,
        )),
    ],
)  # fmt: skip
def test_what_becomes_the_url_and_the_type_is_judged(name: str, value: str, message: str) -> None:
    assert told(**{name: value}) == [f"/spec/parameters/0/value: {message}"]


@pytest.mark.parametrize("path", ["", "/", "v1/logs", "/v1/logs", "?tenant=7", "@a.example", "https://a.example/"])
def test_a_path_is_taken_with_and_without_a_slash_at_its_beginning(path: str) -> None:
    assert told(path=path) == []


INITIAL_OVER = "`retry_on_failure_initial_interval` is over `{}`, which is used instead; lower it, or raise the other"
LONGEST_OVER = (
    "`retry_on_failure_max_interval` is over `retry_on_failure_max_elapsed_time`, which is used instead; lower it, or "
    "raise the other"
)


@pytest.mark.parametrize(
    ("given", "used", "notes"),
    [
        ({}, (5, 30), []),
        ({"initial": 30}, (30, 30), []),
        ({"initial": 31}, (30, 30), [INITIAL_OVER.format("retry_on_failure_max_interval")]),
        ({"max": 4}, (4, 4), [INITIAL_OVER.format("retry_on_failure_max_interval")]),
        ({"max": 400}, (5, 300), [LONGEST_OVER]),
        ({"elapsed": 20}, (5, 20), [LONGEST_OVER]),
        ({"elapsed": 4}, (4, 4), [LONGEST_OVER]),
        ({"max": 400, "elapsed": 0}, (5, 400), []),
        (
            {"initial": 500, "max": 400, "elapsed": 0},
            (400, 400),
            [INITIAL_OVER.format("retry_on_failure_max_interval")],
        ),
    ],
)
def test_the_smaller_interval_is_used_and_noted(
    given: dict[str, Value], used: tuple[int, int], notes: list[str]
) -> None:
    settled: dict[str, Value] = {
        "retry_on_failure_enabled": True,
        **dict(zip(INTERVALS.values(), (5, 30, 300), strict=True)),
        **{INTERVALS[name]: value for name, value in given.items()},
    }
    written = parameters(**{INTERVALS[name]: value for name, value in given.items()})

    found = list(webhooks.noted(written, lambda: settled, at=("spec", "parameters")))

    assert [one.message for one in found] == notes
    assert {one.pointer[:2] for one in found} <= {("spec", "parameters")}
    assert webhooks.intervals(*(int(str(settled[name])) for name in INTERVALS.values())) == used
    hidden: list[Value] = [{**one, "sensitive": True} for one in written if isinstance(one, dict)]
    assert list(webhooks.noted(hidden, lambda: settled, at=())) == []
    off: dict[str, Value] = {**settled, "retry_on_failure_enabled": False}
    assert list(webhooks.noted(written, lambda: off, at=())) == []


SECRET = st.text(min_size=12)


@given(SECRET, st.sampled_from(["X-A", "Connection", "X A", "content-length"]), st.sampled_from(["", " ", "\n", "\0"]))
def test_no_message_repeats_a_value(secret: str, name: str, end: str) -> None:
    for violation in webhooks.broken_rules(
        parameters(headers={name: secret + end}, hostname=secret, path=secret), at=()
    ):
        assert secret not in violation.message


def document(kind: str, **spec: Value) -> dict[str, Any]:
    return {"apiVersion": "service/v1", "kind": kind, "metadata": {"name": "a"}, "spec": spec}


BAD: list[Value] = parameters(hostname="a b", headers={"TE": "x"})


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("0 22 * * 1-5", None),
        ("*/15 0-6,22 1,15 jan-mar sun", None),
        ("22:00", "must have five fields, minute, hour, day of the month, month, day of the week: `0 22 * * 1-5`"),
        ("0 0 31 2 *", "never happens: none of its months has such a day"),
    ],
)
def test_a_schedule_has_five_cron_fields(schedule: str, message: str | None) -> None:
    expected = [] if message is None else [f"/spec/parameters/0/value: {message}"]
    assert told(delivery_schedule=schedule) == expected


@pytest.mark.parametrize(
    ("owned", "broken"),
    [
        (document("Destination", type="webhook", parameters=BAD), ["/spec"]),
        (document("Destination", type="webhook:3", parameters=BAD), ["/spec"]),
        (document("Configuration", destinations=[{"name": "d"}, {"type": "webhook", "parameters": BAD}]),
         ["/spec/destinations/1"]),
        # Other types have parameters of the same names, and other rules.
        (document("Destination", type="otlp", parameters=BAD), []),
    ],
)  # fmt: skip
def test_webhooks_are_judged_wherever_they_stand(owned: dict[str, Any], broken: list[str]) -> None:
    fit = type_checks.fit(owned, look_up)

    assert [f"{pointer_text(violation.pointer)}: {violation.message}" for violation in fit.violations] == [
        line
        for place in broken
        for line in (f"{place}/parameters/0/value: {webhooks.HOST_RULE}", f"{place}/parameters/1/value/TE: {BLOCKED}")
    ]


def test_a_value_of_the_wrong_type_is_told_once() -> None:
    fit = type_checks.fit(document("Destination", type="webhook", parameters=parameters(hostname=5)), look_up)

    assert [violation.message for violation in fit.violations] == ["is not a string"]
