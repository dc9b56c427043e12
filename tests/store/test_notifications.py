"""`ops.db`: notifications, what people did with them, and alerts are kept together, and go together."""

from pathlib import Path

import pytest

from reconciler.store.contract import StoreFault
from reconciler.store.operations import AlertRow, Noted, NotificationRow, NotificationStatusRow, SqliteOperations
from tests.store.engines import full

pytestmark = pytest.mark.anyio

AT = "2026-11-21T06:12:00.000Z"
ONE, TWO, THREE = (NotificationRow(f"N{number}", b'{"number":%d}' % number) for number in (1, 2, 3))


def status(one: NotificationRow, user: str, what: str) -> NotificationStatusRow:
    return NotificationStatusRow(one.id, user, what)


def alert(number: int) -> AlertRow:
    return AlertRow(f"A{number}", "operators", b'{"text":"canary-body"}', AT)


async def test_what_a_look_changed_is_there_after_another_opening(path: Path) -> None:
    operations = SqliteOperations(path)
    await operations.note(Noted(put=[TWO, ONE], alerts=[alert(2), alert(1)]))
    await operations.note(Noted(put=[TWO._replace(body=b"{}"), THREE], forget=[ONE.id]))
    await operations.close()
    opened = SqliteOperations(path)
    assert await opened.notifications() == [TWO._replace(body=b"{}"), THREE]
    assert await opened.alerts() == [alert(1), alert(2)]
    await opened.close()


async def test_each_person_has_one_status_and_unread_is_none(operations: SqliteOperations) -> None:
    await operations.note(Noted(put=[ONE, TWO]))
    for row in (status(ONE, "ben", "read"), status(ONE, "ana", "read"), status(ONE, "ana", "dismissed")):
        await operations.put_notification_status(row)
    await operations.put_notification_status(status(TWO, "ana", "read"))
    await operations.put_notification_status(status(TWO, "ana", "unread"))
    found = await operations.notification_statuses()
    assert found == [status(ONE, "ana", "dismissed"), status(ONE, "ben", "read")]


async def test_what_is_forgotten_takes_its_statuses_along_and_what_is_unread_those_that_read_it(
    operations: SqliteOperations,
) -> None:
    await operations.note(Noted(put=[ONE, TWO]))
    for one in (ONE, TWO):
        await operations.put_notification_status(status(one, "ana", "read"))
        await operations.put_notification_status(status(one, "ben", "dismissed"))
    await operations.note(Noted(forget=[ONE.id], unread=[TWO.id]))
    assert await operations.notification_statuses() == [status(TWO, "ben", "dismissed")]


async def test_alerts_that_are_sent_are_forgotten(operations: SqliteOperations) -> None:
    await operations.note(Noted(alerts=[alert(1), alert(2), alert(3)]))
    await operations.remove_alerts(["A3", "A1", "unknown"])
    assert await operations.alerts() == [alert(2)]
    assert "canary" not in repr(alert(2))


async def test_what_is_noted_twice_is_kept_once(operations: SqliteOperations) -> None:
    for _ in range(2):
        await operations.note(Noted(put=[ONE], alerts=[alert(1)]))
    assert (await operations.notifications(), await operations.alerts()) == ([ONE], [alert(1)])


async def test_targets_are_those_that_were_noted_last(operations: SqliteOperations) -> None:
    assert await operations.alert_targets() == []
    await operations.note(Noted(targets={"pager", "chat"}))
    await operations.note(Noted(put=[ONE]))
    assert await operations.alert_targets() == ["chat", "pager"]
    await operations.note(Noted(targets=()))
    assert await operations.alert_targets() == []


async def test_on_a_full_disk_all_of_it_is_kept_or_nothing(operations: SqliteOperations) -> None:
    await operations.note(Noted(put=[ONE], alerts=[alert(1)]))
    large = NotificationRow("N9", b"x" * 100_000)
    with full(operations._connection), pytest.raises(StoreFault, match=r"^The notifications could not be written"):
        await operations.note(Noted(put=[TWO, large], forget=[ONE.id], alerts=[alert(2)]))
    assert (await operations.notifications(), await operations.alerts()) == ([ONE], [alert(1)])
