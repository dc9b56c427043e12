"""A disk that fails: what the sender is told, and what somebody sees who looks after the service."""

import contextlib
import errno
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from reconciler.delivery import status
from reconciler.delivery.contract import NotTaken, QueueFull, TakenRecords
from reconciler.delivery.intake import Intake
from reconciler.delivery.manager import Manager
from reconciler.delivery.otlp import bodies, reading
from reconciler.delivery.otlp.models import Logs, RecordGroup, RequestTooLarge
from reconciler.delivery.queue import appender, disk
from reconciler.delivery.queue.contract import Piece
from reconciler.delivery.queue.files import System
from reconciler.model.routes import Buffering, Destination, Endpoint, OnFull, Storage, Sync
from tests.delivery.queue.test_faults import DOUBTFUL, Failing, Hanging
from tests.delivery.test_manager import LOGS, PROJECT, managing, routes, webhook
from tests.servers import sinks
from tests.servers.sinks import Sink
from tests.waiting import until

pytestmark = pytest.mark.anyio

OVERHEAD = 104  # of a batch that is alone in its queue


def faults(manager: Manager) -> int:
    """As /metrics has it."""
    return manager.figures().faults


def folder_of_queue(root: Path) -> Path:
    [folder] = root.glob("queues/*/*/")
    return folder


async def test_what_the_disk_refuses_is_told_to_the_sender_in_the_log_in_the_metrics_and_where_delivery_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    system = Failing()
    async with managing(tmp_path, system=system) as manager:
        await manager.change(routes(webhook("siem")))
        system.write_error = errno.EIO
        with pytest.raises(NotTaken, match=r"Input/output error.*Keep the records and send them again\."):
            await manager.take(PROJECT, LOGS)
        with pytest.raises(
            QueueFull, match="siem cannot take more now: the disk has too little room, or takes nothing"
        ):
            await manager.take(PROJECT, LOGS)
        monkeypatch.setattr(disk, "REFUSED_SECONDS", 0.0)
        with pytest.raises(NotTaken):
            await manager.take(PROJECT, LOGS)
        shown = manager.shown(PROJECT, "siem", answers=False)
        assert (shown["queue"]["refused"], shown["message"]) == (True, status.REFUSED)
        assert (shown["queue"]["batches"], shown["counts"]["taken"], faults(manager)) == (0, 0, 2)
        system.write_error = None
        assert await manager.take(PROJECT, LOGS) == TakenRecords()
        shown = manager.shown(PROJECT, "siem", answers=False)
        assert (shown["queue"]["refused"], shown["message"] == status.REFUSED) == (False, False)
        assert (shown["queue"]["batches"], shown["counts"]["taken"], faults(manager)) == (1, 3, 2)
    folder = folder_of_queue(tmp_path)
    assert caplog.messages == [
        f"The disk does not take what is written to the queue in {folder} (Input/output error); until it does, that is "
        "refused.",
        f"The disk takes what is written to the queue in {folder} again.",
    ]


async def test_a_disk_that_hangs_is_told_in_the_log_in_the_metrics_and_where_delivery_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("reconciler.delivery.manager.Intake", partial(Intake, hung_seconds=0.1))
    monkeypatch.setattr(appender, "HANG_SECONDS", 0.05)
    system = Hanging()
    drops = webhook("drops", buffering=Buffering(on_full=OnFull.DROP_NEWEST))

    def shown(manager: Manager) -> tuple[bool, bool]:
        one = manager.shown(PROJECT, "drops", answers=False)
        return one["queue"]["refused"], one["message"] == status.REFUSED

    async with managing(tmp_path, system=system) as manager:
        await manager.change(routes(drops))
        system.hangs = True
        try:
            assert await manager.take(PROJECT, LOGS) == TakenRecords()
            assert await manager.take(PROJECT, LOGS) == TakenRecords()
            counts = manager.shown(PROJECT, "drops", answers=False)["counts"]
            assert (counts["taken"], counts["dropped"]) == (0, 3)  # of the first nobody knows yet
            assert (shown(manager), faults(manager)) == ((True, True), 1)
        finally:
            system.mended.set()
        await until(lambda: shown(manager) == (False, False))
        counts = manager.shown(PROJECT, "drops", answers=False)["counts"]
        assert (counts["taken"], counts["dropped"], faults(manager)) == (3, 3, 1)
    assert caplog.messages == [
        f"The disk of the queues in {tmp_path / 'queues'} does not answer; until it does, they take nothing more.",
        f"The disk of the queues in {tmp_path / 'queues'} answers again.",
    ]


async def test_what_was_answered_and_may_be_lost_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    system = Failing()
    async with managing(tmp_path, system=system) as manager:
        await manager.change(
            routes(webhook("siem", buffering=Buffering(storage=Storage(directory="here", sync=Sync.INTERVAL))))
        )
        system.sync_error = errno.EIO
        assert await manager.take(PROJECT, LOGS) == TakenRecords()
        await until(lambda: faults(manager) == 1)
        assert manager.shown(PROJECT, "siem", answers=False)["queue"]["refused"]
    folder = folder_of_queue(tmp_path)
    assert DOUBTFUL.format(folder) in caplog.messages


async def test_a_request_that_would_never_fit_is_refused_for_good_and_any_other_fits_into_an_empty_queue(
    tmp_path: Path,
) -> None:
    small = webhook("small", buffering=Buffering(storage=Storage(directory="here", max_bytes=1000)))
    most, over = (Logs((RecordGroup(bytes(size), 1, {}),), 1) for size in (1000 - OVERHEAD, 1001 - OVERHEAD))
    async with managing(tmp_path) as manager:
        await manager.change(routes(small))
        with pytest.raises(RequestTooLarge, match="raise its `max_bytes`"):
            await manager.take(PROJECT, over)
        assert await manager.take(PROJECT, most) == TakenRecords()
        with pytest.raises(QueueFull, match="as many bytes as it may"):
            await manager.take(PROJECT, most)
        [_] = [done async for done in manager.discard(PROJECT, "small", queued=True, dead=False)]
        assert await manager.take(PROJECT, most) == TakenRecords()


class Small(System):
    """A disk of so many bytes."""

    def __init__(self, root: Path, size: int) -> None:
        self._root = root
        self._size = size

    def write(self, descriptor: int, pieces: Sequence[Piece], offset: int, *, synced: bool) -> int:
        others = sum(path.stat().st_size for path in self._root.rglob("*.*g")) - os.fstat(descriptor).st_size
        if others + offset + sum(map(len, pieces)) > self._size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(descriptor, pieces, offset, synced=synced)


def sending(name: str, sink: Sink) -> Destination:
    return Destination(name=name, endpoint=Endpoint(scheme="http", host="127.0.0.1", port=sink.port))


async def until_taken(manager: Manager, request: Logs) -> None:
    """As a sender that is refused sends it again: a queue that was refused gives back first what is used up."""
    for _ in range(2):
        with contextlib.suppress(NotTaken):
            assert await manager.take(PROJECT, request) == TakenRecords()
            return
        await drained(manager)
    raise AssertionError


async def drained(manager: Manager) -> None:
    await until(lambda: not any(lane.queue.depth().batches for lane in manager.figures().lanes if lane.queue))


async def test_of_a_full_disk_nothing_that_was_accepted_is_lost_and_there_is_room_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "REFUSED_SECONDS", 0.0)
    texts = [f"{number} {'x' * (64 << 10)}" for number in range(4)]  # none of them shares a batch
    requests = [await reading.read(bodies.test_request(text, at=1), json=False) for text in texts]
    with sinks.listening() as first, sinks.listening() as second:
        async with managing(tmp_path, system=Small(tmp_path / "queues", 5 * (66 << 10))) as manager:
            await manager.change(routes(webhook("a"), webhook("b")))
            for request in requests[:2]:
                assert await manager.take(PROJECT, request) == TakenRecords()
            with pytest.raises(NotTaken, match="No space left on device"):
                await manager.take(PROJECT, requests[2])  # it fits into one of the queues
            shown = [manager.shown(PROJECT, name, answers=False) for name in "ab"]
            queues = [one["queue"] for one in shown]
            assert sorted((queue["batches"], queue["refused"]) for queue in queues) == [(2, True), (3, False)]
            assert [one["counts"]["taken"] for one in shown] == [queue["records"] for queue in queues]

            await manager.change(routes(sending("a", first), sending("b", second)))
            await drained(manager)
            for request in requests[2:]:
                await until_taken(manager, request)
                await drained(manager)
            shown = [manager.shown(PROJECT, name, answers=False) for name in "ab"]
            assert [one["counts"]["delivered"] for one in shown] == [one["counts"]["taken"] for one in shown]
            assert [one["queue"]["refused"] for one in shown] == [False, False]
        assert (set(first.records), set(second.records)) == (set(texts), set(texts))
