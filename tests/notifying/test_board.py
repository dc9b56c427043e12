"""The board: what looks find is kept and shown, after every end of the process, to each person as they left it."""

from pathlib import Path
from typing import Any

import pytest

from reconciler.notifications.models import UserStatus
from reconciler.operations.contract import Noted, NotificationRow
from reconciler.operations.sqlite import SqliteOperations
from reconciler.store.contract import StoreFault
from tests.notifying.boards import World, brief, finding, look, shown
from tests.store.engines import full

pytestmark = pytest.mark.anyio

ALL = {"sees": lambda _: True}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def identifiers(found: list[dict[str, Any]]) -> list[str]:
    return [one["metadata"]["id"] for one in found]


async def test_the_newest_comes_first_also_of_one_look(world: World) -> None:
    async with world.board() as board:
        await board.take(look(finding("a"), finding("b")))
        await board.take(look(finding("a"), finding("b"), finding("c")))
        found = await shown(board)
        assert brief(found) == [("c", "open", "unread"), ("b", "open", "unread"), ("a", "open", "unread")]
        assert identifiers(found) == sorted(identifiers(found), reverse=True)


async def test_pages_follow_each_other(world: World) -> None:
    async with world.board() as board:
        await board.take(look(*[finding(f"r{number}") for number in range(5)]))
        every = identifiers(await shown(board))
        first = identifiers(await shown(board, limit=2))
        second = identifiers(await shown(board, limit=2, after=first[-1]))
        last = identifiers(await shown(board, limit=2, after=second[-1]))
        assert ([*first, *second, *last], len(last)) == (every, 1)


async def test_what_is_open_is_still_so_after_a_restart_and_what_ended_meanwhile_ends_at_the_first_look(
    world: World,
) -> None:
    async with world.board() as board:
        await board.take(look(finding("a"), finding("b")))
        before = await shown(board)
    async with world.board() as board:
        assert await shown(board) == before
        await board.take(look(finding("b")))
        assert brief(await shown(board)) == [("b", "open", "unread"), ("a", "resolved", "unread")]
    async with world.board() as board:
        assert brief(await shown(board)) == [("b", "open", "unread"), ("a", "resolved", "unread")]


async def test_each_person_has_a_status_of_their_own_which_lasts(world: World) -> None:
    async with world.board() as board:
        await board.take(look(finding()))
        [identifier] = identifiers(await shown(board))
        for user, status in (("id-ana", UserStatus.DISMISSED), ("id-ben", UserStatus.READ)):
            assert await board.set_status(identifier, status, **ALL, user=user)
    async with world.board() as board:
        seen = {user: (await shown(board, user))[0] for user in ("id-ana", "id-ben", "id-cleo", None)}
        found = {user: (one["status"]["userStatus"], one["spec"]["hidden"]) for user, one in seen.items()}
        assert found == {
            "id-ana": ("dismissed", True),
            "id-ben": ("read", False),
            "id-cleo": ("unread", False),
            None: ("unread", False),
        }
        assert await board.set_status(identifier, UserStatus.UNREAD, **ALL, user="id-ana")
        assert brief(await shown(board))[0][2] == "unread"


async def test_what_was_read_is_unread_when_it_comes_back_and_what_was_dismissed_is_not(world: World) -> None:
    async with world.board() as board:
        await board.take(look(finding()))
        [identifier] = identifiers(await shown(board))
        await board.set_status(identifier, UserStatus.READ, **ALL, user="id-ana")
        await board.set_status(identifier, UserStatus.DISMISSED, **ALL, user="id-ben")
        await board.take(look())
        assert brief(await shown(board))[0][1:] == ("resolved", "read")
        await board.take(look(finding()))
    async with world.board() as board:
        assert brief(await shown(board))[0][1:] == ("open", "unread")
        assert brief(await shown(board, "id-ben"))[0][1:] == ("open", "dismissed")


async def test_what_somebody_does_not_see_does_not_exist_for_them(world: World) -> None:
    async with world.board() as board:
        await board.take(look(finding()))
        [identifier] = identifiers(await shown(board))
        assert await shown(board, sees=lambda _: False) == []
        assert board.one(identifier, sees=lambda _: False, user=None) is None
        assert await board.set_status(identifier, UserStatus.READ, sees=lambda _: False, user="id-ana") is None
        assert board.one("another", **ALL, user=None) is None
        assert brief(await shown(board))[0][2] == "unread"


async def test_what_ended_is_readable_for_its_time_and_gone_with_what_people_did(world: World) -> None:
    async with world.board() as board:
        await board.take(look(finding()))
        [identifier] = identifiers(await shown(board))
        await board.set_status(identifier, UserStatus.READ, **ALL, user="id-ana")
        await board.take(look())
        world.pass_(days=30, seconds=-1)
        await board.tidy()
        assert identifiers(await shown(board)) == [identifier]
        world.pass_(seconds=1)
        await board.tidy()
        assert await shown(board) == []
    operations = SqliteOperations(world.path)
    assert (await operations.notifications(), await operations.notification_statuses()) == ([], [])
    await operations.close()


async def test_more_than_may_be_kept_lose_those_that_ended_first_and_open_ones_find_no_room(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async with world.board(most=3) as board:
        await board.take(look(finding("a"), finding("b"), finding("c")))
        await board.take(look(finding("c")))
        await board.take(look(finding("c"), finding("d")))
        await board.tidy()
        assert [one[:2] for one in brief(await shown(board))] == [("d", "open"), ("c", "open"), ("b", "resolved")]
        for _ in range(3):
            await board.take(look(*[finding(name) for name in "cdefg"]))
        assert [one[:2] for one in brief(await shown(board))][:3] == [("e", "open"), ("d", "open"), ("c", "open")]
    assert [record.message for record in caplog.records] == [
        "There are 3 open notifications, and 2 causes found no room; mend some of them."
    ]


async def test_a_disk_that_is_full_leaves_all_as_it_was_and_the_next_look_makes_up_for_it(world: World) -> None:
    async with world.board() as board:
        await board.take(look(finding("a")))
        many = look(*[finding(f"r{number}") for number in range(200)])
        with full(board._operations._connection), pytest.raises(StoreFault):  # type: ignore[attr-defined]
            await board.take(many)
        assert brief(await shown(board)) == [("a", "open", "unread")]
        await board.take(many)
        assert len(await shown(board)) == 201


async def test_a_row_of_a_later_version_is_passed_over(world: World, caplog: pytest.LogCaptureFixture) -> None:
    async with world.board() as board:
        await board.take(look(finding("a")))
        [row] = await board._operations.notifications()
        later = NotificationRow("LATER", row.body.replace(b"RepositoryUnreachable", b"SomethingElse"))
        await board._operations.note(Noted(put=[later]))
    async with world.board() as board:
        assert brief(await shown(board)) == [("a", "open", "unread")]
    assert "The notification LATER was written by another version, and is not shown." in caplog.messages
