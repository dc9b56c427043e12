"""Promises of a store about sessions and notifications: a change is kept whole, or not at all."""

import pytest

from reconciler.store.contract import Operations, StaleChange, StoreFault
from reconciler.store.records import Noted, NotificationRow, NotificationStatusRow, SessionRow
from tests.store.engines import Engine

AT = "2026-11-21T06:12:00.000Z"
LATER = "2026-11-21T07:12:00.000Z"
ONE, TWO, THREE = (NotificationRow(f"N{number}", b'{"number":%d}' % number) for number in (1, 2, 3))


def row(number: int, *, created_at: str = AT) -> SessionRow:
    """A session, another one for each number."""
    return SessionRow(
        digest=bytes([number]) * 32, user="id-una", losses=number, created_at=created_at, seen_at=AT, id_token="a.b.c"
    )


def status(one: NotificationRow, user: str, what: str) -> NotificationStatusRow:
    return NotificationStatusRow(one.id, user, what)


async def note(operations: Operations, noted: Noted) -> int:
    """Note a change after the last one."""
    return await operations.note(noted, after=(await operations.notifications()).number)


class OperationsPromises:
    """Sessions, then notifications."""

    pytestmark = pytest.mark.anyio

    async def test_sessions_are_there_after_another_opening_the_oldest_first(
        self, engine: Engine, operations: Operations
    ) -> None:
        await operations.put_session(row(1, created_at=LATER))
        await operations.put_session(row(3))
        await operations.put_session(row(2))
        other = engine.open_operations()
        assert await other.sessions() == [row(2), row(3), row(1, created_at=LATER)]
        await other.close()

    async def test_one_comes_and_others_go_at_once(self, operations: Operations) -> None:
        for number in (1, 2, 3):
            await operations.put_session(row(number))
        await operations.put_session(row(4), without=[row(1).digest, row(2).digest, b"unknown"])
        assert await operations.sessions() == [row(3), row(4)]
        await operations.remove_sessions([row(3).digest, b"unknown"])
        assert await operations.sessions() == [row(4)]

    async def test_when_sessions_were_seen_is_kept_and_those_that_ended_meanwhile_stay_away(
        self,
        operations: Operations,
    ) -> None:
        for number in (1, 2):
            await operations.put_session(row(number))
        await operations.touch_sessions({row(1).digest: LATER, b"ended": LATER})
        assert await operations.sessions() == [row(1)._replace(seen_at=LATER), row(2)]

    async def test_the_key_of_sealed_sign_ins_is_made_once(self, engine: Engine, operations: Operations) -> None:
        found = [await operations.flow_key(), await operations.flow_key()]
        other = engine.open_operations()
        found.append(await other.flow_key())
        await other.close()
        assert (len(found[0]), set(found)) == (32, {found[0]})

    async def test_a_full_disk_keeps_what_was_there(self, engine: Engine, operations: Operations) -> None:
        await operations.put_session(row(1))
        large = row(2)._replace(id_token="x" * 100_000)
        with engine.full(operations):
            with pytest.raises(
                StoreFault, match=r"^The sessions and notifications could not be written \(.*; nothing was changed: "
            ):
                await operations.put_session(large, without=[row(1).digest])
            assert await operations.sessions() == [row(1)]
        await operations.put_session(large, without=[row(1).digest])
        assert await operations.sessions() == [large]

    async def test_what_a_look_changed_is_there_after_another_opening(
        self, engine: Engine, operations: Operations
    ) -> None:
        await note(operations, Noted(put=[TWO, ONE]))
        await note(operations, Noted(put=[TWO._replace(body=b"{}"), THREE], forget=[ONE.id]))
        opened = engine.open_operations()
        assert (await opened.notifications()).rows == [TWO._replace(body=b"{}"), THREE]
        await opened.close()

    async def test_each_person_has_one_status_and_unread_is_none(self, operations: Operations) -> None:
        await note(operations, Noted(put=[ONE, TWO]))
        for row in (status(ONE, "ben", "read"), status(ONE, "ana", "read"), status(ONE, "ana", "dismissed")):
            await note(operations, Noted(statuses=[row]))
        await note(operations, Noted(statuses=[status(TWO, "ana", "read")]))
        await note(operations, Noted(statuses=[status(TWO, "ana", "unread")]))
        found = (await operations.notifications()).statuses
        assert found == [status(ONE, "ana", "dismissed"), status(ONE, "ben", "read")]

    async def test_what_is_forgotten_takes_its_statuses_along_and_what_is_unread_those_that_read_it(
        self,
        operations: Operations,
    ) -> None:
        await note(operations, Noted(put=[ONE, TWO]))
        for one in (ONE, TWO):
            await note(operations, Noted(statuses=[status(one, "ana", "read")]))
            await note(operations, Noted(statuses=[status(one, "ben", "dismissed")]))
        await note(operations, Noted(forget=[ONE.id], unread=[TWO.id]))
        assert (await operations.notifications()).statuses == [status(TWO, "ben", "dismissed")]

    async def test_a_change_that_follows_an_older_one_is_not_stored(self, operations: Operations) -> None:
        first = (await operations.notifications()).number
        second = await operations.note(Noted(put=[ONE]), after=first)
        with pytest.raises(StaleChange):
            await operations.note(Noted(put=[TWO], statuses=[status(ONE, "ana", "read")]), after=first)
        assert await operations.notifications() == (second, [ONE], [])
        assert await operations.note(Noted(put=[TWO]), after=second) == second + 1

    async def test_what_is_noted_twice_is_kept_once(self, operations: Operations) -> None:
        for _ in range(2):
            await note(operations, Noted(put=[ONE]))
        assert (await operations.notifications()).rows == [ONE]

    async def test_on_a_full_disk_all_of_it_is_kept_or_nothing(self, engine: Engine, operations: Operations) -> None:
        await note(operations, Noted(put=[ONE]))
        large = NotificationRow("N9", b"x" * 100_000)
        with (
            engine.full(operations),
            pytest.raises(StoreFault, match=r"^The sessions and notifications could not be written"),
        ):
            await note(operations, Noted(put=[TWO, large], forget=[ONE.id]))
        assert (await operations.notifications()).rows == [ONE]
