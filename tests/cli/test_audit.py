"""`audit list`: a table of events, page by page, and how to go on where it ends."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from reconciler.cli import audit
from reconciler.model import clock
from tests.cli.conftest import Program, Service


def event(number: int, **more: Any) -> dict[str, Any]:
    return {
        "id": f"7-{number}",
        "at": "2026-11-21T06:12:00.123Z",
        "action": "created",
        "kind": "Destination",
        "name": "siem",
        "actor": "git:telemetry",
        "project": "default",
        "run": "01RUN",
        "versionAfter": 1,
        **more,
    }


EVENTS = [
    event(4, kind="Request", name="403", action="refused", actor="user:noa", detail={"path": "/v1/apply", "times": 3}),
    event(3, kind="Key", name="01KEY", address="192.0.2.7", detail={"name": "coll", "scopes": ["logs", "metrics"]}),
    event(2, kind="Repository", name="telemetry", action="approved", detail={"text": "2 deletions held at 0123"}),
    event(1, kind="User", name="ana", detail={"admin": True, "roles": {"a": "user", "b": None}}, versionAfter=None),
]


def test_events_are_a_table_with_what_is_told_of_them(program: Program, service: Service) -> None:
    service.answer("GET /v1/audit-events", {"events": EVENTS})
    assert program("audit", "list", "--kind", "Destination", "--since", "2026-11-21T00:00:00Z") == (
        0,
        "AT                     WHO             ACTION     WHAT                   FROM        DETAIL\n"
        "2026-11-21T06:12:00Z   user:noa        refused    Request 403            -           "
        "path=/v1/apply, times=3\n"
        "2026-11-21T06:12:00Z   git:telemetry   created    Key 01KEY              192.0.2.7   "
        "name=coll, scopes=logs metrics\n"
        "2026-11-21T06:12:00Z   git:telemetry   approved   Repository telemetry   -           "
        "2 deletions held at 0123\n"
        "2026-11-21T06:12:00Z   git:telemetry   created    User ana               -           "
        "admin=true, roles.a=user, roles.b=none\n",
        "",
    )
    expected = {"kind": "Destination", "since": "2026-11-21T00:00:00.000Z", "limit": "101"}
    assert service.requests[0].query == expected


def test_a_wide_table_has_ids_versions_and_what_made_it(program: Program, service: Service) -> None:
    service.answer("GET /v1/audit-events", {"events": [event(1, kind="Key", name="01KEY", detail={"name": "coll"})]})
    assert program("audit", "list", "-o", "wide") == (
        0,
        "AT                     WHO             ACTION    WHAT        PROJECT   VERSION   BY      ID    DETAIL\n"
        "2026-11-21T06:12:00Z   git:telemetry   created   Key 01KEY   default   1         01RUN   7-1   name=coll\n",
        "",
    )


def test_how_long_ago_and_a_day_are_instants(program: Program, service: Service) -> None:
    service.answer("GET /v1/audit-events", {"events": []})
    before = clock.now()
    assert program("audit", "list", "--since", "2h", "--until", "2999-01-31").code == 0
    query = service.requests[0].query
    assert query["until"] == "2999-01-31T00:00:00.000Z"
    asked = datetime.fromisoformat(query["since"]) + timedelta(hours=2)
    assert before - timedelta(milliseconds=1) <= asked <= clock.now()


NOW = datetime(2026, 11, 21, 6, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("90m", "2026-11-21T04:42:00.000Z"),
        ("2026-11-20", "2026-11-20T00:00:00.000Z"),
        ("2026-11-20T09:30:00+01:00", "2026-11-20T08:30:00.000Z"),
        ("2026-11-20T09:30:00.25Z", "2026-11-20T09:30:00.250Z"),
    ],
)
def test_what_people_type_is_an_instant(typed: str, meant: str) -> None:
    assert clock.rfc3339(audit.meant_instant(typed, now=NOW)) == meant


@pytest.mark.parametrize(
    "typed",
    ["yesterday", "7d", "0h", "", "2026-11-20T09:30:00", "2026-02-30", "0000-01-01", "0001-01-01T00:00:00+02:00"],
)
def test_what_is_no_instant_is_told_with_what_is(program: Program, typed: str) -> None:
    code, _, said = program("audit", "list", "--since", typed)
    assert (code, said.splitlines()[-1]) == (2, f"error: invalid value for '--since': {audit.ALLOWED}")


def test_where_it_ends_it_says_that_there_are_more_and_how_to_go_on(program: Program, service: Service) -> None:
    service.answer("GET /v1/audit-events", {"events": [event(3), event(2), event(1)]})
    code, out, err = program("audit", "list", "--limit", "2", "-o", "json")
    assert (code, json.loads(out)) == (0, {"events": [event(3), event(2)]})
    assert err == "there are more; go on with --after 7-2\n"
    program("audit", "list", "--after", "7-2")
    assert service.requests[-1].query == {"after": "7-2", "limit": "101"}


def test_many_are_asked_for_in_pages(program: Program, service: Service) -> None:
    service.answer("GET /v1/audit-events", {"events": [event(number) for number in range(1_000)]})
    service.answer("GET /v1/audit-events", {"events": [event(1_000)]})
    code, out, err = program("audit", "list", "--limit", "1500", "-o", "json")
    assert (code, len(json.loads(out)["events"]), err) == (0, 1_001, "")
    assert [one.query for one in service.requests] == [{"limit": "1000"}, {"after": "7-999", "limit": "501"}]


def test_none_are_said(program: Program, service: Service) -> None:
    service.answer("GET /v1/audit-events", {"events": []})
    assert program("audit", "list").err == "no events found\n"
