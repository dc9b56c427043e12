"""The board: what looks find is kept and shown, after every end of the process, to each person as they left it."""

import asyncio
import logging
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from reconciler.model.notification_types import NotificationType, Severity
from reconciler.notifications.board import Board
from reconciler.notifications.models import Cause, Domain, Finding, Observation, UserStatus
from reconciler.store.contract import StoreFault
from reconciler.store.records import Noted, NotificationRow
from tests.notifications import boards
from tests.notifications.boards import PLACE, World, brief, finding, observation, shown
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
        await board.take(observation(finding("a"), finding("b")))
        await board.take(observation(finding("a"), finding("b"), finding("c")))
        found = await shown(board)
        assert brief(found) == [("c", "open", "unread"), ("b", "open", "unread"), ("a", "open", "unread")]
        assert identifiers(found) == sorted(identifiers(found), reverse=True)


async def test_pages_follow_each_other(world: World) -> None:
    async with world.board() as board:
        await board.take(observation(*[finding(f"r{number}") for number in range(5)]))
        every = identifiers(await shown(board))
        first = identifiers(await shown(board, limit=2))
        second = identifiers(await shown(board, limit=2, after=first[-1]))
        last = identifiers(await shown(board, limit=2, after=second[-1]))
        assert ([*first, *second, *last], len(last)) == (every, 1)


async def test_somebody_who_sees_few_gets_them_whole_and_a_page_of_them_goes_on_behind_the_last(world: World) -> None:
    async with world.board() as board:
        await board.take(observation(*[finding(f"r{number}") for number in range(2_500)]))

        def sees(cause: Cause) -> bool:
            return cause.subject in ("r3", "r700", "r2400")

        every = await shown(board, sees=sees)
        assert [one[0] for one in brief(every)] == ["r2400", "r700", "r3"]
        behind = identifiers(every)[0]
        assert await shown(board, sees=sees, limit=1, after=behind) == every[1:2]
        assert await shown(board, sees=sees, after=identifiers(every)[-1]) == []
        assert await shown(board, after="0") == []


async def test_a_list_is_as_it_was_when_it_began(world: World) -> None:
    async with world.board() as board:
        await board.take(observation(*[finding(f"r{number}") for number in range(300)]))
        pages = board.pages(sees=lambda _: True, user=None)
        first = await anext(pages)
        await board.take(observation(finding("another")))
        rest = [one async for page in pages for one in page]
        assert (len(first), len(rest)) == (50, 250)
        assert all(b'"service/state":"open"' in one for one in rest)


async def test_a_clock_that_was_set_back_changes_no_order(world: World) -> None:
    async with world.board() as board:
        await board.take(observation(finding("a")))
    world.pass_(days=-1)
    async with world.board() as board:
        await board.take(observation(finding("a"), finding("b")))
        found = await shown(board)
        assert [one[0] for one in brief(found)] == ["b", "a"]
        assert await shown(board, after=identifiers(found)[0]) == found[1:]


async def test_what_is_open_is_counted_by_type_and_severity(world: World) -> None:
    error, warning = (
        (NotificationType.REPOSITORY_UNREACHABLE, Severity.ERROR),
        (NotificationType.REPOSITORY_UNREACHABLE, Severity.WARNING),
    )
    async with world.board() as board:
        await board.take(observation(finding("a"), finding("b"), finding("c")))
        assert dict(board.open) == {error: 3}
        await board.take(observation(finding("a", severity=Severity.WARNING), finding("b")))
        assert dict(board.open) == {error: 1, warning: 1}
    async with world.board(retention=timedelta(0)) as board:
        assert dict(board.open) == {error: 1, warning: 1}
        await board.tidy()
        await board.take(observation(finding("a", severity=Severity.WARNING)))
        assert +board.open == {warning: 1}


async def test_what_is_open_is_still_so_after_a_restart_and_what_ended_meanwhile_ends_at_the_first_look(
    world: World,
) -> None:
    async with world.board() as board:
        await board.take(observation(finding("a"), finding("b")))
        before = await shown(board)
    async with world.board() as board:
        assert await shown(board) == before
        await board.take(observation(finding("b")))
        assert brief(await shown(board)) == [("b", "open", "unread"), ("a", "resolved", "unread")]
    async with world.board() as board:
        assert brief(await shown(board)) == [("b", "open", "unread"), ("a", "resolved", "unread")]


async def test_each_person_has_a_status_of_their_own_which_lasts(world: World) -> None:
    async with world.board() as board:
        await board.take(observation(finding()))
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
        await board.take(observation(finding()))
        [identifier] = identifiers(await shown(board))
        await board.set_status(identifier, UserStatus.READ, **ALL, user="id-ana")
        await board.set_status(identifier, UserStatus.DISMISSED, **ALL, user="id-ben")
        await board.take(observation())
        assert brief(await shown(board))[0][1:] == ("resolved", "read")
        await board.take(observation(finding()))
    async with world.board() as board:
        assert brief(await shown(board))[0][1:] == ("open", "unread")
        assert brief(await shown(board, "id-ben"))[0][1:] == ("open", "dismissed")


async def test_what_somebody_does_not_see_does_not_exist_for_them(world: World) -> None:
    async with world.board() as board:
        await board.take(observation(finding()))
        [identifier] = identifiers(await shown(board))
        assert await shown(board, sees=lambda _: False) == []
        assert board.one(identifier, sees=lambda _: False, user=None) is None
        assert await board.set_status(identifier, UserStatus.READ, sees=lambda _: False, user="id-ana") is None
        assert board.one("another", **ALL, user=None) is None
        assert brief(await shown(board))[0][2] == "unread"


async def test_what_ended_is_readable_for_its_time_and_gone_with_what_people_did(world: World) -> None:
    async with world.board() as board:
        await board.take(observation(finding()))
        [identifier] = identifiers(await shown(board))
        await board.set_status(identifier, UserStatus.READ, **ALL, user="id-ana")
        await board.take(observation())
        world.pass_(days=30, seconds=-1)
        await board.tidy()
        assert identifiers(await shown(board)) == [identifier]
        world.pass_(seconds=1)
        await board.tidy()
        assert await shown(board) == []
    async with world.operations() as operations:
        assert (await operations.notifications())[1:] == ([], [])


async def test_more_than_may_be_kept_lose_those_that_ended_first_and_open_ones_find_no_room(world: World) -> None:
    async with world.board(most=5) as board:
        await board.take(observation(*[finding(name) for name in "xyc"]))
        await board.take(observation(finding("c")))
        await board.take(observation(*[finding(name) for name in "abc"]))
        await board.take(observation(finding("c")))
        await board.take(observation(finding("c"), finding("d")))
        await board.tidy()
        kept = [("d", "open"), ("b", "resolved"), ("a", "resolved"), ("c", "open"), ("y", "resolved")]
        assert [one[:2] for one in brief(await shown(board))] == kept
        for _ in range(3):
            await board.take(Observation(Domain.DELIVERY, ()))
            await board.take(observation(*[finding(name) for name in "cdefg"]))
        assert [one[0] for one in brief(await shown(board)) if one[1] == "open"] == ["e", "d", "c"]


async def test_what_a_full_disk_does_not_take_is_shown_and_written_when_there_is_room(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="reconciler.notifications.board")
    many = [finding(f"r{number}") for number in range(200)]
    async with world.board() as board:
        with full(world.path):
            await board.take(observation(*many))
            await board.tidy()
            await board.take(observation(*many[1:]))
            await board.tidy()
            assert "database or disk is full" in board.unwritten
            found = await shown(board)
            assert (len(found), brief(found)[-1]) == (200, ("r0", "resolved", "unread"))
        await board.tidy()
        assert (await shown(board), board.unwritten) == (found, "")
    async with world.board() as board:
        assert await shown(board) == found
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


async def test_what_was_forgotten_or_came_back_while_nothing_could_be_written_is_so_after_a_restart(
    world: World,
) -> None:
    many = [finding(f"r{number}") for number in range(200)]
    async with world.board() as board:
        await board.take(observation(finding("back"), finding("gone")))
        back = identifiers(await shown(board))[1]
        await board.set_status(back, UserStatus.READ, **ALL, user="id-ana")
        await board.take(observation())
        world.pass_(minutes=10)
        with full(world.path):
            await board.take(observation(finding("back"), *many))
            with pytest.raises(StoreFault):
                await board.set_status(back, UserStatus.DISMISSED, **ALL, user="id-ana")
            world.pass_(days=40)
            await board.tidy()
            assert len(await shown(board)) == 201
        await board.tidy()
        found = await shown(board)
        assert brief(found)[-1] == ("back", "open", "unread")
    async with world.board() as board:
        assert await shown(board) == found


async def test_names_that_are_no_text_are_shown_and_kept(world: World) -> None:
    odd = "a\udcff\n"
    async with world.board() as board:
        await board.take(observation(finding("a", title=f"{odd} cannot be read", details=odd)))
        found = await shown(board)
    async with world.board() as board:
        assert await shown(board) == found
        await board.take(observation(finding("a", title=f"{odd} cannot be read", details=odd)))
        assert await shown(board) == found


async def test_a_row_of_a_later_version_is_passed_over(world: World, caplog: pytest.LogCaptureFixture) -> None:
    async with world.board() as board:
        await board.take(observation(finding("a")))
    async with world.operations() as operations:
        number, [row], _ = await operations.notifications()
        later = NotificationRow("LATER", row.body.replace(b"RepositoryUnreachable", b"SomethingElse"))
        await operations.note(Noted(put=[later]), after=number)
    async with world.board() as board:
        assert brief(await shown(board)) == [("a", "open", "unread")]
    assert "The notification LATER was written by another version, and is not shown." in caplog.messages


async def test_a_project_that_has_many_leaves_room_for_another(world: World) -> None:
    def many(project: str) -> list[Finding]:
        causes = [Cause(NotificationType.REPOSITORY_UNREACHABLE, f"r{number}", project) for number in range(100)]
        return [Finding(cause, title="The repository cannot be read") for cause in causes]

    async with world.board(most=100) as board:
        for _ in range(2):
            await board.take(observation(*many("a"), *many("b")))
        accounts = [one["spec"]["account"] for one in await shown(board)]
        assert [accounts.count(project) for project in "ab"] == [50, 25]
        await board.take(Observation(Domain.DELIVERY, (Finding(Cause(NotificationType.DEAD_LETTERS, "siem", "c")),)))
        assert board.open[NotificationType.DEAD_LETTERS, Severity.WARNING] == 1


async def test_a_cause_that_a_look_gives_twice_is_one_as_it_was_given_first(world: World) -> None:
    others = [finding(f"r{number}") for number in range(30)]
    async with world.board() as board:
        await board.take(observation(finding("a"), finding("a", severity=Severity.CRITICAL), *others, finding("a")))
        assert (len(await shown(board)), board.open.total()) == (31, 31)
        assert board.open[NotificationType.REPOSITORY_UNREACHABLE, Severity.CRITICAL] == 0


async def test_of_what_is_unread_again_nothing_is_kept(world: World) -> None:
    async with world.board() as board:
        await board.take(observation(finding()))
        [identifier] = identifiers(await shown(board))
        for status in (UserStatus.READ, UserStatus.UNREAD):
            assert await board.set_status(identifier, status, **ALL, user="id-ana")
    async with world.operations() as operations:
        assert (await operations.notifications()).statuses == []


async def test_on_a_full_disk_a_target_that_is_new_is_told_and_that_is_kept_once_it_can_be(world: World) -> None:
    chat = boards.target("chat")
    async with world.board() as board:
        await board.take(observation(*[finding(f"r{number}") for number in range(50)]))
    async with world.operations() as operations:
        board = Board(operations, clock=world.clock, place=PLACE, targets=[chat])
        with full(world.path):
            await board.load()
            assert (len(board.due(chat)), board.unwritten != "") == (50, True)
        due = board.due(chat)
        await board.tidy()
        assert board.unwritten == ""
    async with world.board(chat) as board:
        assert board.due(chat) == due


async def test_what_comes_back_is_open_and_unread_at_once(world: World) -> None:
    found = [finding(f"r{number}") for number in range(40)]  # one page of a list
    async with world.board() as board:
        await board.take(observation(*found))
        for identifier in identifiers(await shown(board)):
            await board.set_status(identifier, UserStatus.READ, **ALL, user="id-ana")
        await board.take(observation())
        taking, seen = asyncio.create_task(board.take(observation(*found))), set[tuple[str, str]]()
        while not taking.done():
            seen |= {one[1:] for one in brief(await shown(board))}
            await asyncio.sleep(0)
        seen |= {one[1:] for one in brief(await shown(board))}
        assert seen == {("resolved", "read"), ("open", "unread")}


async def test_looks_that_meet_are_taken_one_after_the_other_and_a_target_hears_both(world: World) -> None:
    found = [finding(f"r{number}") for number in range(100)]
    chat = boards.target("chat")
    async with world.board(chat) as board:
        await asyncio.gather(board.take(observation(*found)), board.take(observation()), board.tidy())
        opened = board.due(chat)
        await board.settle(chat, opened, is_told=True)
        ended = board.due(chat)
        assert [len(opened), len(ended), board.open.total()] == [100, 100, 0]
        assert (any(alert.is_end for alert in opened), all(alert.is_end for alert in ended)) == (False, True)


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 30])
async def test_a_stop_leaves_nobody_told_of_what_is_not_kept_nor_the_other_way(world: World, turns: int) -> None:
    found = [finding(f"r{number}") for number in range(70)]
    chat = boards.target("chat")
    async with world.board(chat) as board:
        taking = asyncio.create_task(board.take(observation(*found)))
        for _ in range(turns):
            await asyncio.sleep(0)
        taking.cancel()
        with suppress(asyncio.CancelledError):
            await taking
    async with world.board(chat) as board:
        assert len(board.due(chat)) == len(await shown(board))
        await board.take(observation(*found))
        assert (len(board.due(chat)), len(await shown(board))) == (70, 70)
