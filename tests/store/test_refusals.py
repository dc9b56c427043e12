"""Refused attempts are counted in bounded memory, and each minute is a few events."""

import json
from datetime import UTC, datetime

import pytest

from reconciler.auth import rate_limits
from reconciler.auth.rate_limits import CALLERS, MOST_OF_ONE, RefusedAttempt, RefusedAttempts
from reconciler.server.schedules import AuditUpkeep
from reconciler.store.contract import Store, StoreFault
from reconciler.store.records import AuditRow
from tests.store.conftest import empty, engine, store  # noqa: F401 - fixtures
from tests.store.engines import Engine

NOW = datetime(2026, 11, 21, 6, 12, tzinfo=UTC)
ALIKE = RefusedAttempt(403, "key:K1", "192.0.2.1", "/v1/apply")


def told(rows: tuple[AuditRow, ...]) -> list[tuple[str, str, str | None, object]]:
    return [(row.name, row.actor, row.address, json.loads(row.detail or "")) for row in rows]


def test_what_is_alike_is_one_event_and_the_next_minute_begins_anew() -> None:
    counted = RefusedAttempts()
    for _ in range(3):
        counted.note(ALIKE)
    counted.note(RefusedAttempt(401, rate_limits.NOBODY, "192.0.2.1", ""))
    found = tuple(counted.taken(NOW))
    assert told(found) == [
        ("401", "unknown", "192.0.2.1", {"times": 1}),
        ("403", "key:K1", "192.0.2.1", {"path": "/v1/apply", "times": 3}),
    ]
    assert {(row.at, row.kind, row.action, row.project) for row in found} == {
        ("2026-11-21T06:12:00.000Z", "Request", "refused", "")
    }
    assert counted.taken(NOW) == ()


def test_beyond_so_many_sorts_all_others_are_one_count() -> None:
    counted = RefusedAttempts()
    for number in range(MOST_OF_ONE + 50):
        counted.note(RefusedAttempt(401, rate_limits.NOBODY, f"192.0.2.{number}", ""))
    counted.note(RefusedAttempt(401, rate_limits.NOBODY, "192.0.2.0", ""))
    found = tuple(counted.taken(NOW))
    assert len(found) == MOST_OF_ONE + 1
    assert told(found)[0] == ("401", "unknown", None, {"times": 50})
    assert sum(json.loads(row.detail or "")["times"] for row in found) == MOST_OF_ONE + 51


def test_strangers_hide_nobody_who_is_known_and_nobody_who_is_known_hides_another() -> None:
    counted = RefusedAttempts()
    for number in range(MOST_OF_ONE + 50):
        counted.note(RefusedAttempt(401, rate_limits.NOBODY, f"192.0.2.{number}", "/v1/me"))
        counted.note(RefusedAttempt(403, "key:loud", "192.0.2.1", f"/v1/{number}", "one"))
    counted.note(RefusedAttempt(403, "key:quiet", "192.0.2.2", "/v1/apply", "two"))
    found = tuple(counted.taken(NOW))
    assert [(row.actor, row.project, row.address) for row in found if row.actor == "key:quiet"] == [
        ("key:quiet", "two", "192.0.2.2")
    ]
    loud = [row for row in found if row.actor == "key:loud"]
    assert len(loud) == MOST_OF_ONE + 1
    assert (loud[0].address, json.loads(loud[0].detail or "")) == (None, {"times": 50})


def test_beyond_so_many_callers_the_others_share_what_is_told_apart() -> None:
    counted = RefusedAttempts()
    for number in range(CALLERS + 2 * MOST_OF_ONE):
        counted.note(RefusedAttempt(403, f"key:{number:04d}", "192.0.2.1", "/v1/apply"))
    counted.note(RefusedAttempt(401, rate_limits.NOBODY, "192.0.2.1", "/v1/me"))
    found = told(tuple(counted.taken(NOW)))
    assert len(found) == CALLERS + MOST_OF_ONE + 2
    assert [one for one in found if one[1] == "others"] == [("403", "others", None, {"times": MOST_OF_ONE})]
    assert found[0][:2] == ("401", "unknown")


@pytest.mark.anyio
async def test_what_the_disk_does_not_take_is_written_later(engine: Engine, store: Store) -> None:  # noqa: F811
    counted = RefusedAttempts()
    keeping = AuditUpkeep(store, counted, retention=60.0, clock=lambda: NOW)
    counted.note(ALIKE)
    with engine.failing(store):
        await keeping.minute()
    counted.note(ALIKE)
    await keeping.minute()
    await keeping.minute()
    assert (await store.audit_ends())[1].number == 2


@pytest.mark.anyio
async def test_a_store_that_cannot_write_says_so(engine: Engine, store: Store) -> None:  # noqa: F811
    counted = RefusedAttempts()
    counted.note(ALIKE)
    with engine.failing(store), pytest.raises(StoreFault):
        await store.tell(counted.taken(NOW))
