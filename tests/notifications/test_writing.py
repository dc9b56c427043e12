"""What waits to be written: no more than what is shown, however long nothing can be."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.notifications.board import Writer
from reconciler.store.operations import SqliteOperations
from reconciler.store.records import Noted, NotificationRow
from tests.store.engines import SqliteEngine

pytestmark = pytest.mark.anyio


def row(number: int) -> NotificationRow:
    """One that no page of the file has room for."""
    return NotificationRow(f"N{number:04}", b"x" * 100_000)


@pytest.fixture
def operations(tmp_path: Path) -> Iterator[SqliteOperations]:
    opened = SqliteOperations(tmp_path / "ops.db")
    yield opened
    opened._thread.shutdown()
    opened._connection.close()


async def test_what_is_forgotten_while_nothing_can_be_written_waits_no_more(operations: SqliteOperations) -> None:
    writer = Writer(operations, unsent=list)
    await writer.write(Noted(put=[row(0), row(1)]))
    with SqliteEngine(Path()).full(operations):
        for number in range(2, 50):
            await writer.write(Noted(put=[row(number)], unread=[row(number).id]))
            await writer.again()
            await writer.write(Noted(forget=[row(number - 1).id]))
        assert (list(writer._put), writer._unread, writer._forget) == (["N0049"], {"N0049"}, {"N0001"})
    await writer.again()
    assert ([one.id for one in await operations.notifications()], writer.fault) == (["N0000", "N0049"], "")


async def test_targets_that_could_not_be_noted_are_noted_with_the_rest(operations: SqliteOperations) -> None:
    writer = Writer(operations, unsent=list)
    with SqliteEngine(Path()).full(operations):
        await writer.write(Noted(put=[row(0)], targets=["chat"]))
        await writer.write(Noted(put=[row(1)]))
        assert await operations.alert_targets() == []
    await writer.again()
    await writer.write(Noted(put=[row(2)]))
    assert (await operations.alert_targets(), len(await operations.notifications())) == (["chat"], 3)
