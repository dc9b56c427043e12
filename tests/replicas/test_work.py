"""Work that is done once: by the replica whose turn it is, and by the next one when that is gone."""

import asyncio
from collections.abc import Callable

import pytest

from reconciler.replicas import work
from reconciler.replicas.keeper import WORK
from reconciler.replicas.work import ALONE, Work
from reconciler.server.project_following import RenderingFollowing
from reconciler.store.records import ResourceChange
from tests.waiting import until

pytestmark = pytest.mark.anyio


class Leases:
    """The leases of one replica."""

    def __init__(self, *held: str) -> None:
        self.held = set(held)

    def holds(self, name: str) -> bool:
        return name in self.held


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "POLL_SECONDS", 0.01)


async def test_a_turn_begins_with_the_lease_and_ends_with_it_or_after_its_seconds() -> None:
    leases = Leases("telemetry")
    mine = Work(leases)
    waiting = asyncio.create_task(mine.turn())
    await asyncio.sleep(0.05)
    assert (mine.is_mine, waiting.done()) == (False, False)
    leases.held.add(WORK)
    await waiting
    await mine.end_of_turn(seconds=0.02)
    assert mine.is_mine
    ending = asyncio.create_task(mine.end_of_turn())
    await asyncio.sleep(0.05)
    assert not ending.done()
    leases.held.clear()
    await ending


async def test_the_only_process_always_has_its_turn() -> None:
    await ALONE.turn()
    assert ALONE.is_mine


def rendering(leases: Leases, asked: list[str]) -> RenderingFollowing:
    async def render(project: str) -> bool:
        asked.append(project)
        return False

    return RenderingFollowing(render, Work(leases), left_seconds=0.05)


@pytest.mark.parametrize(
    ("held", "is_remote", "expected"),
    [
        ((), False, ["own"]),
        ((WORK,), False, ["own"]),
        ((), True, []),
        ((WORK,), True, ["own"]),
    ],
)
async def test_a_replica_renders_what_it_commits_and_one_of_them_what_others_leave(
    held: tuple[str, ...], expected: list[str], *, is_remote: bool
) -> None:
    asked: list[str] = []
    following = rendering(Leases(*held), asked)
    task = asyncio.create_task(following.keep())
    for _ in range(3):  # that come together are one
        following.heard(ResourceChange(None, project="own", is_remote=is_remote))
    await asyncio.sleep(0.01)
    assert asked == ([] if is_remote else expected)
    await until_settled(lambda: asked == expected)
    task.cancel()


async def until_settled(holds: Callable[[], bool]) -> None:
    """Something holds, and still does a while later."""
    await until(holds)
    await asyncio.sleep(0.15)
    assert holds()
