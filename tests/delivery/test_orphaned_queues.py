"""Queues left on disk: one with an unreadable owner, and queues while the disk hangs."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from reconciler.delivery.contract import TakenRecords
from reconciler.delivery.queue import appender
from reconciler.delivery.queue.contract import QueueFault
from reconciler.model.routes import Routes
from tests.delivery.queue import places
from tests.delivery.queue.test_faults import Hanging
from tests.delivery.test_manager import IN_MEMORY, LOGS, PROJECT, managing, routes, webhook
from tests.waiting import until

pytestmark = pytest.mark.anyio

OTHER = "other"


def of_other(wanted: Routes) -> Routes:
    return msgspec.structs.replace(wanted, project=OTHER)


async def test_a_queue_of_which_nobody_can_read_whose_it_is_keeps_nobody_from_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with managing(tmp_path) as manager:
        await manager.change(routes(webhook("siem")))
        await manager.change(of_other(routes(webhook("lake"))))
        await manager.take(OTHER, LOGS)
    [unread] = [one for one in (tmp_path / "queues").glob("*/*/queue.json") if OTHER in one.read_text()]
    refused = places.refusing(monkeypatch)
    refused.add(unread)
    async with managing(tmp_path) as manager:
        asked: list[str] = []
        manager.follow(asked.append, lambda _: None)
        assert await manager.projects() == {PROJECT}
        assert await manager.left(OTHER) == ()
        for wanted in (routes(webhook("siem")), of_other(routes(webhook("memory", buffering=IN_MEMORY)))):
            with pytest.raises(QueueFault, match=f"Whose the queue in {unread.parent} is cannot be read"):
                await manager.change(wanted)
            assert await manager.take(wanted.project, LOGS) == TakenRecords()
        refused.clear()
        await manager.change(of_other(Routes(project=OTHER)))
        assert asked == [OTHER]  # what `lake` is may be known, now that it is known whose the queue is
        assert await manager.left(OTHER) == ("lake", "memory")
        await manager.change(of_other(Routes(project=OTHER, former=(webhook("lake"),))))
        assert manager.shown(OTHER, "lake", answers=False)["state"] == "closed"


async def test_queues_that_end_while_the_disk_hangs_share_one_wait_and_keep_no_others_from_being_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appender, "END_SECONDS", 1.0)
    gone = [webhook(f"gone-{number}") for number in range(5)]
    system = Hanging()
    loop = asyncio.get_running_loop()
    async with managing(tmp_path, system=system) as manager:
        await manager.change(of_other(routes(*gone)))
        await manager.change(routes(webhook("siem")))
        system.hangs = True
        taking = asyncio.create_task(manager.take(PROJECT, LOGS))
        try:
            await manager.change(Routes(project=OTHER))
            await until(lambda: len(manager.figures().lanes) == 1)
            begun = loop.time()
            await manager.change(of_other(routes(webhook("memory", buffering=IN_MEMORY), webhook("new"))))
            assert loop.time() - begun < 0.7
            with pytest.raises(QueueFault, match="The old queue of gone-0 is still being closed"):
                await manager.change(of_other(routes(*gone)))
            assert loop.time() - begun < 3.0  # one after the other they would wait for five seconds
        finally:
            system.mended.set()
        await taking
        await until(lambda: len([*tmp_path.glob("queues/*/*/")]) == 1)
        await manager.change(of_other(routes(*gone)))
        assert await manager.take(OTHER, LOGS) == TakenRecords()
